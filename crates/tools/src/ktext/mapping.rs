//! The file `map`: which memory each node's page tables map kernel text and read-only data to. Pure.

use serde::{Serialize, Serializer};

use super::table::{Row, Table};
use super::{FormatError, hexadecimal};

/// Where the kernel image is mapped at most: `__START_KERNEL_map` and the module area behind it
/// (`Documentation/arch/x86/x86_64/mm.rst`).
const IMAGE: std::ops::Range<u64> = 0xffff_ffff_8000_0000..0xffff_ffff_c000_0000;
/// A page, bytes.
const PAGE: u64 = 4096;
/// A large page, bytes.
pub(super) const LARGE_PAGE: u64 = 2 << 20;

/// Part of the kernel image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Instructions.
    Text,
    /// Read-only data.
    Rodata,
}

impl Kind {
    /// As the kernel names it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Rodata => "rodata",
        }
    }

    /// That of a row's column `kind`.
    pub(super) fn of(row: &Row<'_>) -> Result<Self, FormatError> {
        match row.text("kind")? {
            "text" => Ok(Self::Text),
            "rodata" => Ok(Self::Rodata),
            other => Err(row.wrong("kind", other, "text or rodata")),
        }
    }
}

/// Owner of the memory that is mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Backing {
    /// The node's copy.
    Copy,
    /// That of the kernel without replication.
    Master,
}

impl Backing {
    /// As the kernel names it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Master => "master",
        }
    }
}

/// What may be done with mapped memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Protection {
    /// Whether anything is mapped.
    pub is_readable: bool,
    /// Whether it can be written.
    pub is_writable: bool,
    /// Whether it can be executed.
    pub is_executable: bool,
}

impl Protection {
    /// Parses `r-x`.
    fn parse(text: &str) -> Option<Self> {
        let [read, write, execute] = text.as_bytes() else {
            return None;
        };
        let is = |byte: u8, letter: u8| match byte {
            b'-' => Some(false),
            byte if byte == letter => Some(true),
            _ => None,
        };
        Some(Self {
            is_readable: is(*read, b'r')?,
            is_writable: is(*write, b'w')?,
            is_executable: is(*execute, b'x')?,
        })
    }

    /// As the kernel writes it: `r-x`.
    #[must_use]
    pub fn text(self) -> String {
        let letters = [
            (self.is_readable, 'r'),
            (self.is_writable, 'w'),
            (self.is_executable, 'x'),
        ];
        let shown = letters.map(|(is, letter)| if is { letter } else { '-' });
        shown.into_iter().collect()
    }
}

impl Serialize for Protection {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text())
    }
}

/// A range of kernel addresses as the page tables of one node map it: to adjacent physical memory, by
/// pages of one size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mapping {
    /// The node.
    pub node: u32,
    /// What it is.
    pub kind: Kind,
    /// First address.
    #[serde(serialize_with = "hexadecimal")]
    pub virtual_address: u64,
    /// Physical address of that.
    #[serde(serialize_with = "hexadecimal")]
    pub physical_address: u64,
    /// Bytes.
    pub size: u64,
    /// Node that has the memory; none if the kernel does not know.
    pub memory_node: Option<u32>,
    /// Size of the pages by which it is mapped, bytes: 4096 or 2097152.
    pub page_size: u64,
    /// What may be done with it.
    pub protection: Protection,
    /// Owner of the memory.
    pub backing: Backing,
}

impl Mapping {
    /// Address behind it.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.virtual_address.saturating_add(self.size)
    }

    /// Whether the node has to fetch it from another one, although it is mapped.
    #[must_use]
    pub fn is_remote(&self) -> bool {
        self.protection.is_readable && self.memory_node != Some(self.node)
    }

    fn of(row: &Row<'_>) -> Result<Self, FormatError> {
        let (start, size) = (row.address("va")?, row.number("size")?);
        let is_inside = start >= IMAGE.start && size <= IMAGE.end - IMAGE.start;
        if !is_inside || size == 0 || IMAGE.end - size < start || (start | size) % PAGE != 0 {
            let text = format!("{start:#x}, size {size}");
            return Err(row.wrong("va", &text, "whole pages of the kernel image"));
        }
        let page_size = row.number("leaf")?;
        if page_size != PAGE && page_size != LARGE_PAGE {
            return Err(row.wrong("leaf", &page_size.to_string(), "4096 or 2097152"));
        }
        let protection = row.text("prot")?;
        let backing = match row.text("state")? {
            "copy" => Backing::Copy,
            "master" => Backing::Master,
            other => return Err(row.wrong("state", other, "copy or master")),
        };
        Ok(Self {
            node: row.known_node("node")?,
            kind: Kind::of(row)?,
            virtual_address: start,
            physical_address: row.address("pa")?,
            size,
            memory_node: row.node("pa_node")?,
            page_size,
            protection: Protection::parse(protection)
                .ok_or_else(|| row.wrong("prot", protection, "such as r-x"))?,
            backing,
        })
    }
}

