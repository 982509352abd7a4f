//! Tables that people write: targets in lines with their times, or tests in lines and targets in
//! columns. Pure.
//!
//! Which of them it is follows from the heading. A number is in seconds only where a line has a
//! target and nothing else is said; where neither cell, line nor column has a unit that is known, the
//! table is refused. Cells with `%` are shares; a target without another number has it from its share
//! of the first.

use super::cell::{Cell, Value};
use super::grid::{Grid, Row, grids};
use super::heading::{Column, Lines, TIMES};
use super::quantity::Quantity;
use super::{Entry, ImportError, Imported, Origin};

/// How far a share may be from that of the numbers beside it, in points of percent.
const ROUNDED: f64 = 0.6;

/// What makes results of several tables the same, beside their titles.
const KEY: &str = "table";

pub(super) fn parse(text: &str) -> Result<Vec<Imported>, ImportError> {
    let mut found = Vec::new();
    for grid in grids(text)? {
        found.extend(of_grid(grid)?);
    }
    match found.is_empty() {
        true => Err(ImportError::Nothing(
            "a table has a name and seconds in each line, for example host;12.5",
        )),
        false => Ok(found),
    }
}

/// Words of headings that no line begins with.
fn is_heading(grid: &Grid, first: &Row) -> bool {
    let name = first.name();
    grid.has_rule
        || name.is_empty()
        || Lines::of(name) == Lines::Tests
        || (!first.has_number() && first.cells.len() > 1)
        || names_units(first)
}

/// Whether a line without a number has a unit behind a name, which may begin with a digit.
fn names_units(first: &Row) -> bool {
    let is_value = |cell| matches!(cell, Cell::Value(_) | Cell::Share(_));
    let mut cells = first.cells.iter().skip(1);
    !first.values().any(is_value) && cells.any(|cell| Quantity::behind(cell).is_some())
}

fn of_grid(mut grid: Grid) -> Result<Vec<Imported>, ImportError> {
    // What stands above a table and has one cell is its title.
    let begin = grid.rows.iter().position(|row| row.cells.len() > 1);
    if !grid.has_rule {
        grid.rows.drain(..begin.unwrap_or(grid.rows.len()));
    }
    let Some(first) = grid.rows.first() else {
        return Ok(Vec::new());
    };
    let heading = is_heading(&grid, first).then(|| grid.rows.remove(0));
    grid.rows
        .retain(|row| row.cells.iter().skip(1).any(|cell| !cell.is_empty()));
    if !grid.rows.iter().any(Row::has_number) {
        return Ok(Vec::new());
    }
    if let Some(row) = grid.rows.iter().find(|row| !row.has_number()) {
        return Err(row.refused(format!("{} has no number", row.name())));
    }
    let nameless = grid.rows.iter().find(|row| row.name().is_empty());
    if let Some(row) = nameless {
        return Err(row.refused("it has no name before its numbers"));
    }
    for row in &grid.rows {
        let wrong = row.values().find_map(|cell| match cell {
            Cell::Wrong(reason) => Some(reason),
            _ => None,
        });
        // A remark may begin with a digit, as a version does, where its heading says so.
        if let (Some(reason), true) = (wrong, heading.is_none()) {
            return Err(row.refused(format!("{}: {reason}", row.name())));
        }
    }
    match heading {
        None => without_heading(&grid.rows),
        Some(heading) => with_heading(&heading, &grid.rows),
    }
}

fn without_heading(rows: &[Row]) -> Result<Vec<Imported>, ImportError> {
    if let Some(row) = rows
        .iter()
        .find(|row| Quantity::behind(row.name()).is_some())
    {
        return Err(row.refused(format!(
            "{} is a test, and no line above has the names of the systems in the columns",
            row.name()
        )));
    }
    let columns = rows.iter().map(|row| row.cells.len()).max().unwrap_or(0);
    let runs: Vec<_> = (1..columns)
        .map(|place| (place, Column::Run(None)))
        .collect();
    Ok(vec![of_systems("", &runs, rows)?])
}

