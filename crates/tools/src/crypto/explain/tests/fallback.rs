use super::*;
use crate::crypto::Tried;
use crate::crypto::kernel::Flags;

const DRIVER: &str = "virtio_crypto_aes_cbc";

/// A device whose driver has these flags beside its own.
fn with_flags(flags: Option<Flags>) -> Machine {
    let mut machine = machine(VIRTIO, debian_12(ENGINE));
    for driver in machine.kernel.drivers.iter_mut().flatten() {
        driver.flags = flags;
        // Of the module that has it, the source is known.
        driver.module = "another".into();
    }
    machine
}

/// A trial in which the device did 100 requests of each of these sizes.
fn trial(by_device: &[usize]) -> Trial {
    let tried = |bytes: &usize| Tried {
        bytes: *bytes,
        operations: 100.0,
        interrupts: if by_device.contains(bytes) { 100 } else { 0 },
    };
    Trial {
        driver: DRIVER.into(),
        tried: [16, 4096, 65536].iter().map(tried).collect(),
        ended: None,
    }
}

/// Answer of the step, what it looked at, its cause, and whether a device is used.
fn step(flags: Option<Flags>, trial: Option<&Trial>) -> (Answer, String, Option<String>, Answer) {
    step_of(AF_ALG, flags, trial)
}

fn step_of(
    route: Route,
    flags: Option<Flags>,
    trial: Option<&Trial>,
) -> (Answer, String, Option<String>, Answer) {
    let machine = with_flags(flags);
    let algorithm = Algorithm::find("aes-128-cbc").unwrap();
    let explanation = explain(&Subject {
        trial,
        ..Subject::new(&machine, algorithm, route)
    });
    let mut steps = explanation.steps.into_iter();
    let step = steps.find(|step| step.id == "fallback").unwrap();
    let Outcome {
        answer,
        looked_at,
        cause,
        ..
    } = step.outcome;
    (answer, looked_at, cause, explanation.is_used)
}

const FALLS_BACK: Option<Flags> = Some(Flags::NEED_FALLBACK);

#[test]
fn flags_tell_whether_a_driver_may_fall_back() {
    let (answer, looked_at, _, used) = step(Some(Flags(0)), None);
    assert_eq!((answer, used), (Answer::Yes, Answer::Yes), "{looked_at}");
    for flags in [FALLS_BACK, None] {
        let (answer, looked_at, cause, used) = step(flags, None);
        assert_eq!((answer, used), (Answer::Unknown, Answer::Unknown));
        assert!(
            looked_at.contains("may hand requests to software"),
            "{looked_at}"
        );
        assert_eq!(cause, None);
    }
}

#[test]
fn virtio_crypto_is_known_without_its_flags() {
    let machine = machine(VIRTIO, debian_12(ENGINE));
    let (step, ..) = cause(&machine, "aes-128-cbc", AF_ALG);
    assert_eq!(step, "yes");
}

#[test]
fn a_trial_tells_what_the_device_does() {
    for flags in [FALLS_BACK, None, Some(Flags(0))] {
        let (answer, looked_at, ..) = step(flags, Some(&trial(&[16, 4096, 65536])));
        assert_eq!(answer, Answer::Yes);
        assert_eq!(
            looked_at,
            "interrupts of its device at 16, 4096, 65536 bytes"
        );
        let (answer, looked_at, ..) = step(flags, Some(&trial(&[4096, 65536])));
        assert_eq!(answer, Answer::Yes);
        let expected =
            "interrupts of its device at 4096, 65536 bytes; none, so software, at 16 bytes";
        assert_eq!(looked_at, expected);
    }
}

