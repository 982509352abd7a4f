//! Reports as text and pictures: pure functions from a [`Report`](crate::Report) to a string.
//!
//! Names in a report may come from a guest and are hostile until shown otherwise. Every renderer
//! takes out control characters and escapes for its own format.

mod bars;
mod csv;
mod history;
mod html;
mod json;
mod perfetto;
mod svg;
mod table;
mod text;

#[cfg(test)]
pub(crate) mod example;
#[cfg(test)]
mod tests;

pub use bars::timeline_text;
pub use csv::csv;
pub use history::{history_end, history_row};
pub use html::{Lead, LeadTable, html, html_with_bars, html_with_curves, html_with_lead};
pub use json::json;
pub use perfetto::perfetto;
pub use svg::{
    Bar, BarPanel, Cell, CellPanel, CellPart, CellRow, CurvePanel, PlottedCurve, PlottedPoint, svg,
    svg_of_bars, svg_of_cells, svg_of_curves, svg_over_time,
};
pub use table::{columns, sheet, table};
pub use text::{clean, one_line, shorten};
