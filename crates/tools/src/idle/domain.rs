//! Changes of domains through libvirt, and their restoration.

use brisk_vm::hardware::document;
use brisk_vm::hardware::edit::EditError;
use brisk_vm::hardware::edit::{Path, XmlChange};
use brisk_vm::libvirt::{self, Defined};
use roxmltree::{Document, Node};

use super::backup::{self, Backup, Backups, Kept};
use super::fix::{self, Context, Fixed, Wanted};
use super::text::Text;

/// A domain that was not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// libvirt refuses, or cannot be asked.
    #[error(transparent)]
    Libvirt(#[from] libvirt::Error),
    /// Its definition cannot be changed.
    #[error(transparent)]
    Fix(#[from] fix::Error),
    /// The definition before cannot be kept.
    #[error(transparent)]
    Backup(#[from] backup::Error),
    /// Passwords cannot be put into an earlier definition.
    #[error("cannot put the passwords of now into the definition from before")]
    Passwords(#[from] EditError),
    /// Somebody changed it since it was looked at.
    #[error("domain {0} was changed by somebody else just now; try again")]
    Raced(String),
    /// It was changed, and its definition cannot be read back.
    #[error(
        "domain {name} was changed, and cannot be read back: the definition before that is in {backup}, \
         under \"before\"; undo --force restores it"
    )]
    Defined {
        /// The domain.
        name: String,
        /// File of the backup.
        backup: String,
        /// What virsh says.
        source: libvirt::Error,
    },
    /// Somebody changed it since brisk did.
    #[error(
        "domain {name} was changed by somebody since brisk changed it on {time}: the definition \
         before that is in {path}, under \"before\"; --force restores it, and what was changed since is \
         lost"
    )]
    Changed {
        /// The domain.
        name: String,
        /// Time of brisk's change.
        time: String,
        /// File of the backup.
        path: String,
    },
    /// brisk was ended while libvirt changed it.
    #[error(
        "brisk was ended while it changed domain {name} on {time}, and what libvirt has is neither \
         the definition before nor the one that was to be: libvirt wrote that in its own way, or \
         somebody changed it since; compare virsh dumpxml --inactive {name} with \"planned\" in \
         {path}; --force restores \"before\""
    )]
    CutOff {
        /// The domain.
        name: String,
        /// Time of brisk's change.
        time: String,
        /// File of the backup.
        path: String,
    },
    /// It was changed after the change that is to be undone.
    #[error("domain {name} was changed once more, on {time}: undo that first, with --domain")]
    Later {
        /// The domain.
        name: String,
        /// Time of the last change.
        time: String,
    },
    /// brisk changed it through another connection.
    #[error(
        "brisk changed domain {name} at {uri}, and not at the libvirt that was asked now: --connect \
         {uri} restores it there, --force here"
    )]
    Elsewhere {
        /// The domain.
        name: String,
        /// The libvirt that had it.
        uri: String,
    },
    /// brisk has not changed it.
    #[error(
        "there is no backup of domain {0}: brisk idle fix has not changed it, or it was undone"
    )]
    Unchanged(String),
}

/// A domain, and what it would be with its fixes. Nothing is changed yet.
#[derive(Debug)]
pub struct Change {
    domain: Defined,
    /// The definition that the fixes were made in, with passwords.
    before: String,
    /// The result.
    pub fixed: Fixed,
}

impl Change {
    /// Makes the fixes in a copy of the domain's definition.
    ///
    /// # Errors
    /// If it cannot be read or changed.
    pub fn of(domain: Defined, context: &Context, wanted: Wanted<'_>) -> Result<Self, Error> {
        let before = domain.xml_with_passwords()?;
        let fixed = fix::fix(Text::Xml(before.clone()), context, wanted)?;
        Ok(Self {
            domain,
            before,
            fixed,
        })
    }

