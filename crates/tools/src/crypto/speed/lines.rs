//! Lines of an output of `openssl speed`. Pure.
//!
//! Their forms are those of `apps/speed.c`: `print_message`, `print_result`, `do_multi` and the end
//! of `speed_main`, of OpenSSL 0.9.8 to 4.0 and of LibreSSL.

use super::command::{self, Command};

/// Longest line that is looked at, in bytes; those of results have less than 300.
const LONGEST: usize = 4096;
/// Most characters of a name.
const NAME: usize = 80;
/// Most sizes of a table.
const SIZES: usize = 64;
/// Most processes.
const PROCESSES: usize = 100_000;
/// Largest size in bytes: openssl has them as `int`.
const LARGEST: u64 = i32::MAX as u64;

/// What a line says.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Line {
    /// A command line with `openssl speed`.
    Command(Command),
    /// Times are of the wall clock.
    Elapsed,
    /// An engine was loaded.
    Engine(String),
    /// An engine was not loaded; openssl goes on without it.
    EngineFailed(String),
    /// `OPENSSL_ia32cap` of the environment.
    Processor(String),
    /// A process of this number, from 0, was started.
    Child(usize),
    /// An algorithm begins at a size, and may end in the same line.
    Begin(Begin, Option<End>),
    /// What began ends.
    End(End),
    /// Sizes of the columns that follow; whether in the form of `-mr`.
    Sizes(Vec<u64>, bool),
    /// Bytes per second of an algorithm in the columns.
    Rates(Rates),
    /// A message of an error.
    Error(String),
    /// An error of a library within a run, such as those of the error queue.
    Trouble(String),
    /// A result without sizes, of public keys or random numbers.
    Other,
}

/// An algorithm begins.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Begin {
    pub(super) name: String,
    pub(super) bytes: u64,
    /// Seconds of wall clock for which it is to run, where an alarm ends it.
    pub(super) wanted: Option<f64>,
    /// Whether in the form of `-mr`, which does not say by which clock times are.
    pub(super) is_terse: bool,
}

/// An algorithm has ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct End {
    pub(super) count: u64,
    pub(super) seconds: f64,
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Rates {
    pub(super) name: String,
    /// Bytes per second, None where there is no number above 0.
    pub(super) rates: Vec<Option<f64>>,
    pub(super) is_terse: bool,
    /// What stands behind the numbers.
    pub(super) label: String,
}

/// Reads a line; `columns` is the number of sizes of the table that it may be a row of. None for
/// anything else.
pub(super) fn read(line: &str, columns: usize) -> Option<Line> {
    if line.len() > LONGEST {
        return None;
    }
    // Mails and forums quote with these.
    let line = line.trim_start_matches([' ', '\t', '>', '|']).trim_end();
    if let Some(rest) = line.strip_prefix('+') {
        return terse(rest);
    }
    if let Some(rest) = line.strip_prefix("Got: +H:") {
        // What a process of -multi has told; the table after it has no head.
        let (words, _) = rest.split_once(" from ")?;
        return sizes_of(words).map(|sizes| Line::Sizes(sizes, true));
    }
    if let Some(rest) = line.strip_prefix("Doing ") {
        let is_timed = rest.contains(" for ") && (rest.contains("s: ") || rest.ends_with("s:"));
        return progress(rest).or(is_timed.then_some(Line::Other));
    }
    if let Some(sizes) = head(line) {
        return Some(Line::Sizes(sizes, false));
    }
    if let Some(rates) = row(line, columns) {
        return Some(Line::Rates(rates));
    }
    message(line).or_else(|| end(line).map(Line::End))
}

/// Lines that are no result.
fn message(line: &str) -> Option<Line> {
    if line.contains("measure elapsed time instead of user CPU time") {
        return Some(Line::Elapsed);
    }
    if let Some(number) = line.strip_prefix("Forked child ") {
        let number = number.parse().ok().filter(|number| *number < PROCESSES)?;
        return Some(Line::Child(number));
    }
    if let Some(name) = quoted(line, "invalid engine \"") {
        return Some(Line::EngineFailed(name_of(name)?));
    }
    if let Some(name) = quoted(line, "engine \"").filter(|_| line.ends_with("set.")) {
        return Some(Line::Engine(name_of(name)?));
    }
    if let Some((_, mask)) = line
        .strip_prefix("CPUINFO:")
        .and_then(|rest| rest.split_once(" env:"))
    {
        return Some(Line::Processor(name_of(mask)?));
    }
    if line.starts_with("speed: ") || line.ends_with("is not an AEAD cipher") {
        return Some(Line::Error(line.chars().take(200).collect()));
    }
    if super::failure::is_trouble(line) {
        return Some(Line::Trouble(line.chars().take(200).collect()));
    }
    command::read(line).map(Line::Command)
}

