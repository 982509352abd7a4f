//! The time until a deadline, shared by guests that are saved at once. Pure: times are since the
//! beginning, and the caller has the clock.
//!
//! All guests write as quickly as processors and disks let them together, whichever of them it is:
//! so those that have begun are done in time if what is left of all of them is. What is known of the
//! rate is what was measured since the beginning. A guest whose rate is limited has a rate of its
//! own, and leaves the others theirs.

use std::time::Duration;

use crate::vm::late::Late;

/// Time for which a rate must have been measured before anything is concluded from it.
const MEASURED: Duration = Duration::from_secs(2);
/// Half-life of what was measured: a disk becomes slower when the page cache is full.
const HALF_LIFE: Duration = Duration::from_secs(10);
/// A guest that is being saved is given up early if it would take so many times the time that is
/// left: what was written of it would be lost.
const DOUBT: f64 = 1.25;

/// Time until which guests may be saved, so that those which are not have time to stop: `stop`, but
/// at most half of all time.
#[must_use]
pub(super) fn saved_until(deadline: Duration, stop: Duration) -> Duration {
    deadline.saturating_sub(stop.min(deadline / 2))
}

/// Rate of writing, in which what is long ago counts less.
#[derive(Debug, Default)]
struct Meter {
    bytes: f64,
    seconds: f64,
    measured: Duration,
}

impl Meter {
    fn add(&mut self, bytes: u64, time: Duration) {
        let halves = time.as_secs_f64() / HALF_LIFE.as_secs_f64();
        let rest = 0.5_f64.powf(halves);
        self.bytes = self.bytes * rest + bytes as f64;
        self.seconds = self.seconds * rest + time.as_secs_f64();
        self.measured += time;
    }

    /// Bytes a second, if that is known.
    fn rate(&self) -> Option<f64> {
        (self.measured >= MEASURED).then(|| self.bytes / self.seconds)
    }
}

/// A guest that is to be saved.
#[derive(Debug)]
struct Guest {
    id: usize,
    bytes: u64,
    done: u64,
    /// Of those `done`, those that were measured.
    counted: u64,
    /// Rate of a guest that is limited.
    own: Option<Meter>,
    given_up: bool,
}

impl Guest {
    fn left(&self) -> u64 {
        self.bytes.saturating_sub(self.done)
    }

    fn is_shared(&self) -> bool {
        self.own.is_none() && !self.given_up
    }

    /// Whether it is at what the rate is about: neither before its first nor behind its last byte.
    fn is_writing(&self) -> bool {
        self.done > 0 && self.left() > 0
    }
}

/// Memory of a guest, and what bounds its writing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Load {
    /// Bytes that are to be written, before compression.
    pub(super) bytes: u64,
    /// Whether its rate is limited beside that of the host.
    pub(super) is_limited: bool,
}

/// Answer to a guest that waits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Answer {
    /// Others come first.
    Wait,
    /// It begins.
    Go,
    /// It would not be done in time.
    Late(Late),
}

/// Guests that wait to be saved, and those that are being saved.
#[derive(Debug)]
pub(super) struct Budget {
    /// Time at which saving ends; `None`: never.
    until: Option<Duration>,
    /// Guests at once.
    jobs: usize,
    waiting: Vec<Guest>,
    saving: Vec<Guest>,
    shared: Meter,
    looked: Duration,
}

impl Budget {
    /// No guests yet.
    pub(super) fn new(until: Option<Duration>, jobs: usize) -> Self {
        Self {
            until,
            jobs: jobs.max(1),
            waiting: Vec::new(),
            saving: Vec::new(),
            shared: Meter::default(),
            looked: Duration::ZERO,
        }
    }

    /// A guest waits from now on.
    pub(super) fn queue(&mut self, id: usize, load: Load) {
        self.waiting.push(Guest {
            id,
            bytes: load.bytes,
            done: 0,
            counted: 0,
            own: load.is_limited.then(Meter::default),
            given_up: false,
        });
    }

