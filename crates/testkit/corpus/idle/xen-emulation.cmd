qemu-system-x86_64 -accel kvm,xen-version=0x40011,kernel-irqchip=split -M q35,hpet=off,kernel_irqchip=split -nodefaults -name debug-threads=on