/// The text between `start`, in upper or lower case, and the next quotation mark.
fn quoted<'a>(line: &'a str, start: &str) -> Option<&'a str> {
    let begins = line.get(..start.len())?.eq_ignore_ascii_case(start);
    let rest = line.get(start.len()..).filter(|_| begins)?;
    rest.split_once('"').map(|(name, _)| name)
}

/// A line of `-mr`, without its first character.
fn terse(rest: &str) -> Option<Line> {
    let (kind, rest) = rest.split_once(':')?;
    match kind {
        // Names have no colons; were there one, it would be in the middle.
        "DT" | "DN" => {
            let (rest, bytes) = rest.rsplit_once(':')?;
            let (name, wanted) = rest.rsplit_once(':')?;
            let (name, wanted) = match kind {
                "DT" => (name, Some(number(wanted)?)),
                _ => (name, None),
            };
            let begin = Begin {
                name: name_of(name)?,
                bytes: size(bytes)?,
                wanted,
                is_terse: true,
            };
            Some(Line::Begin(begin, None))
        }
        "R" => {
            let (count, rest) = rest.split_once(':')?;
            let (_, seconds) = rest.rsplit_once(':')?;
            Some(Line::End(End {
                count: count.parse().ok()?,
                seconds: number(seconds)?,
            }))
        }
        "H" => sizes_of(rest).map(|sizes| Line::Sizes(sizes, true)),
        "F" => {
            let (_, rest) = rest.split_once(':')?;
            let mut parts = rest.split(':');
            let name = name_of(parts.next()?)?;
            let rates = parts
                .take(SIZES)
                .map(|rate| number(rate).filter(above_zero));
            Some(Line::Rates(Rates {
                name,
                rates: rates.collect(),
                is_terse: true,
                label: String::new(),
            }))
        }
        "DTP" | "DNP" => Some(Line::Other),
        _ => None,
    }
}

/// `NAME[ ops] for 3s on 16 size blocks: COUNT NAME's in 2.99s`, after `Doing `.
fn progress(rest: &str) -> Option<Line> {
    let (before, after) = rest.split_once(" size blocks:")?;
    let (before, bytes) = before.rsplit_once(" on ")?;
    let (name, wanted) = match before.rsplit_once(" for ") {
        Some((name, wanted)) => (name, Some(number(wanted.strip_suffix('s')?)?)),
        // Without alarm(2): a number of times instead of a time.
        None => (before.strip_suffix(" times")?.rsplit_once(' ')?.0, None),
    };
    let begin = Begin {
        name: name_of(name.strip_suffix(" ops").unwrap_or(name))?,
        bytes: size(bytes)?,
        wanted,
        is_terse: false,
    };
    Some(Line::Begin(begin, end(after.trim())))
}

/// `COUNT NAME's in 2.99s`, or with `ops` for the ending.
fn end(text: &str) -> Option<End> {
    let (before, seconds) = text.rsplit_once(" in ")?;
    let (count, name) = before.split_once(' ')?;
    let is_result = name.ends_with("'s") || name.ends_with(" ops");
    Some(End {
        count: count.parse().ok().filter(|_| is_result)?,
        seconds: number(seconds.strip_suffix('s')?)?,
    })
}

/// The sizes of `type   16 bytes   64 bytes`.
fn head(line: &str) -> Option<Vec<u64>> {
    let rest = line.strip_prefix("type ")?;
    let parts: Vec<&str> = rest.split("bytes").map(str::trim).collect();
    // Behind the last there is nothing.
    let (last, parts) = parts.split_last()?;
    let sizes = sizes(parts.iter().copied())?;
    last.is_empty().then_some(sizes)
}

