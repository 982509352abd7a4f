//! What instructions and data are counted by: the plugin's list of symbols. Pure.

use std::fmt::Write as _;

/// Where modules are, with and without a kernel that may be moved (`MODULES_VADDR` of
/// `arch/x86/include/asm/pgtable_64_types.h`), and how much of that is counted page by page, bytes.
const MODULES: [u64; 2] = [0xffff_ffff_a000_0000, 0xffff_ffff_c000_0000];
const COUNTED: u64 = 32 << 20;
const PAGE: u64 = 4096;
/// Where the kernel is at least.
const IMAGE: u64 = 0xffff_ffff_8000_0000;

/// What a symbol is, in the plugin's list.
pub(super) const TEXT: &str = "text";
pub(super) const RODATA: &str = "rodata";
/// Pages of the modules' area, by their addresses.
pub(super) const MODULE: &str = "module";

/// The ends of text and read-only data.
struct Ends {
    text: u64,
    rodata: (u64, u64),
    image: u64,
}

/// Lines for the plugin, of `System.map` of a kernel that is where it was linked; with read-only data
/// if that is counted, too.
///
/// # Errors
/// If it is not one of a kernel of x86-64.
pub(super) fn symbols(map: &str, with_rodata: bool) -> Result<String, String> {
    let mut found: Vec<(u64, &str)> = Vec::new();
    let mut ends = Ends {
        text: 0,
        rodata: (0, 0),
        image: 0,
    };
    for line in map.lines() {
        let words: Vec<_> = line.split(' ').collect();
        let [address, kind, name] = words[..] else {
            continue;
        };
        let Ok(address) = u64::from_str_radix(address, 16) else {
            continue;
        };
        match name {
            "_etext" => ends.text = address,
            "__start_rodata" => ends.rodata.0 = address,
            "__end_rodata" => ends.rodata.1 = address,
            "_end" => ends.image = address,
            _ => {}
        }
        // Absolute symbols, such as those of data of each CPU, are no places.
        if address >= IMAGE && !matches!(kind, "a" | "A") {
            found.push((address, name));
        }
    }
    for (name, address) in [("_etext", ends.text), ("_end", ends.image)] {
        if address < IMAGE {
            return Err(format!("it has no symbol {name} of a kernel of x86-64"));
        }
    }
    found.sort_by_key(|(address, _)| *address);
    found.dedup_by_key(|(address, _)| *address);
    let mut list = String::new();
    let text = |address: u64| address < ends.text;
    push(&mut list, TEXT, &found, text, ends.text);
    if with_rodata {
        let (start, end) = ends.rodata;
        if start < IMAGE || end < start {
            return Err("it has no symbols __start_rodata and __end_rodata".to_owned());
        }
        let inside = |address: u64| (start..end).contains(&address);
        push(&mut list, RODATA, &found, inside, end);
    }
    for start in MODULES.into_iter().filter(|start| *start >= ends.image) {
        for page in (start..start + COUNTED).step_by(PAGE as usize) {
            let _ = writeln!(list, "{page:x} {:x} {MODULE} {page:x}", page + PAGE);
        }
    }
    Ok(list)
}

/// Adds those that `is_inside` takes; each reaches to the next one, the last to `end`.
fn push(
    list: &mut String,
    kind: &str,
    found: &[(u64, &str)],
    is_inside: impl Fn(u64) -> bool,
    end: u64,
) {
    let inside = found.iter().filter(|(address, _)| is_inside(*address));
    let inside: Vec<_> = inside.collect();
    let ends = inside.iter().skip(1).map(|(address, _)| *address);
    for ((address, name), end) in inside.iter().zip(ends.chain([end])) {
        let name: String = name.chars().take(63).collect();
        let _ = writeln!(list, "{address:x} {end:x} {kind} {name}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = "0000000000000000 A fixed_percpu_data\n\
        ffffffff81000000 T _text\nffffffff81000000 T startup_64\nffffffff81000100 t other\n\
        ffffffff81000100 W alias\nffffffff81200000 T _etext\n\
        ffffffff81400000 R __start_rodata\nffffffff81400010 d table\nffffffff81500000 R __end_rodata\n\
        ffffffff81600000 D data\nffffffff82000000 B _end\n";

    #[test]
    fn each_symbol_reaches_to_the_next() {
        let list = symbols(MAP, true).unwrap();
        let head: Vec<_> = list.lines().take(5).collect();
        assert_eq!(
            head,
            [
                "ffffffff81000000 ffffffff81000100 text _text",
                "ffffffff81000100 ffffffff81200000 text other",
                "ffffffff81400000 ffffffff81400010 rodata __start_rodata",
                "ffffffff81400010 ffffffff81500000 rodata table",
                "ffffffffa0000000 ffffffffa0001000 module ffffffffa0000000",
            ]
        );
        assert!(list.ends_with("ffffffffc1fff000 ffffffffc2000000 module ffffffffc1fff000\n"));
        assert!(!symbols(MAP, false).unwrap().contains("rodata"));
        // The plugin looks for them by halving.
        let starts: Vec<_> = list.lines().map(|line| &line[..16]).collect();
        assert!(starts.is_sorted());
    }

    #[test]
    fn the_area_of_modules_begins_behind_the_image() {
        let map = MAP.replace("ffffffff82000000", "ffffffffa8000000");
        assert!(!symbols(&map, false).unwrap().contains("ffffffffa0000000"));
    }

    #[test]
    fn another_map_is_refused() {
        for (text, reason) in [
            ("", "_etext"),
            ("\u{0}\u{1} x\n", "_etext"),
            (&MAP.replace("_end\n", "end\n"), "_end "),
            (&MAP.replace("__start_rodata", "x"), "__start_rodata"),
        ] {
            let error = symbols(text, true).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
