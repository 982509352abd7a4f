//! Each rule with guests in which it finds something, and near misses in which it does not.

mod emulation;
mod enlightenments;
mod examples;
mod hpet;
mod kernel;
mod rates;
mod uhci;

use std::ffi::OsString;

use brisk_vm::hardware::GuestHardware;
use examples::{EXAMPLES, Example};

use super::*;
use crate::idle::fix::{Context, Fixed, Wanted, fix};
use crate::idle::measure::Signature;
use crate::idle::text::Text;
use brisk_lint::{Fix, Severity};

/// A host, and what was measured, in which every rule that looks at them finds something.
fn context() -> Context {
    Context {
        os: None,
        look: findings,
        host: Host {
            cpus: None,
            free_huge_pages: None,
            is_amd: None,
            has_apicv: Some(false),
            qemu: None,
            hyperv: None,
            halt_poll_ns: Some(400_000),
            ksmd: Some(12.0),
            khugepaged: Some(2.0),
        },
        live: Some(Signature {
            cpu: 31.0,
            main_wakeups: 64.0,
            vcpu_wakeups: vec![64.0],
            ..Signature::default()
        }),
    }
}

fn domain(inner: &str) -> Text {
    Text::Xml(format!("<domain type='kvm'>\n  {inner}\n</domain>\n"))
}

fn line(words: &str) -> Text {
    let words = ["qemu-system-x86_64"]
        .into_iter()
        .chain(words.split_whitespace());
    Text::Arguments(words.map(OsString::from).collect())
}

fn ids(text: &Text, context: &Context) -> Vec<&'static str> {
    let list = context.findings(text).unwrap();
    list.iter().map(|finding| finding.rule).collect()
}

fn named(rule: &str, text: Text) -> Fixed {
    let rules = [rule.to_owned()];
    fix(text, &context(), Wanted { rules: &rules })
        .unwrap_or_else(|error| panic!("{rule}: {error}"))
}

#[test]
fn interrupt_controllers_of_xen_and_confidential_guests_stay_outside_of_kvm() {
    for more in [
        "-accel kvm,xen-version=0x40011",
        "-accel kvm -object sev-guest,id=s -M confidential-guest-support=s",
    ] {
        let text = line(&format!("-M q35,kernel_irqchip=split {more}"));
        assert!(!ids(&text, &context()).contains(&"irqchip"), "{more}");
    }
}

#[test]
fn parameters_of_the_kernel_are_read_as_it_reads_them() {
    for (words, rule) in [
        ("-accel kvm -append nohz=0", Some("nohz")),
        ("-accel kvm -append nohz=n", Some("nohz")),
        ("-accel kvm -append nohz=on", None),
        (
            "-accel kvm -append clocksource=jiffies",
            Some("clocksource"),
        ),
        ("-accel kvm -append notsc", None),
        ("-accel tcg -append notsc", Some("clocksource")),
        ("-accel kvm -append no-kvmclock", None),
        (
            "-accel kvm -append no-kvmclock,tsc=unstable",
            Some("clocksource"),
        ),
        ("-accel kvm -append nolapic_timer", Some("no-lapic")),
    ] {
        let words = words.replace(',', " ");
        let (options, append) = words.split_once("-append ").unwrap();
        let mut text = line(options);
        if let Text::Arguments(words) = &mut text {
            words.extend(["-append".into(), append.into()]);
        }
        let found = ids(&text, &context());
        let known = ["nohz", "clocksource", "no-lapic"];
        let found: Vec<_> = found.into_iter().filter(|id| known.contains(id)).collect();
        assert_eq!(found, Vec::from_iter(rule), "{words}");
    }
}

#[test]
fn each_rule_has_an_example() {
    let examples: Vec<_> = EXAMPLES.iter().map(|example| example.rule).collect();
    let rules: Vec<_> = descriptions().iter().map(|rule| rule.id).collect();
    assert_eq!(examples, rules);
    assert!(rules.len() >= 30);
}