/// A row of a table with so many sizes: the name, numbers with two decimals, and maybe a label that
/// people added, such as the name of a board or of a core. Numbers have `k`, or are of bytes where
/// there are less than 10000.
fn row(line: &str, sizes: usize) -> Option<Rates> {
    if sizes == 0 {
        return None;
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let first = words.iter().position(|word| rate(word).is_some())?;
    let (name, rest) = words.split_at(first);
    let (numbers, label) = rest.split_at_checked(sizes)?;
    let rates: Option<Vec<_>> = numbers.iter().map(|word| rate(word)).collect();
    // A further number is a column that has no head: it is not known which one.
    let is_label = label.iter().all(|word| rate(word).is_none());
    let label = label.join(" ");
    let label = label.trim_matches(['(', ')', '#', '|', '<', '-', ' ']);
    Some(Rates {
        name: name_of(&name.join(" "))?,
        rates: rates.filter(|_| is_label)?,
        is_terse: false,
        label: name_of(label).unwrap_or_default(),
    })
}

/// A number of the table; Some(None) if it is none above 0.
fn rate(word: &str) -> Option<Option<f64>> {
    let (digits, multiple) = match word.strip_suffix('k') {
        Some(digits) => (digits, 1000.0),
        None => (word, 1.0),
    };
    if matches!(digits, "inf" | "nan" | "-nan") {
        return Some(None);
    }
    let (_, decimals) = digits.rsplit_once(['.', ','])?;
    let is_form = decimals.len() == 2;
    // Some locales have a comma.
    let value = number(&digits.replace(',', ".")).filter(|_| is_form)?;
    Some(Some(value * multiple).filter(above_zero))
}

fn sizes_of(words: &str) -> Option<Vec<u64>> {
    sizes(words.split(':'))
}

fn sizes<'a>(words: impl Iterator<Item = &'a str>) -> Option<Vec<u64>> {
    let sizes: Option<Vec<u64>> = words.take(SIZES).map(size).collect();
    sizes.filter(|sizes| !sizes.is_empty())
}

fn size(word: &str) -> Option<u64> {
    let size = word.trim().parse().ok()?;
    (1..=LARGEST).contains(&size).then_some(size)
}

/// A finite number from 0 up, without an exponent.
fn number(word: &str) -> Option<f64> {
    let is_plain = word.bytes().all(|one| one.is_ascii_digit() || one == b'.');
    let value: f64 = word.parse().ok().filter(|_| is_plain)?;
    (value < 1e18).then_some(value)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "for Option::filter")]
fn above_zero(value: &f64) -> bool {
    *value > 0.0
}