/// Parses the file `map`.
///
/// # Errors
/// If it is not as the kernel writes it.
pub(super) fn parse(text: &str) -> Result<Vec<Mapping>, FormatError> {
    let table = Table::parse("map", text)?;
    table.rows().map(|row| Mapping::of(&row)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "node\tva\tsize\tpa\tpa_node\tprot\tkind\tleaf\tstate\n";

    fn row(text: &str) -> Result<Vec<Mapping>, FormatError> {
        parse(&format!("{HEAD}{}\n", text.replace(' ', "\t")))
    }

    #[test]
    fn a_row_is_a_range_of_one_node() {
        let found = row("1 0xffffffff81000000 2097152 0x7fe00000 1 r-x text 2097152 copy");
        let [mapping] = &found.unwrap()[..] else {
            panic!("one row");
        };
        assert_eq!(mapping.end(), 0xffff_ffff_8120_0000);
        assert_eq!(mapping.protection.text(), "r-x");
        assert_eq!((mapping.kind, mapping.backing), (Kind::Text, Backing::Copy));
        assert!(!mapping.is_remote());
        let json = serde_json::to_value(mapping).unwrap();
        assert_eq!(json["virtual_address"], "0xffffffff81000000");
        assert_eq!(json["protection"], "r-x");
        let remote = |text: &str| row(text).unwrap()[0].is_remote();
        assert!(remote(
            "1 0xffffffff81000000 4096 0x1000000 0 r-- rodata 4096 master"
        ));
        // Nothing is mapped there.
        assert!(!remote(
            "1 0xffffffff81000000 4096 0x0 0 --- rodata 4096 master"
        ));
        assert!(remote(
            "1 0xffffffff81000000 4096 0x0 -1 r-- rodata 4096 master"
        ));
    }

    #[test]
    fn rows_that_cannot_be_are_errors() {
        for (text, words) in [
            (
                "-1 0xffffffff81000000 4096 0x0 0 r-x text 4096 copy",
                "node",
            ),
            ("1 0xffffffff81000001 4096 0x0 0 r-x text 4096 copy", "va"),
            ("1 0xffffffff81000000 0 0x0 0 r-x text 4096 copy", "va"),
            ("1 0xffffffff81000000 4097 0x0 0 r-x text 4096 copy", "va"),
            ("1 0x1000 4096 0x0 0 r-x text 4096 copy", "va"),
            (
                "1 0xffffffff81000000 18446744073709547520 0x0 0 r-x text 4096 copy",
                "va",
            ),
            ("1 0xffffffffbffff000 8192 0x0 0 r-x text 4096 copy", "va"),
            ("1 0xfffffffffffff000 8192 0x0 0 r-x text 4096 copy", "va"),
            ("1 0xffffffff81000000 4096 0x0 0 rx text 4096 copy", "prot"),
            ("1 0xffffffff81000000 4096 0x0 0 r-s text 4096 copy", "prot"),
            ("1 0xffffffff81000000 4096 0x0 0 r-x bss 4096 copy", "kind"),
            ("1 0xffffffff81000000 4096 0x0 0 r-x text 8192 copy", "leaf"),
            ("1 0xffffffff81000000 4096 0x0 0 r-x text 4096 own", "state"),
            ("1 0xffffffff81000000 4096 zero 0 r-x text 4096 copy", "pa"),
        ] {
            let error = row(text).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("map, line 2: {words} is ")),
                "{error}"
            );
        }
        let last = row("1 0xffffffffbffff000 4096 0x0 0 r-x text 4096 copy");
        assert_eq!(last.unwrap()[0].end(), IMAGE.end);
    }
}
