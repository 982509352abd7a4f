//! Names of kernel addresses.

use std::path::Path;

use brisk_host::files;

/// Bytes of `/proc/kallsyms` that are read; that of a distribution's kernel with its modules has about
/// 15 MiB.
const LONGEST: u64 = 64 << 20;

/// Names the addresses by `/proc/kallsyms` of the system below `root`, as `do_idle+0x1c`; none where
/// it does not say. The file is read once.
pub(super) fn names(root: &Path, addresses: &[u64]) -> Vec<Option<String>> {
    if addresses.is_empty() {
        return Vec::new();
    }
    let text = files::text_within(&root.join("proc/kallsyms"), LONGEST);
    of(&text.unwrap_or_default(), addresses)
}

/// Names addresses by the text of `kallsyms`: lines of an address, a letter and a name, in any order.
fn of(text: &str, addresses: &[u64]) -> Vec<Option<String>> {
    let mut nearest: Vec<Option<(u64, &str)>> = vec![None; addresses.len()];
    for line in text.lines() {
        let mut fields = line.split_whitespace();
        let start = fields
            .next()
            .and_then(|it| u64::from_str_radix(it, 16).ok());
        let (Some(start), Some(name)) = (start, fields.nth(1)) else {
            continue;
        };
        // Without the right to see them all addresses are 0.
        if start == 0 {
            continue;
        }
        for (address, found) in addresses.iter().zip(&mut nearest) {
            if start <= *address && found.is_none_or(|(best, _)| best < start) {
                *found = Some((start, name));
            }
        }
    }
    let named = nearest.into_iter().zip(addresses);
    named
        .map(|(found, address)| {
            let (start, name) = found?;
            let name: String = name.chars().take(128).collect();
            Some(format!("{name}+{:#x}", address - start))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_the_name_of_what_begins_before_it() {
        let text = "ffffffff81000010 T second\nffffffff81000000 T _text\nffffffff81000000 T other\n\
                    x y z\n\nffffffff81000020 t third\t[module]\n";
        let addresses = [0xffff_ffff_8100_001c, 0xffff_ffff_8100_0000, 5, u64::MAX];
        let names = of(text, &addresses);
        let names: Vec<_> = names.iter().map(Option::as_deref).collect();
        assert_eq!(names[..3], [Some("second+0xc"), Some("_text+0x0"), None]);
        assert!(names[3].unwrap().starts_with("third+0x"));
        // To other users than root.
        assert_eq!(of("0000000000000000 T _text\n", &[7]), [None]);
    }
}
