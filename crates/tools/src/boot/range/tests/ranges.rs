//! What a range finds, and what it leaves alone.

use super::*;

fn found(at: usize) -> Option<Answer> {
    Some(Answer::Changed {
        before: at - 1,
        after: at,
        confirmed: true,
    })
}

#[test]
fn a_hundredth_is_found_among_64_commits_in_8_builds_when_deterministic() {
    for number in 0..20 {
        // 64 commits are in the range, 1 to 64; both ends of it among the places.
        let at = 1 + number * 63 / 19;
        let (before, after) = match number % 2 {
            0 => ("1000000000", "1010000000"),
            _ => ("1000000000", "990000000"),
        };
        let fixture = Fixture::with_step(65, at, before, after);
        let before = fixture.looks();
        let options = fixture.options(Mode::Deterministic, Goal::Bisect);
        let mut measure = Simulated::exact();
        let (engine, _) = finish(options, &mut measure);
        assert_eq!(engine.answer(), found(at), "{at}");
        assert!(fixture.built() <= 8, "{at}: {} builds", fixture.built());
        assert_eq!(engine.builds(), fixture.built());
        assert_eq!(measure.boots as usize, fixture.built(), "one run each");
        assert_eq!(fixture.looks(), before);
        assert_eq!(fixture.worktrees(), 0);
    }
}

#[test]
fn a_tenth_is_found_among_64_commits_by_the_clock() {
    let mut right = 0;
    for number in 0..20 {
        let at = 1 + number * 63 / 19;
        let fixture = Fixture::with_step(65, at, "1000000", "1100000");
        let options = fixture.options(Mode::WallClock, Goal::Bisect);
        let mut measure = Simulated::noisy(100 + number as u64);
        let (engine, _) = finish(options, &mut measure);
        right += usize::from(engine.answer() == found(at));
        assert!(fixture.built() <= 8, "{at}: {} builds", fixture.built());
    }
    assert!(right >= 19, "{right} of 20");
}

/// Instructions show the way in one boot of each middle, and the clock proves it.
#[test]
fn what_can_be_counted_takes_fewer_boots() {
    let boots = |counts| {
        let fixture = Fixture::with_step(65, 23, "1000000", "1100000");
        let options = fixture.options(Mode::WallClock, Goal::Bisect);
        let mut measure = Simulated {
            counts,
            ..Simulated::noisy(42)
        };
        let (engine, _) = finish(options, &mut measure);
        assert_eq!(engine.answer(), found(23));
        measure.boots
    };
    let (without, alike) = (boots(None), boots(Some(|_| 1_000_000)));
    let counted = boots(Some(|cost| cost));
    assert_eq!(without, alike);
    // The ends and the proof are all.
    assert!(counted * 5 < without * 4, "{counted} of {without}");
}

/// The times change in one commit, and the instructions in another: the first search is led
/// astray, which the clock shows.
#[test]
fn instructions_that_mislead_prove_nothing() {
    let mut costs = ["1000000"; 65];
    costs[20..].fill("1000001");
    costs[50..].fill("1150001");
    let fixture = Fixture::new(&costs);
    let options = fixture.options(Mode::WallClock, Goal::Bisect);
    let mut measure = Simulated {
        counts: Some(|cost| {
            if cost > 1_000_000 {
                1_100_000
            } else {
                1_000_000
            }
        }),
        ..Simulated::noisy(8)
    };
    let (engine, _) = finish(options, &mut measure);
    assert_eq!(engine.answer(), found(50));
}

#[test]
fn a_range_without_a_change_raises_no_alarm() {
    for seed in 0..20 {
        let fixture = Fixture::new(&["1000000"; 65]);
        let options = fixture.options(Mode::WallClock, Goal::Bisect);
        let (engine, _) = finish(options, &mut Simulated::noisy(200 + seed));
        let unchanged = Answer::Unchanged {
            before: 0,
            after: 64,
        };
        assert_eq!(engine.answer(), Some(unchanged), "{seed}");
        assert_eq!(fixture.built(), 2);
        assert!(shown(&engine).contains("Nothing to bisect"));
    }
}

#[test]
fn a_walk_tells_every_commit_and_finds_each_change() {
    let mut costs = ["2000000"; 12];
    costs[5..].fill("2200000");
    costs[9..].fill("1900000");
    costs[7] = "panic";
    let fixture = Fixture::new(&costs);
    let before = fixture.looks();
    for (mode, mut measure) in [
        (Mode::Deterministic, Simulated::exact()),
        (Mode::WallClock, Simulated::noisy(7)),
    ] {
        let options = Options {
            range: "main~11..main".to_owned(),
            ..fixture.options(mode, Goal::Walk { step: 1 })
        };
        let (engine, rows) = finish(options, &mut measure);
        assert_eq!(rows.len(), 12);
        let report = engine.report("", Environment::default());
        let changes = report.history.unwrap().changes;
        let places: Vec<_> = changes.iter().map(|c| (c.before, c.after)).collect();
        assert_eq!(places, [(4, 5), (8, 9)], "{mode:?}");
        let marked = |row: &String| row.contains('↑') || row.contains('↓');
        let marked: Vec<_> = (0..12).filter(|place| marked(&rows[*place])).collect();
        assert_eq!(marked, [5, 9], "{mode:?}");
        assert!(
            rows[7].contains("did not boot: kernel panic"),
            "{}",
            rows[7]
        );
        assert_eq!(
            changes[0].explanation,
            ["+200.0 kinstr in acpi_init (1.900 Minstr → 2.100 Minstr)"]
        );
        assert!(!rows.concat().contains(char::is_control));
        for text in [
            shown(&engine),
            render::html(&engine.report("", Environment::default())),
        ] {
            assert!(!text.contains('\x1b'));
        }
    }
    assert_eq!(fixture.built(), 12, "the second walk builds nothing");
    assert_eq!(fixture.looks(), before);
}

