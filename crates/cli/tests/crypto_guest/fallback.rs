//! A driver that leaves requests to software, of a module that set-up compiles for each kernel.

use brisk_testkit::{GeneralKernel, brisk_of, fallback_module, qemu_devices};
use serde_json::Value;

use super::with_modules;

const PARAMETER: &str = "/sys/module/brisk_fallback/parameters/threshold";

/// What brisk says of the driver as it is, with a threshold, and when all or none is its device's.
pub(super) fn software(kernel: &GeneralKernel) {
    let module = fallback_module(kernel).unwrap();
    let explain = format!(
        "{} crypto explain aes-128-cbc --consumer af-alg --format json",
        env!("CARGO_BIN_EXE_brisk")
    );
    let script = format!(
        "/sbin/insmod {} threshold=512; {explain}; echo ---; {explain} --try; echo ---
         echo 1000000 >{PARAMETER}; {explain} --try; echo ---
         echo 0 >{PARAMETER}; {explain} --try",
        module.display()
    );
    let ended = brisk_of!["run"]
        .args(kernel.options())
        // The device needs an interrupt controller that takes messages.
        .args(["--accel=tcg", "--machine=q35", "--cpu=qemu64,+ssse3,+cx16"])
        .args(with_modules(&["crypto_user"]))
        .args(qemu_devices(&["edu"]))
        .script(&script)
        .exits(0);
    let text = ended.text();
    let answers: Vec<Value> = text
        .split("---\n")
        .map(|answer| serde_json::from_str(answer).unwrap_or_else(|_| panic!("{text}")))
        .collect();
    let of = |answer: &Value| {
        let explanation = &answer["explanations"][0];
        let mut steps = explanation["steps"].as_array().unwrap().iter();
        let step = steps.find(|step| step["step"] == "fallback").unwrap();
        let field = |name| step[name].as_str().unwrap_or_default().to_owned();
        let used = explanation["is_used"].as_str().unwrap().to_owned();
        (used, field("answer"), field("looked_at"), field("cause"))
    };
    let [untried, some, none, all] = &answers[..] else {
        panic!("{text}");
    };
    let (used, answer, looked_at, _) = of(untried);
    assert_eq!([&*used, &*answer], ["unknown", "unknown"], "{untried}");
    assert!(looked_at.contains("NEED_FALLBACK"), "{untried}");
    let (used, answer, looked_at, _) = of(some);
    assert_eq!([&*used, &*answer], ["yes", "yes"], "{some}");
    assert_eq!(
        looked_at,
        "interrupts of its device at 1024, 4096, 16384, 65536 bytes; none, so software, at 16, 64, \
         256 bytes"
    );
    let (used, answer, looked_at, cause) = of(none);
    assert_eq!([&*used, &*answer], ["no", "no"], "{none}");
    assert!(
        looked_at.starts_with("no interrupt of its device in "),
        "{none}"
    );
    assert_eq!(
        cause,
        "cbc-aes-brisk-fallback does all requests in software: its device does nothing."
    );
    let (used, answer, looked_at, _) = of(all);
    assert_eq!([&*used, &*answer], ["yes", "yes"], "{all}");
    assert!(!looked_at.contains("software"), "{all}");
}
