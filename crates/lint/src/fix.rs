//! What to do about a finding.

use std::ffi::OsString;
use std::fmt;
use std::ops::Range;

use brisk_vm::hardware::edit::{self, EditError, Path};
use brisk_vm::hardware::{Form, GuestHardware};

/// What to do about a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fix {
    /// The description of the guest is changed.
    Edit(Edit),
    /// A command is run.
    Command(String),
    /// Somebody has to decide, or to do more than a command.
    Advice(String),
}

/// A change of what describes a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    form: Form,
    name: String,
    machine: String,
    /// Whether it is made only if it is asked for.
    is_on_request: bool,
    /// Whether the definition of a VM of brisk's allows huge pages after it.
    allows_huge_pages: bool,
    /// What has to be done first; empty if nothing.
    before: String,
    xml: Vec<XmlChange>,
    arguments: Vec<ArgumentChange>,
    /// When to do it, or what else would do, with its comma or semicolon; by form.
    xml_note: &'static str,
    arguments_note: &'static str,
}

/// A change of the XML of a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum XmlChange {
    /// `virt-xml` makes it with these words behind the domain's name.
    Tool(String),
    /// Something to write: an element, with where it belongs.
    Write(String),
    /// Something to remove.
    Remove(String),
    /// A change that can be made as it is.
    Exact(edit::XmlChange),
}

/// A change of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArgumentChange {
    /// Words to add.
    Add(&'static [&'static str]),
    /// A property of the machine.
    Machine {
        /// The property.
        key: &'static str,
        /// Its value.
        value: &'static str,
    },
    /// Other words in the place of some.
    Replace {
        /// The words, if they are written.
        words: Option<Range<usize>>,
        /// Text of those words.
        old: String,
        /// What should be.
        new: String,
    },
    /// Something to remove.
    Remove {
        /// The words that have it, if it is known.
        words: Option<Range<usize>>,
        /// What it is.
        what: String,
    },
    /// A change that can be made as it is.
    Exact(edit::ArgumentChange),
}

impl Edit {
    /// Nothing yet.
    #[must_use]
    pub fn of(guest: &GuestHardware) -> Self {
        Self {
            form: guest.form,
            name: guest.name.clone().unwrap_or_default(),
            machine: guest.machine.kind.clone(),
            is_on_request: false,
            allows_huge_pages: false,
            before: String::new(),
            xml: Vec::new(),
            arguments: Vec::new(),
            xml_note: "",
            arguments_note: "",
        }
    }

    /// With something to do first.
    #[must_use]
    pub fn after(mut self, before: String) -> Self {
        self.before = before;
        self
    }

    /// With a change of XML that `virt-xml` makes.
    #[must_use]
    pub fn virt_xml(mut self, words: impl Into<String>) -> Self {
        self.xml.push(XmlChange::Tool(words.into()));
        self
    }

    /// With something to write into XML.
    #[must_use]
    pub fn write(mut self, text: impl Into<String>) -> Self {
        self.xml.push(XmlChange::Write(text.into()));
        self
    }

    /// With something to remove from XML.
    #[must_use]
    pub fn remove(mut self, text: impl Into<String>) -> Self {
        self.xml.push(XmlChange::Remove(text.into()));
        self
    }

    /// With a change of a command line.
    #[must_use]
    pub fn argument(mut self, change: ArgumentChange) -> Self {
        self.arguments.push(change);
        self
    }

    /// With a change of XML that can be made as it is.
    #[must_use]
    pub fn exact_xml(mut self, change: edit::XmlChange) -> Self {
        self.xml.push(XmlChange::Exact(change));
        self
    }

    /// With an attribute of an element below the domain, as of [`Path::domain`].
    #[must_use]
    pub fn set(self, path: &str, attribute: &'static str, value: impl Into<String>) -> Self {
        self.exact_xml(edit::XmlChange::Set {
            path: Path::domain(path),
            attribute,
            value: value.into(),
        })
    }

    /// With a change of a command line that can be made as it is.
    #[must_use]
    pub fn exact(self, change: edit::ArgumentChange) -> Self {
        self.argument(ArgumentChange::Exact(change))
    }

    /// Has the definition of a VM of brisk's allow huge pages.
    #[must_use]
    pub const fn allowing_huge_pages(mut self) -> Self {
        self.allows_huge_pages = true;
        self
    }

    /// As in [`Edit::allowing_huge_pages`].
    #[must_use]
    pub const fn allows_huge_pages(&self) -> bool {
        self.allows_huge_pages
    }

