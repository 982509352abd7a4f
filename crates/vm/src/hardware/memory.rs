//! The memory of a guest.

/// The memory of a guest, and what is behind it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// Bytes at the start. None for QEMU's default.
    pub bytes: Option<u64>,
    /// Whether it is allocated before the start.
    pub preallocated: bool,
    /// Whether it is locked into the host's memory.
    pub locked: bool,
    /// Whether it is in huge pages that are set aside.
    pub huge_pages: bool,
    /// Whether other processes can map it.
    pub shared: bool,
    /// Whether the kernel may merge equal pages (KSM). None for the default, which is yes.
    pub merged: Option<bool>,
    /// File or directory that it is in.
    pub path: Option<String>,
}

/// A size as QEMU's `-m` takes it: MiB unless there is a suffix (`parse_memory_options`,
/// `qemu_strtosz_MiB`).
pub(super) fn size(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| c.is_ascii_alphabetic());
    let (number, suffix) = text.split_at(end.unwrap_or(text.len()));
    let shift = match suffix {
        "" | "m" | "M" => 20,
        "b" | "B" => 0,
        "k" | "K" => 10,
        "g" | "G" => 30,
        "t" | "T" => 40,
        _ => return None,
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let bytes = whole.parse::<u64>().ok()?.checked_mul(1 << shift)?;
    let fraction = match part {
        "" => 0.0,
        part => format!("0.{part}").parse::<f64>().ok()?,
    };
    bytes.checked_add((fraction * (1_u64 << shift) as f64) as u64)
}

/// A size as libvirt's XML has it: KiB unless there is a unit.
pub(super) fn size_with_unit(number: &str, unit: Option<&str>) -> Option<u64> {
    let number: u64 = number.trim().parse().ok()?;
    let bytes: u64 = match unit.unwrap_or("KiB") {
        "b" | "bytes" => 1,
        "KB" => 1000,
        "MB" => 1_000_000,
        "M" | "MiB" => 1 << 20,
        "GB" => 1_000_000_000,
        "G" | "GiB" => 1 << 30,
        "TB" => 1_000_000_000_000,
        "T" | "TiB" => 1 << 40,
        _ => 1 << 10,
    };
    number.checked_mul(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_qemu_are_in_mebibytes() {
        let mib = |text| size(text).map(|bytes| bytes >> 20);
        assert_eq!(mib("512"), Some(512));
        assert_eq!(mib("4194304k"), Some(4096));
        assert_eq!(mib("1.5G"), Some(1536));
        for none in ["", "x", "1X", "99999999T", "1.x", "-1", "1.5.5"] {
            assert_eq!(mib(none), None, "{none}");
        }
    }

    #[test]
    fn sizes_of_libvirt_have_units() {
        let mib = |number, unit| size_with_unit(number, unit).map(|bytes| bytes >> 20);
        assert_eq!(mib("2097152", None), Some(2048));
        assert_eq!(mib(" 3 ", Some("GiB")), Some(3072));
        assert_eq!(mib("99999999999999", Some("TiB")), None);
        assert_eq!(mib("much", None), None);
    }
}
