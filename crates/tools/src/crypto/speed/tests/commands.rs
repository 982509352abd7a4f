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

fn table(row: &str, rate: f64) -> String {
    format!(
        "type       16 bytes     64 bytes\n{row} {rate:.2}k {:.2}k\n\n",
        rate * 2.0
    )
}

#[test]
fn tables_of_different_commands_are_different_runs() {
    let names = |commands: &[&str]| {
        let text = commands.iter().zip(1..).map(|(command, place)| {
            format!(
                "  {command}\n{}",
                table("aes-256-cbc", f64::from(place) * 1000.0)
            )
        });
        let names = parse(&text.collect::<String>()).measured.into_iter();
        names.map(|one| one.curve.name).collect::<Vec<_>>()
    };
    let speed = "openssl speed -elapsed -evp AES-256-CBC";
    for (other, name) in [
        (format!("{speed} -engine afalg"), "engine afalg"),
        (format!("{speed} -provider qat"), "provider qat"),
        (format!("OPENSSL_CONF=/ {speed}"), "OPENSSL_CONF /"),
        (format!("$ OPENSSL_armcap=0 {speed}"), "OPENSSL_armcap 0"),
        (
            format!("OPENSSL_ia32cap=~0x2 {speed}"),
            "OPENSSL_ia32cap ~0x2",
        ),
        (format!("time taskset -c 4 {speed}"), "taskset -c 4"),
        (format!("./{speed}"), "./openssl"),
        (format!("{speed} -multi 4"), "4 processes"),
        (format!("{speed} -async_jobs 8"), "-async_jobs 8"),
    ] {
        let expected = ["aes-256-cbc".to_owned(), format!("aes-256-cbc, {name}")];
        assert_eq!(names(&[speed, &other]), expected);
    }
    let without = "openssl speed -elapsed aes-256-cbc";
    let expected = ["aes-256-cbc, -evp AES-256-CBC", "aes-256-cbc, without -evp"];
    assert_eq!(names(&[speed, without]), expected);
    // These do not tell implementations apart.
    for other in [
        "sudo LC_ALL=C time openssl speed -evp aes-256-cbc -elapsed",
        "openssl speed -seconds 1 -bytes 64 -evp aes-256-cbc -mr -elapsed",
    ] {
        assert_eq!(names(&[speed, other]), ["aes-256-cbc"]);
    }
}

/// In what openssl prints beside counts there is a line about the engine, or it has none.
#[test]
fn an_engine_is_that_of_its_own_run() {
    let run = |before: &str| {
        format!(
            "{before}You have chosen to measure elapsed time instead of user CPU time.\n\
             Doing sha1 for 3s on 16 size blocks: 3000000 sha1's in 3.00s\n"
        )
    };
    let command = "$ openssl speed -elapsed -evp sha1 -engine afalg\n";
    let names = |text: &str| {
        let measured = parse(text).measured.into_iter();
        measured.map(|one| one.curve.name).collect::<Vec<_>>()
    };
    assert_eq!(names(&run(command)), ["sha1, engine afalg"]);
    let loaded = run(&format!("{command}engine \"afalg\" set.\n"));
    let failed = run(&format!("{command}invalid engine \"afalg\"\n"));
    assert_eq!(names(&loaded), ["sha1, engine afalg"]);
    assert_eq!(names(&failed), ["sha1, without engine afalg"]);
    // The command of the second is not there.
    assert_eq!(names(&(loaded + &run(""))), ["sha1, engine afalg", "sha1"]);
}

/// People write there what they compare.
#[test]
fn rows_with_names_of_their_own_are_of_the_commands_algorithm() {
    let algorithms = |command: &str, names: &[&str]| {
        let rows = names
            .iter()
            .map(|name| format!("{name} 1000.00k 2000.00k\n"));
        let text = format!(
            "$ {command}\ntype 16 bytes 64 bytes\n{}",
            rows.collect::<String>()
        );
        let measured = parse(&text).measured.into_iter();
        measured
            .map(|one| (one.curve.name, one.algorithm))
            .collect::<Vec<_>>()
    };
    let of = |pairs: &[(&str, &str)]| {
        let pairs = pairs
            .iter()
            .map(|(name, algorithm)| ((*name).to_owned(), (*algorithm).to_owned()));
        pairs.collect::<Vec<_>>()
    };
    let evp = "openssl speed -elapsed -evp AES-256-CBC";
    assert_eq!(
        algorithms(
            evp,
            &[
                "engine-v1.2",
                "software only",
                "aes-256 cbc",
                "old aes-128-cbc"
            ]
        ),
        of(&[
            ("engine-v1.2", "AES-256-CBC"),
            ("software only", "AES-256-CBC"),
            ("aes-256 cbc", "aes-256 cbc"),
            ("old aes-128-cbc", "old aes-128-cbc"),
        ])
    );
    let without = "openssl speed -elapsed";
    assert_eq!(
        algorithms(without, &["engine-v1.2"]),
        of(&[("engine-v1.2", "engine-v1.2")])
    );
}