#[test]
fn rules_find_what_they_should_in_each_form() {
    for Example {
        rule, xml, words, ..
    } in EXAMPLES
    {
        let mut texts = vec![line(words)];
        if !xml.is_empty() {
            texts.push(domain(xml));
        }
        for text in texts {
            let found = ids(&text, &context());
            assert!(found.contains(rule), "{rule}: {found:?} in {text:?}");
        }
        // As the command line of a process.
        let bytes: Vec<u8> = words
            .split_whitespace()
            .fold(b"qemu-system-x86_64\0".to_vec(), |line, word| {
                [&line, word.as_bytes(), &[0]].concat()
            });
        let root = tempfile::tempdir().unwrap();
        let process = root.path().join("proc/42");
        std::fs::create_dir_all(&process).unwrap();
        std::fs::write(process.join("cmdline"), bytes).unwrap();
        let hardware = GuestHardware::of_process(root.path(), 42).unwrap();
        let list = findings(&context().subject(hardware));
        assert!(list.iter().any(|finding| finding.rule == *rule), "{rule}");
    }
}

#[test]
fn rules_find_nothing_in_near_misses() {
    for example in EXAMPLES {
        let rule = example.rule;
        let mut texts = Vec::new();
        if !example.near_xml.is_empty() {
            texts.push(domain(example.near_xml));
        }
        if !example.near_words.is_empty() {
            texts.push(line(example.near_words));
        }
        for text in texts {
            assert!(!ids(&text, &context()).contains(&rule), "{rule}: {text:?}");
        }
        // Nor of a host of which nothing is known, if the rule is about the host.
        if matches!(
            rule,
            "hv-avic" | "halt-poll" | "ksm" | "thp" | "win-11" | "rtc-periodic"
        ) {
            let found = ids(&line(example.words), &Context::default());
            assert!(!found.contains(&rule), "{rule}");
        }
    }
}

/// The rule is gone, nothing but its own change was made, and twice is as once.
#[test]
fn fixes_take_their_rules_away_and_nothing_else() {
    let mut changes = String::new();
    for Example {
        rule, xml, words, ..
    } in EXAMPLES
    {
        let mut texts = vec![line(words)];
        if !xml.is_empty() {
            texts.push(domain(xml));
        }
        for text in texts {
            let list = context().findings(&text).unwrap();
            let found = list.iter().find(|finding| finding.rule == *rule).unwrap();
            let fixed = named(rule, text.clone());
            let Fix::Edit(_) = found.fix else {
                assert_eq!(fixed.text, text, "{rule}");
                continue;
            };
            assert!(
                !ids(&fixed.text, &context()).contains(rule),
                "{rule}: {:?}",
                fixed.text
            );
            assert!(fixed.applied.iter().all(|one| one.rule == *rule));
            assert_eq!(named(rule, fixed.text.clone()).text, fixed.text);
            let form = match text {
                Text::Xml(_) => "XML",
                Text::Arguments(_) | Text::Vm { .. } => "words",
            };
            let difference = difference(&text, &fixed.text);
            changes.push_str(&format!("{rule}, {form}\n{difference}"));
        }
    }
    insta::assert_snapshot!(changes);
}

/// Lines or words that went, and those that came.
fn difference(before: &Text, after: &Text) -> String {
    let parts = |text: &Text| -> Vec<String> {
        match text {
            Text::Xml(xml) => xml
                .replace("><", ">\n<")
                .lines()
                .map(str::to_owned)
                .collect(),
            Text::Arguments(words) | Text::Vm { words, .. } => words
                .iter()
                .map(|word| word.to_str().unwrap().to_owned())
                .collect(),
        }
    };
    let (before, after) = (parts(before), parts(after));
    let gone = before.iter().filter(|part| !after.contains(part));
    let come = after.iter().filter(|part| !before.contains(part));
    let gone = gone.map(|part| format!("- {}\n", part.trim()));
    gone.chain(come.map(|part| format!("+ {}\n", part.trim())))
        .collect()
}

