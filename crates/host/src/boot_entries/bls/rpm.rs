//! The order of names in Red Hat's GRUB: `vercmp` and `split_cmp` of its `blscfg.c`, which are after
//! `rpmvercmp` of RPM.

use std::cmp::Ordering;

/// Orders names of files such as `MACHINE-ID-6.8.5-301.fc40.x86_64` by name, version and release.
pub(crate) fn compare_names(a: &str, b: &str) -> Ordering {
    let (a, b) = (split(a), split(b));
    let parts = a.iter().zip(&b);
    let orders = parts.map(|(a, b)| compare(a, b));
    orders.fold(Ordering::Equal, Ordering::then)
}

/// Name, version and release: what is before, between and behind the last two dashes. Of fewer the
/// last ones are empty.
fn split(text: &str) -> [&str; 3] {
    let mut parts = text.rsplitn(3, '-');
    let (last, middle, first) = (parts.next().unwrap_or(""), parts.next(), parts.next());
    match (first, middle) {
        (Some(first), Some(middle)) => [first, middle, last],
        (_, Some(middle)) => [middle, last, ""],
        _ => [last, "", ""],
    }
}

fn compare(a: &str, b: &str) -> Ordering {
    if a == b {
        return Ordering::Equal;
    }
    let (mut a, mut b) = (a.as_bytes(), b.as_bytes());
    while !a.is_empty() || !b.is_empty() {
        a = skip(a);
        b = skip(b);
        let (first, second) = (a.first(), b.first());
        if first == Some(&b'~') || second == Some(&b'~') {
            match (first == Some(&b'~'), second == Some(&b'~')) {
                (false, _) => return Ordering::Greater,
                (_, false) => return Ordering::Less,
                _ => {}
            }
            (a, b) = (&a[1..], &b[1..]);
            continue;
        }
        if first == Some(&b'+') || second == Some(&b'+') {
            match (first, second) {
                (None, _) => return Ordering::Less,
                (_, None) => return Ordering::Greater,
                (Some(b'+'), Some(b'+')) => {}
                (Some(b'+'), _) => return Ordering::Less,
                _ => return Ordering::Greater,
            }
            (a, b) = (&a[1..], &b[1..]);
            continue;
        }
        let (Some(first), Some(_)) = (first, second) else {
            break;
        };
        let is_number = first.is_ascii_digit();
        let (x, y);
        (x, a) = segment(a, is_number);
        (y, b) = segment(b, is_number);
        if y.is_empty() {
            return if is_number {
                Ordering::Greater
            } else {
                Ordering::Less
            };
        }
        let order = match is_number {
            true => {
                let (x, y) = (without_zeros(x), without_zeros(y));
                x.len().cmp(&y.len()).then_with(|| x.cmp(y))
            }
            false => x.cmp(y),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    a.len().min(1).cmp(&b.len().min(1))
}

fn skip(text: &[u8]) -> &[u8] {
    let is_part = |c: &u8| c.is_ascii_alphanumeric() || matches!(c, b'~' | b'+');
    &text[text.iter().position(is_part).unwrap_or(text.len())..]
}

fn segment(text: &[u8], is_number: bool) -> (&[u8], &[u8]) {
    let is_in = |c: &u8| {
        if is_number {
            c.is_ascii_digit()
        } else {
            c.is_ascii_alphabetic()
        }
    };
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
    fn newer_names_are_greater() {
        let id = "0123456789abcdef0123456789abcdef";
        for (older, newer) in [
            (
                format!("{id}-0-rescue"),
                format!("{id}-5.14.0-427.el9.x86_64"),
            ),
            (
                format!("{id}-6.8.5-301.fc40.x86_64"),
                format!("{id}-6.8.10-300.fc40.x86_64"),
            ),
            (
                format!("{id}-6.8.5-9.fc40.x86_64"),
                format!("{id}-6.8.5-10.fc40.x86_64"),
            ),
            ("a-1.0~rc1-1".into(), "a-1.0-1".into()),
            ("a-1.0-1".into(), "a-1.0+git-1".into()),
            ("a-1.0+git-1".into(), "a-1.0.1-1".into()),
            ("a-1.a-1".into(), "a-1.1-1".into()),
            ("ostree-1-fedora".into(), "ostree-2-fedora".into()),
            ("ostree-1".into(), "ostree-2".into()),
        ] {
            assert_eq!(
                compare_names(&older, &newer),
                Ordering::Less,
                "{older} {newer}"
            );
            assert_eq!(
                compare_names(&newer, &older),
                Ordering::Greater,
                "{older} {newer}"
            );
        }
        assert_eq!(compare_names("a-1.01-1", "a-1.1-1"), Ordering::Equal);
    }

    proptest! {
        #[test]
        fn order_is_antisymmetric(a in "[0-9a-b.~+-]{0,10}", b in "[0-9a-b.~+-]{0,10}") {
            // Both ends of a number against letters are `1` in blscfg.c, too.
            let (x, y) = (compare_names(&a, &b), compare_names(&b, &a));
            prop_assert_eq!(x == Ordering::Equal, y == Ordering::Equal);
        }
    }
}
