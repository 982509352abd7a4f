//! Changes of what describes a guest, until the rules have nothing more to change. Pure.
//!
//! One finding's edit is made at a time, and the rules look again: an edit may make another one
//! possible, or needless. Edits that somebody has to ask for are made if their rule is named.

use brisk_vm::hardware::{GuestHardware, XmlError};

use super::measure::{HostNoise, Measured, Signature};
use super::rules::{self, GuestOs, Host, Subject};
use super::text::Text;
use brisk_lint::{Edit, Finding, Fix};

/// More edits than any guest needs.
const MOST: usize = 256;

/// What finds something about a guest.
pub type Look = fn(&Subject) -> Vec<Finding>;

/// Facts about a guest that its description lacks, and what looks at it.
#[derive(Debug, Clone)]
pub struct Context {
    /// The rules. Default: those about idle guests.
    pub look: Look,
    /// Its operating system, where somebody said so.
    pub os: Option<GuestOs>,
    /// Its host.
    pub host: Host,
    /// What was measured of it.
    pub live: Option<Signature>,
}

/// The result of changing a guest.
#[derive(Debug, Clone, PartialEq)]
pub struct Fixed {
    /// What describes it now.
    pub text: Text,
    /// Findings whose edits were made, in order.
    pub applied: Vec<Finding>,
    /// Findings that are left.
    pub left: Vec<Finding>,
    /// Rules whose edits cannot be made here, and why not.
    pub failed: Vec<(&'static str, String)>,
}

/// A guest that cannot be changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] XmlError),
}

impl Default for Context {
    fn default() -> Self {
        Self {
            look: rules::findings,
            os: None,
            host: Host::default(),
            live: None,
        }
    }
}

impl Context {
    /// The guest as rules see it.
    #[must_use]
    pub fn subject(&self, hardware: GuestHardware) -> Subject {
        let of = Subject::of(hardware);
        Subject {
            os: self.os.unwrap_or(of.os),
            host: self.host.clone(),
            live: self.live.clone(),
            ..of
        }
    }

    /// With what was measured of the guest, and of the host meanwhile.
    #[must_use]
    pub fn with_measured(mut self, guest: &Measured, host: &HostNoise) -> Self {
        self.live = Some(guest.signature());
        self.host.ksmd = host.mean.ksmd_percent;
        self.host.khugepaged = host.mean.khugepaged_percent;
        self
    }

    /// Likely causes of what the guest costs: findings that what was measured speaks for, the worst
    /// first.
    #[must_use]
    pub fn likely(&self, hardware: GuestHardware) -> Vec<Finding> {
        let mut found = (self.look)(&self.subject(hardware));
        found.retain(|finding| finding.evidence.is_some());
        found
    }

    /// What the rules find in a guest.
    ///
    /// # Errors
    /// If the text is not the XML of a domain.
    pub fn findings(&self, text: &Text) -> Result<Vec<Finding>, XmlError> {
        let subject = Subject {
            has_small_pages: text.has_small_pages(),
            ..self.subject(text.hardware()?)
        };
        Ok((self.look)(&subject))
    }
}

/// Which rules' edits are made.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// Only those of these rules, unless there is none.
    pub rules: &'a [String],
}

impl Wanted<'_> {
    /// The edit of a finding, if it is to be made.
    fn edit<'f>(&self, finding: &'f Finding) -> Option<&'f Edit> {
        let Fix::Edit(edit) = &finding.fix else {
            return None;
        };
        let is_named = self.rules.iter().any(|rule| rule == finding.rule);
        let is_wanted = is_named || self.rules.is_empty() && !edit.is_on_request();
        (edit.is_exact() && is_wanted).then_some(edit)
    }
}

/// Makes the edits of a guest's findings, until there is none to make.
///
/// An edit that cannot be made, or that does not help, leaves the guest as it was.
///
/// # Errors
/// If the guest cannot be read.
pub fn fix(text: Text, context: &Context, wanted: Wanted<'_>) -> Result<Fixed, Error> {
    fix_if(text, context, wanted, &mut |_| Ok(()))
}

/// As [`fix`], with edits only that `check` allows: it sees the guest after the edit, and says why it
/// must not be so.
///
/// # Errors
/// As [`fix`].
pub fn fix_if(
    text: Text,
    context: &Context,
    wanted: Wanted<'_>,
    check: &mut dyn FnMut(&Text) -> Result<(), String>,
) -> Result<Fixed, Error> {
    let mut fixed = Fixed {
        left: context.findings(&text)?,
        text,
        applied: Vec::new(),
        failed: Vec::new(),
    };
    while fixed.applied.len() < MOST {
        let has_failed = |rule: &str| fixed.failed.iter().any(|(failed, _)| *failed == rule);
        let next = fixed.left.iter().find_map(|finding| {
            let edit = wanted.edit(finding).filter(|_| !has_failed(finding.rule))?;
            Some((finding.clone(), edit.clone()))
        });
        let Some((finding, edit)) = next else {
            break;
        };
        let rule = finding.rule;
        let changed = fixed.text.with(&edit).map_err(|error| error.to_string());
        let changed = changed.and_then(|text| {
            let left = context.findings(&text).map_err(|error| error.to_string())?;
            Ok((text, left))
        });
        let count = |list: &[Finding]| list.iter().filter(|one| one.rule == rule).count();
        match changed {
            Ok((text, left)) if count(&left) < count(&fixed.left) => match check(&text) {
                Ok(()) => {
                    fixed.text = text;
                    fixed.left = left;
                    fixed.applied.push(finding);
                }
                Err(reason) => fixed.failed.push((rule, reason)),
            },
            Ok(_) => fixed
                .failed
                .push((rule, "it is written in another place, too".into())),
            Err(reason) => fixed.failed.push((rule, reason)),
        }
    }
    Ok(fixed)
}
