//! Guests and harness for the tests of brisk: never shipped.
//!
//! A test starts the built binary with [`brisk!`], waits for what it says or for its end, and
//! asserts. Every run that ends is checked for what it leaves behind. There are no sleeps: what
//! cannot be waited for in a read(2) is waited for in [`until`], which fails at its deadline.
#![expect(
    clippy::unwrap_used,
    reason = "a harness that cannot go on fails the test"
)]

mod boot_tree;
mod brisk;
mod checked;
mod computer;
mod container;
mod crypto;
mod files;
mod general_kernel;
mod idle;
mod image;
mod initramfs;
mod kept_area;
mod leftovers;
mod libvirt;
mod machines;
mod measured;
mod memory;
mod monitor;
mod mount;
mod numa;
mod program;
mod refusals;
mod running;
mod slot;
mod soak;
mod terminal;
mod transcript;
mod trial;
mod wait;

pub use boot_tree::BootTree;
pub use brisk::{Brisk, Guest};
pub use checked::{CHECK_MEMORY, Checked, MEMORY_STATE, rounds};
pub use computer::{Computer, ConsoleLine, Ran, STOPPED, STOPPING, UP, package_disk};
pub use container::{Image, docker_archive, oci_layout};
pub use crypto::{fallback_module, newer_openssl, virtio_crypto, with_aes_ni};
pub use files::Files;
pub use general_kernel::{GeneralKernel, qemu_devices};
pub use idle::IdleKernel;
pub use image::{busybox, disk, ext4, partitioned, qcow2, tree};
pub use kept_area::{AREA, make_area};
pub use leftovers::{BackgroundProcesses, Process};
pub use libvirt::{Libvirt, agent_initramfs};
pub use machines::Machines;
pub use measured::{changed_ratio, missing, not_root, read_report, reasons, samples, values};
pub use memory::in_memory;
pub use mount::{Breaking, Cut, Loop, Mount, Taken};
pub use numa::{CPUS_OF_NODE, NumaAsked, NumaConsole, NumaKernel, NumaMachine};
pub use program::{capture, copy_program, script, tool};
pub use refusals::{Refusal, apart, refuse};
pub use running::{Finished, Running};
pub use rustix::process::Signal;
pub use soak::times;
pub use terminal::Window;
pub use transcript::Transcript;
pub use trial::{
    lacks, qemu_is_before, system_qemu_before, trial, trials, virtiofsd_keeps_nothing,
};
pub use wait::{DEADLINE, until};

/// The binary under test with any words: `brisk_of!["boot", "bench"]`.
#[macro_export]
macro_rules! brisk_of {
    ($($word:expr),* $(,)?) => {
        $crate::Brisk::new(env!("CARGO_BIN_EXE_brisk"), env!("CARGO_TARGET_TMPDIR"))
            $(.arg($word))*
    };
}

/// The binary under test with `run` options, under TCG: `brisk!["--root", "none"]`.
#[macro_export]
macro_rules! brisk {
    ($($word:expr),* $(,)?) => {
        $crate::Brisk::new(env!("CARGO_BIN_EXE_brisk"), env!("CARGO_TARGET_TMPDIR"))
            .args(["run", "--accel", "tcg"])
            $(.arg($word))*
    };
}
