//! Indexes of a modules directory that someone else wrote, separated by form feeds.
#![no_main]

use std::path::Path;

use brisk_vm::initramfs::{Content, Request, Signatures, Tree, Wanted, plan};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let mut parts = text.split('\x0c');
    let mut part = || parts.next().unwrap_or_default();
    let Ok(mut tree) = Tree::parse(Path::new("/m"), "v", part(), part(), part()) else {
        return;
    };
    tree.add_aliases(part());
    tree.add_builtin_aliases(part());
    let request = Request {
        init: Content::Bytes(Vec::new()),
        modules: vec![Wanted {
            module: part().to_owned(),
            reason: String::new(),
        }],
        deny: vec![part().to_owned()],
        files: Vec::new(),
        signatures: Signatures::Drop,
    };
    if let Ok(plan) = plan(&request, &tree) {
        assert!(plan.sources().all(|path| path.starts_with("/m")));
    }
});
