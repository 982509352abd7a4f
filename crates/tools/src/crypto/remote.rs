//! A machine on which a worker of brisk's runs, which a command starts there.

use std::io::{BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use brisk_host::proc::Procfs;
use brisk_host::process_times::tree;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::algorithm::Algorithm;
use super::implementation::Implementation;
use super::local::{About, Worker};
use super::measure::{Mark, Measured, NotMeasured, Request};
use super::vectors::Checked;
use super::worker::{Answer, Question, next_line, say};
use brisk_host::interrupt::Interrupt;

/// How long the machine may take to start and to answer, besides the time of a measurement.
const PATIENCE: Duration = Duration::from_secs(300);
/// How long it may take to end when its input has ended.
const END: Duration = Duration::from_secs(20);
/// How long it may take to end when it is asked to by a signal.
const TERMINATION: Duration = Duration::from_secs(5);
/// How often a wait looks for signals.
const LOOK: Duration = Duration::from_millis(20);
/// Names of processes that are QEMU.
const QEMU: &str = "qemu-system";
/// Characters of an answer that a message has.
const SHOWN: usize = 200;
/// Characters of a reason of the other side's that are kept.
const REASON: usize = 1000;

/// A machine that is reached by a command.
#[derive(Debug)]
pub struct Remote {
    child: Child,
    input: Option<ChildStdin>,
    answers: Receiver<Result<Answer, String>>,
    interrupt: Interrupt,
    command: String,
    /// Whether it is not waited for at the end.
    is_lost: bool,
}

impl Remote {
    /// Starts a worker by a command such as `ssh host brisk`, to which `crypto worker` is added.
    ///
    /// # Errors
    /// If the command has no words or cannot be started.
    pub fn start(command: &str, interrupt: &Interrupt) -> Result<Self, NotMeasured> {
        let failed = |reason: String| NotMeasured::Failed(reason);
        let words = shlex::split(command).filter(|words| !words.is_empty());
        let words = words.ok_or_else(|| {
            failed(format!(
                "\"{command}\" is no command: are its quotes closed?"
            ))
        })?;
        let mut child = Command::new(&words[0])
            .args(&words[1..])
            .args(["crypto", "worker"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // It is ended with all that it starts.
            .process_group(0)
            .spawn()
            .map_err(|error| failed(format!("cannot run {}: {error}", words[0])))?;
        let input = child.stdin.take();
        let output = child.stdout.take().expect("it is piped");
        let (sender, answers) = sync_channel(16);
        std::thread::Builder::new().spawn(move || {
            let mut lines = BufReader::new(output);
            loop {
                let answer = match next_line(&mut lines) {
                    Ok(Some(line)) => serde_json::from_slice(&line).map_err(|_| {
                        let text = String::from_utf8_lossy(&line);
                        let text: String = text.trim_end().chars().take(SHOWN).collect();
                        format!("it wrote {text:?}, which is no answer of brisk's")
                    }),
                    Ok(None) => break,
                    Err(error) => Err(error.to_string()),
                };
                let is_end = answer.is_err();
                if sender.send(answer).is_err() || is_end {
                    // The other side is to notice that nobody reads, not to wait.
                    let _ = std::io::copy(&mut lines.by_ref(), &mut std::io::sink());
                    break;
                }
            }
        })?;
        Ok(Self {
            child,
            input,
            answers,
            interrupt: interrupt.clone(),
            command: command.to_owned(),
            is_lost: false,
        })
    }

    fn ask(&mut self, question: &Question) -> Result<(), NotMeasured> {
        let sent = self.input.as_mut().map(|input| say(input, question));
        match sent {
            Some(Ok(())) => Ok(()),
            _ => Err(self.gone()),
        }
    }

    /// The next answer, within a time from now.
    fn answer(&mut self, limit: Duration) -> Result<Answer, NotMeasured> {
        self.answer_until(Instant::now() + limit)
    }

    fn answer_until(&mut self, until: Instant) -> Result<Answer, NotMeasured> {
        let begun = Instant::now();
        loop {
            if let Some(signal) = self.interrupt.signal() {
                return Err(NotMeasured::Interrupted(signal));
            }
            if begun > until {
                return Err(self.lost("it answers without end"));
            }
            match self.answers.recv_timeout(LOOK) {
                Ok(Ok(Answer::Failed(reason))) => return Err(NotMeasured::Failed(short(reason))),
                Ok(Ok(Answer::Silent(reason))) => {
                    // Its process cannot end while a thread of it waits in the kernel.
                    self.is_lost = true;
                    return Err(NotMeasured::NoAnswer(short(reason)));
                }
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(reason)) => return Err(self.lost(&reason)),
                Err(RecvTimeoutError::Disconnected) => return Err(self.gone()),
                Err(RecvTimeoutError::Timeout) if Instant::now() < until => {}
                Err(RecvTimeoutError::Timeout) => {
                    let reason = format!("no answer within {} s", begun.elapsed().as_secs());
                    return Err(self.lost(&reason));
                }
            }
        }
    }

    fn gone(&mut self) -> NotMeasured {
        let status = self.child.try_wait().ok().flatten();
        let status = status.map_or_else(String::new, |status| format!(" ({status})"));
        self.lost(&format!("the command has ended{status}"))
    }

    /// The machine is of no use any more, which ends all.
    fn lost(&mut self, reason: &str) -> NotMeasured {
        self.is_lost = true;
        let text = format!("{}: {reason}", self.command);
        NotMeasured::System(std::io::Error::other(text))
    }

    fn unexpected(&mut self, answer: &Answer) -> NotMeasured {
        let text: String = format!("{answer:?}").chars().take(SHOWN).collect();
        self.lost(&format!("unexpected answer {text}"))
    }

    /// Whether the command has ended. It is not reaped by that: its group's number stays its own.
    fn has_ended(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(
            waitid(WaitId::Pid(Pid::from_child(&self.child)), look),
            Ok(None)
        )
    }

    /// Whether it ends in a time.
    fn ends_within(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        while !self.has_ended() {
            if Instant::now() > until {
                return false;
            }
            std::thread::sleep(LOOK);
        }
        true
    }
}

/// A reason that the other side gives, not longer than people read.
fn short(reason: String) -> String {
    match reason.char_indices().nth(REASON) {
        None => reason,
        Some((end, _)) => format!("{}…", &reason[..end]),
    }
}

impl Worker for Remote {
    fn about(&mut self, algorithm: &'static Algorithm) -> Result<About, NotMeasured> {
        self.ask(&Question::About(algorithm.name.to_owned()))?;
        match self.answer(PATIENCE)? {
            Answer::About(about) => Ok(about),
            other => Err(self.unexpected(&other)),
        }
    }

    fn check(
        &mut self,
        implementation: &Implementation,
        algorithm: &'static Algorithm,
    ) -> Result<Checked, NotMeasured> {
        self.ask(&Question::Check {
            implementation: implementation.clone(),
            algorithm: algorithm.name.to_owned(),
        })?;
        match self.answer(PATIENCE)? {
            Answer::Checked(Checked::No(reason)) => Ok(Checked::No(short(reason))),
            Answer::Checked(Checked::Yes) => Ok(Checked::Yes),
            other => Err(self.unexpected(&other)),
        }
    }

    fn measure(
        &mut self,
        request: &Request,
        mark: &mut dyn FnMut(Mark),
    ) -> Result<Measured, NotMeasured> {
        self.ask(&Question::Measure(request.clone()))?;
        let until = Instant::now() + PATIENCE + Duration::from_secs_f64(request.seconds);
        loop {
            match self.answer_until(until)? {
                Answer::Begin => mark(Mark::Begin),
                Answer::End => mark(Mark::End),
                Answer::Measured(measured) if measured.groups.len() == request.groups.len() => {
                    return match measured.is_possible() {
                        true => Ok(measured),
                        false => Err(self.lost("its figures cannot be right")),
                    };
                }
                other => return Err(self.unexpected(&other)),
            }
        }
    }

    fn host_processes(&self) -> Vec<u32> {
        let proc = Procfs::default();
        let Ok(all) = proc.all_process_times() else {
            return Vec::new();
        };
        let is_qemu = |pid: &u32| {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
            name.is_ok_and(|name| name.starts_with(QEMU))
        };
        let own = tree(&all, self.child.id());
        own.into_iter().filter(is_qemu).collect()
    }
}

/// The end of its input ends the worker, and with it the guest that it ran in.
impl Drop for Remote {
    fn drop(&mut self) {
        drop(self.input.take());
        let until = Instant::now() + END;
        let is_waited_for = |it: &Self| !it.is_lost && it.interrupt.signal().is_none();
        while is_waited_for(self) && !self.has_ended() && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
        let group = Pid::from_child(&self.child);
        // The second one ends a guest of brisk whose command does not end by the first.
        for _ in 0..2 {
            if !self.has_ended() {
                let _ = kill_process_group(group, Signal::TERM);
                self.ends_within(TERMINATION);
            }
        }
        // What it has started may be left.
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn algorithm() -> &'static Algorithm {
        Algorithm::find("aes-128-cbc").unwrap()
    }

    fn request() -> Request {
        Request {
            algorithm: "aes-128-cbc".to_owned(),
            direction: crate::crypto::Direction::Encrypt,
            bytes: 16,
            seconds: 0.1,
            groups: Vec::new(),
        }
    }

    /// A worker that reads a question for each line of a script, and writes that.
    fn start(lines: &[&str]) -> Remote {
        let steps = lines.iter().map(|line| format!("read q; echo '{line}';"));
        let script: String = steps.collect();
        let command = shlex::try_join(["sh", "-c", &script]).unwrap();
        Remote::start(&command, &Interrupt::new().unwrap()).unwrap()
    }

    #[test]
    fn answers_are_read_with_their_marks() {
        let about = r#"{"about":{"kernel":"6.1","cpu":null,"openssl":null,"cpus":[0],"implementations":["af-alg:x"],"notes":[]}}"#;
        let window = r#"{"seconds":1.0,"cpus":1,"idle":0.5,"steal":0.0,"interrupts":0.0,"kernel_threads":{},"others":0.0,"device_interrupts":null,"joules":null}"#;
        let measured = format!(r#"{{"measured":{{"groups":[],"window":{window},"proof":null}}}}"#);
        let marks = format!("\"begin\"\n\"end\"\n{measured}");
        let mut remote = start(&[about, r#"{"checked":"yes"}"#, &marks]);
        let found = remote.about(algorithm()).unwrap();
        assert_eq!(found.implementations[0].to_string(), "af-alg:x");
        let checked = remote.check(&Implementation::OpenSsl, algorithm());
        assert_eq!(checked.unwrap(), Checked::Yes);
        let mut seen = Vec::new();
        let result = remote.measure(&request(), &mut |mark| seen.push(mark));
        assert!((result.unwrap().window.busy() - 0.5).abs() < 1e-9);
        assert_eq!(seen, [Mark::Begin, Mark::End]);
        // It ends after that, as a guest that panics does.
        let error = remote.about(algorithm()).unwrap_err();
        assert!(
            error.to_string().contains("the command has ended"),
            "{error}"
        );
    }

    #[test]
    fn reasons_are_not_longer_than_people_read() {
        let long = "é".repeat(5000);
        let answers = [
            format!(r#"{{"checked":{{"no":"{long}"}}}}"#),
            format!(r#"{{"failed":"{long}"}}"#),
        ];
        let mut remote = start(&answers.each_ref().map(|text| &**text));
        let mut check = || remote.check(&Implementation::OpenSsl, algorithm());
        let Checked::No(reason) = check().unwrap() else {
            panic!("it was not checked");
        };
        let failed = check().unwrap_err().to_string();
        for text in [reason, failed] {
            assert_eq!(text.chars().count(), REASON + 1);
        }
    }

    #[test]
    fn what_is_no_answer_is_shown() {
        let mut remote = start(&["Permission denied"]);
        let error = remote.about(algorithm()).unwrap_err().to_string();
        assert!(
            error.contains("\"Permission denied\", which is no answer"),
            "{error}"
        );
        // A result for other groups than those that were asked for.
        let mut remote = start(&[r#"{"checked":"yes"}"#]);
        let error = remote.about(algorithm()).unwrap_err().to_string();
        assert!(error.contains("unexpected answer"), "{error}");
        let error = Remote::start("'", &Interrupt::new().unwrap()).unwrap_err();
        assert!(error.to_string().contains("is no command"), "{error}");
        let error = Remote::start("/nonexistent", &Interrupt::new().unwrap()).unwrap_err();
        assert!(
            error.to_string().contains("cannot run /nonexistent"),
            "{error}"
        );
    }

    #[test]
    fn an_interrupt_ends_the_wait_and_the_command() {
        let interrupt = Interrupt::new().unwrap();
        let mut remote = Remote::start("sh -c 'exec sleep 4322'", &interrupt).unwrap();
        let pid = remote.child.id();
        interrupt.trigger().unwrap().pull();
        let error = remote.about(algorithm()).unwrap_err();
        assert!(matches!(error, NotMeasured::Interrupted(15)), "{error}");
        drop(remote);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }

    /// As brisk does while the command in its guest goes on.
    #[test]
    fn a_command_that_needs_two_signals_gets_them() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("signals");
        let show = file.display();
        let script = format!(
            "n=0; trap 'n=$((n+1)); echo $n >> {show}; test $n -lt 2 || exit' TERM; \
             read q; echo '{{\"silent\":\"it waits\"}}'; while :; do sleep 0.02; done"
        );
        let command = shlex::try_join(["sh", "-c", &script]).unwrap();
        let mut remote = Remote::start(&command, &Interrupt::new().unwrap()).unwrap();
        let error = remote.measure(&request(), &mut |_| {}).unwrap_err();
        assert!(matches!(error, NotMeasured::NoAnswer(_)), "{error}");
        let begun = Instant::now();
        drop(remote);
        // No time for an end by itself is given.
        assert!(begun.elapsed() < END);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "1\n2\n");
    }

    /// A process that the command leaves behind ends with it.
    #[test]
    fn nothing_of_the_command_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pid");
        let script = format!("sleep 4324 >/dev/null & echo $! > {}", file.display());
        let command = shlex::try_join(["sh", "-c", &script]).unwrap();
        let mut remote = Remote::start(&command, &Interrupt::new().unwrap()).unwrap();
        assert!(remote.about(algorithm()).is_err());
        let pid = std::fs::read_to_string(&file).unwrap();
        drop(remote);
        // It is killed, and ends when the kernel gets to it.
        let lives = || {
            let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
            state.is_ok_and(|state| !state.contains(") Z "))
        };
        let until = Instant::now() + Duration::from_secs(30);
        while lives() && Instant::now() < until {
            std::thread::yield_now();
        }
        assert!(!lives());
    }

    #[test]
    fn figures_that_cannot_be_right_are_refused() {
        let of = |seconds: &str, idle: &str| {
            let window = format!(
                r#"{{"seconds":{seconds},"cpus":1,"idle":{idle},"steal":0.0,"interrupts":0.0,"kernel_threads":{{}},"others":0.0,"device_interrupts":null,"joules":null}}"#
            );
            let line = format!(r#"{{"measured":{{"groups":[],"window":{window},"proof":null}}}}"#);
            start(&[&line]).measure(&request(), &mut |_| {})
        };
        of("1.0", "0.5").unwrap();
        for (seconds, idle) in [
            ("0.0", "0.5"),
            ("-1.0", "0.5"),
            ("1e300", "0.5"),
            ("1.0", "-1"),
        ] {
            let error = of(seconds, idle).unwrap_err().to_string();
            assert!(
                error.contains("cannot be right"),
                "{seconds} {idle}: {error}"
            );
        }
    }
}
