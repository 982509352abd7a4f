//! Files that are not quite as a kernel wrote them: an error, and no panic.

use std::fs;

use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::ktext::verify::Verification;
use crate::ktext::{Status, draw, info};

use super::tree::{Tree, repl};

/// Begins what moves a terminal's cursor.
const ESCAPE: char = '\u{1b}';

/// Text that the kernel writes, and some that it does not.
fn pieces() -> impl Strategy<Value = &'static str> {
    select(vec![
        "\t",
        "\n",
        "-1",
        "0",
        "1023",
        "1024",
        "0x",
        "0xffffffffbffff000",
        "0xffffffff80000000",
        "0xffffffffffffffff",
        "18446744073709551615",
        "1073741824",
        "2097152",
        "rodata",
        "master",
        "---",
        "wrong",
        "node7",
        "\u{1b}[2J",
        "",
    ])
}

proptest! {
    #[test]
    fn no_damage_is_a_panic(
        file in select(vec!["stats", "map", "cpus", "modules", "verify"]),
        edits in prop::collection::vec((any::<Index>(), 0..3usize, pieces()), 1..6),
    ) {
        let tree = Tree::new();
        let path = tree.at(&repl(file));
        let mut text = fs::read_to_string(&path).unwrap();
        for (at, removed, piece) in edits {
            // A cell or two are replaced.
            let ends: Vec<_> = text.match_indices(['\t', '\n']).map(|(at, _)| at).collect();
            if ends.is_empty() {
                break;
            }
            let place = at.index(ends.len());
            let end = ends[(place + removed).min(ends.len() - 1)];
            text.replace_range(ends[place] + 1..(end + 1).max(ends[place] + 1), piece);
        }
        fs::write(&path, &text).unwrap();
        if let Ok(status) = Status::read(tree.root()) {
            for is_complete in [false, true] {
                prop_assert!(!info::text(&status, is_complete).contains(ESCAPE));
            }
            prop_assert!(!info::modules(&status).contains(ESCAPE));
            let parts = draw::parts(&status);
            prop_assert!(draw::text(&parts).lines().all(|line| line.len() < 200));
            prop_assert_eq!(draw::panels(&parts).len(), parts.len());
            prop_assert!(info::json(&status).is_object());
        }
        if let Ok(found) = Verification::read(tree.root()) {
            prop_assert!(!found.text().contains(ESCAPE));
        }
    }
}
