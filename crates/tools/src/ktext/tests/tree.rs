//! A system below a directory whose kernel replicates its text on two nodes, to be changed.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::ktext::Status;

const STATS: &str = "name value\nactive 1\noff_reason \nslots 1\nresident_pages 1538\n\
                     module_pages 3\npage_table_pages 9\npage_alloc_failures 513\n\
                     pgtbl_alloc_failures 0\npgd_alloc_failures 2\n";
/// Node 1 has one large page of text, a tail of four small ones, and could not copy another large one.
const MAP: &str = "node va size pa pa_node prot kind leaf state\n\
    0 0xffffffff81000000 4194304 0x1000000 0 r-x text 2097152 master\n\
    0 0xffffffff81400000 16384 0x1400000 0 r-x text 4096 master\n\
    0 0xffffffff81600000 2097152 0x1600000 0 r-- rodata 2097152 master\n\
    1 0xffffffff81000000 2097152 0x8200000 1 r-x text 2097152 copy\n\
    1 0xffffffff81200000 2097152 0x1200000 0 r-x text 2097152 master\n\
    1 0xffffffff81400000 4096 0x8001000 1 r-x text 4096 copy\n\
    1 0xffffffff81401000 4096 0x8005000 1 r-x text 4096 copy\n\
    1 0xffffffff81402000 4096 0x8003000 1 r-x text 4096 copy\n\
    1 0xffffffff81403000 4096 0x8009000 1 r-x text 4096 copy\n\
    1 0xffffffff81600000 2097152 0x8600000 1 r-- rodata 2097152 copy\n";
const CPUS: &str = "cpu node slot cr3 pgd_node verdict\n0 0 0 0x2c0a000 0 own\n\
                    1 0 0 0x2c0b000 0 own\n2 1 1 0x8abc000 1 own\n3 1 1 0x8abd000 1 own\n";
const MODULES: &str = "module kind va size master_node node0 node1\n\
                       dummy text 0xffffffffc0000000 8192 0 8192 8192\n\
                       dummy rodata 0xffffffffc0004000 4096 0 4096 4096\n\
                       late text 0xffffffffc0010000 4096 1 0 4096\n";
const VERIFY: &str = "node bytes different first entries_different first_entry\n\
                      1 6311936 0 0x0 0 0x0\n";

/// A tree.
pub(super) struct Tree(TempDir);

impl Tree {
    /// Without any file.
    pub(super) fn empty() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// With all of them.
    pub(super) fn new() -> Self {
        let tree = Self::empty();
        tree.file("proc/sys/kernel/osrelease", "6.12.117\n");
        for (name, text) in [
            ("stats", STATS),
            ("map", MAP),
            ("cpus", CPUS),
            ("modules", MODULES),
            ("verify", VERIFY),
            ("active", "1\n"),
        ] {
            tree.file(&repl(name), &text.replace(' ', "\t"));
        }
        tree
    }

    pub(super) fn root(&self) -> &Path {
        self.0.path()
    }

    pub(super) fn at(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    pub(super) fn file(&self, path: &str, text: &str) {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        fs::write(self.at(path), text).unwrap();
    }

    /// Replaces some text, with blanks for tabs, in a file of the kernel's.
    pub(super) fn edit(&self, name: &str, from: &str, to: &str) {
        let path = self.at(&repl(name));
        let tabs = |text: &str| text.replace(' ', "\t");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(&tabs(from)), "{name}: {from}");
        fs::write(path, text.replacen(&tabs(from), &tabs(to), 1)).unwrap();
    }

    pub(super) fn status(&self) -> Status {
        Status::read(self.root()).unwrap()
    }
}

/// Path of a file of the kernel's.
pub(super) fn repl(name: &str) -> String {
    format!("sys/kernel/debug/ktext_repl/{name}")
}
