//! Rules about machines and guests, and what they find. Pure.
//!
//! A [`Rule`] is written once, for a guest in the XML of libvirt, on a command line, or running:
//! it looks at [`brisk_vm::hardware::GuestHardware`], and its [`Edit`] is shown in the form that
//! the guest was read from. Rules are constants in lists such as [`guest::RULES`]; a capability
//! has lists of its own, over any subject. How bad a finding is, is a [`Severity`]; a capability
//! that decides something has a [`Grade`] of its own instead, which says what follows.

mod fix;
pub mod guest;
pub mod report;

use brisk_vm::hardware::Place;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

pub use fix::{ArgumentChange, Edit, Fix, XmlChange};
pub use guest::{Guest, Kvm};

/// How bad findings are, or what follows from them: a value of a small enumeration.
pub trait Grade: Copy + Ord + Serialize {
    /// Name of the field of a finding in JSON.
    const FIELD: &'static str;
}

impl Grade for Severity {
    const FIELD: &'static str = "severity";
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Something cannot be done at all.
    Impossible,
    /// Guests may fail through no fault of their own.
    Faulty,
    /// Much is lost all the time: of an idle guest, more than 2 % of a CPU or 200 wakeups a second.
    High,
    /// Boots take longer than they must.
    Slow,
    /// Something is lost all the time.
    Medium,
    /// Little is lost, or only now and then.
    Low,
    /// Numbers may be worse or less steady than they could be, or the fence lower.
    Note,
}

impl Severity {
    /// For people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Impossible => "impossible",
            Self::Faulty => "faulty",
            Self::High => "high",
            Self::Slow => "slow",
            Self::Medium => "medium",
            Self::Low => "low",
            Self::Note => "note",
        }
    }
}

/// What a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applies {
    /// The host.
    Host,
    /// A guest, from XML, a command line or a QEMU that runs.
    Guest,
    /// A target of a measurement, beside the host.
    Target,
}

impl Applies {
    /// For people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Guest => "guest",
            Self::Target => "target",
        }
    }
}

/// A rule about a subject of type `S`, whose findings have a grade of type `G`.
#[derive(Debug)]
pub struct Rule<S: 'static, G: Grade + 'static = Severity> {
    /// Stable name, in kebab-case.
    pub id: &'static str,
    /// What it is about.
    pub applies: Applies,
    /// What becomes worse where it finds something.
    pub why: &'static str,
    /// Where that is known from: a file of QEMU or the kernel, a document, or a measurement.
    pub source: &'static str,
    /// Looks at a subject and adds what it finds.
    pub check: fn(&S, &mut Findings<G>),
}

/// A rule without its check, for lists of rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Description {
    /// As in [`Rule::id`].
    pub id: &'static str,
    /// As in [`Rule::applies`].
    pub applies: Applies,
    /// As in [`Rule::why`].
    pub why: &'static str,
    /// As in [`Rule::source`].
    pub source: &'static str,
}

impl<S, G: Grade> Rule<S, G> {
    /// Its description, for lists.
    #[must_use]
    pub const fn description(&self) -> Description {
        Description {
            id: self.id,
            applies: self.applies,
            why: self.why,
            source: self.source,
        }
    }
}

/// Something that is not as it could be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding<G = Severity> {
    /// The rule that found it.
    pub rule: &'static str,
    /// How bad it is, or what follows from it.
    pub severity: G,
    /// Where it is written, if it is a part of a guest.
    pub place: Option<Place>,
    /// What was found.
    pub what: String,
    /// What it does.
    pub effect: &'static str,
    /// What was measured or read that speaks for it.
    pub evidence: Option<String>,
    /// What to do.
    pub fix: Fix,
}

impl<G: Grade> Serialize for Finding<G> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let count = 6 + usize::from(self.evidence.is_some());
        let mut fields = serializer.serialize_struct("Finding", count)?;
        fields.serialize_field("rule", self.rule)?;
        fields.serialize_field(G::FIELD, &self.severity)?;
        fields.serialize_field("where", &self.place)?;
        fields.serialize_field("what", &self.what)?;
        fields.serialize_field("effect", self.effect)?;
        if let Some(evidence) = &self.evidence {
            fields.serialize_field("evidence", evidence)?;
        }
        fields.serialize_field("fix", &self.fix.to_string())?;
        fields.end()
    }
}

/// Takes what a rule finds.
#[derive(Debug)]
pub struct Findings<G = Severity> {
    rule: Description,
    list: Vec<Finding<G>>,
}

impl<G: Grade> Findings<G> {
    /// The rule that looks, for a check that several rules share.
    #[must_use]
    pub const fn rule(&self) -> &Description {
        &self.rule
    }

    /// Adds a finding about the host.
    pub fn add(&mut self, severity: G, what: impl Into<String>, fix: impl Into<Fix>) {
        self.push(severity, None, what.into(), fix.into());
    }

    /// Adds a finding about the host, with what was read that speaks for it.
    pub fn add_with_evidence(
        &mut self,
        severity: G,
        what: impl Into<String>,
        evidence: impl Into<String>,
        fix: impl Into<Fix>,
    ) {
        self.push(severity, None, what.into(), fix.into());
        if let Some(finding) = self.list.last_mut() {
            finding.evidence = Some(evidence.into());
        }
    }

    /// Adds a finding about a part of a guest.
    pub fn at(&mut self, place: Place, severity: G, what: impl Into<String>, fix: impl Into<Fix>) {
        self.push(severity, Some(place), what.into(), fix.into());
    }

    fn push(&mut self, severity: G, place: Option<Place>, what: String, fix: Fix) {
        self.list.push(Finding {
            rule: self.rule.id,
            severity,
            place,
            what,
            effect: self.rule.why,
            evidence: None,
            fix,
        });
    }
}

/// Has groups of rules look at a subject, and returns what they find in the rules' order.
#[must_use]
pub fn check_all<S, G: Grade>(groups: &[&[Rule<S, G>]], subject: &S) -> Vec<Finding<G>> {
    let found = groups.iter().flat_map(|rules| check(rules, subject));
    found.collect()
}

/// Descriptions of groups of rules.
#[must_use]
pub fn descriptions<S, G: Grade>(groups: &[&[Rule<S, G>]]) -> Vec<Description> {
    let rules = groups.iter().copied().flatten();
    rules.map(Rule::description).collect()
}

/// Has rules look at a subject, and returns what they find in the rules' order.
#[must_use]
pub fn check<S, G: Grade>(rules: &[Rule<S, G>], subject: &S) -> Vec<Finding<G>> {
    let of_rule = |rule: &Rule<S, G>| {
        let mut findings = Findings {
            rule: rule.description(),
            list: Vec::new(),
        };
        (rule.check)(subject, &mut findings);
        findings.list
    };
    rules.iter().flat_map(of_rule).collect()
}
