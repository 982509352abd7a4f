//! brisk ends as the guest's command does.

use brisk_testkit::{brisk, brisk_of};

#[test]
fn the_commands_status_is_brisks() {
    for status in [7, 255] {
        let run = brisk!["--root", "none"].script(&format!("exit {status}"));
        let run = run.exits(status);
        assert_eq!((run.text().as_str(), run.stderr.as_str()), ("", ""));
    }
}

#[test]
fn a_size_or_a_time_that_is_none_is_a_wrong_command_line() {
    for (words, name) in [
        (&["run", "--memory", "12Q"][..], "--memory"),
        (&["run", "--memory", "1M"], "--memory"),
        (&["run", "--timeout", "5y"], "--timeout"),
        (&["run", "--hostname", "a_b"], "--hostname"),
        (&["vm", "create", "a", "--memory", "3Z"], "--memory"),
        (&["vm", "create", "a", "--bandwidth", "1Q"], "--bandwidth"),
        (&["vm", "autostop", "--deadline", "x"], "--deadline"),
        (&["boot", "bench", "--timeout", "5x"], "--timeout"),
        (&["idle", "measure", "--time", "5q"], "--time"),
        (&["reboot", "rehearse", "--memory", "1M"], "--memory"),
        (&["crypto", "bench", "--seconds", "2h"], "--seconds"),
    ] {
        let refused = brisk_of!().args(words).exits(2);
        let _ = refused.explains(&["invalid value", name]);
    }
}

#[test]
fn death_by_a_signal_is_128_and_its_number() {
    brisk!["--root", "none"].script("kill -9 $$").exits(137);
}

#[test]
fn a_command_that_is_not_there_is_127() {
    brisk!["--root", "none"]
        .command(["/no/such/command"])
        .exits(127)
        .explains(&["/no/such/command", "not found"]);
}

#[test]
fn a_file_that_is_no_program_is_126() {
    brisk!["--root", "none"]
        .command(["/proc/version"])
        .exits(126)
        .explains(&["/proc/version", "Permission denied"]);
}

#[test]
fn orphans_are_reaped_and_a_massacre_is_survived() {
    // The orphan's parent ends at once, so it becomes init's; the reader of the pipe waits for
    // its end. Then everything but init and the shell is killed.
    let script = "( (exec 3>&1; true) & ) | cat
        while ps -o stat | grep -q Z; do :; done
        sleep 1000 &
        kill -9 -1
        echo alive
        exit 5";
    let run = brisk!["--root", "none"].script(script).exits(5);
    assert_eq!(run.text(), "alive\n");
}

#[test]
fn a_grandchild_that_keeps_the_output_does_not_keep_brisk() {
    let run = brisk!["--root", "none"].script("sleep 100000 & echo out; exit 3");
    assert_eq!(run.exits(3).text(), "out\n");
}

#[test]
fn a_grandchild_that_never_stops_writing_does_not_keep_brisk() {
    // Two processors, and writes larger than the pipe: it is full again as soon as it is read.
    // The reader comes when all buffers are full.
    let script = "for i in 1 2 3; do dd if=/dev/zero bs=1M & done 2>/dev/null
        head -c 3000000 /dev/zero; exit 3";
    let mut run = brisk!["--root", "none", "--cpus", "2"]
        .script(script)
        .spawn();
    run.is_stuck();
    run.read();
    let _ = run.wait().exited(3);
}
