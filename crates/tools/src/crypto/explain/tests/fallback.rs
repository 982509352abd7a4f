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
        seen: Ok([16, 4096, 65536].iter().map(tried).collect()),
    }
}

/// Answer of the step, what it looked at, its cause, and whether a device is used.
fn step(flags: Option<Flags>, trial: Option<&Trial>) -> (Answer, String, Option<String>, Answer) {
    let machine = with_flags(flags);
    let algorithm = Algorithm::find("aes-128-cbc").unwrap();
    let explanation = explain(&Subject {
        trial,
        ..Subject::new(&machine, algorithm, AF_ALG)
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
        assert!(looked_at.contains("requests to software"), "{looked_at}");
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
        assert!(looked_at.contains("none at 16: those are"), "{looked_at}");
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
    for flags in [None, Some(Flags(0))] {
        let (answer, looked_at, cause, _) = step(flags, Some(&nothing));
        assert_eq!((answer, cause), (Answer::Unknown, None));
        assert!(looked_at.contains("may be polled"), "{looked_at}");
    }
}

#[test]
fn a_trial_that_failed_or_is_of_another_driver_tells_nothing() {
    let failed = Trial {
        seen: Err("others use it now".into()),
        ..trial(&[])
    };
    let (answer, looked_at, ..) = step(FALLS_BACK, Some(&failed));
    assert_eq!(answer, Answer::Unknown);
    assert!(looked_at.contains("others use it now"), "{looked_at}");
    let other = Trial {
        driver: "qat_aes_cbc".into(),
        ..trial(&[])
    };
    assert_eq!(step(FALLS_BACK, Some(&other)), step(FALLS_BACK, None));
}
