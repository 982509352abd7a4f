#!/bin/sh
qemu-system-x86_64 -enable-kvm -M q35 -m 4G -name win10 \
  -cpu host,-hypervisor,hv_vendor_id=whatever -display none