#[test]
fn only_some_commits_can_be_walked() {
    let fixture = Fixture::with_step(65, 30, "1000000", "1100000");
    let options = fixture.options(Mode::Deterministic, Goal::Walk { step: 20 });
    let (engine, rows) = finish(options, &mut Simulated::exact());
    assert_eq!((rows.len(), fixture.built()), (5, 5));
    let changes = engine
        .report("", Environment::default())
        .history
        .unwrap()
        .changes;
    assert_eq!((changes[0].before, changes[0].after), (20, 40));
}

#[test]
fn commits_that_do_not_build_or_boot_are_recorded_and_stepped_around() {
    let mut costs = vec!["1000000"; 65];
    costs[40..].fill("1010000");
    costs[36..42].fill("broken");
    costs[64] = "broken";
    // The first middle, since the newest commit is of no use.
    costs[31] = "panic";
    let fixture = Fixture::new(&costs);
    let mut options = fixture.options(Mode::Deterministic, Goal::Bisect);
    options.build += "; if grep -q broken cost.txt; then echo 'no rule to make it' >&2; exit 2; fi";
    let (engine, rows, notes) = run_with_notes(options, &mut Simulated::exact());
    let answer = Answer::Changed {
        before: 35,
        after: 42,
        confirmed: true,
    };
    assert_eq!(engine.answer(), Some(answer));
    let readings = readings(&engine);
    let reason = "exit status: 2: no rule to make it\nno rule to make it".to_owned();
    assert_eq!(readings[64], Reading::NotBuilt { reason });
    assert!(matches!(&readings[31], Reading::NotBooted { reason } if reason.contains("no init")));
    assert!(
        rows.iter()
            .any(|row| row.contains("not built: exit status: 2: no rule to make it"))
    );
    assert!(shown(&engine).contains("in one of 7 commits"));
    let commit = engine.commits().nth(64).unwrap().sha.clone();
    let log = engine.log(&commit);
    assert!(fs::read_to_string(&log).unwrap().contains("no rule"));
    let log = format!("was not built; its log is {}", log.display());
    assert!(notes.iter().any(|note| note.contains(&log)), "{notes:?}");
    let logs = engine.log(&commit).parent().unwrap().display().to_string();
    assert!(shown(&engine).contains(&logs), "{}", shown(&engine));
    assert_eq!(fixture.worktrees(), 0);
}

#[test]
fn a_build_that_makes_nothing_does_not_pass_off_the_last_one() {
    let fixture = Fixture::new(&["1000000", "1100000", "1000000"]);
    let options = Options {
        range: "main~2..main".to_owned(),
        build: "if grep -q 11 cost.txt; then true; else cp cost.txt artifact; fi".to_owned(),
        ..fixture.options(Mode::Deterministic, Goal::Walk { step: 1 })
    };
    let (engine, _) = finish(options, &mut Simulated::exact());
    let reason = "the build left no artifact".to_owned();
    assert_eq!(readings(&engine)[1], Reading::NotBuilt { reason });
}

#[test]
fn an_interrupted_range_goes_on_where_it_was() {
    let fixture = Fixture::with_step(65, 23, "1000000", "1100000");
    let before = fixture.looks();
    for (mode, after) in [(Mode::Deterministic, 4), (Mode::WallClock, 50)] {
        let already = fixture.built();
        let options = fixture.options(mode, Goal::Bisect);
        let interrupt = Interrupt::new().unwrap();
        let mut measure = match mode {
            Mode::Deterministic => Simulated::exact(),
            Mode::WallClock => Simulated::noisy(4),
        };
        measure.until = Some((after, interrupt.trigger().unwrap()));
        let mut engine = Engine::open(options.clone(), interrupt).unwrap();
        let ended = engine.run(&mut measure, &mut |_| {});
        assert!(matches!(ended, Err(Error::Interrupted)));
        assert_eq!((fixture.worktrees(), fixture.looks()), (0, before.clone()));
        drop(engine);
        measure.until = None;
        let (engine, _) = finish(options.clone(), &mut measure);
        assert_eq!(engine.answer(), found(23));
        let second = Engine::open(options.clone(), Interrupt::new().unwrap());
        assert!(matches!(second, Err(Error::Git(GitError::Busy(_)))));
        drop(engine);
        let wanted = if already == 0 { 8 } else { already };
        assert_eq!(fixture.built(), wanted, "nothing is built twice");
        // And a third run has nothing to do.
        let boots = measure.boots;
        let (engine, _) = finish(options, &mut measure);
        assert_eq!((engine.answer(), measure.boots), (found(23), boots));
    }
}

