//! Elements of a domain's XML.

use std::collections::BTreeMap;

use roxmltree::{Document, Node};

use crate::hardware::place::Place;

/// Elements below a device of which attributes are kept.
const DEPTH: usize = 4;

/// XML that is not a domain.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum XmlError {
    /// Not XML at all.
    #[error("it is not XML: {0}")]
    Xml(String),
    /// XML of something else.
    #[error("it is the XML of a <{0}>, and not of a <domain>; virsh dumpxml prints those")]
    Other(String),
    /// A domain that QEMU does not run.
    #[error("it is a domain of type {0}: QEMU does not run its guest")]
    NotQemu(String),
}

/// Most attributes of an element: the parser compares each with all before it.
const ATTRIBUTES: usize = 1000;

/// Whether an element has more attributes than any has.
fn has_too_many_attributes(xml: &str) -> bool {
    const OPAQUE: [(&str, &str); 3] = [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>")];
    let mut rest = xml;
    while let Some(at) = rest.find('<') {
        rest = &rest[at..];
        let opaque = OPAQUE.iter().find(|(start, _)| rest.starts_with(start));
        if let Some((_, end)) = opaque {
            let Some(at) = rest.find(end) else {
                return false;
            };
            rest = &rest[at + end.len()..];
            continue;
        }
        let (mut quote, mut count, mut end) = (None, 0, rest.len());
        for (at, byte) in rest.bytes().enumerate() {
            match (quote, byte) {
                (None, b'"' | b'\'') => quote = Some(byte),
                (Some(open), _) if open == byte => quote = None,
                (None, b'=') => count += 1,
                (None, b'>') => {
                    end = at;
                    break;
                }
                _ => {}
            }
        }
        if count > ATTRIBUTES {
            return true;
        }
        rest = &rest[end..];
    }
    false
}

/// Reads XML, of which nothing is known.
///
/// # Errors
/// Why it is none, or that an element has more attributes than the parser can compare in good time.
pub fn document(xml: &str) -> Result<Document<'_>, String> {
    if has_too_many_attributes(xml) {
        return Err(format!("an element has more than {ATTRIBUTES} attributes"));
    }
    Document::parse(xml).map_err(|error| error.to_string())
}

/// Reads the XML of a domain.
pub(crate) fn parse(xml: &str) -> Result<Document<'_>, XmlError> {
    let document = document(xml).map_err(XmlError::Xml)?;
    match document.root_element().tag_name().name() {
        "domain" => Ok(document),
        other => Err(XmlError::Other(other.to_owned())),
    }
}

/// The child elements of a name.
pub(crate) fn children<'a, 'input>(
    node: Node<'a, 'input>,
    name: &'a str,
) -> impl Iterator<Item = Node<'a, 'input>> {
    elements(node).filter(move |child| child.tag_name().name() == name)
}

/// All child elements.
pub(crate) fn elements<'a, 'input>(
    node: Node<'a, 'input>,
) -> impl Iterator<Item = Node<'a, 'input>> {
    node.children().filter(Node::is_element)
}

/// The first child element of a name.
pub(crate) fn child<'a, 'input>(node: Node<'a, 'input>, name: &str) -> Option<Node<'a, 'input>> {
    elements(node).find(|child| child.tag_name().name() == name)
}

/// The first element at the end of a path.
pub(super) fn find<'a, 'input>(node: Node<'a, 'input>, path: &[&str]) -> Option<Node<'a, 'input>> {
    path.iter().try_fold(node, |node, name| child(node, name))
}

/// The text of an element.
pub(super) fn text(node: Node<'_, '_>) -> Option<String> {
    node.text().map(|text| text.trim().to_owned())
}

/// An attribute that is not empty.
pub(super) fn attribute(node: Option<Node<'_, '_>>, name: &str) -> Option<String> {
    let value = node?.attribute(name)?.trim();
    (!value.is_empty()).then(|| value.to_owned())
}

/// A switch: `state='on'`, `present='no'`.
pub(super) fn switch(node: Node<'_, '_>, name: &str) -> Option<bool> {
    crate::qemu::cmdline::boolean(node.attribute(name)?.trim())
}

/// The attributes of an element and of those in it: `type`, `source.file`.
pub(super) fn properties(node: Node<'_, '_>) -> BTreeMap<String, String> {
    let mut properties = BTreeMap::new();
    collect(node, "", DEPTH, &mut properties);
    properties
}

fn collect(node: Node<'_, '_>, prefix: &str, depth: usize, into: &mut BTreeMap<String, String>) {
    for attribute in node.attributes() {
        let key = format!("{prefix}{}", attribute.name());
        into.entry(key)
            .or_insert_with(|| attribute.value().to_owned());
    }
    if depth == 0 {
        return;
    }
    for child in elements(node) {
        let prefix = format!("{prefix}{}.", child.tag_name().name());
        collect(child, &prefix, depth - 1, into);
    }
}

/// Where the lines of a text begin.
#[derive(Debug)]
pub(super) struct Lines(Vec<usize>);

impl Lines {
    pub(super) fn of(text: &str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self(ends.map(|(at, _)| at).collect())
    }

    pub(super) fn place(&self, node: Node<'_, '_>) -> Place {
        let bytes = node.range();
        let ends = self.0.partition_point(|end| *end < bytes.start);
        let start = ends.checked_sub(1).map_or(0, |last| self.0[last] + 1);
        Place::Element {
            line: ends + 1,
            column: bytes.start - start + 1,
            bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_with_very_many_attributes_is_refused() {
        let with = |count: usize| {
            let attributes = (0..count).map(|number| format!(" a{number}='>'"));
            let attributes: String = attributes.collect();
            format!("<!-- <a b='--><domain{attributes}><a b='c'/><![CDATA[<=]]></domain>")
        };
        assert!(parse(&with(100)).is_ok());
        let error = parse(&with(100_000)).unwrap_err().to_string();
        assert_eq!(
            error,
            "it is not XML: an element has more than 1000 attributes"
        );
    }
}