    /// The definition that libvirt has, and the changed one, both without passwords.
    ///
    /// # Errors
    /// If `virsh` fails, or the fixes cannot be made.
    pub fn shown(&self, context: &Context, wanted: Wanted<'_>) -> Result<(String, String), Error> {
        let before = self.domain.xml()?;
        let fixed = fix::fix(Text::Xml(before.clone()), context, wanted)?;
        match fixed.text {
            Text::Xml(after) => Ok((before, after)),
            _ => Ok((before.clone(), before)),
        }
    }

    /// Has libvirt use it from the next start on. `planned` is the changed definition without
    /// passwords, as [`Self::shown`] has it. The result is the file of the backup.
    ///
    /// # Errors
    /// If libvirt refuses it, somebody else changed the domain, or no backup can be kept. The domain
    /// is as it was then, but for [`Error::Defined`].
    pub fn apply(&self, planned: &str, backups: &Backups, time: String) -> Result<String, Error> {
        let Text::Xml(after) = &self.fixed.text else {
            return Err(Error::Unchanged(self.domain.name().to_owned()));
        };
        let plain = self.domain.xml()?;
        if self.domain.xml_with_passwords()? != self.before {
            return Err(Error::Raced(self.domain.name().to_owned()));
        }
        let (uri, uuid, name) = (self.domain.uri(), self.domain.uuid(), self.domain.name());
        let mut backup = Backup::new(uri, uuid, name, time, plain.clone());
        planned.clone_into(&mut backup.planned);
        let rules = self
            .fixed
            .applied
            .iter()
            .map(|finding| finding.rule.to_owned());
        backup.rules = rules.collect();
        let path = backups.add(&backup)?;
        if let Err(error) = self.domain.define(after) {
            // libvirt may have done it, and the answer be lost.
            if self.domain.xml().is_ok_and(|now| now == plain) {
                backups.remove(&path)?;
            }
            return Err(error.into());
        }
        // It is defined: without this, undo would take it for a change of somebody else's.
        let after = self.domain.xml().or_else(|_| self.domain.xml());
        backup.after = after.map_err(|source| Error::Defined {
            name: name.to_owned(),
            backup: path.display().to_string(),
            source,
        })?;
        backup.planned.clear();
        backups.write(&path, &backup)?;
        Ok(path.display().to_string())
    }
}

/// Restores the definition that a domain had before the last change. A name that it got since
/// stays. With `only`, the last change has to be the one in this file.
///
/// # Errors
/// If there is no backup, somebody else changed the domain since and `force` is not set, or libvirt
/// refuses the definition.
pub fn undo(
    domain: &Defined,
    backups: &Backups,
    only: Option<&std::path::Path>,
    force: bool,
) -> Result<Backup, Error> {
    let name = domain.name().to_owned();
    let Some(Kept { path, mut backup }) = backups.last(domain.uuid())? else {
        return Err(Error::Unchanged(name));
    };
    let time = backup.time.clone();
    if only.is_some_and(|only| only != path) {
        return Err(Error::Later { name, time });
    }
    let now = domain.xml()?;
    for text in [&mut backup.before, &mut backup.after, &mut backup.planned] {
        *text = with_name(text, &now);
    }
    // A change that was cut off before libvirt had it.
    let never_made = backup.after.is_empty() && now == backup.before;
    if domain.uri() != backup.uri && !force {
        let uri = backup.uri;
        return Err(Error::Elsewhere { name, uri });
    }
    let is_known = match backup.after.is_empty() {
        true => never_made || is_alike(&now, &backup.planned),
        false => now == backup.after,
    };
    if !is_known && !force {
        let path = path.display().to_string();
        return Err(match backup.after.is_empty() {
            true => Error::CutOff { name, time, path },
            false => Error::Changed { name, time, path },
        });
    }
    if !never_made {
        let secret = domain.xml_with_passwords()?;
        domain.define(&with_passwords(&backup.before, &now, &secret)?)?;
    }
    backups.remove(&path)?;
    backup.name = name;
    Ok(backup)
}

