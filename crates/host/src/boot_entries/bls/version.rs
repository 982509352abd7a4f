//! The order of versions of the Version Format Specification (uapi-group.org), as systemd's
//! `strverscmp_improved` has it.

use std::cmp::Ordering;

/// Orders versions; `~` is before everything, also before the end.
pub(crate) fn compare_versions(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a.as_bytes(), b.as_bytes());
    loop {
        a = skip(a);
        b = skip(b);
        if let Some(order) = separated(&mut a, &mut b, b'~') {
            return order;
        }
        if a.is_empty() || b.is_empty() {
            return a.len().min(1).cmp(&b.len().min(1));
        }
        for separator in *b"-^." {
            if let Some(order) = separated(&mut a, &mut b, separator) {
                return order;
            }
        }
        let is_number = |text: &[u8]| text.first().is_some_and(u8::is_ascii_digit);
        let order = if is_number(a) || is_number(b) {
            let (x, y);
            (x, a) = segment(a, u8::is_ascii_digit);
            (y, b) = segment(b, u8::is_ascii_digit);
            // Numbers are newer than letters.
            let order = (!x.is_empty()).cmp(&!y.is_empty());
            let (x, y) = (without_zeros(x), without_zeros(y));
            order.then(x.len().cmp(&y.len())).then_with(|| x.cmp(y))
        } else {
            let (x, y);
            (x, a) = segment(a, u8::is_ascii_alphabetic);
            (y, b) = segment(b, u8::is_ascii_alphabetic);
            // Capital letters are before small ones, as in ASCII.
            x.cmp(y)
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

/// The order, if one of both has the separator: that is the older one. Else goes behind it.
fn separated(a: &mut &[u8], b: &mut &[u8], separator: u8) -> Option<Ordering> {
    let has = |text: &[u8]| text.first() == Some(&separator);
    match (has(a), has(b)) {
        (true, false) => Some(Ordering::Less),
        (false, true) => Some(Ordering::Greater),
        (true, true) => {
            *a = &a[1..];
            *b = &b[1..];
            None
        }
        (false, false) => None,
    }
}

fn skip(text: &[u8]) -> &[u8] {
    let is_part = |c: &u8| c.is_ascii_alphanumeric() || b"~-^.".contains(c);
    &text[text.iter().position(is_part).unwrap_or(text.len())..]
}

fn segment(text: &[u8], is_in: fn(&u8) -> bool) -> (&[u8], &[u8]) {
    text.split_at(text.iter().position(|c| !is_in(c)).unwrap_or(text.len()))
}

fn without_zeros(digits: &[u8]) -> &[u8] {
    &digits[digits.iter().take_while(|c| **c == b'0').count()..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn versions_of_the_specification() {
        // The examples of the specification.
        for (a, order, b) in [
            ("11", Ordering::Equal, "11"),
            ("systemd-123", Ordering::Equal, "systemd-123"),
            ("bar-123", Ordering::Less, "foo-123"),
            ("123a", Ordering::Greater, "123"),
            ("123.a", Ordering::Greater, "123"),
            ("123.a", Ordering::Less, "123.b"),
            ("123a", Ordering::Greater, "123.a"),
            ("11α", Ordering::Equal, "11β"),
            ("A", Ordering::Less, "a"),
            ("", Ordering::Less, "0"),
            ("0.", Ordering::Greater, "0"),
            ("0.0", Ordering::Greater, "0"),
            ("0", Ordering::Greater, "~"),
            ("", Ordering::Greater, "~"),
            ("1_", Ordering::Equal, "1"),
            ("1_2_3", Ordering::Greater, "1.3.3"),
            ("6.6.10-1-lts", Ordering::Greater, "6.6.9-1-lts"),
        ] {
            assert_eq!(compare_versions(a, b), order, "{a} {b}");
            assert_eq!(compare_versions(b, a), order.reverse(), "{b} {a}");
        }
    }

    proptest! {
        #[test]
        fn order_is_total(a in "[0-9a-bA.~^-]{0,8}", b in "[0-9a-bA.~^-]{0,8}", c in "[0-9a-bA.~^-]{0,8}") {
            prop_assert_eq!(compare_versions(&a, &b), compare_versions(&b, &a).reverse());
            if compare_versions(&a, &b).is_le() && compare_versions(&b, &c).is_le() {
                prop_assert!(compare_versions(&a, &c).is_le());
            }
        }
    }
}
