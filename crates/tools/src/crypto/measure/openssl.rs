//! A thread that runs `openssl speed`, which measures the libcrypto that is installed.
//!
//! `openssl speed -mr` writes `+DT:name:seconds:bytes` when its loop begins, and
//! `+R:count:name:seconds` when it has ended: these are the moments between which its CPU time is
//! taken, without that of its start.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

use brisk_host::tasks::Schedule;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::request::Request;
use super::seat::{Rate, Seat};
use crate::crypto::Implementation;
use crate::crypto::af_alg::Direction;
use crate::crypto::speed::{UNACCELERATED, failure};
use crate::crypto::{Algorithm, Kind};

/// Variables that take instructions away from libcrypto. On Arm there is only all or nothing, NEON
/// too.
const WITHOUT_INSTRUCTIONS: [(&str, &str); 2] =
    [("OPENSSL_ia32cap", UNACCELERATED), ("OPENSSL_armcap", "0")];
/// Bytes of a line that are kept.
const LONGEST_LINE: u64 = 4096;

/// Arguments of `openssl` for a request.
pub(super) fn arguments(
    implementation: &Implementation,
    algorithm: &Algorithm,
    request: &Request,
) -> Vec<String> {
    let seconds = request.seconds.ceil().max(1.0) as u64;
    let mut words: Vec<String> = ["speed", "-elapsed", "-mr"].map(str::to_owned).to_vec();
    let mut add = |option: &str, value: &str| {
        words.push(option.to_owned());
        words.push(value.to_owned());
    };
    match implementation {
        Implementation::Engine(name) => add("-engine", name),
        Implementation::Provider(name) => {
            add("-provider", name);
            add("-provider", "default");
            // What both have comes from the one that was named.
            add("-propquery", &format!("?provider={name}"));
        }
        _ => {}
    }
    add("-bytes", &request.bytes.to_string());
    add("-seconds", &seconds.to_string());
    add("-evp", algorithm.name);
    if algorithm.kind == Kind::Aead {
        words.push("-aead".to_owned());
    }
    if request.direction == Direction::Decrypt && algorithm.kind != Kind::Hash {
        words.push("-decrypt".to_owned());
    }
    words
}

/// Share of the time of a measurement by which its begin may be read late.
const LATE: f64 = 0.2;

/// Whether the line of the begin was read so late that what was counted since is not of the
/// measurement: at worst with that of the end.
fn is_late(passed: f64, seconds: f64) -> bool {
    passed < seconds * (1.0 - LATE)
}

/// Variables of the environment of `openssl` for an implementation.
pub(in crate::crypto) fn environment(implementation: &Implementation) -> Vec<(&str, &str)> {
    match implementation {
        Implementation::OpenSslPlain => WITHOUT_INSTRUCTIONS.to_vec(),
        Implementation::OpenSslConf(path) => vec![("OPENSSL_CONF", path)],
        _ => Vec::new(),
    }
}

/// A child that does not outlive its value, and neither does what it has started.
struct Speed<'a> {
    child: Child,
    seat: &'a Seat,
}

impl Speed<'_> {
    /// Waits for its end.
    fn wait(&mut self) -> io::Result<ExitStatus> {
        let pid = Pid::from_child(&self.child);
        // It is reaped below, when its group has ended.
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(pid), look)?;
        self.end();
        self.child.wait()
    }

    fn end(&mut self) {
        let pid = Pid::from_child(&self.child);
        self.seat.end(pid, || {
            let _ = self.child.wait();
        });
    }
}

impl Drop for Speed<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

/// Runs `openssl speed` once.
pub(super) fn run(
    implementation: &Implementation,
    algorithm: &Algorithm,
    request: &Request,
    seat: &Seat,
) -> Result<Rate, String> {
    let mut command = Command::new("openssl");
    command.args(arguments(implementation, algorithm, request));
    command.envs(environment(implementation));
    follow(command, implementation, algorithm, request, seat)
}

