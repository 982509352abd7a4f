//! The command's terminal is the user's, and the user's is as it was afterwards.

use brisk_testkit::{Process, Signal, brisk, until};

#[test]
fn the_command_has_a_terminal_of_the_users_size() {
    // Not read, which a signal may just miss, but wait.
    let script = "trap 'echo interrupted' INT
        trap 'echo size $(stty size); read line; echo \"<$line>\"; exit 6' WINCH
        tty; stty size; echo ready
        cat
        sleep 100000 & wait";
    let (mut run, mut window) = brisk!["--root", "none"].script(script).on_terminal(33, 101);
    run.shows("/dev/pts/0\r\n33 101\r\nready\r\n");
    assert!(window.is_raw());
    // Once from the terminal's echo, once from cat: that is in the foreground then.
    window.types("on\n");
    run.shows("on\r\non\r\n");
    window.types("\x03");
    run.shows("interrupted\r\n");
    window.resize(40, 120);
    run.shows("size 40 120\r\n");
    window.types("a key\n");
    let run = run.wait().exited(6);
    assert!(run.text().ends_with("<a key>\r\n"), "{:?}", run.text());
    assert!(!window.is_raw());
}

#[test]
fn what_is_written_last_has_the_line_ends_of_the_guests_terminal() {
    // Without an echo before it is ready: what is typed is not to be in the text.
    let script = "stty -echo; echo ready; read -r line; echo last; exit 6";
    let (mut run, mut window) = brisk!["--root", "none"].script(script).on_terminal(24, 80);
    run.shows("ready\r\n");
    window.takes(false);
    window.types("\n");
    let is_qemu = |process: &Process| process.name().starts_with("qemu-system");
    until("the guest's end", || {
        (!run.processes().iter().any(is_qemu)).then_some(())
    });
    window.takes(true);
    let text = run.wait().exited(6).text();
    assert_eq!(text, "ready\r\nlast\r\n");
    assert!(!window.is_raw());
}

#[test]
fn the_terminal_is_put_back_when_the_machine_is_killed() {
    let script = "echo ready; sleep 100000";
    let (mut run, window) = brisk!["--root", "none"].script(script).on_terminal(24, 80);
    run.shows("ready\r\n");
    assert!(window.is_raw());
    run.process("qemu-system").signal(Signal::KILL);
    let run = run.wait().exited(120);
    assert!(!window.is_raw());
    assert!(run.text().contains("QEMU ended"), "{:?}", run.text());
}

#[test]
fn a_signal_while_the_guest_boots_puts_the_terminal_back() {
    let run = brisk!["--root", "none", "--qemu-arg=-S"];
    let (run, window) = run.command(["true"]).on_terminal(24, 80);
    until("the terminal is raw", || window.is_raw().then_some(()));
    run.signal(Signal::TERM);
    let _ = run.wait().exited(143);
    assert!(!window.is_raw());
}
