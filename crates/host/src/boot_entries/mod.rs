//! Entries of the boot loader: what could be started, which one is next, and why.
//!
//! Every reader takes the root to look under, so that a captured tree or a mounted image can be
//! examined like the running machine. Nothing is changed, and no file is trusted: what is read,
//! followed and run is bounded.

mod bls;
mod conventions;
mod efi;
mod entry;
mod environment;
mod extlinux;
mod grub;
mod image;
mod mounts;
mod once;
mod options;
mod others;
mod partition;
mod proxmox;
mod read;
mod systemd_boot;

pub use entry::{BootEntries, Choice, Entry, Kind, Loader, Problem, Tries};
pub use once::{Change, Once, OnceError};
pub use options::{without_loader_words, words};
pub use read::{kernel, read, size, text};
