//! The file `stats`: whether replication is on, and its counts. Pure.

use serde::Serialize;

use super::FormatError;
use super::table::Table;

/// Size of a page, bytes.
pub(super) const PAGE: u64 = 4096;

/// Counts of the kernel. Pages have 4096 bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Whether CPUs run on the copies.
    pub is_active: bool,
    /// Why the kernel has not made any; none if it has.
    pub off_reason: Option<String>,
    /// Sets of page tables beside the master's: one for each node with memory and CPUs that does not
    /// hold the kernel image.
    pub slots: u64,
    /// Pages of copies of the kernel image.
    pub resident_pages: u64,
    /// Pages of copies of modules.
    pub module_pages: u64,
    /// Pages of the slots' page tables.
    pub page_table_pages: u64,
    /// Pages that should have a copy and have none.
    pub page_alloc_failures: u64,
    /// Page tables that could not be allocated.
    pub pgtbl_alloc_failures: u64,
    /// Top-level page tables of processes that could not be allocated.
    pub pgd_alloc_failures: u64,
}

impl Stats {
    /// Parses the file `stats`.
    ///
    /// # Errors
    /// If it is not as the kernel writes it.
    pub(super) fn parse(text: &str) -> Result<Self, FormatError> {
        let table = Table::parse("stats", text)?;
        let row = |name: &str| {
            let mut rows = table.rows();
            let found = rows.find(|row| row.text("name").is_ok_and(|text| text == name));
            found.ok_or_else(|| FormatError {
                file: "stats",
                line: 1,
                reason: format!("there is no row {name}"),
            })
        };
        let number = |name: &str| row(name)?.number("value");
        let reason = row("off_reason")?.text("value")?;
        Ok(Self {
            is_active: match number("active")? {
                0 => false,
                1 => true,
                other => return Err(row("active")?.wrong("value", &other.to_string(), "0 or 1")),
            },
            off_reason: (!reason.is_empty()).then(|| reason.to_owned()),
            slots: number("slots")?,
            resident_pages: number("resident_pages")?,
            module_pages: number("module_pages")?,
            page_table_pages: number("page_table_pages")?,
            page_alloc_failures: number("page_alloc_failures")?,
            pgtbl_alloc_failures: number("pgtbl_alloc_failures")?,
            pgd_alloc_failures: number("pgd_alloc_failures")?,
        })
    }

    /// Why CPUs do not run on copies; none if they do.
    #[must_use]
    pub fn why_off(&self) -> Option<String> {
        if self.is_active {
            return None;
        }
        Some(match &self.off_reason {
            Some(reason) => reason.clone(),
            None => "it was switched off; brisk ktext on switches it on".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ON: &str = "name\tvalue\nactive\t1\noff_reason\t\nslots\t1\nresident_pages\t3600\n\
                      module_pages\t32\npage_table_pages\t9\npage_alloc_failures\t2\n\
                      pgtbl_alloc_failures\t3\npgd_alloc_failures\t4\n";

    #[test]
    fn counts_have_names() {
        let stats = Stats::parse(ON).unwrap();
        assert!(stats.is_active);
        assert_eq!((stats.off_reason.as_deref(), stats.why_off()), (None, None));
        assert_eq!((stats.slots, stats.resident_pages), (1, 3600));
        assert_eq!((stats.module_pages, stats.page_table_pages), (32, 9));
        let failures = (stats.page_alloc_failures, stats.pgtbl_alloc_failures);
        assert_eq!((failures, stats.pgd_alloc_failures), ((2, 3), 4));
        let off = ON.replace("active\t1", "active\t0");
        let why = Stats::parse(&off).unwrap().why_off().unwrap();
        assert!(why.contains("brisk ktext on"), "{why}");
        let refused = off.replace("off_reason\t", "off_reason\trodata=off");
        let why = Stats::parse(&refused).unwrap().why_off();
        assert_eq!(why.as_deref(), Some("rodata=off"));
    }

    #[test]
    fn counts_that_are_missing_or_wrong_are_errors() {
        for (from, to, error) in [
            ("slots\t1\n", "", "stats, line 1: there is no row slots"),
            (
                "active\t1",
                "active\t2",
                "stats, line 2: value is \"2\", and not 0 or 1",
            ),
            (
                "resident_pages\t3600",
                "resident_pages\t-1",
                "stats, line 5: value is \"-1\", and not a number",
            ),
        ] {
            let found = Stats::parse(&ON.replace(from, to)).unwrap_err();
            assert_eq!(found.to_string(), error);
        }
        assert!(Stats::parse("x\ty\nactive\t1\n").is_err());
    }
}
