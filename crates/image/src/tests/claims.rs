//! An image is resumed once, whatever happens in between.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::fixture::{Fixture, content};
use brisk_testkit::{Refusal, apart, refuse};

use crate::{Claim, Error, Header, Hold, Image, Keys, State, remove_resumed, resumed, state};

#[test]
fn from_claim_to_finish() {
    let fixture = Fixture::new(20);
    let path = fixture.image("db1.brisk");
    assert_eq!(state(&path).unwrap(), State::Ready);
    let mut claim = Claim::take(&path).unwrap();
    assert_eq!(state(&path).unwrap(), State::Resuming { held: true });
    let image = Image::from_file(claim.file().unwrap(), claim.path(), &fixture.keys()).unwrap();
    claim.start().unwrap();
    assert_eq!(state(&path).unwrap(), State::Resumed { held: true });
    // Lazy loading goes on from the file by its descriptor.
    assert!(content(&image).unwrap() == fixture.bytes);
    claim.finish().unwrap();
    assert_eq!(state(&path).unwrap(), State::Absent);
    assert_eq!(fixture.left(), [""; 0]);
}

#[test]
fn a_second_one_is_refused_at_every_step() {
    let fixture = Fixture::new(20);
    let path = fixture.image("db1.brisk");
    let mut claim = Claim::take(&path).unwrap();
    assert!(matches!(Claim::take(&path), Err(Error::InUse { .. })));
    claim.start().unwrap();
    assert!(matches!(Claim::take(&path), Err(Error::Resumed { .. })));
    drop(claim);
    assert!(matches!(Claim::take(&path), Err(Error::Resumed { .. })));
    assert_eq!(state(&path).unwrap(), State::Resumed { held: false });
}

#[test]
fn what_was_resumed_is_removed_when_nobody_reads_from_it() {
    let fixture = Fixture::new(20);
    let path = fixture.image("db1.brisk");
    remove_resumed(&path).unwrap();
    assert_eq!(state(&path).unwrap(), State::Ready);
    let mut claim = Claim::take(&path).unwrap();
    claim.start().unwrap();
    remove_resumed(&path).unwrap();
    assert_eq!(state(&path).unwrap(), State::Resumed { held: true });
    drop(claim);
    remove_resumed(&path).unwrap();
    assert_eq!(state(&path).unwrap(), State::Absent);
    assert_eq!(fixture.left(), [""; 0]);
}

#[test]
fn what_a_guest_reads_from_is_found_beside_another_file_of_that_name() {
    let fixture = Fixture::new(20);
    let path = fixture.image("db1.brisk");
    assert_eq!(resumed(&path).unwrap(), None);
    let mut claim = Claim::take(&path).unwrap();
    assert_eq!(resumed(&path).unwrap(), None);
    claim.start().unwrap();
    fs::write(&path, "precious").unwrap();
    assert_eq!(resumed(&path).unwrap(), Some(true));
    drop(claim);
    assert_eq!(resumed(&path).unwrap(), Some(false));
}

#[test]
fn one_that_is_held_is_claimed_by_nobody() {
    let fixture = Fixture::new(20);
    let path = fixture.image("db1.brisk");
    let resuming = fixture.path("db1.brisk.resuming");
    // Ready, and left behind by a process that died.
    for left_behind in [false, true] {
        if left_behind {
            fs::rename(&path, &resuming).unwrap();
        }
        let holds = [Hold::take(&path).unwrap(), Hold::take(&path).unwrap()];
        assert!(matches!(Claim::take(&path), Err(Error::InUse { .. })));
        for hold in holds {
            let file = hold.file().unwrap();
            let image = Image::from_file(file, hold.path(), &fixture.keys()).unwrap();
            assert!(content(&image).unwrap() == fixture.bytes);
        }
        let claim = Claim::take(&path).unwrap();
        assert!(matches!(Hold::take(&path), Err(Error::InUse { .. })));
        claim.release().unwrap();
    }
    let mut claim = Claim::take(&path).unwrap();
    claim.start().unwrap();
    assert!(matches!(Hold::take(&path), Err(Error::Resumed { .. })));
    claim.finish().unwrap();
    assert!(matches!(Hold::take(&path), Err(Error::Io { .. })));
}

