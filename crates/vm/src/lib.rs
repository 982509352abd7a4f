//! Virtual machines of brisk: kernel images, initramfs, QEMU, QMP.

pub mod cache;
pub mod initramfs;
pub mod kernel;
