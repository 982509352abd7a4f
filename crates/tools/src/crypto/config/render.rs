//! A recommendation as text. Pure.

use std::fmt::Write;

use brisk_measure::render::clean;

use super::Recommendation;

/// The answer, what it rests on, and the pieces as they are to be written.
#[must_use]
pub fn text(answer: &Recommendation) -> String {
    let mut text = format!("{}\n", clean(&answer.headline));
    if let Some(fix) = &answer.fix {
        let _ = writeln!(text, "To do: {}", clean(fix));
    }
    if !answer.reasons.is_empty() {
        text.push('\n');
    }
    for reason in &answer.reasons {
        let _ = writeln!(text, "{}", clean(reason));
    }
    for piece in &answer.pieces {
        let _ = writeln!(text, "\n--- {}", clean(&piece.place));
        for line in piece.text.lines() {
            let _ = writeln!(text, "{}", clean(line));
        }
    }
    if !answer.remarks.is_empty() {
        text.push('\n');
    }
    for remark in &answer.remarks {
        let _ = writeln!(text, "Note: {}", clean(remark));
    }
    text
}
