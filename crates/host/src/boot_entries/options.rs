//! Words of kernel command lines.

/// Words that boot loaders add: `BOOT_IMAGE=` of GRUB and syslinux, and `initrd=`, by which the
/// kernel's EFI stub and syslinux are told files.
const OF_LOADERS: [&str; 2] = ["BOOT_IMAGE=", "initrd="];

/// Words of a kernel command line. White space in double quotes separates none (`next_arg` in the
/// kernel's `lib/cmdline.c`).
#[must_use]
pub fn words(cmdline: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let (mut start, mut is_quoted) = (0, false);
    for (at, next) in cmdline.char_indices() {
        match next {
            '"' => is_quoted = !is_quoted,
            _ if next.is_whitespace() && !is_quoted => {
                words.push(&cmdline[start..at]);
                start = at + next.len_utf8();
            }
            _ => {}
        }
    }
    words.push(&cmdline[start..]);
    words.retain(|word| !word.is_empty());
    words
}

/// A kernel command line without what a boot loader adds: `BOOT_IMAGE=` and `initrd=`. Words are
/// separated by one space. What is behind `--` is for init, and stays.
#[must_use]
pub fn without_loader_words(cmdline: &str) -> String {
    let mut is_for_init = false;
    let kept = words(cmdline).into_iter().filter(|word| {
        is_for_init |= *word == "--";
        let bare = word.trim_start_matches('"');
        is_for_init || !OF_LOADERS.iter().any(|start| bare.starts_with(start))
    });
    kept.collect::<Vec<_>>().join(" ")
}

/// Values of `initrd=` in a kernel command line.
pub(super) fn initrds(cmdline: &str) -> Vec<&str> {
    let values = words(cmdline)
        .into_iter()
        .filter_map(|word| word.strip_prefix("initrd="));
    values
        .flat_map(|value| value.split(','))
        .filter(|it| !it.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_boot_loaders_are_left_out() {
        for (cmdline, expected) in [
            (
                "BOOT_IMAGE=/vmlinuz-6.1 root=/dev/sda1 ro  quiet\n",
                "root=/dev/sda1 ro quiet",
            ),
            ("initrd=\\a\\linux initrd=b root=x", "root=x"),
            (
                "\"dyndbg=file a.c +p\" BOOT_IMAGE=x",
                "\"dyndbg=file a.c +p\"",
            ),
            ("\"BOOT_IMAGE=/a b\" x", "x"),
            ("a=\"b BOOT_IMAGE=c\" d", "a=\"b BOOT_IMAGE=c\" d"),
            ("quiet -- initrd=x", "quiet -- initrd=x"),
            ("rdinitrd=x", "rdinitrd=x"),
            ("", ""),
        ] {
            assert_eq!(without_loader_words(cmdline), expected, "{cmdline}");
        }
        assert_eq!(initrds("initrd=/a,/b root=x initrd=/c"), ["/a", "/b", "/c"]);
    }
}
