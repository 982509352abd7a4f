#!/bin/sh
command -v qemu-system-x86_64 >/dev/null || exit 1
exec qemu-system-x86_64 -enable-kvm -M q35,hpet=off -nodefaults -m 2G -name a,debug-threads=on -drive file=a.img,format=raw,if=virtio -display none