pub(super) fn name_of(text: &str) -> Option<String> {
    let name = brisk_measure::render::shorten(text.trim(), NAME);
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(name: &str, bytes: u64, wanted: Option<f64>) -> Begin {
        Begin {
            name: name.into(),
            bytes,
            wanted,
            is_terse: false,
        }
    }

    #[test]
    fn progress_is_read_in_its_wordings() {
        let end = |count, seconds| Some(End { count, seconds });
        let cases = [
            (
                "Doing aes-128-cbc for 3s on 16 size blocks: 1870065 aes-128-cbc's in 2.99s",
                begin("aes-128-cbc", 16, Some(3.0)),
                end(1_870_065, 2.99),
            ),
            (
                "Doing AES-128-CBC ops for 10s on 16384 size blocks: 12 AES-128-CBC ops in 10.01s",
                begin("AES-128-CBC", 16384, Some(10.0)),
                end(12, 10.01),
            ),
            (
                "> Doing aes-128 cbc for 3s on 64 size blocks: 9 aes-128 cbc's in 0.00s",
                begin("aes-128 cbc", 64, Some(3.0)),
                end(9, 0.0),
            ),
            (
                "Doing sha1 250000 times on 1024 size blocks: 250000 sha1's in 1.52s",
                begin("sha1", 1024, None),
                end(250_000, 1.52),
            ),
            (
                "Doing sha256 for 3s on 8192 size blocks: ",
                begin("sha256", 8192, Some(3.0)),
                None,
            ),
        ];
        for (line, begin, end) in cases {
            assert_eq!(read(line, 0), Some(Line::Begin(begin, end)), "{line}");
        }
        let rest = End {
            count: 7,
            seconds: 2.5,
        };
        assert_eq!(read("7 sha256's in 2.50s", 0), Some(Line::End(rest)));
    }

    #[test]
    fn lines_of_mr_are_read_at_their_beginning_only() {
        let terse = Begin {
            is_terse: true,
            ..begin("AES-128-CBC", 64, Some(1.0))
        };
        let cases = [
            ("+DT:AES-128-CBC:1:64", Some(Line::Begin(terse, None))),
            (
                "+R:15210561:AES-128-CBC:1.000000",
                Some(Line::End(End {
                    count: 15_210_561,
                    seconds: 1.0,
                })),
            ),
            ("+H:16:64", Some(Line::Sizes(vec![16, 64], true))),
            (
                "+F:25:AES-128-CBC:474410512.00:0.00",
                Some(Line::Rates(Rates {
                    name: "AES-128-CBC".into(),
                    rates: vec![Some(474_410_512.0), None],
                    is_terse: true,
                    label: String::new(),
                })),
            ),
            ("+DTP:2048:private:rsa:10", Some(Line::Other)),
            ("Got: +F:25:AES-128-CBC:1.00:2.00 from 0", None),
            (
                "Got: +H:16:64 from 0",
                Some(Line::Sizes(vec![16, 64], true)),
            ),
            ("+R:-1:AES-128-CBC:1.0", None),
            ("+R:1:AES-128-CBC:1e300", None),
            ("+R:1:AES-128-CBC:nan", None),
            ("+DT:AES-128-CBC:1:0", None),
            ("+DT:AES-128-CBC:1:99999999999", None),
            ("+H:", None),
            ("+DT::1:16", None),
        ];
        for (line, expected) in cases {
            assert_eq!(read(line, 0), expected, "{line}");
        }
    }

    #[test]
    fn tables_have_names_with_blanks_and_small_numbers() {
        let head = "type             16 bytes     64 bytes1048576 bytes";
        assert_eq!(
            read(head, 0),
            Some(Line::Sizes(vec![16, 64, 1_048_576], false))
        );
        let rates = |line| match read(line, 3) {
            Some(Line::Rates(one)) => Some((one.name, one.rates)),
            _ => None,
        };
        assert_eq!(
            rates("aes-128 cbc      37255.54k     9876.50        nank"),
            Some((
                "aes-128 cbc".into(),
                vec![Some(37_255_540.0), Some(9876.5), None]
            ))
        );
        assert_eq!(
            rates("sha1   1,50k  2.50k  3.50k"),
            Some((
                "sha1".into(),
                vec![Some(1500.0), Some(2500.0), Some(3500.0)]
            ))
        );
        for other in [
            "sha1 1.50k 2.50k",
            "1.50k 2.50k 3.50k",
            "rsa 2048 bits 0.000512s 0.000015s 1953.1",
            "sha1 1 2 3",
            "sha1 1.50k 2.50k -3.50k",
        ] {
            assert_eq!(rates(other), None, "{other}");
        }
        assert_eq!(read("sha1   1.50k  2.50k  3.50k", 0), None);
    }

    #[test]
    fn messages_are_told_apart() {
        let text = String::from;
        let cases = [
            (
                "You have chosen to measure elapsed time instead of user CPU time.",
                Some(Line::Elapsed),
            ),
            ("engine \"afalg\" set.", Some(Line::Engine(text("afalg")))),
            ("Engine \"afalg\" set.", Some(Line::Engine(text("afalg")))),
            (
                "Invalid engine \"cryptodev\"",
                Some(Line::EngineFailed(text("cryptodev"))),
            ),
            (
                "CPUINFO: OPENSSL_ia32cap=0xfd:0x4 env:~0x200000200000000",
                Some(Line::Processor(text("~0x200000200000000"))),
            ),
            ("CPUINFO: OPENSSL_ia32cap=0xfd:0x4", None),
            ("Forked child 1", Some(Line::Child(1))),
            (
                "root@board:~# time openssl speed -evp aes-128-cbc -elapsed",
                Some(Line::Command(Command {
                    is_elapsed: true,
                    evp: Some(text("aes-128-cbc")),
                    ..Command::default()
                })),
            ),
            (
                "speed: Unknown option: -engine",
                Some(Line::Error(text("speed: Unknown option: -engine"))),
            ),
            (
                "Doing 2048 bits private rsa's for 10s: 99 2048 bits private RSA's in 9.99s",
                Some(Line::Other),
            ),
            ("", None),
        ];
        for (line, expected) in cases {
            assert_eq!(read(line, 0), expected, "{line}");
        }
        let long = format!("Doing {} for 3s on 16 size blocks:", "a".repeat(LONGEST));
        assert_eq!(read(&long, 0), None);
    }
}