    /// Whether a guest that waits may begin. The smallest comes first: so most are saved if there
    /// is not enough time for all.
    pub(super) fn ask(&mut self, id: usize, now: Duration) -> Answer {
        let Some(at) = self.waiting.iter().position(|guest| guest.id == id) else {
            return Answer::Wait;
        };
        let time = self.time_left(now);
        if time == Some(Duration::ZERO) {
            let left = self.waiting.swap_remove(at).bytes;
            return Answer::Late(over(left));
        }
        let first = self.waiting.iter().map(|guest| (guest.bytes, guest.id));
        let is_first = first.min().is_some_and(|(_, first)| first == id);
        if !is_first || self.saving.len() >= self.jobs {
            return Answer::Wait;
        }
        let guest = self.waiting.swap_remove(at);
        let together = self.left() + guest.bytes as f64;
        if let (Some(time), Some(rate), true) = (time, self.shared.rate(), guest.is_shared()) {
            if together > rate * time.as_secs_f64() {
                return Answer::Late(Late {
                    left: guest.bytes,
                    rate: Some(rate),
                    time,
                });
            }
        }
        self.saving.push(guest);
        Answer::Go
    }

    /// So many bytes of a guest are written.
    pub(super) fn did(&mut self, id: usize, done: u64) {
        if let Some(guest) = self.saving.iter_mut().find(|guest| guest.id == id) {
            guest.done = guest.done.max(done.min(guest.bytes));
        }
    }

    /// A guest is not to be saved any more: it is, or cannot be.
    pub(super) fn leave(&mut self, id: usize) {
        self.saving.retain(|guest| guest.id != id);
        self.waiting.retain(|guest| guest.id != id);
    }

    /// Measures, and gives up guests that would not be done in time: as few as possible, so the
    /// largest. All of them if the time is over.
    pub(super) fn look(&mut self, now: Duration) -> Vec<(usize, Late)> {
        self.measure(now);
        let Some(time) = self.time_left(now) else {
            return Vec::new();
        };
        let mut given_up = Vec::new();
        let mut give_up = |guest: &mut Guest, late| {
            guest.given_up = true;
            given_up.push((guest.id, late));
        };
        if time.is_zero() {
            for guest in self.saving.iter_mut().filter(|guest| !guest.given_up) {
                let left = guest.left();
                give_up(guest, over(left));
            }
            return given_up;
        }
        let most = |rate: f64| rate * time.as_secs_f64() * DOUBT;
        for guest in self.saving.iter_mut().filter(|guest| !guest.given_up) {
            let rate = guest.own.as_ref().and_then(Meter::rate);
            if let Some(rate) = rate.filter(|rate| guest.left() as f64 > most(*rate)) {
                let left = guest.left();
                let rate = Some(rate);
                give_up(guest, Late { left, rate, time });
            }
        }
        while let Some(rate) = self.shared.rate().filter(|rate| self.left() > most(*rate)) {
            let shared = self.saving.iter_mut().filter(|guest| guest.is_shared());
            let Some(guest) = shared.max_by_key(|guest| guest.left()) else {
                break;
            };
            let left = guest.left();
            let rate = Some(rate);
            give_up(guest, Late { left, rate, time });
        }
        given_up
    }

    fn measure(&mut self, now: Duration) {
        let time = now.saturating_sub(self.looked);
        self.looked = now;
        let (mut bytes, mut writing) = (0, false);
        for guest in &mut self.saving {
            let more = guest.done - guest.counted;
            guest.counted = guest.done;
            let is_writing = guest.is_writing() || more > 0;
            match &mut guest.own {
                Some(own) if is_writing => own.add(more, time),
                Some(_) => {}
                None => {
                    bytes += more;
                    writing |= is_writing;
                }
            }
        }
        if writing {
            self.shared.add(bytes, time);
        }
    }

    /// Bytes that are left of all that share the rate.
    fn left(&self) -> f64 {
        let shared = self.saving.iter().filter(|guest| guest.is_shared());
        shared.map(Guest::left).sum::<u64>() as f64
    }

    fn time_left(&self, now: Duration) -> Option<Duration> {
        self.until.map(|until| until.saturating_sub(now))
    }
}

