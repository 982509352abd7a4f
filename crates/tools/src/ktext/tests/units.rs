//! Numbers as text.

use crate::ktext::{amount, ranges};

#[test]
fn bytes_have_units_of_1024() {
    for (bytes, text) in [
        (0, "0 kB"),
        (4097, "5 kB"),
        (1 << 20, "1.0 MB"),
        (10 << 30, "10.0 GB"),
        ((10 << 30) - (1 << 20), "10239.0 MB"),
    ] {
        assert_eq!(amount(bytes), text);
    }
}

#[test]
fn adjacent_numbers_are_ranges() {
    for (numbers, text) in [
        (&[][..], ""),
        (&[3], "3"),
        (&[0, 1, 2, 5, 7, 8], "0-2,5,7-8"),
        (&[1, 1], "1,1"),
        (&[u32::MAX - 1, u32::MAX], "4294967294-4294967295"),
    ] {
        assert_eq!(ranges(numbers), text);
    }
}
