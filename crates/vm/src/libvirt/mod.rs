//! Domains of libvirt, controlled through `virsh`: no part of libvirt is needed to build brisk.
//!
//! [`Definition`] is a domain's XML, [`Event`] an event of its QEMU; both are pure. [`Domain`] is a
//! domain that is shut off and can be booted, [`Started`] one boot of it.

mod console;
mod defined;
mod definition;
mod domain;
mod event;
mod info;
mod job;
mod managed;
mod output;
mod process;
mod running;
mod shell;
mod started;
mod statistics;
mod trial;
mod virsh;

pub use console::Console;
pub use defined::Defined;
pub use definition::{Definition, console_path};
pub use domain::Domain;
pub use event::Event;
pub use info::Info;
pub use job::Job;
pub use managed::{Activity, ManagedDomain};
pub use running::RunningDomain;
pub use started::{Off, Started, Stop, Wanted};
pub use statistics::DomainStatistics;
pub use trial::Trial;
pub use virsh::{Error, Virsh};