fn with_heading(heading: &Row, rows: &[Row]) -> Result<Vec<Imported>, ImportError> {
    let widest = rows.iter().max_by_key(|row| row.cells.len());
    if let Some(row) = widest.filter(|row| row.cells.len() > heading.cells.len()) {
        let (cells, names) = (row.cells.len(), heading.cells.len());
        return Err(row.refused(format!(
            "it has {cells} columns, and the heading (line {}) has {names}",
            heading.line
        )));
    }
    let has_number = |place: usize| {
        let mut cells = rows.iter().filter_map(|row| row.cells.get(place));
        cells.any(|cell| {
            let cell = Cell::read(cell);
            matches!(cell, Cell::Value(_) | Cell::Share(_) | Cell::Wrong(_))
        })
    };
    let columns = heading.cells.iter().enumerate().skip(1);
    let columns = columns.map(|(place, text)| (place, Column::of(text)));
    let columns: Vec<_> = columns
        .filter(|(place, column)| *column == Column::Unit || has_number(*place))
        .filter(|(_, column)| *column != Column::Beside)
        .collect();
    for row in rows {
        for (place, _) in &columns {
            if let Some(Cell::Wrong(reason)) = row.cells.get(*place).map(|cell| Cell::read(cell)) {
                return Err(row.refused(format!("{}: {reason}", row.name())));
            }
        }
    }
    let lines = Lines::of(heading.name());
    let columns = match lines == Lines::Systems || columns.len() == 1 {
        true => with_units_of_cells(columns, rows),
        false => columns,
    };
    let has_names = columns
        .iter()
        .any(|(_, column)| matches!(column, Column::Name(_)));
    match (lines, has_names) {
        (Lines::Tests, _) | (Lines::Unknown, true) => of_tests(heading, &columns, rows),
        (Lines::Systems, true) => {
            let named = columns.iter().find_map(|(_, column)| match column {
                Column::Name(name) => Some(name),
                _ => None,
            });
            Err(heading.refused(format!(
                "what the numbers below {0} are is not said: write {0} (s), or a rate such as \
                 {0} (MB/s)",
                named.map_or("", String::as_str)
            )))
        }
        (_, false) => results_of_systems(heading, &columns, rows),
    }
}

/// The columns, of which those without a unit have that of their cells, if all of these have one.
fn with_units_of_cells(columns: Vec<(usize, Column)>, rows: &[Row]) -> Vec<(usize, Column)> {
    let of_cells = |place: usize| {
        let cells = rows.iter().filter_map(|row| row.cells.get(place));
        let mut values = cells.filter_map(|cell| match Cell::read(cell) {
            Cell::Value(value) => Some(value.quantity),
            _ => None,
        });
        let first = values.next()??;
        values.all(|one| one.is_some()).then_some(first)
    };
    let columns = columns.into_iter().map(|(place, column)| {
        let quantity = of_cells(place);
        match (column, quantity) {
            (Column::Name(name), Some(quantity)) => (place, Column::Result(name, quantity)),
            (column, _) => (place, column),
        }
    });
    columns.collect()
}

/// A result for each column that has one.
fn results_of_systems(
    heading: &Row,
    columns: &[(usize, Column)],
    rows: &[Row],
) -> Result<Vec<Imported>, ImportError> {
    let is_result = |column: &Column| matches!(column, Column::Result(..));
    let is_run = |column: &Column| matches!(column, Column::Run(_));
    let is_mean = |column: &Column| matches!(column, Column::Mean(_));
    let of = |wanted: &dyn Fn(&Column) -> bool| -> Vec<(usize, Column)> {
        let chosen = columns.iter().filter(|(_, column)| wanted(column));
        chosen.cloned().collect()
    };
    let shares = of(&|column| *column == Column::Share);
    let (results, runs, means) = (of(&is_result), of(&is_run), of(&is_mean));
    let mut found = Vec::new();
    // A mean stands beside its runs, or alone.
    let one = if runs.is_empty() { &means } else { &runs };
    let is_alone = results.len() + usize::from(!one.is_empty()) == 1;
    let shares = if is_alone { shares } else { Vec::new() };
    if !one.is_empty() {
        let columns: Vec<_> = one.iter().chain(&shares).cloned().collect();
        found.push(of_systems("", &columns, rows)?);
    }
    for (place, column) in results {
        let Column::Result(name, quantity) = &column else {
            continue;
        };
        let title = match (is_alone, &**name) {
            (true, _) => "",
            (false, "") => &*quantity.unit,
            (false, name) => name,
        };
        let title = title.to_owned();
        let columns = std::iter::once((place, column)).chain(shares.clone());
        found.push(of_systems(&title, &columns.collect::<Vec<_>>(), rows)?);
    }
    match found.is_empty() {
        true => Err(heading.refused("no column of it has times, rates or runs")),
        false => Ok(found),
    }
}

