//! Guests whose command is an attacker: it has the port to brisk, and says there what it likes.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs::{self, File};
use std::io::Seek;

use brisk_testkit::{
    BackgroundProcesses, Brisk, Machines, Signal, brisk, brisk_of, in_memory, until,
};

/// Takes the port from the process that serves the command, which stands still from then on, and
/// evaluates the attack. `frames(KIND, PAYLOAD, COUNT)` sends frames, one at a time.
const ATTACKER: &str = r#"
    $| = 1;
    my ($SEIZE, $INTERRUPT, $PTRACE, $OPEN, $GET) = (0x4206, 0x4207, 101, 434, 438);
    my $server = getppid;
    # The last is its own; it has inherited others.
    my @ports = grep { (readlink("/proc/$server/fd/$_") // "") =~ /vport/ }
        map { s{.*/}{}r } glob "/proc/$server/fd/*";
    @ports or die "no port";
    my $process = syscall $OPEN, $server, 0;
    my $port = syscall $GET, $process, $ports[-1] + 0, 0;
    $port >= 0 or die "the port: $!";
    syscall($PTRACE, $SEIZE, $server, 0, 0) == 0 or die "stop: $!";
    syscall($PTRACE, $INTERRUPT, $server, 0, 0) == 0 or die "stop: $!";
    open my $out, ">&=", $port or die "open: $!";
    binmode $out;
    sub send_all {
        my ($bytes) = @_;
        while (length $bytes) {
            my $count = syswrite $out, $bytes;
            if (defined $count) { substr $bytes, 0, $count, ""; next }
            die "write: $!" unless $!{EAGAIN};
            vec(my $ready = "", $port, 1) = 1;
            select undef, $ready, undef, undef;
        }
    }
    sub frames { my ($kind, $payload, $count) = @_;
        my $frame = pack("CCSL", 0xB5, $kind, 0, length $payload) . $payload;
        send_all($frame) for 1 .. $count }
"#;
/// The guest's frames: see `guest/init/src/protocol.rs`.
const EXIT: &str = "frames(5, pack('CC', 0, 7), 1); sleep 1 while 1";
/// Grants of more standard input than there will ever be.
const CREDITS: &str = "frames(7, pack('L', 0xffffffff), 20000)";
/// More than what is on its way when everything stands still: the window twice, and what the
/// kernels and QEMU hold.
const UNDER_WAY: u64 = 8 << 20;

fn attack(brisk: Brisk, text: &str) -> Brisk {
    brisk.command(["perl", "-MErrno", "-e", &format!("{ATTACKER}{text}")])
}

/// A file that is longer than anybody may read, and another descriptor that shares its position.
fn endless() -> (File, File) {
    let file = tempfile::tempfile().unwrap();
    file.set_len(64 << 30).unwrap();
    let same = file.try_clone().unwrap();
    (file, same)
}

#[test]
fn standard_input_is_not_read_for_who_takes_nothing() {
    let (file, mut same) = endless();
    let run = brisk!["--root", "host"].stdin_from(file);
    let _ = attack(run, &format!("{CREDITS}; {EXIT}")).exits(7);
    let read = same.stream_position().unwrap();
    assert!(read <= UNDER_WAY, "{read} bytes were read");
}

#[test]
fn standard_input_is_not_read_for_a_guest_of_the_warm_pool_that_takes_nothing() {
    let store = in_memory("warm-");
    let ready = |run: Brisk| run.env("BRISK_WARM_DIR", store.path());
    for _ in 0..2 {
        let (file, mut same) = endless();
        let run = ready(brisk!["--warm", "--root", "host"]).stdin_from(file);
        let _ = attack(run, &format!("{CREDITS}; {EXIT}")).exits(7);
        let read = same.stream_position().unwrap();
        assert!(read <= UNDER_WAY, "{read} bytes were read");
    }
}

#[test]
fn standard_input_is_not_read_for_a_ready_guest_that_takes_nothing() {
    let store = in_memory("warm-");
    let background = BackgroundProcesses::new();
    let ready = |run: Brisk| {
        let run = run.leaving(&background).arg("--timing");
        // Longer than the test.
        let seconds = run.env("BRISK_READY_SECONDS", "3600");
        seconds.env("BRISK_WARM_DIR", store.path())
    };
    let first = ready(brisk!["--warm=ready", "--root", "host"]);
    let _ = first.command(["true"]).exits(0);
    let waiting = || fs::read_dir(store.path().join("v1/ready")).ok()?.next();
    let _ = until("a guest is ready", waiting);
    let (file, mut same) = endless();
    let run = ready(brisk!["--warm", "--root", "host"]).stdin_from(file);
    let run = attack(run, &format!("{CREDITS}; {EXIT}")).exits(7);
    let _ = run.explains(&["ready guest taken"]);
    let read = same.stream_position().unwrap();
    assert!(read <= UNDER_WAY, "{read} bytes were read");
}

#[test]
fn standard_input_is_not_read_for_a_vm_that_takes_nothing() {
    let all = Machines::new(|| brisk_of!["vm"], env!("CARGO_TARGET_TMPDIR"));
    all.boot("a", &["--root", "host"]);
    let (file, mut same) = endless();
    let run = all.vm(&["exec", "a"]).stdin_from(file);
    let _ = attack(run, &format!("{CREDITS}; {EXIT}")).exits(7);
    let read = same.stream_position().unwrap();
    assert!(read <= UNDER_WAY, "{read} bytes were read");
    let _ = all.does(&["kill", "a"]);
}

#[test]
fn a_vm_whose_servers_are_stopped_is_not_waited_for_in_silence() {
    let all = Machines::new(|| brisk_of!["vm"], env!("CARGO_TARGET_TMPDIR"));
    all.boot("a", &["--root", "host"]);
    // Those that wait at the other ports are children of PID 1.
    let stop = r#"
        for (glob "/proc/[0-9]*") {
            my ($pid) = m{(\d+)}; my $ports = grep { (readlink // "") =~ /vport/ } glob "$_/fd/*";
            kill STOP => $pid if $pid > 1 and $pid != getppid and $ports;
        }"#;
    let _ = all
        .vm(&["exec", "a"])
        .command(["perl", "-e", stop])
        .exits(0);
    let mut waits = all.exec("a", "true").spawn();
    waits.says("init does not answer yet");
    waits.signal(Signal::INT);
    let _ = waits.wait().exited(130);
    let late = all.vm(&["exec", "a", "--timeout", "6s"]).script("true");
    let _ = late.exits(124);
    let _ = all.does(&["kill", "a"]);
}

#[test]
fn ports_that_are_opened_and_closed_all_the_time_end_no_wait_of_brisk() {
    let all = Machines::new(|| brisk_of!["vm"], env!("CARGO_TARGET_TMPDIR"));
    all.boot("a", &["--root", "host"]);
    // The processes at the other ports end, and each port is opened, written to and closed.
    let storm = r#"
        $SIG{$_} = "IGNORE" for qw(HUP INT TERM PIPE);
        for (glob "/proc/[0-9]*") {
            my ($pid) = m{(\d+)}; my $ports = grep { (readlink // "") =~ /vport/ } glob "$_/fd/*";
            kill KILL => $pid if $pid > 1 and $pid != $$ and $pid != getppid and $ports;
        }
        fork and do { print "storm\n"; exit };
        close $_ for *STDIN, *STDOUT, *STDERR;
        while (1) { for my $port (glob "/dev/vport*") {
            open my $out, "+<", $port or next;
            syswrite $out, pack("CCSLL", 0xB5, 7, 0, 4, 0xffffffff) x 3;
        } }"#;
    let mut storms = all
        .vm(&["exec", "a"])
        .command(["perl", "-e", storm])
        .spawn();
    storms.shows("storm");
    storms.signal(Signal::TERM);
    let _ = storms.wait();
    let (file, mut same) = endless();
    let mut waits = all.exec("a", "true").stdin_from(file).spawn();
    waits.says("init does not answer yet");
    waits.signal(Signal::INT);
    let _ = waits.wait().exited(130);
    let read = same.stream_position().unwrap();
    assert!(read <= UNDER_WAY, "{read} bytes were read");
    let _ = all.does(&["kill", "a"]);
}
