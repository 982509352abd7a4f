//! Rules of devices that QEMU serves itself.

use super::*;

fn found(text: Text, rule: &str) -> Vec<brisk_lint::Finding> {
    let list = Context::default().findings(&text).unwrap();
    list.into_iter().filter(|one| one.rule == rule).collect()
}

#[test]
fn emulated_disks_and_cards_are_one_note() {
    let windows = domain(
        "<clock offset='localtime'/><devices><disk device='disk'><target dev='sda' bus='sata'/>\
         </disk><disk device='disk'><target dev='hda' bus='ide'/></disk><interface type='bridge'>\
         <model type='e1000e'/></interface><interface type='user'/></devices>",
    );
    let list = found(windows, "emulated-io");
    let [finding] = &*list else {
        panic!("{list:?}");
    };
    assert_eq!(finding.severity, Severity::Note);
    assert_eq!(
        finding.what,
        "disk sda (sata), disk hda (ide), network card e1000e, a network card of the default model \
         are emulated hardware"
    );
    // A boot disk whose driver Windows does not load is a guest that does not boot.
    let Fix::Advice(advice) = &finding.fix else {
        panic!("{finding:?}");
    };
    assert!(advice.contains("second virtio disk"), "{advice}");
    // What QEMU adds by itself is no finding alone, nor are machines without virtio of a PC's.
    assert_eq!(found(line("-M q35"), "emulated-io"), []);
    let arm = domain(
        "<os><type arch='aarch64' machine='virt'>hvm</type></os><devices><interface type='user'>\
         <model type='e1000'/></interface></devices>",
    );
    assert_eq!(found(arm, "emulated-io"), []);
}

#[test]
fn vhost_is_as_qemu_and_libvirt_choose_it() {
    let card = "-accel kvm -device virtio-net-pci,netdev=n";
    for (words, is_off) in [
        ("-netdev tap,id=n", true),
        ("-netdev tap,id=n,vhost=off", true),
        ("-netdev tap,id=n,vhost=off,vhostfd=7", true),
        (r#"-netdev {"type":"tap","id":"n","fd":"5"}"#, true),
        ("-netdev tap,id=n,vhostfd=7", false),
        ("-netdev tap,id=n,vhostforce=on", false),
        ("-netdev type=tap,id=n,ifname=tap100i0,vhost=on", false),
        (
            r#"-netdev {"type":"tap","fd":"30","vhost":true,"vhostfd":"32","id":"n"}"#,
            false,
        ),
        ("-netdev bridge,id=n,br=br0", false),
        ("-netdev vhost-user,id=n,chardev=c", false),
        ("-netdev tap,id=other", false),
    ] {
        let list = found(line(&format!("{card} {words}")), "vhost-off");
        assert_eq!(!list.is_empty(), is_off, "{words}");
        let is_advice = |one: &brisk_lint::Finding| matches!(one.fix, Fix::Advice(_));
        assert!(list.iter().all(is_advice), "{words}");
    }
    let both = "-nic tap,model=virtio-net-pci";
    assert_eq!(
        found(line(&format!("-accel kvm {both}")), "vhost-off").len(),
        1
    );
    assert_eq!(found(line(&format!("-accel tcg {both}")), "vhost-off"), []);
    // It was written on purpose.
    let text = domain(
        "<devices><interface type='network'><model type='virtio'/><driver name='qemu'/>\
         </interface></devices>",
    );
    let fixed = fix(text.clone(), &Context::default(), Wanted { rules: &[] }).unwrap();
    assert!(matches!(&fixed.text, Text::Xml(xml) if xml.contains("name='qemu'")));
    let fixed = named("vhost-off", text).text;
    assert!(
        matches!(&fixed, Text::Xml(xml) if xml.contains("<driver/>")),
        "{fixed:?}"
    );
}

#[test]
fn sound_that_nobody_hears_is_noted() {
    let sound = |devices: &str| {
        let list = found(domain(&format!("<devices>{devices}</devices>")), "audio");
        list.into_iter().map(|one| one.what).collect::<Vec<_>>()
    };
    let unheard = "there is a sound card that nobody hears: its back end is none";
    let none = "<audio id='1' type='none'/>";
    assert_eq!(sound(&format!("<sound model='ich9'/>{none}")), [unheard]);
    // libvirt adds such a back end to guests with VNC and without a sound card.
    assert!(sound(&format!("<graphics type='vnc'/>{none}")).is_empty());
    let two = "<audio id='2' type='pipewire'/>";
    assert!(sound(&format!("<sound model='ich9'/>{none}{two}")).is_empty());
    assert!(sound("<sound model='ich9'/>").is_empty());
    assert!(sound("<audio id='1' type='spice' timerPeriod='10'/>").is_empty());
    let words = line("-device AC97,audiodev=a -audiodev none,id=a");
    assert_eq!(found(words, "audio")[0].what, unheard);
}

#[test]
fn a_screen_costs_without_a_client_only_with_spice() {
    let severity = |words: &str| {
        let list = found(line(words), "display-client");
        list.first().map(|finding| finding.severity)
    };
    assert_eq!(
        severity("-device qxl-vga -spice port=5900"),
        Some(Severity::Low)
    );
    assert_eq!(severity("-vga std -vnc :1"), Some(Severity::Note));
    assert_eq!(severity("-vga std -display none"), None);
    assert_eq!(severity("-nodefaults -spice port=5900"), None);
    let xml = "<devices><graphics type='spice'/><video><model type='qxl'/></video></devices>";
    assert_eq!(found(domain(xml), "display-client").len(), 1);
}