#[test]
fn what_was_known_can_be_forgotten() {
    let fixture = Fixture::with_step(65, 64, "1000000", "1100000");
    let options = fixture.options(Mode::Deterministic, Goal::Bisect);
    finish(options.clone(), &mut Simulated::exact());
    let fresh = Options {
        fresh: true,
        ..options
    };
    finish(fresh, &mut Simulated::exact());
    assert_eq!(fixture.built(), 16);
}

#[test]
fn what_another_process_left_is_cleaned_and_what_it_holds_is_not_touched() {
    let fixture = Fixture::with_step(65, 64, "1000000", "1100000");
    let repository = git::Repository::open(&fixture.repository()).unwrap();
    let options = fixture.options(Mode::Deterministic, Goal::Walk { step: 64 });
    let dir = options.dir.join("worktrees");
    fs::create_dir_all(&dir).unwrap();
    let before = fixture.looks();
    let held = git::Worktree::create(&repository, &dir, "held").unwrap();
    let left = git::Worktree::create(&repository, &dir, "left").unwrap();
    held.checkout("main", &[], false).unwrap();
    // As after SIGKILL: the lock is free, the rest is there.
    let kept = fs::read(dir.join("left/.git")).unwrap();
    let list = |what| git(&fixture.repository(), &["worktree", "list"], "").contains(what);
    drop(left);
    fs::create_dir(dir.join("left")).unwrap();
    fs::write(dir.join("left/.git"), kept).unwrap();
    finish(options, &mut Simulated::exact());
    assert!(!dir.join("left").exists() && !list("left"));
    assert!(dir.join("held/cost.txt").exists() && list("held"));
    let busy = git::Worktree::create(&repository, &dir, "held");
    assert!(matches!(busy, Err(GitError::Busy(_))));
    drop(held);
    assert_eq!(fixture.looks(), before);
}

#[test]
fn merges_are_one_commit() {
    let fixture = Fixture::new(&["1000000"; 5]);
    let repository = fixture.repository();
    let stream = "commit refs/heads/side\ncommitter A <a@example.org> 1700000100 +0000\n\
                  data 4\nside\nfrom refs/heads/main~2\nM 644 inline other\ndata 1\nx\n\
                  commit refs/heads/main\ncommitter A <a@example.org> 1700000200 +0000\n\
                  data 5\nmerge\nfrom refs/heads/main^0\nmerge refs/heads/side\n";
    git(&repository, &["fast-import", "--quiet"], stream);
    let options = Options {
        range: "main~2..main".to_owned(),
        ..fixture.options(Mode::Deterministic, Goal::Bisect)
    };
    let engine = Engine::open(options, Interrupt::new().unwrap()).unwrap();
    let subjects: Vec<_> = engine.commits().map(|c| c.subject.clone()).collect();
    assert_eq!(subjects[0], "\x1b]0;owned\x07 <b>&\ttab");
    assert_eq!(subjects[1..], ["Change 4", "merge"]);
}

#[test]
fn ranges_that_are_none_are_refused() {
    let fixture = Fixture::new(&["1000000"; 3]);
    let wrong = |range: &str| {
        let options = Options {
            range: range.to_owned(),
            ..fixture.options(Mode::Deterministic, Goal::Bisect)
        };
        let engine = Engine::open(options, Interrupt::new().unwrap());
        engine.map(drop).unwrap_err().to_string()
    };
    assert_eq!(wrong("main"), "\"main\" is no range of commits: write A..B");
    assert!(wrong("a...b").contains("write A..B"));
    assert!(wrong("main~9..main").starts_with("\"main~9\" is no commit of"));
    assert!(wrong("--output=/tmp/x..main").starts_with("\"--output=/tmp/x\" is no commit of"));
    assert_eq!(
        wrong("main..main~1"),
        "main..main~1 holds no commits: is the older end first?"
    );
    // From the first commit on; nothing is before it.
    let options = Options {
        range: "main~2..".to_owned(),
        ..fixture.options(Mode::Deterministic, Goal::Bisect)
    };
    let engine = Engine::open(options, Interrupt::new().unwrap()).unwrap();
    assert_eq!(engine.commits().count(), 3);
}

#[test]
fn too_few_runs_are_refused_and_artifacts_needed() {
    let fixture = Fixture::new(&["1000000"; 65]);
    let open = |options| Engine::open(options, Interrupt::new().unwrap()).map(drop);
    let few = Options {
        max_runs: 5,
        ..fixture.options(Mode::WallClock, Goal::Bisect)
    };
    let error = open(few).unwrap_err().to_string();
    assert!(
        error.contains("at most 5 runs") && error.contains("allow 10"),
        "{error}"
    );
    let none = Options {
        artifacts: Vec::new(),
        ..fixture.options(Mode::Deterministic, Goal::Bisect)
    };
    assert!(matches!(open(none), Err(Error::NoArtifacts)));
}
