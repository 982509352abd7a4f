//! What goes wrong has a status of its own, and a message that names the thing and what to try.

use std::fs;

use brisk_testkit::{Signal, brisk, tree};
use tempfile::tempdir;

#[test]
fn a_panic_is_121_with_the_consoles_last_lines() {
    brisk!["--root", "none"]
        .script("echo before; echo c > /proc/sysrq-trigger; sleep 100000")
        .exits(121)
        .explains(&[
            "kernel gave up",
            "Kernel panic - not syncing: sysrq triggered crash",
        ]);
}

#[test]
fn too_little_memory_is_a_panic_that_says_so() {
    brisk!["--root", "none", "--append", "mem=48M"]
        .command(["true"])
        .exits(121)
        .explains(&["Kernel panic - not syncing: ", "memory"]);
    brisk!["--root", "none", "--memory", "63M"]
        .command(["true"])
        .exits(2)
        .explains(&["--memory", "63M", "96M"]);
}

#[test]
fn a_machine_that_the_optimisations_leave_without_a_kernel_is_named() {
    brisk![
        "--root",
        "none",
        "--machine",
        "microvm",
        "--optimisations",
        "none"
    ]
    .command(["true"])
    .exits(125)
    .explains(&[
        "which --optimisations leaves out",
        "--optimisations vmlinux",
    ]);
}

#[test]
fn more_devices_than_a_machine_has_addresses_for_are_refused() {
    let home = tempdir().unwrap();
    let run = |number: usize| {
        let shares =
            (0..number).map(|index| format!("--share={}:/mnt{index}", home.path().display()));
        let run = brisk!["--root", "none", "--machine", "q35"].args(shares);
        run.arg("--dry-run").command(["true"])
    };
    let _ = run(28).exits(0);
    run(33)
        .exits(125)
        .explains(&[" devices", "has room for 30", "--share"]);
}

#[test]
fn a_command_that_takes_too_long_is_124_and_leaves_no_server() {
    let root = tempdir().unwrap();
    tree(root.path());
    let root = root.path().to_str().unwrap();
    // The limit begins before the boot: long enough for that.
    brisk!["--root", root, "--timeout", "20s"]
        .script("echo ready; exec busybox sleep 100000")
        .exits(124)
        .explains(&["the command did not end within 20 s"]);
}

#[test]
fn a_guest_that_does_not_boot_in_time_is_124() {
    brisk!["--root", "none", "--timeout", "300ms", "--qemu-arg=-S"]
        .command(["true"])
        .exits(124)
        .explains(&["the guest did not boot within 0.3 s"]);
}

#[test]
fn the_time_limit_counts_though_nobody_reads_the_output() {
    // As above: the pipe must be full by then.
    let run = brisk!["--root", "none", "--timeout", "20s"].command(["yes"]);
    let run = run.spawn();
    run.is_stuck();
    let _ = run.wait().exited(124);
}

#[test]
fn qemu_that_is_killed_is_120() {
    let run = brisk!["--root", "none", "--qemu-arg=-S"].command(["true"]);
    let run = run.spawn();
    run.process("qemu-system").signal(Signal::KILL);
    let _ = run
        .wait()
        .exited(120)
        .explains(&["QEMU ended before the command did"]);
}

#[test]
fn qemu_that_refuses_its_options_is_120_with_its_own_words() {
    brisk!["--root", "none", "--qemu-arg=-nosuch"]
        .command(["true"])
        .exits(120)
        .explains(&["QEMU ended", "-nosuch: invalid option"]);
}

#[test]
fn a_kernel_that_is_cut_off_is_named() {
    let home = tempdir().unwrap();
    let installed = brisk_host::kernel::installed("/".as_ref());
    let kernel = installed
        .first()
        .expect("no kernel is installed; run `make test`");
    let cut = home.path().join("cut");
    fs::write(&cut, &fs::read(&kernel.image).unwrap()[..1 << 20]).unwrap();
    let path = cut.to_str().unwrap();
    let run = brisk!["--root", "none", "--kernel", path].command(["true"]);
    let _ = run.exits(125).explains(&[path, "truncated"]);
}

#[test]
fn a_cache_that_cannot_be_written_is_named() {
    brisk!["--root", "none"]
        .env("BRISK_CACHE_DIR", "/proc/x")
        .command(["true"])
        .exits(125)
        .explains(&["cannot write the cache /proc/x", "set BRISK_CACHE_DIR"]);
}

#[test]
fn devices_without_interrupts_are_refused_with_a_way_out() {
    let shares: Vec<_> = (0..15)
        .flat_map(|index| ["--share".to_owned(), format!("/usr:/mnt/{index}:ro")])
        .collect();
    brisk![
        "--root",
        "none",
        "--machine",
        "pc-no-acpi",
        "--firmware",
        "qboot"
    ]
    .args(&shares)
    .command(["true"])
    .exits(125)
    .explains(&[
        "the interrupts of 15 devices, and this guest has 16",
        "leave out --firmware",
    ]);
}

#[test]
fn a_guest_that_turns_itself_off_ends_the_run() {
    // Without ACPI its kernel stands still instead.
    for machine in ["pc-no-acpi", "microvm", "q35"] {
        let run = brisk!["--root", "none", "--machine", machine];
        let run = run.command(["poweroff", "-f"]).exits(120);
        let _ = run.explains(&["QEMU ended before the command did"]);
    }
}
