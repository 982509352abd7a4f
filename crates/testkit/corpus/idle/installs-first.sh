#!/bin/sh
sudo apt-get install -y qemu-system-x86 ovmf
qemu-system-x86_64 -enable-kvm -m 2G -usb -device usb-tablet -drive file=a.img,format=raw
