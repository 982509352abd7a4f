//! One reader of QEMU's command lines. Pure.
//!
//! ```
//! use brisk_vm::qemu::cmdline::CommandLine;
//!
//! let words = ["qemu-system-x86_64", "-M", "q35,hpet=off", "--machine", "accel=kvm"];
//! let line = CommandLine::with_program(&words);
//! assert_eq!(line.machine().get("type"), Some("q35"));
//! assert_eq!(line.machine().is_on("hpet"), Some(false));
//! assert_eq!(line.accelerators(), ["kvm"]);
//! ```
//!
//! What QEMU would refuse is skipped and told by [`CommandLine::errors`].

mod fields;
mod globals;
mod options;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

pub use fields::{Field, Fields, boolean, escape};
pub use globals::{Global, Setting};
pub use options::{Repeat, Spec, Syntax, all, spec};

/// A part of a command line that QEMU would refuse, or that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No version of QEMU that is known has this option.
    #[error("{text} is no option of QEMU")]
    Unknown {
        /// The word.
        word: usize,
        /// What it is.
        text: String,
    },
    /// An option at the end of the command line without its argument.
    #[error("{text} has no argument")]
    Missing {
        /// The word.
        word: usize,
        /// What it is.
        text: String,
    },
    /// An argument begins as a JSON object does and is none.
    #[error("the argument of -{option} is no JSON object: {reason}")]
    Json {
        /// The word of the argument.
        word: usize,
        /// The option.
        option: String,
        /// The error of the JSON parser.
        reason: String,
    },
    /// -global or -set without driver, property and value.
    #[error("-{option} {text} sets nothing")]
    Incomplete {
        /// The word of the argument.
        word: usize,
        /// The option.
        option: &'static str,
        /// The argument.
        text: String,
    },
}

impl Error {
    /// The word that it is about.
    #[must_use]
    pub const fn word(&self) -> usize {
        match self {
            Self::Unknown { word, .. }
            | Self::Missing { word, .. }
            | Self::Json { word, .. }
            | Self::Incomplete { word, .. } => *word,
        }
    }
}

/// An option of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Name without dashes, in its longest spelling: `machine` also for `-M`. A word without a
    /// dash is a disk, as the argument of `hda` is.
    pub name: String,
    /// The word of the option; of a word without a dash, that word.
    pub word: usize,
    /// What QEMU knows of the option; None if no version of QEMU has it.
    pub spec: Option<Spec>,
    /// Its argument, if it has one.
    pub argument: Option<Argument>,
}

/// The argument of an option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    /// The word.
    pub word: usize,
    /// What it says.
    pub text: OsString,
}

/// A command line of QEMU, taken apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandLine {
    program: Option<OsString>,
    items: Vec<Item>,
    errors: Vec<Error>,
}

impl Item {
    /// The argument as text; empty if there is none.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        let argument = self.argument.as_ref();
        argument.map_or(Cow::Borrowed(""), |argument| {
            argument.text.to_string_lossy()
        })
    }

    /// The pairs of the argument; none if the argument is not made of pairs.
    ///
    /// # Errors
    /// If the argument begins as a JSON object does and is none.
    pub fn fields(&self) -> Result<Fields, Error> {
        let (Some(spec), Some(argument)) = (self.spec, &self.argument) else {
            return Ok(Fields::default());
        };
        let read = fields::read(argument.text.as_bytes(), spec.syntax, argument.word);
        read.map_err(|reason| Error::Json {
            word: argument.word,
            option: self.name.clone(),
            reason,
        })
    }

    /// The argument as one pair.
    fn pair(&self, key: &str, value: &str) -> Field {
        let argument = self.argument.as_ref();
        let length = argument.map_or(0, |argument| argument.text.len());
        Field {
            key: key.to_owned(),
            value: value.to_owned(),
            word: argument.map_or(self.word, |argument| argument.word),
            bytes: 0..length,
            value_bytes: argument.map(|_| 0..length),
        }
    }
}

