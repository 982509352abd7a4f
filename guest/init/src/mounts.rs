//! Parser of `/proc/PID/mounts` (`proc_pid_mounts(5)`).

/// Mount point of a device, from a line of that file without its end. The result is in the line's
/// place, ended by NUL; `None` if the line is about another kind of file system.
pub fn point_of_device(line: &mut [u8]) -> Option<&[u8]> {
    let start = line.iter().position(|&byte| byte == b' ')? + 1;
    if !line.starts_with(b"/dev/") {
        return None;
    }
    let end = start + line.get(start..)?.iter().position(|&byte| byte == b' ')?;
    let (mut from, mut to) = (start, start);
    while from < end {
        let octal = line.get(from..from + 4).and_then(number);
        let (byte, step) = match octal {
            Some(byte) => (byte, 4),
            None => (*line.get(from)?, 1),
        };
        *line.get_mut(to)? = byte;
        (from, to) = (from + step, to + 1);
    }
    *line.get_mut(to)? = 0;
    line.get(start..=to)
}

/// Reads the octal number of an escape: a space, a tab, a newline and a backslash are `\040` and so
/// on.
fn number(text: &[u8]) -> Option<u8> {
    let digits = text.strip_prefix(b"\\")?;
    digits.iter().try_fold(0_u8, |sum, &digit| match digit {
        b'0'..=b'7' => sum.checked_mul(8)?.checked_add(digit - b'0'),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::point_of_device;

    fn point(line: &str) -> Option<Vec<u8>> {
        let mut line = Vec::from(line);
        point_of_device(&mut line).map(<[u8]>::to_vec)
    }

    #[test]
    fn only_devices_have_a_point() {
        let found = point("/dev/vdb /mnt/data ext4 rw,relatime 0 0");
        assert_eq!(found.unwrap(), b"/mnt/data\0");
        for line in [
            "proc /proc proc rw 0 0",
            "/dev/vdb",
            "/dev/vdb /mnt",
            "",
            " ",
            "overlay / overlay rw 0 0",
        ] {
            assert_eq!(point(line), None, "{line}");
        }
    }

    #[test]
    fn what_is_escaped_is_as_it_was() {
        let found = point(r"/dev/vda1 /a\040b\134\011\012c xfs rw 0 0");
        assert_eq!(found.unwrap(), b"/a b\\\t\nc\0");
        let found = point(r"/dev/vda1 /a\04 xfs rw 0 0");
        assert_eq!(found.unwrap(), b"/a\\04\0");
        let found = point(r"/dev/vda1 /a\999\777 xfs rw 0 0");
        assert_eq!(found.unwrap(), b"/a\\999\\777\0");
    }
}
