//! Lines of a console, and records of the kernel's log. Hostile text: the kept text is limited, and
//! nothing here fails.

use crate::boot::Piece;

/// Most bytes of a line that are kept.
const LONGEST: usize = 1024;
/// Most lines and records that are kept.
const MOST: usize = 100_000;
/// Age from which on an unfinished line is a line of its own: its writer was busy since. The kernel
/// writes its own lines at once.
const PATIENCE: u64 = 10_000_000;

/// A line, with the time at which its first byte arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) at: u64,
    pub(super) text: String,
}

/// A record of the kernel's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    /// The kernel's own time, microseconds.
    pub(super) micros: u64,
    pub(super) text: String,
}

/// The lines of a console.
pub(super) fn lines(pieces: &[Piece]) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut open: Option<(Line, u64)> = None;
    for piece in pieces {
        if let Some((line, last)) = open.take() {
            let old = piece.at.saturating_sub(last) > PATIENCE;
            if old && !line.text.starts_with('[') {
                lines.push(line);
            } else {
                open = Some((line, last));
            }
        }
        for (place, part) in piece.text.split(['\n', '\r']).enumerate() {
            if place > 0 {
                lines.extend(open.take().map(|(line, _)| line));
            }
            if lines.len() >= MOST {
                return lines;
            }
            if part.is_empty() {
                continue;
            }
            let fresh = || Line {
                at: piece.at,
                text: String::new(),
            };
            let (line, last) = open.get_or_insert_with(|| (fresh(), piece.at));
            *last = piece.at;
            append(&mut line.text, part);
        }
    }
    lines.extend(open.map(|(line, _)| line));
    lines.retain(|line| !line.text.trim().is_empty());
    lines
}

/// Appends as much as a line may have.
fn append(text: &mut String, part: &str) {
    let room = LONGEST.saturating_sub(text.len());
    let mut end = part.len().min(room);
    while !part.is_char_boundary(end) {
        end -= 1;
    }
    text.push_str(&part[..end]);
}

/// Parses a line of the console in the format of the kernel's log: `[    1.234567] text`, after a
/// level and before a caller if the kernel prints them.
pub(super) fn printk(line: &str) -> Option<Record> {
    let mut rest = line;
    if let Some(level) = rest.strip_prefix('<') {
        let (digits, after) = level.split_once('>')?;
        digits.parse::<u16>().ok()?;
        rest = after;
    }
    let (time, text) = rest.strip_prefix('[')?.split_once(']')?;
    let (seconds, fraction) = time.trim().split_once('.')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(seconds) || fraction.len() != 6 || !digits(fraction) {
        return None;
    }
    let seconds: u64 = seconds.parse().ok()?;
    let micros = seconds
        .checked_mul(1_000_000)?
        .checked_add(fraction.parse().ok()?)?;
    let mut text = text;
    if let Some((caller, after)) = text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        let caller = caller.trim();
        let number = caller.get(1..).unwrap_or_default();
        if caller.starts_with(['T', 'C']) && digits(number) {
            text = after;
        }
    }
    Some(Record {
        micros,
        text: text.trim_start().to_owned(),
    })
}

/// Text of a console line, without the time.
pub(super) fn message(line: &str) -> &str {
    line.strip_prefix('[')
        .and_then(|rest| rest.split_once("] "))
        .map_or(line, |(_, text)| text)
}

/// Parses records of `/dev/kmsg`: `priority,sequence,microseconds,flags;text`, each perhaps
/// followed by lines that begin with a space (Documentation/ABI/testing/dev-kmsg).
pub(super) fn records(log: &str) -> Vec<Record> {
    let mut records = Vec::new();
    for line in log.lines() {
        if line.starts_with(' ') {
            continue;
        }
        if let Some(record) = record(line) {
            if records.len() >= MOST {
                // The start says most about a boot.
                break;
            }
            records.push(record);
        }
    }
    records
}