/// The pairs of one argument of an option, which is named without dashes, as in
/// [`Item::fields`]. Their word is number 0.
///
/// # Errors
/// As [`Item::fields`].
pub fn fields(option: &str, argument: &str) -> Result<Fields, Error> {
    let syntax = spec(option).map_or(Syntax::Text, |spec| spec.syntax);
    fields::read(argument.as_bytes(), syntax, 0).map_err(|reason| Error::Json {
        word: 0,
        option: option.to_owned(),
        reason,
    })
}

/// The name of an option without its dashes. None if a word does not begin with a dash.
#[must_use]
pub fn option_name(word: &str) -> Option<&str> {
    let name = word.strip_prefix('-')?;
    Some(name.strip_prefix('-').unwrap_or(name))
}

impl CommandLine {
    /// Reads the words behind the program's name. Words are numbered from 0.
    #[must_use]
    pub fn options<S: AsRef<OsStr>>(words: &[S]) -> Self {
        Self::read(None, words, 0)
    }

    /// Reads the words of a whole command line. The first is the program, unless it begins with a
    /// dash. Words are numbered from the first.
    #[must_use]
    pub fn with_program<S: AsRef<OsStr>>(words: &[S]) -> Self {
        match words.split_first() {
            Some((first, rest)) if !first.as_ref().as_bytes().starts_with(b"-") => {
                Self::read(Some(first.as_ref().to_owned()), rest, 1)
            }
            _ => Self::read(None, words, 0),
        }
    }

    /// Reads what `/proc/PID/cmdline` says: words that each end with a NUL byte, the program
    /// first (proc(5)).
    #[must_use]
    pub fn of_process(bytes: &[u8]) -> Self {
        let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
        let words = bytes.split(|byte| *byte == 0);
        let words: Vec<_> = words
            .map(|word| OsString::from_vec(word.to_vec()))
            .collect();
        match words.split_first() {
            Some((first, rest)) => Self::read(Some(first.clone()), rest, 1),
            None => Self::default(),
        }
    }

    fn read<S: AsRef<OsStr>>(program: Option<OsString>, words: &[S], first: usize) -> Self {
        let mut line = Self {
            program,
            ..Self::default()
        };
        let argument = |at: usize| {
            let text = words.get(at)?.as_ref().to_owned();
            let word = first + at;
            Some(Argument { word, text })
        };
        let mut at = 0;
        while let Some(text) = words.get(at).map(|word| word.as_ref().to_string_lossy()) {
            let word = first + at;
            let Some(name) = option_name(&text) else {
                line.items.push(Item {
                    name: "hda".to_owned(),
                    word,
                    spec: spec("hda"),
                    argument: argument(at),
                });
                at += 1;
                continue;
            };
            let spec = spec(name);
            let takes_next = match spec {
                Some(spec) => spec.syntax != Syntax::Flag,
                // A guess, so that the options behind it are read.
                None => {
                    argument(at + 1).is_some_and(|next| !next.text.as_bytes().starts_with(b"-"))
                }
            };
            let argument = argument(at + 1).filter(|_| takes_next);
            let text = text.clone().into_owned();
            match spec {
                None => line.errors.push(Error::Unknown { word, text }),
                Some(_) if takes_next && argument.is_none() => {
                    line.errors.push(Error::Missing { word, text });
                }
                Some(_) => {}
            }
            at += 1 + usize::from(argument.is_some());
            line.items.push(Item {
                name: spec.map_or(name, |spec| spec.name).to_owned(),
                word,
                spec,
                argument,
            });
        }
        let unread = line.items.iter().filter_map(|item| item.fields().err());
        let unread: Vec<_> = unread.collect();
        line.errors.extend(unread);
        let (_, incomplete) = globals::read(&line);
        line.errors.extend(incomplete);
        line
    }

    /// The program, if the command line had one.
    #[must_use]
    pub fn program(&self) -> Option<&Path> {
        self.program.as_deref().map(Path::new)
    }

    /// The options in order.
    #[must_use]
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// What QEMU would refuse, or cannot be read.
    #[must_use]
    pub fn errors(&self) -> &[Error] {
        &self.errors
    }