#[test]
fn whole_guests_are_fixed_at_once() {
    let xml = "<domain type='kvm'>\n  <name>win10</name>\n  <os>\n    <type arch='x86_64' \
               machine='pc-q35-8.2'>hvm</type>\n  </os>\n  <features>\n    <acpi/>\n    <hyperv>\n      \
               <relaxed state='on'/>\n    </hyperv>\n  </features>\n  <clock offset='localtime'>\n    \
               <timer name='rtc' tickpolicy='catchup'/>\n  </clock>\n</domain>\n";
    let fixed = fix(
        Text::Xml(xml.into()),
        &Context::default(),
        Wanted { rules: &[] },
    )
    .unwrap();
    let Text::Xml(changed) = &fixed.text else {
        panic!("{:?}", fixed.text);
    };
    insta::assert_snapshot!(changed);
    let applied: Vec<_> = fixed.applied.iter().map(|finding| finding.rule).collect();
    // The HPET goes once there is something better.
    assert_eq!(applied, ["hv-stimer", "hpet", "hv-usual"]);
    let again = fix(
        fixed.text.clone(),
        &Context::default(),
        Wanted { rules: &[] },
    )
    .unwrap();
    assert_eq!((again.text, again.applied.len()), (fixed.text, 0));
}

#[test]
fn what_somebody_switched_off_stays_off_unless_it_is_asked_for() {
    let text = domain(
        "<features><hyperv><synic state='off'/></hyperv></features><clock offset='localtime'/>",
    );
    let fixed = fix(text.clone(), &Context::default(), Wanted { rules: &[] }).unwrap();
    let Text::Xml(changed) = &fixed.text else {
        panic!("{:?}", fixed.text);
    };
    assert!(changed.contains("<synic state='off'/>") && !changed.contains("stimer"));
    let asked = named("hv-stimer", text);
    assert!(matches!(asked.text, Text::Xml(xml) if xml.contains("<synic state='on'/>")));
}

#[test]
fn a_fix_that_cannot_be_made_leaves_the_others() {
    let text = domain(
        "<os><kernel>k</kernel><cmdline><![CDATA[nohz=off]]></cmdline></os><features><acpi/>\
         </features><clock><timer name='hpet'/></clock>",
    );
    let fixed = fix(text, &Context::default(), Wanted { rules: &[] }).unwrap();
    let failed: Vec<_> = fixed.failed.iter().map(|(rule, _)| *rule).collect();
    assert_eq!(failed, ["nohz"]);
    assert!(fixed.applied.iter().any(|finding| finding.rule == "hpet"));
}

#[test]
fn a_panic_device_for_windows_is_kept_unless_it_is_asked_for() {
    let panic = domain("<devices><panic model='hyperv'/></devices>");
    let list = Context::default().findings(&panic).unwrap();
    let found = list.iter().find(|finding| finding.rule == "hv-debug");
    assert_eq!(found.unwrap().severity, Severity::Note);
    let fixed = fix(panic.clone(), &Context::default(), Wanted { rules: &[] }).unwrap();
    assert!(matches!(fixed.text, Text::Xml(xml) if xml.contains("<panic")));
    assert!(matches!(named("hv-debug", panic).text, Text::Xml(xml) if !xml.contains("<panic")));
    // The debugger of the kernel goes.
    let debugger = line("-accel kvm -cpu host,hv-relaxed,hv-syndbg");
    let list = Context::default().findings(&debugger).unwrap();
    let found = list.iter().find(|finding| finding.rule == "hv-debug");
    assert_eq!(found.unwrap().severity, Severity::Medium);
    let fixed = fix(debugger, &Context::default(), Wanted { rules: &[] }).unwrap();
    assert!(fixed.applied.iter().any(|one| one.rule == "hv-debug"));
}

#[test]
fn an_io_thread_that_polls_a_little_costs_a_little() {
    let severity = |longest: &str| {
        let text = line(&format!("-object iothread,id=a,poll-max-ns={longest}"));
        let list = Context::default().findings(&text).unwrap();
        let found = list.iter().find(|one| one.rule == "iothread-poll");
        found.map(|finding| finding.severity)
    };
    assert_eq!(severity("1000000"), Some(Severity::High));
    assert_eq!(severity("999999"), Some(Severity::Low));
    assert_eq!(severity("32768"), None);
}

