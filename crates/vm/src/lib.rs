//! Virtual machines of brisk: kernel images, initramfs, QEMU, QMP.

pub mod root;