/// A definition with the name of another. What is no definition stays as it is.
fn with_name(xml: &str, now: &str) -> String {
    let place = |xml: &str| {
        let document = document(xml).ok()?;
        let mut children = document.root_element().children();
        let name = children.find(|node| node.has_tag_name("name"))?;
        Some(name.range())
    };
    let mut text = xml.to_owned();
    if let (Some(old), Some(new)) = (place(xml), place(now)) {
        text.replace_range(old, &now[new]);
    }
    text
}

/// Whether two definitions differ in white space between lines alone, which libvirt writes anew.
fn is_alike(one: &str, other: &str) -> bool {
    let lines = |text: &str| -> Vec<String> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.map(str::to_owned).collect()
    };
    lines(one) == lines(other)
}

/// `before` with the passwords of its displays that `secret` has and `now` leaves out.
fn with_passwords(before: &str, now: &str, secret: &str) -> Result<String, EditError> {
    let [old, new, secret] = [before, now, secret].map(|xml| document(xml).map_err(EditError::Xml));
    let (old, new, secret) = (old?, new?, secret?);
    let mut changes = Vec::new();
    for attribute in ["passwd", "passwdValidTo"] {
        let found = displays(&secret).zip(displays(&new)).zip(displays(&old));
        for ((secret, new), old) in found {
            let is_same = secret.attribute("type") == old.attribute("type");
            let value = secret.attribute(attribute).filter(|_| is_same);
            if let Some(value) = value.filter(|_| new.attribute(attribute).is_none()) {
                changes.push(XmlChange::Set {
                    path: Path::at("graphics", old.range().start),
                    attribute,
                    value: value.to_owned(),
                });
            }
        }
    }
    XmlChange::apply(&changes, before)
}

fn displays<'a>(document: &'a Document<'_>) -> impl Iterator<Item = Node<'a, 'a>> {
    let is_display = |node: &Node<'_, '_>| node.has_tag_name("graphics");
    document.descendants().filter(is_display)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_with_very_many_attributes_is_refused() {
        let attributes: String = (0..100_000)
            .map(|number| format!(" a{number}=''"))
            .collect();
        let before = format!("<domain{attributes}/>");
        let error = with_passwords(&before, "<domain/>", "<domain/>").unwrap_err();
        assert!(
            error.to_string().contains("more than 1000 attributes"),
            "{error}"
        );
    }

    #[test]
    fn a_name_of_now_is_put_into_a_definition_from_before() {
        let before = "<domain>\n <title><name>no</name></title>\n <name>web</name> <x/>\n</domain>";
        let now = "<domain type='kvm'><name>a&lt;b</name><y/></domain>";
        assert_eq!(
            with_name(before, now),
            before.replace("<name>web", "<name>a&lt;b")
        );
        for (one, other) in [("", now), (before, "<domain/>"), ("<name>", now)] {
            assert_eq!(with_name(one, other), one);
        }
        assert!(is_alike("<a>\n  <b/>\n\n</a>\n", "<a>\n\t<b/>\n</a>"));
        assert!(!is_alike("<a>\n</a>", "<a>\n<b/>\n</a>"));
    }

    #[test]
    fn passwords_come_back_to_their_displays() {
        let text = |vnc: &str, spice: &str, more: &str| {
            format!(
                "<domain>{more}<devices><graphics type='vnc'{vnc}/><graphics \
                 type='spice'{spice}/></devices></domain>"
            )
        };
        let before = text("", "", "<x/>");
        let now = text("", "", "");
        let secret = text(
            " passwd='a&lt;b'",
            " passwd='c' passwdValidTo='2026-12-01T00:00:00'",
            "",
        );
        let expected = text(
            " passwd='a&lt;b'",
            " passwd='c' passwdValidTo='2026-12-01T00:00:00'",
            "<x/>",
        );
        assert_eq!(with_passwords(&before, &now, &secret).unwrap(), expected);
        assert_eq!(with_passwords(&before, &now, &now).unwrap(), before);
        // Another display has other passwords.
        let other = "<domain><devices><graphics type='sdl'/></devices></domain>";
        assert_eq!(with_passwords(other, &now, &secret).unwrap(), other);
    }
}
