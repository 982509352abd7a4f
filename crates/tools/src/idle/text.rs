//! What describes a guest: the XML of a domain or a command line, and files with either. Pure.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use brisk_vm::hardware::edit::EditError;
use brisk_vm::hardware::{GuestHardware, XmlError};
use brisk_vm::qemu::cmdline::CommandLine;

use super::rules::GuestOs;
use super::script::{Expanded, command_line};
use super::{proxmox, vm};
use brisk_lint::Edit;

/// A description of a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Text {
    /// The XML of a libvirt domain.
    Xml(String),
    /// A command line of QEMU, with its program.
    Arguments(Vec<OsString>),
    /// The definition of a persistent VM of brisk's.
    Vm {
        /// The text of its file.
        text: String,
        /// The command line of QEMU that brisk makes of it, with its program.
        words: Vec<OsString>,
    },
}

/// A file without a description of a guest.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoGuest {
    /// It is not text.
    #[error("it is not text in UTF-8")]
    Encoding,
    /// It is XML of something else, or broken.
    #[error(transparent)]
    Xml(#[from] XmlError),
    /// Only a shell knows what the command line is.
    #[error(
        "its command line of QEMU has $ or ` in it, which a shell replaces: look at the guest when \
         it runs (--pid), or give the command line after --"
    )]
    Shell,
    /// It describes a guest in a form that is not read.
    #[error("it is {0}")]
    Named(&'static str),
    /// A line of a configuration has a value that cannot be.
    #[error("it is a configuration of Proxmox VE with a line that Proxmox does not know: {0}")]
    Line(String),
    /// It is something else.
    #[error(
        "it is neither the XML of a domain, nor a configuration of Proxmox VE, nor a script with a \
         command line of QEMU"
    )]
    Other,
}

impl Text {
    /// The description in a file: XML, a configuration of Proxmox VE, or the first command line of
    /// QEMU in a script. Assignments and programs before QEMU are left out, and so is what ends the
    /// command. The file of a configuration has the guest's number as its name.
    ///
    /// # Errors
    /// If there is none.
    pub fn of_file(bytes: &[u8], path: &Path) -> Result<Self, NoGuest> {
        let text = std::str::from_utf8(bytes).map_err(|_| NoGuest::Encoding)?;
        let first = text.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']);
        if first.starts_with('<') {
            // Other XML is refused here, with what it is.
            GuestHardware::of_xml(text)?;
            return Ok(Self::Xml(text.to_owned()));
        }
        if let Some(config) = proxmox::Config::parse(text) {
            if config.is_of_container() {
                return Err(NoGuest::Named(
                    "a container of Proxmox VE, which QEMU does not run",
                ));
            }
            if let Some(line) = config.unknown() {
                return Err(NoGuest::Line(line));
            }
            let number = path.file_stem().and_then(OsStr::to_str);
            let is_number = |name: &&str| name.chars().all(|c| c.is_ascii_digit());
            let number = number
                .filter(is_number)
                .and_then(|number| number.parse().ok());
            return Ok(Self::Arguments(config.words(number)));
        }
        match command_line(text).map_err(|Expanded| NoGuest::Shell)? {
            Some(words) => Ok(Self::Arguments(words)),
            None => Err(other_form(text).map_or(NoGuest::Other, NoGuest::Named)),
        }
    }

    /// The guest's operating system, where a file says it in words of its own.
    #[must_use]
    pub fn os_of_file(bytes: &[u8]) -> Option<GuestOs> {
        proxmox::Config::parse(std::str::from_utf8(bytes).ok()?)?.os()
    }

    /// The guest that is described.
    ///
    /// # Errors
    /// If it is not the XML of a domain.
    pub fn hardware(&self) -> Result<GuestHardware, XmlError> {
        match self {
            Self::Xml(xml) => GuestHardware::of_xml(xml),
            Self::Arguments(words) | Self::Vm { words, .. } => Ok(GuestHardware::of_arguments(
                &CommandLine::with_program(words),
            )),
        }
    }

    /// Whether it is a definition of brisk's that allows no huge pages.
    #[must_use]
    pub fn has_small_pages(&self) -> bool {
        matches!(self, Self::Vm { text, .. } if vm::has_small_pages(text))
    }

    /// The description after an edit.
    pub(super) fn with(&self, edit: &Edit) -> Result<Self, EditError> {
        Ok(match self {
            Self::Xml(xml) => Self::Xml(edit.apply_to_xml(xml)?),
            Self::Arguments(words) => Self::Arguments(edit.apply_to_arguments(words)?),
            Self::Vm { text, words } => Self::Vm {
                text: vm::edited(text, edit)?,
                words: edit.apply_to_arguments(words)?,
            },
        })
    }
}

/// What a description in another form is, and where its command line or XML comes from.
fn other_form(text: &str) -> Option<&'static str> {
    let begins = |start: &str| {
        text.lines()
            .any(|line| line.trim_start().starts_with(start))
    };
    match () {
        () if begins("kind: VirtualMachine") || begins("apiVersion: kubevirt.io") => Some(
            "an object of KubeVirt: give what virsh dumpxml prints in its virt-launcher pod, or on \
             the node brisk idle lint --all",
        ),
        () if begins("guest_os=") || begins("disk_img=") => Some(
            "a configuration of quickemu: start the guest, and give the script that quickemu \
             writes beside its disk, or --pid",
        ),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_apart_by_what_is_in_them() {
        let of = |text: &str| Text::of_file(text.as_bytes(), Path::new("a"));
        assert!(matches!(
            of("\n<domain type='kvm'/>").unwrap(),
            Text::Xml(_)
        ));
        assert!(matches!(of("kvm -m 1G").unwrap(), Text::Arguments(_)));
        let error = of("<network/>").unwrap_err().to_string();
        assert!(error.contains("<network>"), "{error}");
        for (text, name) in [
            (
                "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\n",
                "virt-launcher",
            ),
            (
                "guest_os=\"linux\"\ndisk_img=\"a/disk.qcow2\"\n",
                "quickemu",
            ),
            (
                "hostname: a\nmemory: 512\nnet0: name=eth0\nostype: debian\nrootfs: x\n",
                "container",
            ),
        ] {
            let error = of(text).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
        let error = of("hello").unwrap_err().to_string();
        assert!(error.contains("neither"), "{error}");
        assert!(
            Text::of_file(&[0xff, 0xfe], Path::new("a"))
                .unwrap_err()
                .to_string()
                .contains("UTF-8")
        );
    }
}
