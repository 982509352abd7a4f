//! Patterns of modules' aliases. Pure.

/// Whether a text has the form of a pattern: `*` for any characters, `?` for one. `modprobe` also
/// knows sets in brackets; aliases of crypto devices have none, and here they are plain characters.
///
/// Takes time in proportion to the product of the lengths at most.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // Where to go on if what follows the last star does not fit: behind the star, one further.
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p + 1, t));
                p += 1;
            }
            Some(one) if *one == b'?' || *one == text[t] => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((behind, from)) = retry else {
                    return false;
                };
                retry = Some((behind, from + 1));
                (p, t) = (behind, from + 1);
            }
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_anything() {
        for (pattern, text, fits) in [
            (
                "pci:v00008086d00004940sv*sd*bc*sc*i*",
                "pci:v00008086d00004940sv1sd2bc0Bsc40i00",
                true,
            ),
            (
                "pci:v00008086d00004940sv*sd*bc*sc*i*",
                "pci:v00008086d00004942sv1sd2bc0Bsc40i00",
                false,
            ),
            ("*-aesni", "cbc-aes-aesni", true),
            ("*-aesni", "cbc-aes-aesni-avx", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("", "", true),
            ("*", "", true),
            ("", "a", false),
            ("*aab*", "aaaab", true),
        ] {
            assert_eq!(matches(pattern, text), fits, "{pattern} {text}");
        }
        let slow = "a*".repeat(500) + "b";
        assert!(!matches(&slow, &"a".repeat(5000)));
    }
}
