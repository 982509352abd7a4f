/usr/bin/kvm -id 100 -name vm,debug-threads=on -machine type=pc+pve0 -nodefaults -m 2048