/// A line with its numbers in one unit.
struct Line<'a> {
    row: &'a Row,
    values: Vec<Value>,
    share: Option<f64>,
}

/// The unit of numbers; an error if they have several.
fn unit<'a>(
    row: &Row,
    values: impl Iterator<Item = &'a Quantity>,
) -> Result<Option<Quantity>, ImportError> {
    let mut unit: Option<Quantity> = None;
    for quantity in values {
        let known = unit.get_or_insert_with(|| quantity.clone());
        if known.unit != quantity.unit {
            return Err(row.refused(format!(
                "{}: {} and {} are not the same unit",
                row.name(),
                known.unit,
                quantity.unit
            )));
        }
    }
    Ok(unit)
}

/// A value in the unit of its quantity, which is that of its column if it has none.
fn scaled(value: &Value, of_column: Option<&Quantity>) -> f64 {
    let quantity = value.quantity.as_ref().or(of_column);
    value.number * quantity.map_or(1.0, |quantity| quantity.factor)
}

fn of_systems(
    title: &str,
    columns: &[(usize, Column)],
    rows: &[Row],
) -> Result<Imported, ImportError> {
    let has_means = |column: &Column| matches!(column, Column::Mean(_));
    let are_means = columns.iter().any(|(_, column)| has_means(column));
    let mut of_column: Option<Quantity> = None;
    let mut lines = Vec::new();
    for row in rows {
        let mut line = Line {
            row,
            values: Vec::new(),
            share: None,
        };
        for (place, column) in columns {
            let quantity = match column {
                Column::Run(quantity) | Column::Mean(quantity) => quantity.clone(),
                Column::Result(_, quantity) => Some(quantity.clone()),
                _ => None,
            };
            of_column = of_column.or_else(|| quantity.clone());
            match row.cells.get(*place).map(|cell| Cell::read(cell)) {
                Some(Cell::Share(share)) => line.share = line.share.or(Some(share)),
                Some(Cell::Value(value)) if *column == Column::Share => {
                    line.share = line.share.or(Some(value.number));
                }
                Some(Cell::Value(value)) => line.values.push(Value {
                    quantity: value.quantity.or(quantity),
                    is_mean: value.is_mean || are_means,
                    ..value
                }),
                _ => {}
            }
        }
        // A column of another result may have this line's only numbers.
        if !line.values.is_empty() || line.share.is_some() {
            lines.push(line);
        }
    }
    let mut all = None;
    for line in &lines {
        let own = line.values.iter().filter_map(|one| one.quantity.as_ref());
        all = unit(line.row, all.iter().chain(own))?;
    }
    let quantity = all.or(of_column).unwrap_or_else(Quantity::seconds);
    let Some(first) = lines.first() else {
        return Err(ImportError::Nothing("a column without numbers"));
    };
    let base = median(first).ok_or_else(|| {
        let name = first.row.name();
        first.row.refused(format!(
            "{name} is the first, and has no seconds or rate, of which others could have a share"
        ))
    })?;
    let entries = lines.iter().map(|line| entry(line, base, &quantity));
    let entries = entries.collect::<Result<Vec<_>, _>>()?;
    Ok(Imported {
        key: Some(KEY.to_owned()),
        title: title.to_owned(),
        unit: quantity.unit,
        lower_is_better: quantity.lower_is_better,
        entries,
    })
}

