//! Figures of a machine that cannot be looked at.

use super::*;

fn elsewhere<'a>(kernel: &str, openssl: &str, route: Route, offload: &'a str) -> Case<'a> {
    let origin = Origin {
        kernel: Some(kernel.to_owned()),
        openssl: Some(openssl.to_owned()),
        ..Origin::default()
    };
    let here = Origin {
        kernel: Some("6.12.117".to_owned()),
        ..Origin::default()
    };
    let Whose::NotTheirs(unseen) = whose(&Ok(origin), &here, false) else {
        panic!("{kernel} is not here");
    };
    Case {
        machine: Machine::elsewhere(Some(kernel)),
        unseen: Some(unseen),
        facts: with(Facts {
            openssl: Some(openssl.to_owned()),
            ..Facts::default()
        }),
        ..case(route, offload)
    }
}

#[test]
fn nothing_of_this_machine_is_said_of_another() {
    let old = |route, offload| elsewhere("5.4.0-99", "OpenSSL 1.1.1k", route, offload);
    let shown = text(&old(Route::Openssl, "engine:afalg").answer());
    insta::assert_snapshot!(shown.lines().take(2).collect::<Vec<_>>().join("\n"), @"
    No recommendation: by these figures it would be worth it from 5616 bytes on, by wall-clock time and CPU time of the whole system; the figures are of Linux 5.4.0-99, OpenSSL 1.1.1k, and this machine is Linux 6.12.117.
    To do: run brisk crypto config there, or look at a copy of its files with --sysroot
    ");
    are_refused(vec![
        refused(
            old(AF_ALG, DRIVER),
            Worth::Unknown,
            "the figures are of Linux 5.4.0-99, OpenSSL 1.1.1k, and this machine is Linux 6.12.117.",
            "look at a copy of its files with --sysroot",
        ),
        // The figures say it of every machine.
        refused(
            Case {
                compared: both([9e3; 5], VIRTIO_TIMES),
                ..old(AF_ALG, DRIVER)
            },
            Worth::Not,
            "Do not: software takes less wall-clock time at every size measured",
            "",
        ),
        refused(
            old(Route::Kernel(Consumer::Ktls), DRIVER),
            Worth::Not,
            "Do not: ktls does not use cbc(aes).",
            "",
        ),
        // dm-crypt of 5.4 takes it, that of 5.10 does not.
        refused(
            old(DM_CRYPT, "dm-crypt:virtio_crypto_aes_cbc"),
            Worth::Unknown,
            "No recommendation: by these figures it would be worth it from 5616 bytes on",
            "--sysroot",
        ),
        refused(
            elsewhere("5.10.7", "OpenSSL 3.0.2", DM_CRYPT, DRIVER),
            Worth::Not,
            "Do not: dm-crypt refuses virtio_crypto_aes_cbc: it has ALLOCATES_MEMORY by its source",
            "another consumer",
        ),
        refused(
            elsewhere("7.0.1", "OpenSSL 4.0.1", Route::Openssl, "engine:afalg"),
            Worth::Not,
            "Do not: OpenSSL 4.0.1 has no engines, and afalg is one.",
            "a provider",
        ),
        refused(
            Case {
                algorithm: "aes-128-gcm",
                ..old(Route::Openssl, "engine:devcrypto")
            },
            Worth::Not,
            "engine devcrypto has no AEADs",
            "",
        ),
    ]);
}

#[test]
fn figures_are_of_this_machine_if_all_is_so_that_they_name() {
    let origin = |kernel: &str, openssl: &str, processor: &str| {
        let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Origin {
            kernel: known(kernel),
            openssl: known(openssl),
            processor: known(processor),
            ..Origin::default()
        }
    };
    let here = Origin {
        host: Some("db".to_owned()),
        architecture: Some("x86_64".to_owned()),
        ..origin("6.1.0", "OpenSSL 3.0.19", "Xeon")
    };
    let judged = |figures: Origin, is_named| match whose(&Ok(figures), &here, is_named) {
        Whose::Theirs(remark) => remark.unwrap_or_default(),
        Whose::NotTheirs(obstacle) => obstacle.cause,
    };
    assert_eq!(
        judged(origin("6.1.0", "OpenSSL 3.0.19", "Xeon"), false),
        "Judged by this machine, of which all is so that the figures name of theirs: Linux 6.1.0, \
         OpenSSL 3.0.19, Xeon."
    );
    let of = |host: &str, architecture: &str| Origin {
        host: Some(host.to_owned()),
        architecture: Some(architecture.to_owned()),
        ..origin("6.1.0", "", "")
    };
    assert!(judged(of("db", "x86_64"), false).starts_with("Judged by this machine"));
    let other =
        "the figures are of nas, armv7l, Linux 6.1.0, and this machine is db, x86_64, Linux";
    assert!(judged(of("nas", "armv7l"), false).starts_with(other));
    assert!(judged(of("db", "armv7l"), false).contains("and this machine is"));
    // Many machines have this OpenSSL or this kernel, and all figures may be of any.
    for (kernel, some) in [
        ("", ""),
        ("", "OpenSSL 3.0.19"),
        ("6.1.0", "OpenSSL 3.0.19"),
    ] {
        let unnamed = judged(origin(kernel, some, ""), false);
        assert!(
            unnamed.starts_with("which machine the figures are of is not known"),
            "{unnamed}"
        );
        assert_eq!(judged(origin(kernel, some, ""), true), "");
    }
    let other = judged(origin("", "OpenSSL 3.0.19", "Cortex-A9"), false);
    assert!(
        other.starts_with("the figures are of OpenSSL 3.0.19, Cortex-A9, and this"),
        "{other}"
    );
    let updated = origin("6.1.0", "OpenSSL 3.0.18", "Xeon");
    assert!(judged(updated.clone(), false).contains("OpenSSL 3.0.18, Xeon, and this machine is"));
    assert_eq!(judged(updated, true), "");
    assert!(
        judged(origin("6.2.0", "", ""), true)
            .contains("and the tree is of db, x86_64, Linux 6.1.0")
    );
    let both = Err("Linux 5.4.0 and Linux 6.1.0".to_owned());
    let Whose::NotTheirs(several) = whose(&both, &here, true) else {
        panic!("they are two");
    };
    assert_eq!(
        several.cause,
        "the figures are of several machines: Linux 5.4.0 and Linux 6.1.0."
    );
}
