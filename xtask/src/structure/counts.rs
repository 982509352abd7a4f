//! Numbers of the structure, to compare it with that of another commit.

use std::fmt::Write;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Block, Signature};

use super::cycles;
use super::limits::{FIELDS, LINES};
use super::modules::is_test;
use super::source::Source;

/// Most lines of a function, without blank lines and comments: `too-many-lines-threshold` of
/// clippy.
const FUNCTION: usize = 100;
/// Most parameters of a function: `too-many-arguments-threshold` of clippy.
const PARAMETERS: usize = 6;

/// How many there are of each thing.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    crates: usize,
    files: usize,
    lines: usize,
    folder_cycles: usize,
    file_cycles: usize,
    long_files: usize,
    long_functions: usize,
    wide_functions: usize,
    wide_structs: usize,
}

impl Counts {
    /// Counts sources without their tests.
    pub(super) fn new(sources: &[Source]) -> Self {
        let mut counts = Self {
            crates: sources.len(),
            ..Self::default()
        };
        for source in sources {
            for cycle in cycles::cycles(&source.path, &source.tree) {
                match cycle.has_folder {
                    true => counts.folder_cycles += 1,
                    false => counts.file_cycles += 1,
                }
            }
            for (file, text) in source.tree.files().iter().zip(&source.texts) {
                counts.add(text, &file.code);
            }
        }
        counts
    }

    /// A Markdown table of two columns.
    pub(super) fn table(&self) -> String {
        let rows = [
            ("Crates".to_owned(), self.crates),
            ("Files without those of tests".to_owned(), self.files),
            ("Lines of them".to_owned(), self.lines),
            ("Cycles between folders".to_owned(), self.folder_cycles),
            (
                "Cycles of more than three files".to_owned(),
                self.file_cycles,
            ),
            (format!("Files over {LINES} lines"), self.long_files),
            (
                format!("Functions over {FUNCTION} lines"),
                self.long_functions,
            ),
            (
                format!("Functions with more than {PARAMETERS} parameters"),
                self.wide_functions,
            ),
            (
                format!("Structs with more than {FIELDS} fields"),
                self.wide_structs,
            ),
        ];
        let mut out = String::from("| | Number |\n|---|---|\n");
        for (name, number) in rows {
            writeln!(out, "| {name} | {number} |").expect("a string takes all");
        }
        out
    }

    fn add(&mut self, text: &str, code: &syn::File) {
        let lines = text.lines().count();
        self.files += 1;
        self.lines += lines;
        self.long_files += usize::from(lines > LINES);
        Visitor {
            lines: &text.lines().collect::<Vec<_>>(),
            counts: self,
        }
        .visit_file(code);
    }
}

struct Visitor<'a> {
    lines: &'a [&'a str],
    counts: &'a mut Counts,
}

impl Visitor<'_> {
    fn function(&mut self, signature: &Signature, block: &Block) {
        let (start, end) = (block.span().start().line, block.span().end().line);
        // From the line after the opening brace to the one before the closing brace.
        let body = self
            .lines
            .get(start..end.saturating_sub(1))
            .unwrap_or_default();
        let code = body.iter().filter(|line| {
            let line = line.trim_start();
            !line.is_empty() && !line.starts_with("//")
        });
        self.counts.long_functions += usize::from(code.count() > FUNCTION);
        self.counts.wide_functions += usize::from(signature.inputs.len() > PARAMETERS);
    }
}

impl<'ast> Visit<'ast> for Visitor<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.counts.wide_structs += usize::from(item.fields.len() > FIELDS);
        visit::visit_item_struct(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Counts {
        let mut counts = Counts::default();
        counts.add(text, &syn::parse_file(text).unwrap());
        counts
    }

    #[test]
    fn comments_and_blank_lines_make_no_function_long() {
        let body = "    f();\n".repeat(FUNCTION);
        assert_eq!(of(&format!("fn a() {{\n{body}}}\n")).long_functions, 0);
        assert_eq!(
            of(&format!("fn a() {{\n\n    // Why.\n{body}}}\n")).long_functions,
            0
        );
        let long = of(&format!(
            "struct A;\nimpl A {{ fn a() {{\n    f();\n{body}}} }}\n"
        ));
        assert_eq!(long.long_functions, 1);
        let test = of(&format!(
            "#[cfg(test)] mod tests {{\nfn a() {{\n    f();\n{body}}} }}\n"
        ));
        assert_eq!(test.long_functions, 0);
    }

    #[test]
    fn parameters_and_fields_are_counted() {
        let counts = of("fn a(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8, g: u8) {}");
        assert_eq!((counts.wide_functions, counts.wide_structs), (1, 0));
        let fields: String = (0..=FIELDS).map(|n| format!("f{n}: u8,")).collect();
        let counts = of(&format!("struct A {{ {fields} }}"));
        assert_eq!((counts.wide_functions, counts.wide_structs), (0, 1));
        assert!(
            counts
                .table()
                .contains("| Structs with more than 20 fields | 1 |\n")
        );
    }
}
