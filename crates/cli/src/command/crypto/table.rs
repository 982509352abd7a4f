//! Tables of text. Pure.

use brisk_measure::render::clean;
use comfy_table::{ContentArrangement, Table, presets};

/// A table whose columns are text, with text from elsewhere cleaned.
pub(in crate::command) fn columns(
    head: &[&str],
    rows: impl IntoIterator<Item = Vec<String>>,
) -> String {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(head);
    let cleaned = |row: Vec<String>| {
        row.iter()
            .map(|it| clean(it).into_owned())
            .collect::<Vec<_>>()
    };
    table.add_rows(rows.into_iter().map(cleaned));
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let lines: Vec<_> = table
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect();
    lines.join("\n") + "\n"
}