fn median(line: &Line<'_>) -> Option<f64> {
    let values = line.values.iter().map(|value| scaled(value, None));
    brisk_measure::Statistic::Median.of(&values.collect::<Vec<_>>())
}

fn entry(line: &Line<'_>, base: f64, quantity: &Quantity) -> Result<Entry, ImportError> {
    let name = line.row.name();
    let number = median(line);
    if let (Some(number), Some(share)) = (number, line.share) {
        let computed = match quantity.lower_is_better {
            true => base / number * 100.0,
            false => number / base * 100.0,
        };
        if (computed - share).abs() > ROUNDED {
            let numbers = match quantity.lower_is_better {
                true => "seconds are",
                false => "rate is",
            };
            return Err(line.row.refused(format!(
                "{name} has {share} %, and its {numbers} {computed:.1} % of the first's speed"
            )));
        }
    }
    let of_share = line.share.map(|share| match quantity.lower_is_better {
        true => base / share * 100.0,
        false => base * share / 100.0,
    });
    let values: Vec<_> = line.values.iter().map(|one| scaled(one, None)).collect();
    Ok(Entry {
        name: name.to_owned(),
        origin: match &line.values[..] {
            [] => Origin::Share,
            values if values.iter().any(|value| value.is_mean) => Origin::Mean,
            [_] => Origin::Number,
            _ => Origin::Runs,
        },
        values: match number {
            Some(_) => values,
            None => of_share.into_iter().collect(),
        },
    })
}

/// A result for each line.
fn of_tests(
    heading: &Row,
    columns: &[(usize, Column)],
    rows: &[Row],
) -> Result<Vec<Imported>, ImportError> {
    let mut systems = Vec::new();
    let mut units = None;
    for (place, column) in columns {
        match column {
            Column::Name(name) => systems.push((*place, name)),
            Column::Unit => units = Some(*place),
            Column::Share => {}
            _ => {
                let name = &heading.cells[*place];
                return Err(heading.refused(format!(
                    "whether {name} is a system is not known: its lines are tests, and each column \
                     has to have the name of a system"
                )));
            }
        }
    }
    let corner = Quantity::behind(heading.name()).map(|(_, quantity)| quantity);
    let corner = corner.or_else(|| Quantity::of(heading.name()));
    let result = |row: &Row| {
        let mut values = Vec::new();
        for (place, system) in &systems {
            match row.cells.get(*place).map(|cell| Cell::read(cell)) {
                Some(Cell::Value(value)) => values.push((*system, value)),
                Some(Cell::Share(_)) => {
                    let name = row.name();
                    return Err(row.refused(format!("{name}: a share of what is not known")));
                }
                _ => {}
            }
        }
        let behind = Quantity::behind(row.name());
        let of_unit = units.and_then(|place| Quantity::of(row.cells.get(place)?));
        let title = match &behind {
            Some((name, _)) => name.clone(),
            None => row.name().to_owned(),
        };
        let is_time = TIMES.iter().any(|time| {
            let title = title.to_lowercase();
            title == *time || title.ends_with(&format!(" {time}"))
        });
        let of_row = behind.map(|(_, quantity)| quantity).or(of_unit);
        let of_row = of_row.or_else(|| corner.clone());
        let own = values.iter().filter_map(|(_, one)| one.quantity.as_ref());
        let quantity = unit(row, of_row.iter().chain(own))?;
        let quantity = quantity.or_else(|| is_time.then(Quantity::seconds));
        let Some(quantity) = quantity else {
            return Err(row.refused(format!(
                "what the numbers of {title} are is not said: write {title} (s), or a rate such as \
                 {title} (MB/s)"
            )));
        };
        let entries = values.iter().map(|(system, value)| Entry {
            name: (*system).clone(),
            values: vec![scaled(value, of_row.as_ref())],
            origin: match value.is_mean {
                true => Origin::Mean,
                false => Origin::Number,
            },
        });
        Ok(Imported {
            key: Some(KEY.to_owned()),
            title,
            unit: quantity.unit,
            lower_is_better: quantity.lower_is_better,
            entries: entries.collect(),
        })
    };
    rows.iter().map(result).collect()
}
