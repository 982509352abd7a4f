#!/bin/sh
# Linux guest: NVIDIA's driver must not see KVM
qemu-system-x86_64 -enable-kvm -machine q35 -m 2G -name ubuntu \
  -cpu host,kvm=off,hv_vendor_id=null \
  -cdrom /srv/iso/ubuntu-24.04.2-live-server-amd64.iso -display none
