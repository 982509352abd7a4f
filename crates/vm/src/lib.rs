//! Virtual machines of brisk: kernel images, initramfs, QEMU, QMP.

pub mod cache;
pub mod elf;
pub mod guest;
pub mod guest_pages;
pub mod hardware;
pub mod holes;
pub mod initramfs;
pub mod kernel;
pub mod launch;
pub mod libvirt;
pub mod migration;
pub mod pretranslation;
pub mod qemu;
pub mod virtiofs;
