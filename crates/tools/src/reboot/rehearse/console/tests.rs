use super::*;

const AT: Duration = Duration::from_secs(10);

fn console(cmdline: &str, goal: &str) -> Console {
    Console::new(cmdline, &goal.parse().unwrap())
}

/// The line of an executed program.
fn exec(path: &str, pid: u32) -> String {
    format!("[    9.000000] sched_process_exec: filename={path} pid={pid} old_pid={pid}\r\n")
}

/// The end of a boot whose console says this, however it is cut.
fn end(cmdline: &str, goal: &str, text: &str) -> (Option<Ending>, Stage) {
    let mut results = Vec::new();
    for cut in [1, 7, 4096] {
        let mut console = console(cmdline, goal);
        let mut ending = None;
        for piece in text.as_bytes().chunks(cut) {
            ending = console.push(piece, AT);
        }
        results.push((ending, console.stage));
    }
    assert!(
        results.iter().all(|one| *one == results[0]),
        "{text}: {results:?}"
    );
    results[0]
}

#[test]
fn the_roots_init_is_told_from_that_of_the_initial_ram_disk() {
    let begin = exec("/init", 1) + &exec("/bin/mount", 70);
    assert_eq!(end("ro", "init", &begin), (None, Stage::Initramfs));
    let switch = begin + &exec("/usr/bin/run-init", 1);
    assert_eq!(end("ro", "init", &switch), (None, Stage::Initramfs));
    let root = switch + &exec("/sbin/init", 1);
    assert_eq!(end("ro", "init", &root), (None, Stage::Root));
    // It works when it starts something.
    let works = root + &exec("/bin/mount", 123);
    assert_eq!(
        end("ro", "init", &works),
        (Some(Ending::Reached), Stage::Root)
    );
}

#[test]
fn an_init_that_is_named_is_known() {
    let named = exec("/init", 1) + &exec("/nix/store/x/init", 1);
    assert_eq!(end("ro", "init", &named).1, Stage::Initramfs);
    assert_eq!(end("init=/nix/store/x/init", "init", &named).1, Stage::Root);
}

#[test]
fn a_shell_of_the_initial_ram_disk_is_no_init() {
    assert_eq!(end("ro", "init", &exec("/bin/sh", 1)).1, Stage::Root);
    let repair = exec("/init", 1) + &exec("/bin/sh", 1);
    assert_eq!(end("ro", "init", &repair).1, Stage::Initramfs);
}

#[test]
fn an_init_that_does_nothing_runs_unless_the_kernel_panics() {
    let mut console = console("ro", "init");
    assert_eq!(console.deadline(), None);
    assert_eq!(console.push(exec("/sbin/init", 1).as_bytes(), AT), None);
    let deadline = console.deadline().unwrap();
    assert_eq!(console.ended(deadline), Some(Ending::Reached));
    let panic = b"[ 9] Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000100\r\n";
    assert_eq!(console.push(panic, AT), Some(Ending::Panicked));
    assert_eq!(console.ended(deadline), Some(Ending::Panicked));
    assert!(console.panic.unwrap().contains("Attempted to kill init"));
}

#[test]
fn without_a_trace_the_console_says_it() {
    let kernel = "[ 5] Run /init as init process\r\n";
    let dracut = format!("{kernel}[ 9] systemd[1]: Switching root.\r\n");
    assert_eq!(end("ro", "init", &dracut), (None, Stage::Root));
    let later = |text: &str| {
        let mut console = console("ro", "init");
        assert_eq!(console.push(text.as_bytes(), AT), None);
        let ending = console.ended(console.deadline().unwrap());
        (ending, console.stage)
    };
    assert_eq!(later(kernel), (None, Stage::Initramfs));
    let without = "[ 5] Run /sbin/init as init process\r\n[ 5] Run /etc/init as init process\r\n";
    assert_eq!(later(without), (Some(Ending::Reached), Stage::Root));
    // It says so of what it cannot execute.
    let panic = format!("{without}Kernel panic - not syncing: No working init found.\r\n");
    assert_eq!(
        end("ro", "init", &panic),
        (Some(Ending::Panicked), Stage::Kernel)
    );
    // With one it is not needed: systemd of the initial RAM disk says much.
    let traced = exec("/init", 1) + "[ 9] systemd[1]: Switching root.\r\n";
    assert_eq!(end("ro", "init", &traced), (None, Stage::Initramfs));
}

