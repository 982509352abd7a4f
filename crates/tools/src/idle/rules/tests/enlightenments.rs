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