    /// It is made only if it is asked for by the name of its rule: it overrides what somebody wrote
    /// on purpose, such as `state='off'`, or takes a device away.
    #[must_use]
    pub const fn on_request(mut self) -> Self {
        self.is_on_request = true;
        self
    }

    /// As in [`Edit::on_request`].
    #[must_use]
    pub const fn is_on_request(&self) -> bool {
        self.is_on_request
    }

    /// Whether it can be made in the form of its guest without anybody deciding anything.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        match self.form {
            Form::Xml => {
                let is_exact = |change: &XmlChange| matches!(change, XmlChange::Exact(_));
                !self.xml.is_empty() && self.xml.iter().all(is_exact)
            }
            Form::Arguments | Form::Process => {
                let is_exact = |change: &ArgumentChange| matches!(change, ArgumentChange::Exact(_));
                let is_any = self.allows_huge_pages || !self.arguments.is_empty();
                is_any && self.arguments.iter().all(is_exact)
            }
        }
    }

    /// Makes its exact changes in the XML that its guest was read from.
    ///
    /// # Errors
    /// As [`edit::XmlChange::apply`].
    pub fn apply_to_xml(&self, xml: &str) -> Result<String, EditError> {
        let exact = self.xml.iter().filter_map(|change| match change {
            XmlChange::Exact(change) => Some(change.clone()),
            _ => None,
        });
        edit::XmlChange::apply(&exact.collect::<Vec<_>>(), xml)
    }

    /// Makes its exact changes in the words that its guest was read from.
    ///
    /// # Errors
    /// As [`edit::ArgumentChange::apply`].
    pub fn apply_to_arguments(&self, words: &[OsString]) -> Result<Vec<OsString>, EditError> {
        let exact = self.arguments.iter().filter_map(|change| match change {
            ArgumentChange::Exact(change) => Some(change.clone()),
            _ => None,
        });
        edit::ArgumentChange::apply(&exact.collect::<Vec<_>>(), words)
    }

    /// With a remark behind both forms.
    #[must_use]
    pub const fn note(self, note: &'static str) -> Self {
        self.notes(note, note)
    }

    /// With a remark behind each form.
    #[must_use]
    pub const fn notes(mut self, xml: &'static str, arguments: &'static str) -> Self {
        self.xml_note = xml;
        self.arguments_note = arguments;
        self
    }

    /// The changes of XML.
    #[must_use]
    pub fn xml(&self) -> &[XmlChange] {
        &self.xml
    }

    /// The changes of a command line.
    #[must_use]
    pub fn arguments(&self) -> &[ArgumentChange] {
        &self.arguments
    }

    /// As a change of XML: commands of `virt-xml`, or what to write with `virsh edit`.
    #[must_use]
    pub fn as_xml(&self) -> String {
        let name = &self.name;
        let changes: Vec<_> = self
            .xml
            .iter()
            .map(|change| match change {
                XmlChange::Tool(words) => format!("virt-xml {name} {words}"),
                XmlChange::Write(text) => format!("virsh edit {name}: {text}"),
                XmlChange::Remove(text) => format!("virsh edit {name}: remove {text}"),
                XmlChange::Exact(change) => change.to_string(),
            })
            .collect();
        self.joined(&changes, self.xml_note)
    }

    /// As a change of a command line.
    #[must_use]
    pub fn as_arguments(&self) -> String {
        if self.allows_huge_pages {
            return "huge-pages = true in its definition".to_owned();
        }
        let changes: Vec<_> = self
            .arguments
            .iter()
            .map(|change| match change {
                ArgumentChange::Add(words) => words.join(" "),
                ArgumentChange::Machine { key, value } => {
                    format!("-M {},{key}={value}", self.machine)
                }
                ArgumentChange::Replace { old, new, .. } => format!("{new} instead of {old}"),
                ArgumentChange::Remove { what, .. } => format!("without {what}"),
                ArgumentChange::Exact(change) => change.to_string(),
            })
            .collect();
        self.joined(&changes, self.arguments_note)
    }

    fn joined(&self, changes: &[String], note: &str) -> String {
        let before = match &*self.before {
            "" => String::new(),
            before => format!("{before}: "),
        };
        format!("{before}{}{note}", changes.join("; "))
    }
}

impl fmt::Display for Fix {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Edit(edit) => formatter.write_str(&match edit.form {
                Form::Xml => edit.as_xml(),
                Form::Arguments | Form::Process => edit.as_arguments(),
            }),
            Self::Command(text) | Self::Advice(text) => formatter.write_str(text),
        }
    }
}

impl From<Edit> for Fix {
    fn from(edit: Edit) -> Self {
        Self::Edit(edit)
    }
}
