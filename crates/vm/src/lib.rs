//! Virtual machines of brisk: kernel images, initramfs, QEMU, QMP.

pub mod ahead;
pub mod cache;
pub mod elf;
pub mod free;
pub mod guest;
pub mod holes;
pub mod image;
pub mod initramfs;
pub mod kernel;
pub mod launch;
pub mod libvirt;
pub mod migration;
pub mod qemu;
pub mod root;
pub mod state;
pub mod virtiofs;
