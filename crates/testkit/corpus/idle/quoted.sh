#!/bin/sh
tmux new-session -d -s vm "qemu-system-x86_64 -accel kvm -M q35,hpet=off -nodefaults -device piix3-usb-uhci,id=u -device usb-tablet,bus=u.0 -m 2G"
