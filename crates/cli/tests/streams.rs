//! Standard input, output and error are carried byte for byte, and end where they should.

use brisk_testkit::brisk;

const MEGABYTE: usize = 1_000_000;

/// Bytes without a pattern that a lost or doubled block would fit into.
fn noise(count: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    let mut bytes: Vec<u8> = words.take(count / 8 + 1).flatten().collect();
    bytes.truncate(count);
    bytes
}

/// Not with assert_eq: nobody wants to read the difference.
#[track_caller]
fn same(what: &str, got: &[u8], sent: &[u8]) {
    let common = got.iter().zip(sent).take_while(|(a, b)| a == b).count();
    let lengths = (got.len(), sent.len());
    assert!(got == sent, "{what}: {lengths:?} bytes, {common} the same");
}

#[test]
fn output_and_error_are_apart_and_exact() {
    let bytes = noise(300_001);
    let run = brisk!["--root", "none"]
        .stdin(bytes.clone())
        .script("cat > /tmp/in; cat /tmp/in; cat /tmp/in /tmp/in >&2")
        .exits(0);
    same("stdout", &run.stdout, &bytes);
    same("stderr", &run.stderr_bytes, &bytes.repeat(2));
}

#[test]
fn a_hundred_megabytes_pass_through() {
    // The block's length is no divisor of any buffer's.
    let bytes = noise(MEGABYTE + 7).repeat(100);
    let run = brisk!["--root", "none"].stdin(bytes.clone());
    let run = run.command(["cat"]).exits(0);
    same("stdout", &run.stdout, &bytes);
    assert_eq!(run.stderr, "");
}

#[test]
fn a_reader_that_lets_all_buffers_fill_loses_nothing() {
    // More than all buffers take together, in both directions at once: the command must wait
    // for its reader, and brisk with its standard input for the command.
    let bytes = noise(MEGABYTE).repeat(16);
    let script = "cat; head -c 3000000 /dev/zero; echo end >&2";
    let mut run = brisk!["--root", "none"]
        .stdin(bytes.clone())
        .script(script)
        .spawn();
    run.is_stuck();
    run.read();
    let run = run.wait().exited(0).explains(&["end"]);
    same("stdout", &run.stdout[..bytes.len()], &bytes);
    same("zeros", &run.stdout[bytes.len()..], &vec![0; 3_000_000]);
}

#[test]
fn what_is_left_in_memory_at_the_end_reaches_a_slow_reader() {
    // Fits into the buffers of brisk but not into the pipe: the command and the VM are
    // gone while most of its output is still to be read.
    let mut run = brisk!["--root", "none"]
        .script("head -c 500000 /dev/zero")
        .spawn();
    run.is_stuck();
    run.read();
    assert_eq!(run.wait().exited(0).stdout, vec![0; 500_000]);
}

#[test]
fn a_command_need_not_read_its_input() {
    let endless = noise(MEGABYTE).repeat(20);
    let run = brisk!["--root", "none"].stdin(endless.clone());
    let run = run.command(["head", "-c", "10"]).exits(0);
    same("stdout", &run.stdout, &endless[..10]);
}

#[test]
fn closed_and_empty_input_end_at_once() {
    let script = "cat; echo end";
    for redirection in ["<&-", "</dev/null"] {
        let run = brisk!["--root", "none"]
            .script(script)
            .in_shell("", redirection);
        assert_eq!(run.exits(0).text(), "end\n", "{redirection}");
    }
}

#[test]
fn input_that_pauses_is_passed_on_as_it_comes() {
    let mut run = brisk!["--root", "none"]
        .stdin_held()
        .script("while read line; do echo got $line; done; echo end")
        .spawn();
    run.write(b"one\n");
    run.shows("got one\n");
    run.write(b"two\n");
    run.shows("got two\n");
    run.close_stdin();
    assert_eq!(run.wait().exited(0).text(), "got one\ngot two\nend\n");
}

#[test]
fn a_command_may_close_its_output_and_input_early() {
    let run = brisk!["--root", "none"]
        .stdin(noise(3 * MEGABYTE))
        .script("echo first; exec <&- >&-; echo last >&2; exit 4")
        .exits(4);
    assert_eq!(
        (run.text().as_str(), run.stderr.as_str()),
        ("first\n", "last\n")
    );
}

#[test]
fn a_reader_that_goes_away_ends_the_command() {
    let run = brisk!["--root", "none"]
        .command(["yes"])
        .in_shell("", "| head -n 1; exit ${PIPESTATUS[0]}")
        .exits(141);
    assert_eq!((run.text().as_str(), run.stderr.as_str()), ("y\n", ""));
}

#[test]
fn a_full_disk_is_reported() {
    brisk!["--root", "none"]
        .command(["yes"])
        .in_shell("", ">/dev/full")
        .exits(125)
        .explains(&["No space left on device"]);
}
