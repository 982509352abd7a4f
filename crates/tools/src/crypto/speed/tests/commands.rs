//! What command lines say of the results below them.

use super::*;

/// The command above a table says by which clock it is.
#[test]
fn a_command_tells_the_clock() {
    let table = "type             16 bytes     64 bytes\nsha1      16000.00k    32000.00k\n";
    let is_wall_clock = |command: &str| {
        let speed = parse(&format!("$ openssl speed {command}\n{table}"));
        speed.measured[0].is_wall_clock
    };
    assert!(is_wall_clock("-evp sha1 -elapsed"));
    assert!(!is_wall_clock("-evp sha1"));
}

/// It is that of all tables below it, and of none below the next command.
#[test]
fn a_command_is_of_all_tables_below_it() {
    let table = |name: &str| {
        format!("type             16 bytes     64 bytes\n{name}      16000.00k    32000.00k\n\n")
    };
    let text = |second: &str| {
        format!(
            "[admin@gate]/root(6): openssl-1.1 speed -elapsed sha1 md5\n{}And:\n{}{second}{}",
            table("sha1"),
            table("md5"),
            table("sha256")
        )
    };
    let clocks = |text: &str| {
        let measured = parse(text).measured.into_iter();
        measured.map(|one| one.is_wall_clock).collect::<Vec<_>>()
    };
    assert_eq!(clocks(&text("")), [true, true, true]);
    let next = "[admin@gate]/root(7): openssl-1.1 speed sha256\n";
    assert_eq!(clocks(&text(next)), [true, true, false]);
    // Of a run whose command is not there.
    assert_eq!(
        clocks(&text("engine \"afalg\" set.\n")),
        [true, true, false]
    );
}
