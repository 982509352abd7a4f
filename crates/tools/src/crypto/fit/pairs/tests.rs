use super::*;

fn candidate(place: usize, algorithm: &str, name: &str) -> Candidate {
    Candidate {
        file: ["sw.txt", "hw.txt", "other.txt"][place].into(),
        place,
        algorithm: (!algorithm.is_empty()).then(|| algorithm.to_owned()),
        metric: Metric::Time,
        used: None,
        curve: Curve {
            name: name.into(),
            ..Curve::default()
        },
    }
}

fn paired(all: &[Candidate], chosen: Chosen<'_>) -> String {
    match pairs(all, chosen) {
        Ok(pairs) => {
            let names = pairs.iter().map(|pair| {
                let (software, offload) = (&pair.software.name, &pair.offload.name);
                format!("{software} | {offload}")
            });
            names.collect::<Vec<_>>().join(" + ")
        }
        Err(error) => error.to_string(),
    }
}

#[test]
fn two_files_are_software_and_offload() {
    let all = [
        candidate(0, "aes-128-cbc", "aes-128-cbc"),
        candidate(0, "sha1", "sha1"),
        candidate(1, "AES-128-CBC", "AES-128-CBC"),
        candidate(1, "SHA1", "SHA1, engine afalg"),
    ];
    assert_eq!(
        paired(&all, Chosen::default()),
        "aes-128-cbc (sw.txt) | AES-128-CBC (hw.txt) + sha1 | SHA1, engine afalg"
    );
    let turned = Chosen {
        software: Some("hw.txt"),
        offload: None,
    };
    assert_eq!(
        paired(&all[1..], turned),
        "SHA1, engine afalg | sha1",
        "only what both have"
    );
    let other = [all[0].clone(), candidate(1, "sha256", "sha256")];
    let refused = paired(&other, Chosen::default());
    assert!(refused.contains("the algorithms differ"), "{refused}");
    let both = Chosen {
        software: Some("aes-128-cbc"),
        offload: Some("sha256"),
    };
    assert_eq!(paired(&other, both), "aes-128-cbc | sha256");
    for (name, what) in [
        (
            "aes-128-cbc, engine x, 4 processes",
            "their numbers of processes differ",
        ),
        (
            "aes-128-cbc, engine x, decryption",
            "one encrypts, and the other decrypts",
        ),
    ] {
        let other = [all[0].clone(), candidate(1, "aes-128-cbc", name)];
        let refused = paired(&other, Chosen::default());
        assert!(refused.contains(what), "{refused}");
    }
    for (one, other) in [
        ("aes-128 cbc", "aes-128-cbc"),
        ("aes128", "AES-128-CBC"),
        ("id-aes128-GCM", "aes-128-gcm"),
        ("sha256", "SHA2-256"),
    ] {
        let spelled = [candidate(0, one, one), candidate(1, other, other)];
        assert_eq!(
            paired(&spelled, Chosen::default()),
            format!("{one} (sw.txt) | {other} (hw.txt)")
        );
    }
    let three = [all[0].clone(), all[2].clone(), candidate(2, "x", "x")];
    assert!(paired(&three, Chosen::default()).contains("name them with --software"));
}

#[test]
fn one_file_may_have_both() {
    let engine = candidate(0, "aes-128-cbc", "aes-128-cbc, engine afalg");
    let plain = candidate(0, "aes-128-cbc", "aes-128-cbc");
    let expected = "aes-128-cbc | aes-128-cbc, engine afalg";
    for all in [
        [engine.clone(), plain.clone()],
        [plain.clone(), engine.clone()],
    ] {
        assert_eq!(paired(&all, Chosen::default()), expected);
    }
    let alone = paired(std::slice::from_ref(&plain), Chosen::default());
    assert!(alone.starts_with("there is only aes-128-cbc;"), "{alone}");
    let with_third = [engine, plain, candidate(0, "sha1", "sha1")];
    assert!(paired(&with_third, Chosen::default()).contains("\"sha1\" in sw.txt"));
    let chosen = Chosen {
        software: Some("aes-128-cbc"),
        offload: Some("AFALG"),
    };
    assert_eq!(paired(&with_third, chosen), expected);
}

#[test]
fn reports_have_implementations_by_name() {
    let all = [
        candidate(0, "", "cbc-aes-aesni"),
        candidate(0, "", "cbc(aes-generic)"),
        candidate(0, "", "virtio_crypto_aes_cbc"),
    ];
    let chosen = Chosen {
        software: Some("aesni"),
        offload: Some("virtio"),
    };
    assert_eq!(
        paired(&all, chosen),
        "cbc-aes-aesni | virtio_crypto_aes_cbc"
    );
    let only_one = Chosen {
        software: Some("aesni"),
        offload: None,
    };
    assert!(paired(&all, only_one).contains("not clear"));
    let same = Chosen {
        software: Some("aes"),
        offload: Some("virtio"),
    };
    assert!(paired(&all, same).contains("not clear"));
    let unknown = Chosen {
        software: Some("qat"),
        offload: None,
    };
    let known = "\"cbc-aes-aesni\" in sw.txt, \"cbc(aes-generic)\" in sw.txt, \
                 \"virtio_crypto_aes_cbc\" in sw.txt";
    assert_eq!(
        paired(&all, unknown),
        format!("there is no qat, but: {known}")
    );
}