/// Runs a program that writes what `openssl speed -mr` does.
fn follow(
    mut command: Command,
    implementation: &Implementation,
    algorithm: &Algorithm,
    request: &Request,
    seat: &Seat,
) -> Result<Rate, String> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        // It is ended with all that it starts, as a script in its place does.
        .process_group(0);
    let child = brisk_sys::die_with_parent(&mut command)
        .spawn()
        .map_err(|error| format!("cannot run openssl: {error}; install it"))?;
    let mut speed = Speed { child, seat };
    seat.runs(Pid::from_child(&speed.child));
    let pid = speed.child.id();
    let output = speed.child.stderr.take().expect("it is piped");
    let mut lines = BufReader::new(output);
    let mut begun = None;
    let mut said: Vec<String> = Vec::new();
    while let Some(line) = next(&mut lines) {
        if line.starts_with("+DT:") {
            if let Implementation::Engine(name) = implementation {
                // It warns of an engine that it cannot load, and measures software instead.
                let is_set = said
                    .iter()
                    .any(|line| line.starts_with("Engine ") && line.ends_with("set."));
                if !is_set {
                    return Err(format!(
                        "openssl did not take the engine {name}: {}",
                        said.join("; ")
                    ));
                }
            }
            if begun.is_some() {
                return Err("openssl speed began twice".to_owned());
            }
            begun = Some((Instant::now(), cpu_time(pid)));
            seat.begun();
        } else if line.starts_with("+R:") {
            let (at, used) = begun.ok_or("openssl speed ended before it began")?;
            let used = cpu_time(pid) - used;
            let (operations, seconds) = count(&line)
                .ok_or_else(|| format!("openssl speed wrote {line:?}, which is not a result"))?;
            let passed = at.elapsed().as_secs_f64();
            if !(passed / 2.0 - 1.0..passed * 2.0 + 1.0).contains(&seconds) {
                return Err(format!(
                    "openssl speed says {seconds} s, and {passed:.1} s passed: it is no measurement"
                ));
            }
            if is_late(passed, seconds) {
                return Err(format!(
                    "openssl speed took {seconds} s, and its begin was read {passed:.3} s before its end: \
                     this machine is too busy to count its CPU time"
                ));
            }
            return Ok(Rate {
                operations,
                seconds,
                cpu: used / passed,
            });
        } else if said.len() < 8 {
            said.push(line);
        }
    }
    let status = speed.wait().map_err(|error| error.to_string())?;
    if let Some(reason) = failure(&said.join("\n"), algorithm.name) {
        return Err(format!("{reason} ({status})"));
    }
    Err(format!(
        "openssl {} gave no result ({status}): {}",
        arguments(implementation, algorithm, request).join(" "),
        said.join("; ")
    ))
}

/// The next line without its end, at most [`LONGEST_LINE`] bytes of it; none at the end.
fn next(lines: &mut impl BufRead) -> Option<String> {
    let mut line = Vec::new();
    let read = lines
        .by_ref()
        .take(LONGEST_LINE)
        .read_until(b'\n', &mut line);
    match read {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(String::from_utf8_lossy(&line).trim_end().to_owned()),
    }
}

/// Operations and seconds of a line `+R:count:name:seconds`.
fn count(line: &str) -> Option<(f64, f64)> {
    let mut fields = line.strip_prefix("+R:")?.split(':');
    let operations = fields.next()?.parse::<u64>().ok()?;
    let seconds = fields.next_back()?.parse::<f64>().ok()?;
    (seconds > 0.0 && seconds.is_finite()).then_some((operations as f64, seconds))
}