/// Without the flag a device may do all, and its driver poll it.
#[test]
fn no_interrupt_means_software_where_the_driver_may_fall_back() {
    let nothing = trial(&[]);
    let (answer, looked_at, cause, used) = step(FALLS_BACK, Some(&nothing));
    assert_eq!((answer, used), (Answer::No, Answer::No));
    assert!(looked_at.contains("in 300 requests"), "{looked_at}");
    assert!(cause.unwrap().contains(DRIVER));
    for (flags, expected) in [(None, Answer::Unknown), (Some(Flags(0)), Answer::Yes)] {
        let (answer, looked_at, cause, _) = step(flags, Some(&nothing));
        assert_eq!((answer, cause), (expected, None));
        assert!(looked_at.contains("may be polled"), "{looked_at}");
    }
    // One interrupt is no proof, and no proof of the contrary.
    let mut stray = trial(&[]);
    stray.tried[1].interrupts = 1;
    let (answer, looked_at, cause, _) = step(FALLS_BACK, Some(&stray));
    assert_eq!((answer, cause), (Answer::Unknown, None));
    assert!(
        looked_at.contains("too few to tell at 4096 bytes"),
        "{looked_at}"
    );
}

/// A disk's sectors never reach a device that does large requests alone.
#[test]
fn only_sizes_that_a_consumer_sends_count() {
    let large = trial(&[65536]);
    let (answer, ..) = step_of(AF_ALG, FALLS_BACK, Some(&large));
    assert_eq!(answer, Answer::Yes);
    for (route, most) in [(DM_CRYPT, "4096"), (FSCRYPT, "4096"), (KTLS, "16384")] {
        let (answer, _, cause, used) = step_of(route, FALLS_BACK, Some(&large));
        assert_eq!((answer, used), (Answer::No, Answer::No));
        let cause = cause.unwrap();
        let expected = format!("sends none of more than {most}.");
        assert!(cause.contains("4096 bytes and less"), "{cause}");
        assert!(cause.ends_with(&expected), "{cause}");
    }
    // The largest sectors do.
    let (answer, ..) = step_of(DM_CRYPT, FALLS_BACK, Some(&trial(&[4096, 65536])));
    assert_eq!(answer, Answer::Yes);
}

#[test]
fn a_trial_that_failed_or_is_of_another_driver_tells_nothing() {
    let failed = Trial {
        tried: Vec::new(),
        ended: Some("others use it now".into()),
        ..trial(&[])
    };
    for (flags, expected) in [
        (FALLS_BACK, Answer::Unknown),
        (None, Answer::Unknown),
        (Some(Flags(0)), Answer::Yes),
    ] {
        let (answer, looked_at, ..) = step(flags, Some(&failed));
        assert_eq!(answer, expected);
        let reason = "; it was tried in vain: others use it now";
        assert!(looked_at.ends_with(reason), "{looked_at}");
    }
    // What was seen before it failed counts.
    let half = Trial {
        ended: Some("no answer".into()),
        ..trial(&[16, 4096, 65536])
    };
    let (answer, looked_at, ..) = step(FALLS_BACK, Some(&half));
    assert_eq!(answer, Answer::Yes);
    assert!(looked_at.ends_with("65536 bytes; no answer"), "{looked_at}");
    let other = Trial {
        driver: "qat_aes_cbc".into(),
        ..trial(&[])
    };
    assert_eq!(step(FALLS_BACK, Some(&other)), step(FALLS_BACK, None));
}

#[test]
fn a_driver_is_tried_on_its_own_machine() {
    let algorithm = Algorithm::find("aes-128-cbc").unwrap();
    for (is_here, expected) in [
        (true, "brisk crypto explain aes-128-cbc --try"),
        (
            false,
            "run brisk crypto explain aes-128-cbc --try on the machine itself",
        ),
    ] {
        let machine = Machine {
            is_here,
            ..with_flags(FALLS_BACK)
        };
        let explanation = explain(&Subject::new(&machine, algorithm, AF_ALG));
        let mut steps = explanation.steps.iter();
        let step = steps.find(|step| step.id == "fallback").unwrap();
        let fix = step.outcome.fix.as_ref().unwrap();
        assert_eq!(fix.to_string(), expected);
    }
}
