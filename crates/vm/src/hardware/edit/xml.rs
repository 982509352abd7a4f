//! Changes of a domain's XML. Whatever is not changed keeps its bytes: comments, order, quotes, white
//! space and line ends. What is new is written as its neighbours are.

use std::fmt;
use std::ops::Range;

use roxmltree::Node;

use super::EditError;
use super::path::{Path, Step};
use crate::hardware::element::{elements, parse};
use crate::hardware::parameters;

/// A change of a domain's XML.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum XmlChange {
    /// An attribute gets a value; elements on the way to it are made where they are missing.
    Set {
        /// The element.
        path: Path,
        /// The attribute.
        attribute: &'static str,
        /// Its value.
        value: String,
    },
    /// There is to be such an element, whatever is in it.
    Ensure(Path),
    /// An attribute goes.
    Unset {
        /// The element.
        path: Path,
        /// The attribute.
        attribute: &'static str,
    },
    /// An element goes, with what is in it and the white space before it.
    Remove(Path),
    /// A word of an element's text goes, with the white space beside it.
    Cut {
        /// The element.
        path: Path,
        /// The word.
        word: String,
    },
}

/// A part of the text that is replaced.
struct Splice {
    range: Range<usize>,
    with: String,
}

impl XmlChange {
    /// Makes changes in order.
    ///
    /// # Errors
    /// If the text is not the XML of a domain, or something to change is not there.
    pub fn apply(changes: &[Self], xml: &str) -> Result<String, EditError> {
        let mut text = xml.to_owned();
        // By how much what was at a byte of the original is moved.
        let mut moved: Vec<(usize, isize)> = Vec::new();
        for change in changes {
            let now = |byte: usize| {
                moved.iter().fold(byte, |byte, (from, by)| {
                    if byte >= *from {
                        byte.saturating_add_signed(*by)
                    } else {
                        byte
                    }
                })
            };
            let Some(splice) = change.splice(&text, &now)? else {
                continue;
            };
            let by = splice.with.len() as isize - splice.range.len() as isize;
            moved.push((splice.range.end, by));
            text.replace_range(splice.range, &splice.with);
        }
        Ok(text)
    }

    fn path(&self) -> &Path {
        match self {
            Self::Set { path, .. }
            | Self::Ensure(path)
            | Self::Unset { path, .. }
            | Self::Remove(path)
            | Self::Cut { path, .. } => path,
        }
    }

    /// None if nothing has to change.
    fn splice(
        &self,
        text: &str,
        now: &dyn Fn(usize) -> usize,
    ) -> Result<Option<Splice>, EditError> {
        let document = parse(text).map_err(|error| EditError::Xml(error.to_string()))?;
        let path = self.path();
        let missing = || EditError::Missing(format!("<{}>", path.name()));
        let base = match &path.base {
            None => document.root_element(),
            Some((_, byte)) => {
                let byte = now(*byte);
                let mut nodes = document.descendants().filter(Node::is_element);
                nodes
                    .find(|node| node.range().start == byte)
                    .ok_or_else(missing)?
            }
        };
        let (node, rest) = descend(base, &path.steps);
        match self {
            Self::Set {
                attribute, value, ..
            } => Ok(match rest {
                [] => set(text, node, attribute, value),
                rest => Some(insert(text, node, rest, Some((attribute, value)))),
            }),
            Self::Ensure(_) => Ok((!rest.is_empty()).then(|| insert(text, node, rest, None))),
            _ if !rest.is_empty() => Err(missing()),
            Self::Unset { attribute, .. } => {
                let found = node.attributes().find(|found| found.name() == *attribute);
                Ok(found.map(|found| {
                    let range = found.range();
                    let before = text[..range.start].trim_end().len();
                    Splice {
                        range: before..range.end,
                        with: String::new(),
                    }
                }))
            }
            Self::Remove(_) => Ok(Some(Splice {
                range: with_space_before(text, node),
                with: String::new(),
            })),
            Self::Cut { word, .. } => {
                let range = word_in(text, node, word).ok_or_else(missing)?;
                Ok(Some(Splice {
                    range,
                    with: String::new(),
                }))
            }
        }
    }
}