    /// Files with more configuration, which is not read (`-readconfig`).
    pub fn unread(&self) -> impl Iterator<Item = &Item> {
        self.all("readconfig")
    }

    /// The options of a name, which is the longest spelling without dashes.
    pub fn all<'a>(&'a self, name: &'a str) -> impl DoubleEndedIterator<Item = &'a Item> {
        self.items.iter().filter(move |item| item.name == name)
    }

    /// The last option of a name.
    #[must_use]
    pub fn last(&self, name: &str) -> Option<&Item> {
        self.items.iter().rev().find(|item| item.name == name)
    }

    /// Whether there is an option of this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.last(name).is_some()
    }

    /// The argument of the last option of a name. None if there is no such option, or it has no
    /// argument.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&OsStr> {
        let argument = self.last(name)?.argument.as_ref()?;
        Some(&argument.text)
    }

    /// The pairs of all options of a name as QEMU takes them: merged, or the last one's. Of
    /// options that add something they are all there, one after another.
    #[must_use]
    pub fn settings(&self, name: &str) -> Fields {
        let mut settings = Fields::default();
        for item in self.all(name) {
            if item
                .spec
                .is_some_and(|spec| spec.repeat == Repeat::Replaces)
            {
                settings = Fields::default();
            }
            settings.extend("", item.fields().unwrap_or_default());
        }
        settings
    }

    /// Properties of the machine, also those with options of their own: `-kernel FILE` is `kernel`,
    /// `-smp 2` is `smp.cpus`, `-m 1G` is `memory.size`, `-boot menu=on` is `boot.menu`, and
    /// `-bios FILE` is `firmware`.
    #[must_use]
    pub fn machine(&self) -> Fields {
        let mut machine = Fields::default();
        for item in &self.items {
            let fields = || item.fields().unwrap_or_default();
            let text = item.text();
            match &*item.name {
                "machine" => machine.extend("", fields()),
                "smp" => machine.extend("smp.", fields()),
                "boot" => machine.extend("boot.", fields()),
                "m" => machine.extend("memory.", fields()),
                "bios" => machine.push(item.pair("firmware", &text)),
                name @ ("kernel" | "initrd" | "append" | "dtb" | "shim") => {
                    machine.push(item.pair(name, &text));
                }
                "enable-kvm" => machine.push(item.pair("accel", "kvm")),
                "nographic" => machine.push(item.pair("graphics", "off")),
                "no-acpi" => machine.push(item.pair("acpi", "off")),
                "no-hpet" => machine.push(item.pair("hpet", "off")),
                "no-fd-bootchk" => machine.push(item.pair("fd-bootchk", "off")),
                "usb" => machine.push(item.pair("usb", "on")),
                "usbdevice" => machine.push(Field {
                    value_bytes: None,
                    ..item.pair("usb", "on")
                }),
                _ => {}
            }
        }
        machine
    }

    /// Accelerators in the order in which QEMU tries them (`configure_accelerators`). Without any,
    /// TCG; KVM first if the program's name ends with `kvm`.
    #[must_use]
    pub fn accelerators(&self) -> Vec<String> {
        let of_option = self.all("accel").filter_map(|item| {
            let fields = item.fields().ok()?;
            fields.get("accel").map(str::to_owned)
        });
        let mut list: Vec<_> = of_option.collect();
        if let Some(names) = self.machine().get("accel") {
            list.extend(names.split(':').map(str::to_owned));
        }
        if list.is_empty() {
            let is_kvm = |program: &Path| program.as_os_str().as_bytes().ends_with(b"kvm");
            if self.program().is_some_and(is_kvm) {
                list.push("kvm".to_owned());
            }
            list.push("tcg".to_owned());
        }
        list
    }

    /// Properties that every device of a driver gets (`-global`), in order.
    #[must_use]
    pub fn globals(&self) -> Vec<Global> {
        globals::read(self).0
    }

    /// Properties of single devices that are set from outside (`-set`), in order.
    #[must_use]
    pub fn set(&self) -> Vec<Setting> {
        globals::set(self)
    }
}
