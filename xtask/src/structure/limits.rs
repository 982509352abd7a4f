//! Limits within a file.

use std::path::Path;

use syn::visit::{self, Visit};
use syn::{File, FnArg, ItemStruct, Pat, Signature};

/// Most lines of a file.
pub(super) const LINES: usize = 500;
/// Most fields of a struct.
pub(super) const FIELDS: usize = 20;
/// What a doc comment does not begin with: it would not say what the thing is.
const BEGINNINGS: [&str; 4] = ["The same", "Who ", "What is ", "Whose "];

/// Lines for everything in a file that exceeds a limit.
pub(super) fn problems(path: &Path, text: &str, code: &File) -> Vec<String> {
    let shown = path.display().to_string();
    let mut found = Found {
        shown: &shown,
        problems: Vec::new(),
    };
    let lines = text.lines().count();
    if lines > LINES {
        found.problems.push(format!(
            "{shown}: {lines} lines, more than {LINES}: split it"
        ));
    }
    found.visit_file(code);
    for (number, doc) in vague(text) {
        found.problems.push(format!(
            "{shown}:{number}: a doc comment that does not say what the thing is: {doc}"
        ));
    }
    found.problems
}

struct Found<'a> {
    shown: &'a str,
    problems: Vec<String>,
}

impl<'ast> Visit<'ast> for Found<'_> {
    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        let fields = item.fields.len();
        if fields > FIELDS {
            self.problems.push(format!(
                "{}: struct {} has {fields} fields, more than {FIELDS}: find its parts",
                self.shown, item.ident
            ));
        }
        visit::visit_item_struct(self, item);
    }

    fn visit_signature(&mut self, signature: &'ast Signature) {
        let is_tuple = |input: &FnArg| match input {
            FnArg::Typed(typed) => {
                matches!(&*typed.pat, Pat::Tuple(tuple) if tuple.elems.len() > 1)
            }
            FnArg::Receiver(_) => false,
        };
        if signature.inputs.iter().any(is_tuple) {
            self.problems.push(format!(
                "{}: fn {} hides parameters in a tuple: make it a struct",
                self.shown, signature.ident
            ));
        }
        visit::visit_signature(self, signature);
    }
}

/// Doc comments that begin with one of [`BEGINNINGS`].
fn vague(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut before = false;
    (1..).zip(text.lines()).filter_map(move |(number, line)| {
        let line = line.trim_start();
        let doc = ["///", "//!"]
            .iter()
            .find_map(|mark| line.strip_prefix(mark));
        let begins = !std::mem::replace(&mut before, doc.is_some());
        let doc = doc?.trim_start();
        (begins && BEGINNINGS.iter().any(|words| doc.starts_with(words))).then_some((number, doc))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<String> {
        problems(Path::new("a.rs"), text, &syn::parse_file(text).unwrap())
    }

    #[test]
    fn what_is_beyond_a_limit_is_reported() {
        let fields: String = (0..=FIELDS).map(|n| format!("f{n}: u8,")).collect();
        let lines = of(&format!("struct Wide {{ {fields} }}"));
        assert_eq!(lines.len(), 1);
        assert!(lines[0].contains("struct Wide has 21 fields"), "{lines:?}");
        let lines = of("impl A { fn two(&self, (a, b): (u8, u8)) {} } fn one((a,): (u8,)) {}");
        assert_eq!(lines.len(), 1);
        assert!(lines[0].contains("fn two"), "{lines:?}");
        let lines =
            of("/// The same for b.\nfn b() {}\n/// A thing.\n/// Who asks is told.\nfn c() {}");
        assert_eq!(lines.len(), 1);
        assert!(lines[0].contains("The same for b"), "{lines:?}");
        assert_eq!(of(&"\n".repeat(LINES)), [""; 0]);
        assert!(of(&"\n".repeat(LINES + 1))[0].contains("501 lines"));
    }
}