#[test]
fn of_many_at_once_one_gets_it() {
    let fixture = Fixture::new(20);
    let path = fixture.image("db1.brisk");
    for _ in 0..50 {
        let claims: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| Claim::take(&path))).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        assert_eq!(claims.iter().filter(|claim| claim.is_ok()).count(), 1);
        drop(claims);
        assert_eq!(state(&path).unwrap(), State::Ready);
    }
}

#[test]
fn to_ask_how_far_it_is_never_keeps_it_from_being_claimed() {
    let fixture = Fixture::new(20);
    let path = fixture.image("db1.brisk");
    // As one that was left behind, whose lock is what is asked for.
    let resuming = fixture.path("db1.brisk.resuming");
    fs::rename(&path, &resuming).unwrap();
    let done = AtomicBool::new(false);
    let asked = AtomicU32::new(0);
    let claimed = std::thread::scope(|scope| {
        let ask = || {
            while !done.load(Ordering::Relaxed) {
                let claimed = matches!(state(&path), Ok(State::Resuming { .. }));
                asked.fetch_add(claimed.into(), Ordering::Relaxed);
            }
        };
        for _ in 0..3 {
            scope.spawn(ask);
        }
        let enough = |round| round >= 2000 && asked.load(Ordering::Relaxed) > 0;
        let mut rounds = (0..2_000_000).take_while(|round| !enough(*round));
        let claimed = rounds.try_for_each(|_| {
            let claim = Claim::take(&path)?;
            // On one processor, so that those who ask have their turn while it is claimed.
            std::thread::yield_now();
            claim.release()?;
            fs::rename(&path, &resuming).unwrap();
            Ok::<_, Error>(())
        });
        done.store(true, Ordering::Relaxed);
        claimed
    });
    claimed.unwrap();
    assert!(asked.into_inner() > 0, "nobody asked meanwhile");
}

#[test]
fn a_hold_is_no_claim() {
    let fixture = Fixture::new(20);
    let path = fixture.image("db1.brisk");
    fs::rename(&path, fixture.path("db1.brisk.resuming")).unwrap();
    let _hold = Hold::take(&path).unwrap();
    assert_eq!(state(&path).unwrap(), State::Resuming { held: false });
}

#[test]
fn a_claim_whose_process_died_before_the_guest_ran_is_taken_over() {
    let fixture = Fixture::new(20);
    let path = fixture.image("db1.brisk");
    // What is left by a process that died: the name, without the lock.
    fs::rename(&path, fixture.path("db1.brisk.resuming")).unwrap();
    assert_eq!(state(&path).unwrap(), State::Resuming { held: false });
    let mut claim = Claim::take(&path).unwrap();
    claim.start().unwrap();
    claim.finish().unwrap();
}

#[test]
fn given_back_or_dropped_it_is_ready_again() {
    let fixture = Fixture::new(20);
    let path = fixture.image("db1.brisk");
    Claim::take(&path).unwrap().release().unwrap();
    assert_eq!(state(&path).unwrap(), State::Ready);
    drop(Claim::take(&path).unwrap());
    assert_eq!(fixture.left(), ["db1.brisk"]);
    let mut claim = Claim::take(&path).unwrap();
    claim.start().unwrap();
    assert!(claim.release().is_err(), "the guest may have run");
    assert_eq!(fixture.left(), ["db1.brisk.resumed"]);
}

#[test]
fn an_image_that_others_are_based_on_is_kept() {
    let fixture = Fixture::new(20);
    let path = fixture.image("db1.brisk");
    let mut claim = Claim::take(&path).unwrap();
    claim.start().unwrap();
    claim.keep(&fixture.path("db1.base.brisk")).unwrap();
    assert_eq!(fixture.left(), ["db1.base.brisk"]);
    let unstarted = Claim::take(&fixture.image("db2.brisk")).unwrap();
    assert!(unstarted.finish().is_err(), "its guest has not run");
    assert_eq!(fixture.left(), ["db1.base.brisk", "db2.brisk"]);
}

#[test]
fn what_is_not_there_cannot_be_claimed() {
    let error = Claim::take(Path::new("/no/such.brisk")).unwrap_err();
    assert!(error.to_string().contains("/no/such.brisk"), "{error}");
    assert_eq!(state(Path::new("/no/such.brisk")).unwrap(), State::Absent);
}

#[test]
fn a_guest_that_was_refused_to_run_gives_its_image_back() {
    let fixture = Fixture::new(20);
    let path = fixture.image("db1.brisk");
    let mut claim = Claim::take(&path).unwrap();
    claim.start().unwrap();
    claim.undo();
    claim.release().unwrap();
    assert_eq!(state(&path).unwrap(), State::Ready);
    assert_eq!(fixture.left(), ["db1.brisk"]);
}

