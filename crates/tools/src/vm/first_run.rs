//! A guest's first instruction after a resume: the checks before it, and the meaning of a refusal.
//!
//! The order matters. QEMU gets its disks first (`blockdev-set-active`, since 10.0), which finds
//! another process with a lock on one. No other process writes to them from then on, so that they
//! can be compared with the image's record of them. Then the image is marked as resumed, durably,
//! and only then the guest runs. QEMU before 10.0 gets its disks with `cont`; if it refuses, the
//! guest has not run, and the mark is removed.

use std::time::Duration;

use brisk_image::{Claim, Image};
use brisk_vm::qemu::control::{self, Control};
use serde_json::json;

use super::backing_chain;
use super::cpu_features::{cpu_features, have_all};
use super::describe::disks_are_as_noted;
use super::error::Error;
use super::paths::VmPaths;
use super::resume::How;
use super::standing::activate_disks;
use super::suspend_record::SuspendRecord;

/// Time limit of QEMU to report that a guest runs, or does not.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// Reason why a guest does not run, or may not run.
#[derive(Debug)]
pub(super) enum Failure {
    /// The guest has not executed an instruction, and never will in this QEMU: the image is
    /// unchanged.
    NotRun(Error),
    /// QEMU has not answered. The guest may run, so that ending this QEMU may lose data.
    Unknown(Error),
}

impl Failure {
    pub(super) fn error(self) -> Error {
        match self {
            Self::NotRun(error) | Self::Unknown(error) => error,
        }
    }
}

impl<E: Into<Error>> From<E> for Failure {
    /// An error before QEMU got the command to run the guest.
    fn from(error: E) -> Self {
        Self::NotRun(error.into())
    }
}

/// A guest that is about to run.
pub(super) struct FirstRun<'a> {
    pub(super) paths: &'a VmPaths,
    pub(super) image: &'a Image,
    /// The claim on the image; `None` for a clone, which does not use the image up.
    pub(super) claim: Option<&'a mut Claim>,
    /// What the administrator has accepted as unchanged.
    pub(super) how: &'a How,
}

impl FirstRun<'_> {
    /// Has QEMU, which has loaded the guest, execute its first instruction. When the channel's time
    /// limit is over, `wait` decides whether to wait as long again.
    pub(super) fn run(
        self,
        qmp: &mut Control<'_>,
        wait: &mut dyn FnMut() -> bool,
    ) -> Result<(), Failure> {
        let Self {
            paths,
            image,
            claim,
            how,
        } = self;
        if !how.accepts_cpu {
            let then = &image.description().cpu_features;
            have_all(image.path(), then, &cpu_features(qmp, wait)?)?;
        }
        activate_disks(qmp, wait)?;
        disks_are_as_noted(image, &how.accepted_disks)?;
        match claim {
            Some(claim) => use_up(paths, claim, qmp, wait),
            None => Ok(qmp.execute_while("cont", &json!(null), wait).map(drop)?),
        }
    }
}

/// Marks the image as resumed and runs the guest.
fn use_up(
    paths: &VmPaths,
    claim: &mut Claim,
    qmp: &mut Control<'_>,
    wait: &mut dyn FnMut() -> bool,
) -> Result<(), Failure> {
    backing_chain::remove_left(paths, claim.image());
    claim.start()?;
    match qmp.execute_while("cont", &json!(null), wait) {
        Ok(_) => {}
        Err(error @ control::Error::Refused { .. }) => {
            if !runs(qmp).map_err(Failure::Unknown)? {
                claim.undo();
                return Err(Failure::NotRun(error.into()));
            }
        }
        Err(error) => return Err(Failure::Unknown(unknown(paths, error))),
    }
    // The guest runs all the same.
    let _ = SuspendRecord::remove(paths);
    Ok(())
}

fn runs(qmp: &mut Control<'_>) -> Result<bool, Error> {
    Ok(qmp.execute("query-status", &json!(null))?["running"] == json!(true))
}

fn unknown(paths: &VmPaths, error: control::Error) -> Error {
    match error {
        control::Error::Silent { .. } => Error::state(
            &paths.name,
            "may run or not: QEMU does not say, and is left as it is",
            "a disk of its may not answer; brisk vm info shows when it runs, and brisk vm resume \
             has it go on if it stands still then",
        ),
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixStream;
    use std::path::Path;
    use std::thread;

    use brisk_image::{State, state};
    use brisk_vm::qemu::qmp::Reader;
    use serde_json::Value;

    use super::*;
    use crate::vm::StateDirs;

    /// A QEMU that answers each command with the next of these; `ID` stands for the command's.
    /// `None`: it does not answer until the channel is closed.
    fn qemu(stream: UnixStream, answers: &'static [Option<&'static str>]) {
        thread::spawn(move || {
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            for answer in answers {
                let Some(Ok(line)) = lines.next() else { return };
                let asked: Value = serde_json::from_str(&line).unwrap();
                let id = asked["id"].as_str().unwrap().to_owned();
                if let Some(answer) = answer {
                    (&stream)
                        .write_all(answer.replace("ID", &id).as_bytes())
                        .unwrap();
                }
            }
            // Until the other side is gone.
            let _ = lines.next();
        });
    }

    /// Result of a resume with these answers of QEMU, and the state of the image.
    fn resumed(answers: &'static [Option<&'static str>]) -> (Result<(), Failure>, State) {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let dirs = StateDirs {
            config: path("config"),
            state: path("state"),
            runtime: path("run"),
            key: path("key"),
        };
        let paths = dirs.vm("a").unwrap();
        fs::create_dir_all(paths.state()).unwrap();
        fs::write(paths.suspended(), "{}").unwrap();
        let image = path("a.brisk");
        fs::write(&image, "an image").unwrap();
        let mut claim = Claim::take(&image).unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        qemu(theirs, answers);
        let mut qmp = Control::new(&ours, Reader::default(), Duration::from_secs(1));
        let result = use_up(&paths, &mut claim, &mut qmp, &mut || false);
        drop(claim);
        assert_eq!(paths.suspended().exists(), result.is_err());
        (result, after(&image))
    }

    fn after(image: &Path) -> State {
        state(image).unwrap()
    }

    const RUNS: &str = "{\"return\": {}, \"id\": \"ID\"}\n";
    const REFUSED: &str = "{\"error\": {\"desc\": \"Failed to get a lock\"}, \"id\": \"ID\"}\n";
    const STANDS: &str = "{\"return\": {\"running\": false}, \"id\": \"ID\"}\n";
    const RUNNING: &str = "{\"return\": {\"running\": true}, \"id\": \"ID\"}\n";

    #[test]
    fn a_refusal_leaves_the_image_as_it_was() {
        let (result, state) = resumed(&[Some(REFUSED), Some(STANDS)]);
        assert!(matches!(result, Err(Failure::NotRun(_))), "{result:?}");
        assert_eq!(state, State::Ready);
    }

    #[test]
    fn an_image_whose_guest_runs_is_used_up() {
        for answers in [&[Some(RUNS)][..], &[Some(REFUSED), Some(RUNNING)]] {
            let (result, state) = resumed(answers);
            assert!(result.is_ok(), "{result:?}");
            assert_eq!(state, State::Resumed { held: false });
        }
    }

    #[test]
    fn a_silence_is_no_refusal() {
        let (result, state) = resumed(&[None]);
        assert!(matches!(result, Err(Failure::Unknown(_))), "{result:?}");
        assert_eq!(state, State::Resumed { held: false });
    }
}