fn over(left: u64) -> Late {
    Late {
        left,
        rate: None,
        time: Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MB: u64 = 1_000_000;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn load(megabytes: u64) -> Load {
        Load {
            bytes: megabytes * MB,
            is_limited: false,
        }
    }

    /// A budget until 100 s in which guests with these megabytes wait, numbered in order.
    fn with(jobs: usize, guests: &[u64]) -> Budget {
        let mut budget = Budget::new(Some(seconds(100)), jobs);
        for (id, megabytes) in guests.iter().enumerate() {
            budget.queue(id, load(*megabytes));
        }
        budget
    }

    #[test]
    fn time_to_stop_is_set_aside() {
        for (deadline, stop, until) in [(1200, 90, 1110), (60, 90, 30), (100, 50, 50), (0, 90, 0)] {
            assert_eq!(
                saved_until(seconds(deadline), seconds(stop)),
                seconds(until)
            );
        }
    }

    #[test]
    fn the_smallest_comes_first_and_so_many_at_once() {
        let mut budget = with(2, &[300, 100, 200]);
        let now = seconds(0);
        assert_eq!(budget.ask(0, now), Answer::Wait);
        assert_eq!(budget.ask(2, now), Answer::Wait);
        assert_eq!(budget.ask(1, now), Answer::Go);
        assert_eq!(budget.ask(2, now), Answer::Go);
        assert_eq!(budget.ask(0, now), Answer::Wait);
        budget.leave(1);
        assert_eq!(budget.ask(0, now), Answer::Go);
        // One that is unknown, or has begun, has nothing to ask for.
        assert_eq!(budget.ask(0, now), Answer::Wait);
        assert_eq!(budget.ask(9, now), Answer::Wait);
    }

    #[test]
    fn one_that_does_not_fit_does_not_begin() {
        let mut budget = with(2, &[100, 500, 2000]);
        assert_eq!(budget.ask(0, seconds(0)), Answer::Go);
        budget.did(0, 40 * MB);
        assert_eq!(budget.look(seconds(4)), []);
        // 10 MB/s, 96 s: 960 MB.
        assert_eq!(budget.ask(1, seconds(4)), Answer::Go);
        budget.leave(0);
        let Answer::Late(late) = budget.ask(2, seconds(4)) else {
            panic!("{budget:?}");
        };
        assert_eq!((late.left, late.time), (2000 * MB, seconds(96)));
        assert!((late.rate.unwrap() - 1e7).abs() < 1.0);
        insta::assert_snapshot!(late, @"2000 MB are left, 10.0 MB/s are written, and the time for that is over in 96 s; give it more with --deadline, or deadline in reboot.toml");
    }

    #[test]
    fn nothing_is_concluded_before_it_was_measured() {
        let mut budget = with(3, &[1000, 2000, 100_000]);
        assert_eq!(budget.ask(0, seconds(0)), Answer::Go);
        // Neither before the first byte is written nor when all are and the disk is waited for.
        assert_eq!(budget.look(seconds(20)), []);
        budget.did(0, MB);
        assert_eq!(budget.look(seconds(21)), []);
        budget.did(0, 1000 * MB);
        assert_eq!(budget.look(seconds(21)), []);
        assert_eq!(budget.look(seconds(60)), []);
        assert_eq!(budget.ask(1, seconds(60)), Answer::Go);
        assert_eq!(budget.ask(2, seconds(60)), Answer::Go);
    }

    #[test]
    fn the_largest_is_given_up_and_the_others_fit_then() {
        let mut budget = with(3, &[400, 500, 1500]);
        for id in 0..3 {
            assert_eq!(budget.ask(id, seconds(0)), Answer::Go);
        }
        for id in 0..3 {
            budget.did(id, 10 * MB);
        }
        // 10 MB/s, 97 s, and 2370 MB left: 890 MB of them fit.
        let given_up = budget.look(seconds(3));
        let late = given_up.iter().map(|(id, late)| (*id, late.left));
        assert_eq!(late.collect::<Vec<_>>(), [(2, 1490 * MB)]);
        assert_eq!(budget.look(seconds(3)), []);
        // What it writes until it has noticed does not count for the others.
        budget.leave(2);
        assert_eq!(budget.look(seconds(4)), []);
    }

    #[test]
    fn doubt_is_for_those_that_have_begun() {
        let mut budget = with(1, &[1100]);
        assert_eq!(budget.ask(0, seconds(0)), Answer::Go);
        budget.did(0, 100 * MB);
        // 10 MB/s, 90 s, 1000 MB.
        assert_eq!(budget.look(seconds(10)), []);
        budget.queue(1, load(1));
        budget.jobs = 2;
        assert!(matches!(budget.ask(1, seconds(10)), Answer::Late(_)));
    }

    #[test]
    fn all_are_given_up_when_the_time_is_over() {
        let mut budget = with(1, &[100, 200]);
        assert_eq!(budget.ask(0, seconds(99)), Answer::Go);
        budget.did(0, 60 * MB);
        let given_up = budget.look(seconds(100));
        assert_eq!(given_up, [(0, over(40 * MB))]);
        assert_eq!(budget.look(seconds(101)), []);
        assert_eq!(budget.ask(1, seconds(101)), Answer::Late(over(200 * MB)));
        insta::assert_snapshot!(over(40 * MB), @"the time for that is over, and 40 MB are left; give it more with --deadline, or deadline in reboot.toml");
    }

    #[test]
    fn a_limit_is_for_one_guest() {
        let mut budget = with(3, &[]);
        let slow = Load {
            bytes: 100 * MB,
            is_limited: true,
        };
        budget.queue(0, slow);
        assert_eq!(budget.ask(0, seconds(0)), Answer::Go);
        budget.did(0, 1);
        assert_eq!(budget.look(seconds(1)), []);
        // At its rate none of the others would be done.
        budget.queue(1, load(1000));
        assert_eq!(budget.ask(1, seconds(1)), Answer::Go);
        let given_up = budget.look(seconds(3));
        let ids: Vec<_> = given_up.iter().map(|(id, _)| *id).collect();
        assert_eq!(ids, [0]);
    }

    #[test]
    fn without_a_deadline_nothing_is_late() {
        let mut budget = Budget::new(None, 1);
        budget.queue(0, load(1_000_000));
        assert_eq!(budget.ask(0, seconds(0)), Answer::Go);
        budget.did(0, 1);
        assert_eq!(budget.look(seconds(1_000_000)), []);
    }

    #[test]
    fn a_disk_that_becomes_slower_is_noticed() {
        let mut budget = with(1, &[2000]);
        assert_eq!(budget.ask(0, seconds(0)), Answer::Go);
        let mut done = 0;
        for second in 1..20 {
            done += 100;
            budget.did(0, done * MB);
            assert_eq!(budget.look(seconds(second)), [], "{second}");
            if done == 800 {
                break;
            }
        }
        let late = (9..100).find(|second| {
            done += 1;
            budget.did(0, done * MB);
            !budget.look(seconds(*second)).is_empty()
        });
        assert!(late.is_some_and(|second| second < 60), "{late:?}");
    }

    proptest! {
        /// At a rate that does not change, each guest that is not given up is done in time.
        #[test]
        fn those_that_are_not_given_up_are_done(
            guests in prop::collection::vec(1..2000_u64, 1..8),
            jobs in 1..5_usize,
            rate in 1..60_u64,
        ) {
            let mut budget = with(jobs, &guests);
            let (mut saved, mut late) = (Vec::new(), Vec::new());
            let mut done = vec![0; guests.len()];
            let mut now = Duration::ZERO;
            while now <= seconds(110) {
                for id in 0..guests.len() {
                    if let Answer::Late(_) = budget.ask(id, now) {
                        late.push(id);
                    }
                }
                let now_saving: Vec<_> = budget.saving.iter().map(|guest| guest.id).collect();
                now += Duration::from_millis(100);
                let share = rate * MB / 10 / now_saving.len().max(1) as u64;
                for id in now_saving {
                    done[id] = (done[id] + share).min(guests[id] * MB);
                    budget.did(id, done[id]);
                    if done[id] == guests[id] * MB {
                        prop_assert!(now <= seconds(100) + Duration::from_millis(100));
                        saved.push(id);
                        budget.leave(id);
                    }
                }
                for (id, _) in budget.look(now) {
                    late.push(id);
                    budget.leave(id);
                }
            }
            saved.extend(late);
            saved.sort_unstable();
            prop_assert_eq!(saved, (0..guests.len()).collect::<Vec<_>>());
        }
    }
}
