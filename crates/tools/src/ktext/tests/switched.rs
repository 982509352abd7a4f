//! Switching on and off.

use std::fs;

use super::tree::{Tree, repl};
use crate::ktext::{SwitchError, switch};

#[test]
fn the_kernel_is_told_by_one_file() {
    let tree = Tree::new();
    let active = || fs::read_to_string(tree.at(&repl("active"))).unwrap();
    switch(tree.root(), false).unwrap();
    assert_eq!(active(), "0\n");
    switch(tree.root(), true).unwrap();
    assert_eq!(active(), "1\n");
}

#[test]
fn a_boot_without_copies_says_why() {
    let tree = Tree::new();
    tree.edit("stats", "slots 1", "slots 0");
    tree.edit("stats", "off_reason ", "off_reason rodata=off");
    let error = switch(tree.root(), true).unwrap_err();
    assert!(matches!(error, SwitchError::NoCopies(_)));
    let error = error.to_string();
    assert!(
        error.starts_with("this boot has no copies to switch to: rodata=off;"),
        "{error}"
    );
}

#[test]
fn a_file_that_cannot_be_written_is_named() {
    let tree = Tree::new();
    let path = tree.at(&repl("active"));
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let error = switch(tree.root(), true).unwrap_err();
    assert!(matches!(error, SwitchError::Refused { .. }));
    let error = error.to_string();
    assert!(
        error.contains("ktext_repl/active") && error.contains("dmesg"),
        "{error}"
    );
}
