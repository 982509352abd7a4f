//! Patterns of identifiers in systemd-boot's configuration.

/// Whether a text is like a pattern with `*`, `?` and sets in brackets.
pub(super) fn is_like(text: &str, pattern: &str) -> bool {
    let (text, pattern): (Vec<_>, Vec<_>) = (text.chars().collect(), pattern.chars().collect());
    let (mut at, mut of) = (0, 0);
    // Where the last star was, and how much of the text it has taken.
    let mut star = None;
    while at < text.len() {
        if pattern.get(of) == Some(&'*') {
            star = Some((of, at));
            of += 1;
        } else if let Some(next) = pattern.get(of..).and_then(|rest| one(text[at], rest)) {
            at += 1;
            of += next;
        } else if let Some((before, taken)) = star {
            star = Some((before, taken + 1));
            at = taken + 1;
            of = before + 1;
        } else {
            return false;
        }
    }
    pattern[of..].iter().all(|next| *next == '*')
}

/// How many characters of the pattern stand for this one of the text, at its beginning.
fn one(next: char, pattern: &[char]) -> Option<usize> {
    match pattern {
        ['?', ..] => Some(1),
        ['\\', escaped, ..] => (*escaped == next).then_some(2),
        ['[', rest @ ..] => {
            let end = rest.iter().skip(1).position(|it| *it == ']')? + 1;
            let set = &rest[..end];
            let is_range = |it: &[char]| it[1] == '-' && (it[0]..=it[2]).contains(&next);
            let is_in = set.contains(&next) || set.windows(3).any(is_range);
            is_in.then_some(end + 2)
        }
        [first, ..] => (*first == next).then_some(1),
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (text, pattern, is) in [
            ("arch.conf", "arch.conf", true),
            ("arch.conf", "arch", false),
            ("arch-lts.conf", "arch-*", true),
            ("arch-lts.conf", "*lts*", true),
            ("nixos-generation-12.conf", "nixos-generation-??.conf", true),
            ("a1", "a[0-9]", true),
            ("ax", "a[0-9]", false),
            ("a*", r"a\*", true),
            ("ab", r"a\*", false),
            ("", "*", true),
            (
                "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                "*a*a*a*a*a*a*a*a*b",
                false,
            ),
        ] {
            assert_eq!(is_like(text, pattern), is, "{text} {pattern}");
        }
    }
}