/// The last element on the way that is there, and the steps from it on.
fn descend<'a, 'input, 's>(
    base: Node<'a, 'input>,
    steps: &'s [Step],
) -> (Node<'a, 'input>, &'s [Step]) {
    let mut node = base;
    for (done, step) in steps.iter().enumerate() {
        let fits = |child: &Node<'_, '_>| {
            let key = step.key.as_ref();
            child.tag_name().name() == step.name
                && key.is_none_or(|(name, value)| child.attribute(&**name) == Some(value))
        };
        match elements(node).find(fits) {
            Some(child) => node = child,
            None => return (node, &steps[done..]),
        }
    }
    (node, &[])
}

/// The quote of attributes near a place: in the last element of `node`, in `node` itself, or of the
/// first one in the document.
fn quote(node: Node<'_, '_>) -> char {
    let text = node.document().input_text();
    let near = elements(node).last().into_iter().chain([node]);
    let mut nodes = near.chain(node.document().descendants());
    let first = nodes.find_map(|node| node.attributes().next());
    let close = first.and_then(|attribute| text[..attribute.range().end].chars().next_back());
    match close {
        Some('"') => '"',
        _ => '\'',
    }
}

fn escaped(value: &str, quote: char) -> String {
    let value = value.replace('&', "&amp;").replace('<', "&lt;");
    match quote {
        '"' => value.replace('"', "&quot;"),
        _ => value.replace('\'', "&apos;"),
    }
}

fn set(text: &str, node: Node<'_, '_>, attribute: &str, value: &str) -> Option<Splice> {
    if let Some(found) = node.attributes().find(|found| found.name() == attribute) {
        if found.value() == value {
            return None;
        }
        let range = found.range_value();
        let close = text[..found.range().end].chars().next_back();
        return Some(Splice {
            range,
            with: escaped(value, close.unwrap_or('\'')),
        });
    }
    let after = node.attributes().next_back().map(|last| last.range().end);
    let after = after.unwrap_or_else(|| name_end(text, node));
    let quote = quote(node);
    let value = escaped(value, quote);
    Some(Splice {
        range: after..after,
        with: format!(" {attribute}={quote}{value}{quote}"),
    })
}

/// The end of the name in the start tag.
fn name_end(text: &str, node: Node<'_, '_>) -> usize {
    let start = node.range().start + 1;
    let rest = &text[start..];
    let end = rest.find(|c: char| c.is_whitespace() || c == '/' || c == '>');
    start + end.unwrap_or(rest.len())
}

/// White space of the line that an element begins on, with the line end before it. Empty if
/// something else is before it on the line.
fn line_start<'t>(text: &'t str, node: Node<'_, '_>) -> &'t str {
    let before = &text[..node.range().start];
    let space = &before[before.trim_end_matches([' ', '\t']).len()..];
    let rest = &before[..before.len() - space.len()];
    let line_end = if rest.ends_with("\r\n") {
        2
    } else {
        usize::from(rest.ends_with('\n'))
    };
    if line_end == 0 {
        return "";
    }
    &before[rest.len() - line_end..]
}

/// White space before an element that is to be made in `parent`, and before the end tag of `parent`
/// if it had no elements.
fn indents(text: &str, parent: Node<'_, '_>) -> (String, String) {
    let outer = line_start(text, parent);
    if let Some(last) = elements(parent).last() {
        return (line_start(text, last).to_owned(), outer.to_owned());
    }
    let grandparent = parent.parent().filter(Node::is_element);
    let above = grandparent.map_or("", |node| line_start(text, node));
    let unit = match outer.strip_prefix(above) {
        Some(unit) if !above.is_empty() && !unit.is_empty() => unit,
        _ => "  ",
    };
    match outer {
        // An element that is the first of the text has no line end before it.
        "" if grandparent.is_none() && text.contains('\n') => ("\n  ".into(), "\n".into()),
        "" => (String::new(), String::new()),
        outer => (format!("{outer}{unit}"), outer.to_owned()),
    }
}

