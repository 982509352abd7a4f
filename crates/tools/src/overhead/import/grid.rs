//! Lines of a table as cells. Pure.
//!
//! Cells are apart by `|`, a tab, `;`, or by two blanks or more; in a file without these by commas,
//! and without those by single blanks.

use super::cell::{Cell, plain};
use super::{ImportError, refused};

/// Most words of a name in a line whose words are one blank apart.
const WORDS: usize = 6;

/// A line with its cells, of which the first is the name.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    /// Number of the line, from 1.
    pub(super) line: usize,
    /// The whole line.
    pub(super) text: String,
    pub(super) cells: Vec<String>,
}

/// Lines of one table, of which the first may be its heading.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Grid {
    pub(super) rows: Vec<Row>,
    /// Whether a rule below the first line says that this is a heading.
    pub(super) has_rule: bool,
}

impl Row {
    pub(super) fn name(&self) -> &str {
        self.cells.first().map_or("", String::as_str)
    }

    /// Its cells behind the name.
    pub(super) fn values(&self) -> impl Iterator<Item = Cell> + '_ {
        self.cells.iter().skip(1).map(|cell| Cell::read(cell))
    }

    pub(super) fn has_number(&self) -> bool {
        let is_one = |cell| matches!(cell, Cell::Value(_) | Cell::Share(_) | Cell::Wrong(_));
        self.values().any(is_one)
    }

    pub(super) fn refused(&self, reason: impl Into<String>) -> ImportError {
        refused(self.line, &self.text, reason)
    }
}

/// The tables of a text: in Markdown one for each block of lines with `|`, otherwise one.
///
/// # Errors
/// If a line whose words are one blank apart is not understood.
pub(super) fn grids(text: &str) -> Result<Vec<Grid>, ImportError> {
    let has = |mark: &str| text.contains(mark);
    let lines = || {
        text.lines()
            .enumerate()
            .map(|(place, line)| (place + 1, line))
    };
    if text
        .lines()
        .any(|line| line.trim_matches('|').contains('|'))
    {
        return Ok(blocks(lines()));
    }
    // A comma behind a number is one in it, unless others stand behind names.
    let is_behind_a_name = |line: &str| {
        line.split_once(',').is_some_and(|(name, _)| {
            let name = name.trim_end_matches('"');
            let last = name.rsplit(' ').next().unwrap_or_default();
            last.parse::<f64>().is_err()
        })
    };
    // A sentence may have one, too.
    let filled = text.lines().filter(|line| !line.trim().is_empty());
    let with_comma = text.lines().filter(|line| is_behind_a_name(line));
    let has_commas = with_comma.count() * 2 > filled.count();
    let mut has_blanks = false;
    let apart: fn(&str) -> Option<Vec<String>> = if has("\t") {
        |line| line.contains('\t').then(|| owned(line.split('\t')))
    } else if has(";") {
        |line| line.contains(';').then(|| by_delimiter(line, b';'))
    } else if !has("  ") && has_commas {
        |line| line.contains(',').then(|| by_delimiter(line, b','))
    } else {
        has_blanks = true;
        by_blanks
    };
    let indent = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let indents = text.lines().filter(|line| !line.trim().is_empty());
    let indent = indents.map(indent).min().unwrap_or(0);
    let mut grid = Grid::default();
    let mut words = Vec::new();
    for (line, text) in lines() {
        if is_rule(text) {
            grid.has_rule |= grid.rows.len() == 1;
            continue;
        }
        let cells = apart(text.get(indent..).unwrap_or_default().trim_end());
        if cells.is_none() {
            words.push(grid.rows.len());
        }
        grid.rows.push(Row {
            line,
            text: text.to_owned(),
            cells: cells.unwrap_or_else(|| vec![text.trim().to_owned()]),
        });
    }
    let has_columns = words.len() < grid.rows.len() && !has_blanks;
    by_words(&mut grid, &words, has_columns)?;
    for name in grid.rows.iter_mut().filter_map(|row| row.cells.first_mut()) {
        *name = name.trim_end_matches([':', '=', ' ']).to_owned();
    }
    grid.rows
        .retain(|row| row.cells.iter().any(|cell| !cell.is_empty()));
    Ok(vec![grid])
}

/// Whether a line has no text, but rules between lines.
pub(super) fn is_rule(line: &str) -> bool {
    let line = line.trim();
    line.contains(['-', '=']) && line.chars().all(|one| " |+-=:".contains(one))
}

fn owned<'a>(cells: impl Iterator<Item = &'a str>) -> Vec<String> {
    cells.map(|cell| plain(cell).to_owned()).collect()
}

fn blocks<'a>(lines: impl Iterator<Item = (usize, &'a str)>) -> Vec<Grid> {
    let mut grids = vec![Grid::default()];
    for (line, text) in lines {
        let last = grids.len() - 1;
        let grid = &mut grids[last];
        if is_rule(text) {
            grid.has_rule |= grid.rows.len() == 1;
        } else if text.contains('|') {
            let inside = text.trim();
            let inside = inside.strip_prefix('|').unwrap_or(inside);
            let inside = inside.strip_suffix('|').unwrap_or(inside);
            // A bar that Markdown escapes is one in a name.
            let escaped = inside.replace("\\|", "\u{1}");
            let cells = escaped.split('|').map(|cell| cell.replace('\u{1}', "|"));
            grid.rows.push(Row {
                line,
                text: text.to_owned(),
                cells: cells.map(|cell| plain(&cell).to_owned()).collect(),
            });
        } else if !grid.rows.is_empty() {
            grids.push(Grid::default());
        }
    }
    grids.retain(|grid| !grid.rows.is_empty());
    grids
}

