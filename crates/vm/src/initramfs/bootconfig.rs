//! Boot configuration behind an initramfs, which the kernel cuts off before it unpacks the rest.
//!
//! Sources: `Documentation/admin-guide/bootconfig.rst`, and `get_boot_config_from_initrd` in
//! `init/main.c`.

const MAGIC: &[u8] = b"#BOOTCONFIG\n";
/// Size and checksum before the magic text.
const FOOTER: usize = 8;
/// Zeros that a boot loader may have put behind it.
const PADDING: usize = 3;
/// Largest configuration, bytes (`XBC_DATA_MAX` of `include/linux/bootconfig.h`).
const LARGEST: usize = 32 << 10;
/// Bytes from the end that [`bootconfig_size`] has to see.
pub const BOOTCONFIG_TAIL: usize = LARGEST + FOOTER + MAGIC.len() + PADDING;

/// Bytes at the end of an initramfs that are a boot configuration; 0 if there is none. `tail` is the
/// end of the initramfs, [`BOOTCONFIG_TAIL`] bytes of it or all.
#[must_use]
pub fn bootconfig_size(tail: &[u8]) -> usize {
    let found = (0..=PADDING).find_map(|padding| {
        let (rest, zeros) = tail.split_at_checked(tail.len().checked_sub(padding)?)?;
        let is_padding = zeros.iter().all(|byte| *byte == 0);
        let rest = rest.strip_suffix(MAGIC).filter(|_| is_padding)?;
        let (rest, footer) = rest.split_last_chunk::<FOOTER>()?;
        let [a, b, c, d, e, f, g, h] = *footer;
        let size = u32::from_le_bytes([a, b, c, d]) as usize;
        let content = &rest[rest.len().checked_sub(size)?..];
        let sum = content
            .iter()
            .fold(0_u32, |sum, byte| sum.wrapping_add((*byte).into()));
        let is_whole = sum == u32::from_le_bytes([e, f, g, h]);
        is_whole.then_some(size + FOOTER + MAGIC.len() + padding)
    });
    found.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_an_initramfs() {
        let content = b"kernel.root = \"/dev/sda2\"\0";
        let sum: u32 = content.iter().map(|byte| u32::from(*byte)).sum();
        let footer = |size: u32, sum: u32| [size.to_le_bytes(), sum.to_le_bytes()].concat();
        let size = content.len() as u32;
        let good = [b"archive", &content[..], &footer(size, sum), MAGIC].concat();
        let own = good.len() - 7;
        assert_eq!(bootconfig_size(&good), own);
        assert_eq!(bootconfig_size(&[&good[..], &[0; 3]].concat()), own + 3);
        assert_eq!(bootconfig_size(&good[3..]), own);
        for bad in [
            [b"archive", &content[..], &footer(size, sum + 1), MAGIC].concat(),
            [b"archive", &content[..], &footer(u32::MAX, sum), MAGIC].concat(),
            [&good[..], b"x"].concat(),
            MAGIC.to_vec(),
            Vec::new(),
        ] {
            assert_eq!(bootconfig_size(&bad), 0, "{bad:?}");
        }
    }
}