/// Makes elements in `parent`, one in another, as its last ones.
fn insert(
    text: &str,
    parent: Node<'_, '_>,
    steps: &[Step],
    attribute: Option<(&str, &str)>,
) -> Splice {
    let (inner, outer) = indents(text, parent);
    let unit = inner.strip_prefix(&*outer).unwrap_or_default();
    let deeper = match unit.trim_start_matches(['\r', '\n']) {
        "" if inner.is_empty() => "",
        "" => "  ",
        unit => unit,
    };
    let made = made(steps, attribute, &inner, deeper, quote(parent));
    if let Some(last) = elements(parent).last() {
        let end = last.range().end;
        return Splice {
            range: end..end,
            with: format!("{inner}{made}"),
        };
    }
    let range = parent.range();
    let tag = &text[range.clone()];
    if let Some(start) = tag.strip_suffix("/>") {
        let start = start.trim_end();
        let name = text[range.start + 1..name_end(text, parent)].to_owned();
        return Splice {
            range: range.start + start.len()..range.end,
            with: format!(">{inner}{made}{outer}</{name}>"),
        };
    }
    // No element, but maybe text or a comment, which stay.
    let close = range.start + tag.rfind("</").unwrap_or(tag.len());
    let content = text[..close].trim_end().len();
    Splice {
        range: content..close,
        with: format!("{inner}{made}{outer}"),
    }
}

fn made(
    steps: &[Step],
    attribute: Option<(&str, &str)>,
    indent: &str,
    deeper: &str,
    quote: char,
) -> String {
    let Some((step, rest)) = steps.split_first() else {
        return String::new();
    };
    let pair = |(name, value): (&str, &str)| {
        let value = escaped(value, quote);
        format!(" {name}={quote}{value}{quote}")
    };
    let own = step.attributes().map(|(name, value)| pair((name, value)));
    let mut start: String = std::iter::once(format!("<{}", step.name))
        .chain(own)
        .collect();
    if rest.is_empty() {
        start.extend(attribute.map(pair));
        return start + "/>";
    }
    let below = match indent {
        "" => String::new(),
        indent => format!("{indent}{deeper}"),
    };
    let content = made(rest, attribute, &below, deeper, quote);
    format!("{start}>{below}{content}{indent}</{}>", step.name)
}

/// The bytes of an element and of the white space before it.
fn with_space_before(text: &str, node: Node<'_, '_>) -> Range<usize> {
    let range = node.range();
    let before = text[..range.start].trim_end().len();
    before..range.end
}

/// A word of the element's text, with the white space before it; that behind it if it is the first.
fn word_in(text: &str, node: Node<'_, '_>, word: &str) -> Option<Range<usize>> {
    let range = node.range();
    let tag = &text[range.clone()];
    let first = range.start + tag.find('>')? + 1;
    let last = range.start + tag.rfind("</")?;
    let content = text.get(first..last)?;
    // libvirt writes quotation marks so; of the same length, each place stays.
    let quoted = content.replace("&quot;", "\"\0\0\0\0\0");
    let mut places = parameters::places(&quoted).into_iter();
    let place = places.find(|place| &content[place.clone()] == word)?;
    let before = content[..place.start].trim_end().len();
    let behind = content.len() - content[place.end..].trim_start().len();
    let (start, end) = match before {
        0 => (place.start, behind),
        before => (before, place.end),
    };
    Some(first + start..first + end)
}

impl fmt::Display for XmlChange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path();
        match self {
            Self::Set {
                attribute, value, ..
            } => write!(formatter, "{attribute}='{value}' in {path}"),
            Self::Ensure(_) => write!(formatter, "{path}"),
            Self::Unset { attribute, .. } => write!(formatter, "no {attribute} in {path}"),
            Self::Remove(_) => write!(formatter, "remove {path}"),
            Self::Cut { word, .. } => write!(formatter, "remove {word} from {path}"),
        }
    }
}
