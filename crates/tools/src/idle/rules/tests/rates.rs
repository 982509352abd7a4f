//! Rates that speak for rules.

use super::*;

#[test]
fn measurements_speak_for_rules() {
    let evidence = |rule: &str, live: Signature| {
        let example = EXAMPLES
            .iter()
            .find(|example| example.rule == rule)
            .unwrap();
        let context = Context {
            live: Some(live),
            ..context()
        };
        let list = context.findings(&line(example.words)).unwrap();
        let found = list.into_iter().find(|finding| finding.rule == rule);
        found
            .and_then(|finding| finding.evidence)
            .unwrap_or_default()
    };
    let main = |rate| Signature {
        main_wakeups: rate,
        ..Signature::default()
    };
    let vcpu = |rate, cpu| Signature {
        vcpu_wakeups: vec![1.0, rate],
        vcpu_cpu: vec![0.1, cpu],
        ..Signature::default()
    };
    // As measured of Debian's kernel 6.1 under TCG.
    let said = evidence("hpet", main(268.0));
    assert_eq!(
        said,
        "the main thread wakes 268 times a second, about the guest's HZ if that is 250"
    );
    assert_eq!(evidence("hpet", main(33.0)), "");
    assert!(evidence("cdrom", main(52.0)).contains("52"));
    assert_eq!(evidence("cdrom", main(259.0)), "");
    assert!(evidence("usb-uhci", main(970.0)).contains("UHCI"));
    assert_eq!(evidence("usb-uhci", main(32.0)), "");
    assert!(evidence("nohz", vcpu(985.0, 2.9)).contains("985"));
    assert_eq!(evidence("nohz", vcpu(33.0, 0.2)), "");
    assert!(evidence("no-lapic", vcpu(177.0, 1.3)).contains("177"));
    assert!(evidence("no-arat", vcpu(535.0, 3.6)).contains("535"));
    assert!(evidence("idle-poll", vcpu(900.0, 92.0)).contains("92 %"));
    assert!(evidence("cpu-pm", vcpu(0.0, 99.9)).contains("100 %"));
    let polling = Signature {
        iothread_cpu: [("io1".to_owned(), 112.0)].into(),
        vhost_cpu: 30.0,
        ..Signature::default()
    };
    assert!(evidence("iothread-poll", polling.clone()).contains("112 %"));
    assert!(evidence("vhost-poll", polling).contains("30 %"));
    assert!(evidence("hv-stimer", main(64.0)).contains("64 times"));
    let rate = |words: &str, main_wakeups, vcpus: &[f64]| {
        let live = Signature {
            main_wakeups,
            vcpu_wakeups: vcpus.to_vec(),
            ..Signature::default()
        };
        let context = Context {
            live: Some(live),
            ..Context::default()
        };
        ids(&line(words), &context).contains(&"rtc-periodic")
    };
    let windows = "-accel kvm -rtc base=localtime";
    assert!(rate(windows, 64.0, &[70.0, 3.0]) && rate(windows, 1030.0, &[510.0, 530.0]));
    assert!(!rate(windows, 33.0, &[40.0]) && !rate(windows, 268.0, &[300.0]));
    // A UHCI controller in use wakes no vCPU.
    assert!(!rate(windows, 1000.0, &[60.0]));
    let linux = "-accel tcg -M pc,hpet=off -append quiet";
    assert!(rate(linux, 510.0, &[505.0, 12.0]) && rate(linux, 64.0, &[66.0]));
    // As measured with nohz=off and HZ=250 on a busy host, and as with HZ=1000.
    assert!(!rate(linux, 494.0, &[293.0]) && !rate(linux, 1000.0, &[1000.0]));
    assert!(!rate(linux, 250.0, &[250.0]) && !rate(linux, 494.0, &[250.0, 250.0]));
}