/// CPU time of a process with one thread, seconds; 0 once it has ended.
fn cpu_time(pid: u32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok();
    let schedule = text.as_deref().and_then(Schedule::parse);
    schedule.map_or(0.0, |schedule| schedule.on_cpu as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::super::seat::Event;
    use super::*;

    fn request(direction: Direction) -> Request {
        Request {
            algorithm: "aes-128-gcm".to_owned(),
            direction,
            bytes: 1024,
            seconds: 0.5,
            groups: Vec::new(),
        }
    }

    #[test]
    fn a_begin_that_is_read_with_the_end_is_late() {
        assert!(is_late(0.0, 1.0) && is_late(0.7, 1.0));
        assert!(!is_late(0.99, 1.0) && !is_late(3.1, 3.0));
    }

    #[test]
    fn arguments_are_those_of_the_implementation() {
        let line = |implementation: &str, name: &str, direction| {
            let algorithm = Algorithm::find(name).unwrap();
            let implementation = implementation.parse().unwrap();
            arguments(&implementation, algorithm, &request(direction)).join(" ")
        };
        assert_eq!(
            line("openssl", "aes-128-cbc", Direction::Encrypt),
            "speed -elapsed -mr -bytes 1024 -seconds 1 -evp aes-128-cbc"
        );
        assert_eq!(
            line("engine:afalg", "aes-128-gcm", Direction::Decrypt),
            "speed -elapsed -mr -engine afalg -bytes 1024 -seconds 1 -evp aes-128-gcm -aead -decrypt"
        );
        assert_eq!(
            line("openssl-conf:/x.cnf", "aes-128-cbc", Direction::Encrypt),
            line("openssl", "aes-128-cbc", Direction::Encrypt)
        );
        let configured = Implementation::OpenSslConf("/x.cnf".to_owned());
        assert_eq!(environment(&configured), [("OPENSSL_CONF", "/x.cnf")]);
        assert_eq!(environment(&Implementation::OpenSsl), []);
        assert_eq!(
            line("provider:legacy", "sha256", Direction::Decrypt),
            "speed -elapsed -mr -provider legacy -provider default -propquery ?provider=legacy \
             -bytes 1024 -seconds 1 -evp sha256"
        );
    }

    #[test]
    fn a_result_is_a_count_and_seconds() {
        assert_eq!(
            count("+R:947154:AES-128-GCM:1.000000"),
            Some((947154.0, 1.0))
        );
        for bad in ["+R:", "+R:1:a:0", "+R:-1:a:1", "+R:1:a:nan", "+H:1024"] {
            assert_eq!(count(bad), None, "{bad}");
        }
    }

    /// What a script does in the place of openssl.
    fn shell(script: &str, seat: &Seat) -> Result<Rate, String> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        let algorithm = Algorithm::find("aes-128-cbc").unwrap();
        let request = request(Direction::Encrypt);
        follow(command, &Implementation::OpenSsl, algorithm, &request, seat)
    }

    fn seat() -> (Seat, std::sync::mpsc::Receiver<Event>) {
        let (events, received) = std::sync::mpsc::channel();
        let shared = Default::default();
        (Seat { shared, events }, received)
    }

    /// The child of a script has the pipe open, on which the thread waits.
    #[test]
    fn it_ends_with_all_that_it_started() {
        let (seat, events) = seat();
        let shared = std::sync::Arc::clone(&seat.shared);
        let script = "echo +DT:aes-128-cbc:1:16 >&2; sleep 4323; exit 0";
        let thread = std::thread::spawn(move || shell(script, &seat));
        assert!(matches!(events.recv(), Ok(Event::Ready)));
        shared.kill_programs();
        let error = thread.join().unwrap().unwrap_err();
        assert!(error.contains("gave no result (signal: 9"), "{error}");
    }

    #[test]
    fn what_is_not_in_order_is_no_result() {
        // So short that the lines of a script cannot come too late.
        let result = "echo +R:1000:aes-128-cbc:0.000001 >&2";
        let begin = "echo +DT:aes-128-cbc:1:16 >&2";
        let rate = shell(&format!("{begin}; {result}"), &seat().0).unwrap();
        assert!(
            (rate.operations, rate.seconds) == (1000.0, 1e-6),
            "{rate:?}"
        );
        for (script, expected) in [
            (result.to_owned(), "ended before it began"),
            (format!("{begin}; {begin}; {result}"), "began twice"),
            (
                format!("{begin}; echo +R:1000:aes-128-cbc:20.0 >&2"),
                "says 20 s, and 0.0 s passed",
            ),
            ("echo why >&2; exit 3".to_owned(), "(exit status: 3): why"),
            (
                "echo speed: Unknown option: -engine >&2; exit 1".to_owned(),
                "this openssl has no option -engine: engines were removed in OpenSSL 4",
            ),
        ] {
            let error = shell(&script, &seat().0).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
