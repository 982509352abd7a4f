//! Where in a domain's XML something is changed.

use std::fmt;

/// A step from an element to one in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Name of the element.
    pub name: String,
    /// Attribute by which one of several elements of this name is chosen.
    pub key: Option<(String, String)>,
    /// Attributes that the element gets if it is made.
    pub made_with: Vec<(String, String)>,
}

/// An element of a domain's XML, which need not be there yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// Name and first byte of the element that the steps begin at. None for the domain.
    pub(super) base: Option<(String, usize)>,
    /// The steps.
    pub(super) steps: Vec<Step>,
}

impl Path {
    /// From the domain: `features/hyperv/stimer`. `timer[name=hpet]` is the timer of that name, and
    /// `clock(offset=utc)` is any clock, which has that attribute if it has to be made.
    #[must_use]
    pub fn domain(steps: &str) -> Self {
        Self {
            base: None,
            steps: steps.split('/').map(Step::parse).collect(),
        }
    }

    /// The element of a name that begins at a byte of the text, as of
    /// [`crate::hardware::Place::Element`].
    #[must_use]
    pub fn at(name: &str, byte: usize) -> Self {
        Self {
            base: Some((name.to_owned(), byte)),
            steps: Vec::new(),
        }
    }

    /// Elements below this one, as in [`Path::domain`].
    #[must_use]
    pub fn below(mut self, steps: &str) -> Self {
        self.steps.extend(steps.split('/').map(Step::parse));
        self
    }

    /// Name of the last element, for messages.
    #[must_use]
    pub fn name(&self) -> &str {
        let base = self.base.as_ref().map_or("domain", |(name, _)| name);
        self.steps.last().map_or(base, |step| &step.name)
    }
}

impl Step {
    fn parse(text: &str) -> Self {
        let (text, made_with) = match text.split_once('(') {
            Some((text, rest)) => {
                let pairs = rest.trim_end_matches(')').split(',');
                (text, pairs.map(pair).collect())
            }
            None => (text, Vec::new()),
        };
        let (name, key) = match text.split_once('[') {
            Some((name, rest)) => (name, Some(pair(rest.trim_end_matches(']')))),
            None => (text, None),
        };
        Self {
            name: name.to_owned(),
            key,
            made_with,
        }
    }

    /// Attributes of the element if it is made.
    pub(super) fn attributes(&self) -> impl Iterator<Item = &(String, String)> {
        self.key.iter().chain(&self.made_with)
    }
}

fn pair(text: &str) -> (String, String) {
    let (key, value) = text.split_once('=').unwrap_or((text, ""));
    (key.to_owned(), value.to_owned())
}

impl fmt::Display for Path {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((name, _)) = &self.base {
            write!(formatter, "<{name}>")?;
        }
        for step in &self.steps {
            write!(formatter, "<{}", step.name)?;
            if let Some((key, value)) = &step.key {
                write!(formatter, " {key}='{value}'")?;
            }
            formatter.write_str(">")?;
        }
        Ok(())
    }
}
