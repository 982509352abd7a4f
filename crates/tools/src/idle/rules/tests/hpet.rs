//! The rule of the HPET: machines that have none, and versions of QEMU in which it rests.

use super::*;

#[test]
fn an_hpet_that_no_acpi_tells_of_is_no_finding() {
    let has_hpet = |text: Text| ids(&text, &Context::default()).contains(&"hpet");
    let machine = |machine: &str, features: &str| {
        domain(&format!(
            "<os><type arch='x86_64' machine='{machine}'>hvm</type></os>{features}"
        ))
    };
    let acpi = "<features><acpi/></features>";
    assert!(has_hpet(machine("pc", acpi)) && has_hpet(line("-M pc")));
    assert!(!has_hpet(machine("pc-i440fx-10.0", "")) && !has_hpet(line("-M pc,acpi=off")));
    assert!(!has_hpet(line("-M pc -no-acpi")));
    // A Q35 has ACPI all the same.
    assert!(has_hpet(machine("q35", "")) && has_hpet(line("-M q35,acpi=off")));
}

#[test]
fn an_hpet_that_rests_is_only_noted() {
    let of = |version, xml| {
        let context = Context {
            host: Host {
                qemu: Some(version),
                ..Host::default()
            },
            ..Context::default()
        };
        let list = context.findings(&domain(xml)).unwrap();
        let found = list.into_iter().find(|finding| finding.rule == "hpet");
        let found = found.unwrap();
        let Fix::Edit(edit) = found.fix else {
            panic!("{:?}", found.fix)
        };
        (found.severity, edit.is_on_request())
    };
    let linux = "<os><kernel>k</kernel></os><features><acpi/></features>";
    assert_eq!(of((9, 0), linux), (Severity::Note, true));
    assert_eq!(of((9, 1), linux), (Severity::High, false));
    // Windows uses it.
    let windows = "<features><acpi/><hyperv><vpindex state='on'/><synic state='on'/><stimer \
                   state='on'/></hyperv></features><clock offset='localtime'/>";
    assert_eq!(of((7, 2), windows), (Severity::High, false));
}

#[test]
fn a_cpu_without_lapic_keeps_its_hpet() {
    let global = line("-cpu qemu64 -global qemu64-x86_64-cpu.apic=off");
    assert!(!ids(&global, &context()).contains(&"hpet"));
}