/// The cells of a line of RFC 4180, in which quotes keep a delimiter.
fn by_delimiter(text: &str, delimiter: u8) -> Vec<String> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .delimiter(delimiter)
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let record = reader.records().next().and_then(Result::ok);
    record.map_or_else(Vec::new, |record| owned(record.iter()))
}

fn by_blanks(text: &str) -> Option<Vec<String>> {
    if !text.trim().contains("  ") {
        return None;
    }
    let cells = text.split("  ").filter(|cell| !cell.trim().is_empty());
    let mut cells = owned(cells);
    let is_number = |cell: &String| matches!(Cell::read(cell), Cell::Value(_) | Cell::Share(_));
    // A heading above the columns alone, without one for the names.
    if text.starts_with("  ") && !cells.iter().any(is_number) {
        cells.insert(0, String::new());
    }
    Some(cells)
}

/// The words of a line from the first that may be a number.
struct Words {
    name: String,
    cells: Vec<String>,
}

/// Divides lines whose words are one blank apart. A name may end with a number, as `Player 5` does:
/// how many numbers are values is decided by all lines together.
///
/// # Errors
/// If a line is not understood, or has no columns where others have.
fn by_words(grid: &mut Grid, lines: &[usize], has_columns: bool) -> Result<(), ImportError> {
    let mut found: Vec<(usize, Words)> = Vec::new();
    for place in lines {
        let row = &grid.rows[*place];
        let text = row.cells[0].trim_start_matches(['-', '*', ' ']).to_owned();
        let Some(words) = words(&text) else {
            let has_begun = !found.is_empty() && !text.is_empty();
            if has_begun && text.chars().any(|one| one.is_ascii_digit()) {
                return Err(row.refused("it ends with no number"));
            }
            // A title, or a sentence below.
            grid.rows[*place].cells.clear();
            continue;
        };
        if words.name.starts_with('#') {
            grid.rows[*place].cells.clear();
            continue;
        }
        if has_columns {
            return Err(row.refused("it has no columns, and other lines have"));
        }
        if is_prompt(&words.name) {
            return Err(row.refused("it is a command line of a shell: leave it out"));
        }
        if words.name.is_empty() || words.name.split(' ').count() > WORDS {
            return Err(row.refused("it begins with no name of a target"));
        }
        found.push((*place, words));
    }
    let bare = found.iter().filter(|(_, words)| words.is_bare());
    let least = bare.map(|(_, words)| words.cells.len()).min();
    for (place, mut words) in found {
        let row = &mut grid.rows[place];
        let excess = match words.is_bare() {
            true => words.cells.len() - least.unwrap_or(0),
            // Numbers without a unit before one that has it.
            false => words.cells.iter().take_while(|cell| is_bare(cell)).count(),
        };
        let is_whole = |cell: &String| cell.bytes().all(|one| one.is_ascii_digit());
        let (of_name, values) = words.cells.split_at(excess);
        let is_of_name = of_name.iter().all(is_whole) && !values.iter().any(is_whole);
        if excess > 0 && !is_of_name {
            return Err(
                row.refused("it has more numbers than other lines: put ; between the columns")
            );
        }
        let is_odd = values.len() > 1 && is_whole(&values[0]) && !values[1..].iter().any(is_whole);
        if words.is_bare() && is_odd {
            return Err(row.refused(format!(
                "whether {} belongs to the name is not known: put ; between the columns",
                values[0]
            )));
        }
        let values = words.cells.split_off(excess);
        let name: Vec<_> = std::iter::once(words.name).chain(words.cells).collect();
        row.cells = std::iter::once(name.join(" ")).chain(values).collect();
    }
    Ok(())
}

fn is_bare(cell: &str) -> bool {
    match Cell::read(cell) {
        Cell::Value(value) => value.quantity.is_none(),
        Cell::Wrong(_) => !cell.contains(' '),
        _ => false,
    }
}

impl Words {
    fn is_bare(&self) -> bool {
        self.cells.iter().all(|cell| is_bare(cell))
    }
}

fn is_prompt(name: &str) -> bool {
    let mut words = name.split(' ');
    name.starts_with(['$', '%', '>'])
        || words.any(|word| word.ends_with(['$', '#']) && word.contains(['@', '~', ']']))
        || name.contains("]$")
}

/// The numbers at the end of a line, with their units; none if there is none.
fn words(text: &str) -> Option<Words> {
    let mut words: Vec<&str> = text.split_whitespace().collect();
    let mut cells = Vec::new();
    while let Some(last) = words.pop() {
        if last.ends_with([':', '=']) {
            words.push(last);
            break;
        }
        let before = words.last().copied().unwrap_or_default();
        let is_unit = last == "%" || super::quantity::Quantity::of(last).is_some();
        if is_unit && matches!(Cell::read(before), Cell::Value(_) | Cell::Wrong(_)) {
            words.pop();
            cells.push(format!("{before} {last}"));
        } else if matches!(
            Cell::read(last),
            Cell::Value(_) | Cell::Share(_) | Cell::Wrong(_)
        ) {
            cells.push(last.to_owned());
        } else {
            words.push(last);
            break;
        }
    }
    cells.reverse();
    let name = words.join(" ");
    let name = name.trim_end_matches([':', '=', ' ']).to_owned();
    (!cells.is_empty()).then_some(Words { name, cells })
}
