//! Parser of QEMU's trace of translated blocks.

/// Name of the event in QEMU's `accel/tcg/trace-events`.
pub(super) const EVENT: &str = "translate_block";

/// Addresses of the blocks, in the order of their translation.
///
/// A line is `translate_block tb:0x…, pc:0x…, tb_code:0x…`, perhaps after the time; other lines are
/// ignored.
pub(super) fn blocks(trace: &[u8]) -> impl Iterator<Item = u64> {
    trace
        .split(|&byte| byte == b'\n')
        .filter_map(|line| block(std::str::from_utf8(line).ok()?))
}

fn block(line: &str) -> Option<u64> {
    let (_, fields) = line.split_once(EVENT)?;
    let (_, address) = fields.split_once(" pc:0x")?;
    let (digits, _) = address.split_once(',')?;
    u64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_where_a_block_begins() {
        // Lines of QEMU 10.0.2, and of one with -msg timestamp=on.
        let trace = b"translate_block tb:0x7ff80c000040, pc:0xfffffff0, tb_code:0x7ff80c000100\n\
            cpu_reset x\n\xff\xfe\n\
            2026@1.5:translate_block tb:0x7f, pc:0xffffffff81000000, tb_code:0x7f\n\
            translate_block tb:0x7f, pc:0xffffffff810";
        let found: Vec<_> = blocks(trace).collect();
        assert_eq!(found, [0xffff_fff0, 0xffff_ffff_8100_0000]);
    }
}