#[test]
fn guests_of_other_hypervisors_and_architectures_are_left_alone() {
    for kind in ["xen", "lxc", "bhyve"] {
        let xml = format!("<domain type='{kind}'><clock offset='localtime'/></domain>");
        let refused = Text::of_file(xml.as_bytes(), std::path::Path::new("a"))
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains(&format!("of type {kind}: QEMU does not")),
            "{refused}"
        );
    }
    let others = [
        "<domain type='kvm'><os><type arch='s390x' machine='s390-ccw-virtio'>hvm</type></os>\
         <clock offset='utc'/></domain>",
        "<domain type='kvm'><os><type arch='aarch64' machine='virt'>hvm</type></os></domain>",
    ];
    for xml in others {
        let list = Context::default().findings(&Text::Xml(xml.into())).unwrap();
        assert_eq!(list, [], "{xml}");
    }
    let arm = Text::Arguments(
        [
            "qemu-system-aarch64",
            "-M",
            "virt",
            "-name",
            "a,debug-threads=on",
        ]
        .map(OsString::from)
        .into(),
    );
    let found = ids(&arm, &Context::default());
    assert!(!found.contains(&"hpet"), "{found:?}");
}

#[test]
fn operating_systems_are_known_by_what_describes_guests() {
    let os = |inner: &str| GuestOs::of(&domain(inner).hardware().unwrap());
    let id = |id: &str| {
        os(&format!(
            "<metadata><l:libosinfo xmlns:l='http://libosinfo.org/xmlns/libvirt/domain/1.0'><l:os \
             id='{id}'/></l:libosinfo></metadata>"
        ))
    };
    assert_eq!(id("http://microsoft.com/win/11"), GuestOs::Windows11);
    assert_eq!(id("http://microsoft.com/win/2k19"), GuestOs::Windows);
    assert_eq!(id("http://debian.org/debian/12"), GuestOs::Linux);
    assert_eq!(id("http://freebsd.org/freebsd/14.0"), GuestOs::Other);
    assert_eq!(os("<name>win7-pro</name>"), GuestOs::Windows);
    assert_eq!(os("<name>Windows</name>"), GuestOs::Windows);
    assert_eq!(os("<name>wine-tests</name>"), GuestOs::Unknown);
    assert_eq!(os("<name>twin2</name>"), GuestOs::Unknown);
    assert_eq!(os("<os><kernel>k</kernel></os>"), GuestOs::Linux);
    let context = Context {
        os: Some(GuestOs::Linux),
        ..Context::default()
    };
    assert!(!ids(&domain("<clock offset='localtime'/>"), &context).contains(&"hv-stimer"));
}

#[test]
fn a_measurement_gives_likely_causes_and_what_the_host_does() {
    use crate::idle::measure::{Guest, HostNoise, HostWindow, Kind, Measured, Thread};
    use crate::idle::measure::{Life, Role};

    let guest = Guest {
        pid: 1,
        name: None,
        kind: Kind::Qemu,
        program: "q".into(),
        accelerator: "tcg".into(),
        roles: Default::default(),
        helpers: Default::default(),
    };
    let main = Thread {
        tid: 1,
        name: "q".into(),
        role: Role::Main,
        cpu_percent: 1.2,
        waiting_percent: 0.0,
        wakeups_per_second: 259.0,
        preemptions_per_second: 0.0,
        life: Life::Whole,
    };
    let measured = Measured {
        threads: vec![main],
        ..Measured::of(guest, Vec::new())
    };
    let host = HostNoise {
        mean: HostWindow {
            ksmd_percent: Some(12.0),
            khugepaged_percent: Some(0.1),
            ..HostWindow::default()
        },
        ..HostNoise::default()
    };
    let context = Context::default().with_measured(&measured, &host);
    let text = line("-M q35 -append nohz=off");
    let likely = context.likely(text.hardware().unwrap());
    let rules: Vec<_> = likely.iter().map(|finding| finding.rule).collect();
    // Nothing is known of its vCPUs, so nothing speaks for nohz=off.
    assert_eq!(rules, ["hpet"]);
    let all = ids(&text, &context);
    assert!(all.contains(&"ksm") && !all.contains(&"thp"), "{all:?}");
    assert!(!ids(&text, &Context::default()).contains(&"ksm"));
}