#[test]
fn prompts_have_no_end_of_line() {
    let begin = exec("/init", 1);
    let shell =
        begin.clone() + "ALERT!  UUID=1 does not exist.  Dropping to a shell!\n(initramfs) ";
    assert_eq!(
        end("ro", "init", &shell),
        (Some(Ending::Shell), Stage::Initramfs)
    );
    let passphrase = begin + "Please unlock disk sda2_crypt: ";
    assert_eq!(
        end("ro", "init", &passphrase),
        (Some(Ending::Passphrase), Stage::Initramfs)
    );
    // It is seen before it is whole.
    let mut asked = console("ro", "init");
    asked.push(b"Please unlock disk s", AT);
    asked.push(b"da2_crypt: \nPlease unlock disk sdb: ", AT);
    let telling = asked.telling.as_deref();
    assert_eq!(telling, Some("Please unlock disk sda2_crypt:"));
    let mut console = console("ro", "init");
    console.push(shell.as_bytes(), AT);
    assert_eq!(console.telling.as_deref(), Some("(initramfs)"));
    assert_eq!(console.causes.len(), 1);
    assert_eq!(console.causes[0].0, Cause::RootMissing);
    assert_eq!(
        console.last_lines(),
        [
            "ALERT!  UUID=1 does not exist.  Dropping to a shell!",
            "(initramfs)"
        ]
    );
}

#[test]
fn units_of_the_root_are_waited_for() {
    let root = exec("/init", 1) + &exec("/sbin/init", 1) + &exec("/bin/mount", 9);
    let reached = "[ 9] systemd[1]: Reached target multi-user.target - Multi-User System.\n";
    let finished = "[ 9] systemd[1]: Startup finished in 1s (kernel) + 2s (userspace) = 3s.\n";
    let unit = "multi-user.target";
    assert_eq!(end("ro", unit, &root), (None, Stage::Root));
    assert_eq!(
        end("ro", unit, &(root.clone() + reached)).0,
        Some(Ending::Reached)
    );
    assert_eq!(
        end("ro", "multi-user.targe", &(root.clone() + reached)).0,
        None
    );
    assert_eq!(end("ro", "userspace", &(root.clone() + reached)).0, None);
    assert_eq!(
        end("ro", "userspace", &(root.clone() + finished)).0,
        Some(Ending::Reached)
    );
    // That of the initial RAM disk is another one.
    assert_eq!(end("ro", unit, &(exec("/init", 1) + reached)).0, None);
    let emergency = root + "You are in emergency mode. After logging in, type\n";
    assert_eq!(end("ro", unit, &emergency).0, Some(Ending::Shell));
}

#[test]
fn a_kernel_that_cannot_be_decompressed_says_so() {
    assert_eq!(
        end("", "init", "\n\nDecoding failed\n\n -- System halted").0,
        Some(Ending::Corrupt)
    );
}

#[test]
fn little_is_kept_of_much() {
    let mut console = console("", "init");
    for number in 0..1000 {
        console.push(format!("Failed to start {number}\n").as_bytes(), AT);
        console.push(&[b'x'; 10_000], AT);
        console.push(b"\n", AT);
    }
    assert!(console.last_lines().len() <= LINES + 1);
    assert!(
        console
            .last_lines()
            .iter()
            .all(|line| line.len() <= LONGEST)
    );
    assert_eq!(console.causes.len(), CAUSES);
}

#[test]
fn sequences_for_terminals_are_left_out() {
    let mut console = console("", "init");
    console.push(
        b"\x1b[0;1;32m[  OK  ]\x1b[0m Reached \x1b[6\r\n(initramfs) \x1b[6n",
        AT,
    );
    assert_eq!(console.last_lines(), ["[  OK  ] Reached", "(initramfs)"]);
    assert_eq!(console.telling.as_deref(), Some("(initramfs)"));
}
