//! Tables as the kernel's debugfs has them: a line with the names of the columns, then rows,
//! separated by tabs. Pure.

use super::FormatError;

/// Rows of a table at most. A node may have a row for each 4 KiB page of two granules of 2 MiB.
const MOST_ROWS: usize = 1 << 18;
/// Columns of a table at most: `modules` has one for each node.
const MOST_COLUMNS: usize = super::MOST_NODES + 16;

/// A table, whose cells are looked up by the names of their columns.
#[derive(Debug)]
pub(super) struct Table<'a> {
    file: &'static str,
    columns: Vec<&'a str>,
    lines: Vec<Vec<&'a str>>,
}

impl<'a> Table<'a> {
    /// Splits the text of a file of this name.
    ///
    /// # Errors
    /// If there is no line of names, a row has another number of cells, the last line is cut off, or
    /// the table is larger than one of the kernel's can be.
    pub(super) fn parse(file: &'static str, text: &'a str) -> Result<Self, FormatError> {
        let wrong = |line: usize, reason: String| FormatError { file, line, reason };
        let mut lines = text.lines();
        let head = lines.next().filter(|head| !head.is_empty());
        let Some(head) = head else {
            return Err(wrong(1, "the line with the names is missing".to_owned()));
        };
        let columns: Vec<_> = head.split('\t').take(MOST_COLUMNS + 1).collect();
        if columns.len() > MOST_COLUMNS {
            return Err(wrong(1, format!("more than {MOST_COLUMNS} columns")));
        }
        let mut table = Self {
            file,
            columns,
            lines: Vec::new(),
        };
        for (place, line) in lines.enumerate() {
            let number = place + 2;
            if place >= MOST_ROWS {
                return Err(wrong(number, format!("more than {MOST_ROWS} rows")));
            }
            let cells: Vec<_> = line.split('\t').take(MOST_COLUMNS + 1).collect();
            let (count, names) = (cells.len(), table.columns.len());
            if count != names {
                return Err(wrong(
                    number,
                    format!("{count} cells, and there are {names} columns"),
                ));
            }
            table.lines.push(cells);
        }
        if !text.ends_with('\n') {
            let last = table.lines.len() + 1;
            return Err(wrong(last, "the line has no end: it is cut off".to_owned()));
        }
        Ok(table)
    }

    /// Names of the columns.
    pub(super) fn columns(&self) -> &[&'a str] {
        &self.columns
    }

    /// The rows.
    pub(super) fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.lines.iter().enumerate().map(|(place, cells)| Row {
            file: self.file,
            columns: &self.columns,
            line: place + 2,
            cells,
        })
    }
}

/// A row of a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row<'a> {
    file: &'static str,
    columns: &'a [&'a str],
    line: usize,
    cells: &'a [&'a str],
}

impl<'a> Row<'a> {
    /// Text of a column.
    ///
    /// # Errors
    /// If there is no such column.
    pub(super) fn text(&self, column: &str) -> Result<&'a str, FormatError> {
        let place = self.columns.iter().position(|name| *name == column);
        let cell = place.and_then(|place| self.cells.get(place).copied());
        cell.ok_or_else(|| FormatError {
            file: self.file,
            line: 1,
            reason: format!("there is no column {column}"),
        })
    }

    /// A decimal number.
    ///
    /// # Errors
    /// If there is none in the column.
    pub(super) fn number(&self, column: &str) -> Result<u64, FormatError> {
        let text = self.text(column)?;
        let number = text.parse().ok();
        number.ok_or_else(|| self.wrong(column, text, "a number"))
    }

    /// A hexadecimal number behind `0x`.
    ///
    /// # Errors
    /// If there is none in the column.
    pub(super) fn address(&self, column: &str) -> Result<u64, FormatError> {
        let text = self.text(column)?;
        let digits = text.strip_prefix("0x");
        let number = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        number.ok_or_else(|| self.wrong(column, text, "an address such as 0xffffffff81000000"))
    }

    /// Number of a node; none where the kernel knows no node (`NUMA_NO_NODE`, -1).
    ///
    /// # Errors
    /// If it is no number that a node can have.
    pub(super) fn node(&self, column: &str) -> Result<Option<u32>, FormatError> {
        let text = self.text(column)?;
        if text == "-1" {
            return Ok(None);
        }
        let number = text.parse::<u32>().ok();
        let node = number.filter(|node| (*node as usize) < super::MOST_NODES);
        node.map(Some)
            .ok_or_else(|| self.wrong(column, text, "the number of a node"))
    }

    /// Number of a node that has to be known.
    ///
    /// # Errors
    /// As [`Row::node`], or if it is not known.
    pub(super) fn known_node(&self, column: &str) -> Result<u32, FormatError> {
        let node = self.node(column)?;
        node.ok_or_else(|| self.wrong(column, "-1", "the number of a node"))
    }

    /// An error about a cell.
    pub(super) fn wrong(&self, column: &str, text: &str, expected: &str) -> FormatError {
        let text: String = text.chars().take(40).collect();
        FormatError {
            file: self.file,
            line: self.line,
            reason: format!("{column} is {text:?}, and not {expected}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_found_by_the_names_of_their_columns() {
        let text = "node\tnew\tva\n1\tx\t0xffffffff81000000\n-1\t\t0x0\n";
        let table = Table::parse("map", text).unwrap();
        assert_eq!(table.columns(), ["node", "new", "va"]);
        let rows: Vec<_> = table.rows().collect();
        assert_eq!(rows[0].node("node"), Ok(Some(1)));
        assert_eq!(rows[0].address("va"), Ok(0xffff_ffff_8100_0000));
        assert_eq!(rows[1].node("node"), Ok(None));
        assert_eq!(rows[1].text("new"), Ok(""));
        for (error, text) in [
            (
                rows[0].number("new"),
                "map, line 2: new is \"x\", and not a number",
            ),
            (
                rows[1].number("size"),
                "map, line 1: there is no column size",
            ),
            (
                rows[0].address("node"),
                "map, line 2: node is \"1\", and not an address such as 0xffffffff81000000",
            ),
        ] {
            assert_eq!(error.unwrap_err().to_string(), text);
        }
        let error = rows[1].known_node("node").unwrap_err().to_string();
        assert_eq!(
            error,
            "map, line 3: node is \"-1\", and not the number of a node"
        );
    }

    #[test]
    fn what_is_no_table_is_an_error() {
        let long = "a\t".repeat(MOST_COLUMNS) + "b\n";
        let many = "a\n".repeat(MOST_ROWS + 2);
        for (text, words) in [
            ("", "the line with the names is missing"),
            ("\n", "the line with the names is missing"),
            ("a\tb\n1\n", "line 2: 1 cells, and there are 2 columns"),
            ("a\n1\t2\n", "line 2: 2 cells, and there are 1 columns"),
            ("a\tb\n1\t2\n3\t4", "line 3: the line has no end"),
            ("a", "line 1: the line has no end"),
            (&long, "more than 1040 columns"),
            (&many, "more than 262144 rows"),
        ] {
            let error = Table::parse("map", text).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn nodes_have_numbers_that_the_kernel_gives() {
        for (text, node) in [
            ("0", Some(0)),
            ("1023", Some(1023)),
            ("1024", None),
            ("-2", None),
        ] {
            let text = format!("node\n{text}\n");
            let table = Table::parse("cpus", &text).unwrap();
            let found = table.rows().next().unwrap().node("node");
            assert_eq!(found.ok().flatten(), node, "{text}");
        }
    }
}
