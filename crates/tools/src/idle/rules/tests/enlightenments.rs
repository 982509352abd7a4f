//! Enlightenments of Windows guests, and what they need.

use super::*;

/// What QEMU 10.0 needs for each, read from `kvm_hyperv_properties` in `target/i386/kvm/kvm.c`, and
/// from `docs/system/i386/hyperv.rst` (synic of stimer by vpindex).
const TABLE: &str = "\
relaxed
vapic
spinlocks
time
vpindex
runtime
reset
frequencies
reenlightenment
synic           vpindex
stimer          synic time
stimer-direct   stimer
tlbflush        vpindex
tlbflush-ext    tlbflush
tlbflush-direct vapic
ipi             vpindex
evmcs           vapic
syndbg          synic relaxed";

/// Names of the enlightenments that are on.
fn on(text: &Text) -> Vec<String> {
    let hyperv = text.hardware().unwrap().cpu.hyperv;
    let on = hyperv.into_iter().filter(|(_, value)| value != "off");
    on.map(|(name, _)| name).collect()
}

#[test]
fn each_enlightenment_gets_what_it_needs() {
    let table: Vec<(&str, Vec<&str>)> = TABLE
        .lines()
        .map(|line| {
            let mut words = line.split_whitespace();
            (words.next().unwrap(), words.collect())
        })
        .collect();
    for (name, needs) in &table {
        let value = if *name == "spinlocks" { "=8191" } else { "" };
        let words = line(&format!("-accel kvm -cpu host,hv-{name}{value}"));
        let found = ids(&words, &Context::default());
        assert_eq!(found.contains(&"hv-deps"), !needs.is_empty(), "{name}");
        let fixed = named("hv-deps", words.clone()).text;
        let now = on(&fixed);
        assert!(now.iter().any(|one| one == name), "{name}: {now:?}");
        // Of all that is on now, everything that it needs.
        for one in &now {
            let row = table.iter().find(|(name, _)| name == one).unwrap();
            for need in &row.1 {
                assert!(now.iter().any(|one| one == need), "{one} needs {need}");
            }
        }
        assert_eq!(now.len() == 1, needs.is_empty(), "{name}: {now:?}");
    }
}

#[test]
fn enlightenments_that_the_host_does_not_know_are_not_set() {
    let known = ["relaxed", "vpindex", "synic"].map(str::to_owned);
    let context = Context {
        host: Host {
            hyperv: Some(known.into()),
            ..Host::default()
        },
        ..Context::default()
    };
    let text = domain("<clock offset='localtime'/>");
    let list = context.findings(&text).unwrap();
    let finding = list
        .iter()
        .find(|finding| finding.rule == "hv-stimer")
        .unwrap();
    assert!(finding.fix.to_string().contains("does not know hv-stimer"));
    let fixed = fix(text, &context, Wanted { rules: &[] }).unwrap();
    assert!(
        fixed
            .applied
            .iter()
            .all(|finding| finding.rule != "hv-stimer")
    );
}

#[test]
fn a_vendor_of_hyper_v_makes_no_windows() {
    let linux = line("-accel kvm -M q35 -cpu host,kvm=off,hv_vendor_id=null -name ubuntu");
    let found = ids(&linux, &context());
    assert!(!found.iter().any(|id| id.starts_with("hv-")), "{found:?}");
    let changed = named("hpet", linux);
    assert!(
        matches!(changed.text, Text::Arguments(words) if words.iter().any(|word| word == "q35,hpet=off"))
    );
}

#[test]
fn what_is_hidden_from_windows_is_no_timer() {
    let hidden =
        line("-accel kvm -M q35 -cpu host,-hypervisor,hv_stimer,hv_vendor_id=x -name win10");
    let found = ids(&hidden, &context());
    assert!(found.contains(&"hv-hidden"), "{found:?}");
    for id in ["hv-stimer", "hv-time", "hv-usual", "hv-deps", "rtc-slew"] {
        assert!(!found.contains(&id), "{found:?}");
    }
    let fixed = fix(hidden, &Context::default(), Wanted { rules: &[] }).unwrap();
    assert!(
        !format!("{:?}", fixed.text).contains("hpet=off"),
        "{:?}",
        fixed.text
    );
}

#[test]
fn hv_avic_is_advised_where_host_and_qemu_have_it() {
    let windows = "-accel kvm -cpu host,hv-time,hv-vpindex,hv-synic,hv-stimer";
    let found = |words: &str, has_apicv, qemu, known: Option<&[&str]>| {
        let host = Host {
            has_apicv,
            qemu,
            hyperv: known.map(|names| names.iter().map(|name| (*name).to_owned()).collect()),
            ..Host::default()
        };
        let context = Context {
            host,
            ..Context::default()
        };
        let list = context.findings(&line(words)).unwrap();
        list.into_iter().find(|finding| finding.rule == "hv-avic")
    };
    let new = Some((6, 2));
    let finding = found(windows, Some(true), new, Some(&["avic"])).unwrap();
    assert_eq!(finding.severity, Severity::Low);
    assert!(matches!(finding.fix, Fix::Edit(_)), "{finding:?}");
    // Whether the kernel has it is not known.
    let finding = found(windows, Some(true), new, None).unwrap();
    assert!(finding.fix.to_string().contains("Linux 5.15"));
    for (words, has_apicv, qemu, known) in [
        (windows, None, new, Some(&["avic"][..])),
        (windows, Some(false), new, Some(&["avic"])),
        (windows, Some(true), new, Some(&["synic"])),
        (windows, Some(true), Some((6, 1)), None),
        (windows, Some(true), None, None),
        ("-accel kvm -cpu host,hv-time", Some(true), new, None),
        ("-accel kvm -cpu host -name ubuntu", Some(true), new, None),
        ("-accel kvm -cpu host,hv-passthrough", Some(true), new, None),
    ] {
        let finding = found(words, has_apicv, qemu, known);
        assert_eq!(finding, None, "{words} {has_apicv:?} {qemu:?} {known:?}");
    }
    for word in ["hv-avic", "hv-avic=off", "-hv-avic", "hv_apicv"] {
        let words = format!("{windows},{word}");
        assert_eq!(found(&words, Some(true), new, None), None, "{word}");
    }
    // By its other name.
    let words = format!("{windows},hv-apicv");
    let finding = found(&words, Some(false), new, None).unwrap();
    assert_eq!(finding.severity, Severity::Medium);
}