#[test]
fn one_that_was_resumed_is_claimed_again_only_when_asked_to() {
    let fixture = Fixture::new(20);
    let path = fixture.image("db1.brisk");
    let mut claim = Claim::take(&path).unwrap();
    claim.start().unwrap();
    let busy = Claim::take_again(&path);
    assert!(matches!(busy, Err(Error::InUse { .. })), "{busy:?}");
    drop(claim);
    // Whatever becomes of that before the guest runs, the name still says that one may have.
    let again = Claim::take_again(&path).unwrap();
    assert_eq!(state(&path).unwrap(), State::Resumed { held: true });
    again.release().unwrap();
    assert_eq!(state(&path).unwrap(), State::Resumed { held: false });
    let mut again = Claim::take_again(&path).unwrap();
    again.start().unwrap();
    again.finish().unwrap();
    assert_eq!(fixture.left(), [""; 0]);
}

/// What NFS, 9p and FAT refuse.
#[test]
fn claims_work_where_a_rename_has_no_flags() {
    for refusals in [
        &[Refusal::RenameFlags][..],
        &[Refusal::RenameFlags, Refusal::Links],
    ] {
        apart(|| {
            let fixture = Fixture::new(20);
            let path = fixture.image("db1.brisk");
            refuse(refusals);
            Claim::take(&path).unwrap().release().unwrap();
            fs::write(fixture.path("db1.brisk.resuming"), "another").unwrap();
            let taken = Claim::take(&path);
            assert!(matches!(taken, Err(Error::InTheWay { .. })), "{taken:?}");
            fs::remove_file(fixture.path("db1.brisk.resuming")).unwrap();
            let mut claim = Claim::take(&path).unwrap();
            claim.start().unwrap();
            claim.keep(&fixture.path("base")).unwrap();
            assert_eq!(fixture.left(), ["base"]);
        });
    }
}

/// link(2) was made, and unlink(2) was not.
#[test]
fn an_image_with_two_names_is_resumed_once() {
    let fixture = Fixture::new(20);
    let path = fixture.image("db1.brisk");
    let [resuming, resumed] = ["resuming", "resumed"].map(|end| {
        let name = format!("db1.brisk.{end}");
        fixture.path(&name)
    });
    fs::hard_link(&path, &resuming).unwrap();
    let claim = Claim::take(&path).unwrap();
    assert!(!path.exists());
    claim.release().unwrap();
    assert_eq!(fixture.left(), ["db1.brisk"]);
    fs::hard_link(&path, &resumed).unwrap();
    let mut claim = Claim::take(&path).unwrap();
    claim.start().unwrap();
    assert_eq!(fixture.left(), ["db1.brisk.resumed"]);
}

#[test]
fn what_another_machine_was_resumed_from_is_not_replaced() {
    let fixture = Fixture::new(20);
    let path = fixture.image("db1.brisk");
    let resumed = fixture.path("db1.brisk.resumed");
    fs::write(&resumed, "another").unwrap();
    let mut claim = Claim::take(&path).unwrap();
    let started = claim.start();
    assert!(matches!(started, Err(Error::Exists { .. })), "{started:?}");
    drop(claim);
    assert_eq!(fs::read(&resumed).unwrap(), b"another");
    assert_eq!(state(&path).unwrap(), State::Ready);
}

#[test]
fn a_claim_that_cannot_be_made_durable_goes_back() {
    apart(|| {
        let fixture = Fixture::new(20);
        let path = fixture.image("db1.brisk");
        let mut claim = Claim::take(&path).unwrap();
        // The number that the directory is going to be opened with.
        let next = fs::File::open(fixture.path("")).unwrap();
        let refusal = Refusal::sync_of(&next);
        drop(next);
        refuse(&[refusal]);
        let started = claim.start();
        assert!(matches!(started, Err(Error::Io { .. })), "{started:?}");
        drop(claim);
        assert_eq!(fixture.left(), ["db1.brisk"]);
    });
}

#[test]
fn a_fifo_is_no_image_and_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db1.brisk");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.unwrap().success());
    assert!(Header::read(&path).is_err());
    assert!(matches!(state(&path), Ok(State::Ready) | Err(_)));
    assert!(Image::open(&path, &Keys::default()).is_err());
}