fn record(line: &str) -> Option<Record> {
    let (head, text) = line.split_once(';')?;
    let mut fields = head.split(',');
    let _priority: u64 = fields.next()?.parse().ok()?;
    let _sequence: u64 = fields.next()?.parse().ok()?;
    let micros: u64 = fields.next()?.parse().ok()?;
    let mut kept = String::new();
    append(&mut kept, text);
    Some(Record { micros, text: kept })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn piece(millis: u64, text: &str) -> Piece {
        Piece {
            at: millis * 1_000_000,
            text: text.to_owned(),
        }
    }

    fn shape(pieces: &[Piece]) -> Vec<(u64, String)> {
        lines(pieces)
            .into_iter()
            .map(|line| (line.at / 1_000_000, line.text))
            .collect()
    }

    #[test]
    fn a_line_has_the_time_of_its_first_byte() {
        let pieces = [
            piece(1, "Book"),
            piece(5, "ing\r\nnext"),
            piece(6, " one\n\n"),
        ];
        let expected = [(1, "Booking".to_owned()), (5, "next one".to_owned())];
        assert_eq!(shape(&pieces), expected);
    }

    #[test]
    fn what_stands_for_long_is_a_line_and_its_rest_another() {
        let pieces = [piece(1, "Booting from "), piece(30, "ROM...\n")];
        let expected = [(1, "Booting from ".to_owned()), (30, "ROM...".to_owned())];
        assert_eq!(shape(&pieces), expected);
        let kernel = [piece(1, "[    0.5"), piece(30, "00000] hello\n")];
        assert_eq!(shape(&kernel), [(1, "[    0.500000] hello".to_owned())]);
    }

    #[test]
    fn times_of_the_kernel_are_read_in_all_their_forms() {
        let read = |line: &str| printk(line).map(|record| (record.micros, record.text));
        let expected = Some((1_234_567, "hello".to_owned()));
        assert_eq!(read("[    1.234567] hello"), expected);
        assert_eq!(read("<6>[    1.234567] hello"), expected);
        assert_eq!(read("[    1.234567][    T1] hello"), expected);
        assert_eq!(
            read("[    1.234567] [mem 0] free").unwrap().1,
            "[mem 0] free"
        );
        for no_time in [
            "hello",
            "[a.b] x",
            "[1.2] x",
            "[99999999999999999999.000000] x",
            "[",
        ] {
            assert_eq!(read(no_time), None, "{no_time}");
        }
    }

    #[test]
    fn records_have_no_continuation_lines() {
        let log = "6,1,0,-;Linux version 6.1\n SUBSYSTEM=pci\n DEVICE=+pci:0\n7,2,12,c;more; of it\nbroken\n,,;\n";
        let read: Vec<_> = records(log)
            .into_iter()
            .map(|record| (record.micros, record.text))
            .collect();
        let expected = [
            (0, "Linux version 6.1".to_owned()),
            (12, "more; of it".to_owned()),
        ];
        assert_eq!(read, expected);
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(
            texts in prop::collection::vec(
                prop_oneof![any::<String>(), "[\\[\\]<>0-9.;, \nTC]{0,60}"], 0..20),
            times in prop::collection::vec(any::<u64>(), 20),
        ) {
            let pieces: Vec<Piece> = texts
                .iter()
                .zip(times)
                .map(|(text, at)| Piece { at, text: text.clone() })
                .collect();
            for line in lines(&pieces) {
                prop_assert!(line.text.len() <= LONGEST);
                let _ = printk(&line.text);
                let _ = message(&line.text);
            }
            for record in records(&texts.concat()) {
                prop_assert!(record.text.len() <= LONGEST);
            }
        }

        #[test]
        fn what_the_kernel_writes_is_read_back(
            micros in 0..10_000_000_000u64,
            cut in prop::collection::vec(0..40usize, 0..6),
            text in "[a-z][a-z :]{0,30}",
        ) {
            let whole = format!("[{:5}.{:06}] {text}\n", micros / 1_000_000, micros % 1_000_000);
            let mut cuts: Vec<usize> = cut.into_iter().map(|at| at.min(whole.len())).collect();
            cuts.extend([0, whole.len()]);
            cuts.sort_unstable();
            let pieces: Vec<Piece> = cuts
                .windows(2)
                .map(|ends| Piece { at: 7, text: whole[ends[0]..ends[1]].to_owned() })
                .collect();
            let lines = lines(&pieces);
            prop_assert_eq!(lines.len(), 1);
            let read = printk(&lines[0].text).unwrap();
            prop_assert_eq!(read.micros, micros);
            prop_assert_eq!(read.text.trim_end(), text.trim_end());
        }
    }
}
