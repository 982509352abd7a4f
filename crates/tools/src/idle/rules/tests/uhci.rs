//! Devices in UHCI controllers.

use super::*;

#[test]
fn a_uhci_with_settings_of_its_own_or_with_neighbours_is_not_replaced() {
    for words in [
        "-M pc -device piix3-usb-uhci,id=u,maxframes=10 -device usb-tablet",
        "-M pc -device pci-ohci,id=o,num-ports=2 -device usb-tablet,bus=o.0",
        "-M pc -device piix3-usb-uhci,id=u -device usb-tablet -set device.u.maxframes=10",
        "-M pc -device ich9-usb-uhci1,id=u,multifunction=on,addr=1d.0 -device \
         ich9-usb-uhci2,id=v,addr=1d.1 -device usb-tablet,bus=u.0",
    ] {
        assert!(
            ids(&line(words), &context()).contains(&"usb-uhci"),
            "{words}"
        );
        assert_eq!(named("usb-uhci", line(words)).text, line(words));
    }
    // As people write it, without addresses.
    let plain = domain(
        "<devices><controller type='usb' index='0' model='piix3-uhci'/><input type='tablet' \
         bus='usb'/></devices>",
    );
    assert!(ids(&plain, &context()).contains(&"usb-uhci"));
}

#[test]
fn what_is_in_a_uhci_keeps_it_awake_whatever_it_is() {
    let found = |text: Text| {
        let list = Context::default().findings(&text).unwrap();
        let found = list.into_iter().find(|one| one.rule == "usb-uhci");
        found.map(|one| (one.severity, one.what))
    };
    let high = |name: &str| {
        let what = format!("a USB {name} is in a UHCI controller");
        Some((Severity::High, what))
    };
    let words = |device: &str| {
        let text =
            format!("-nodefaults -M pc -device piix3-usb-uhci,id=u -device {device},bus=u.0");
        found(line(&text))
    };
    assert_eq!(words("usb-host,vendorid=1"), high("device of the host"));
    assert_eq!(words("usb-storage,drive=d"), high("drive"));
    assert_eq!(words("usb-ccid"), high("ccid"));
    assert_eq!(words("usb-hub"), None);
    let xml = |devices: &str| {
        let inner = format!(
            "<devices><controller type='usb' index='0' model='piix3-uhci'/>{devices}</devices>"
        );
        found(domain(&inner))
    };
    let host = "<hostdev mode='subsystem' type='usb'/>";
    assert_eq!(xml(host), high("device of the host"));
    assert_eq!(xml("<smartcard mode='host'/>"), high("smart card"));
    let redirected = "<redirdev bus='usb' type='spicevmc'/>";
    assert_eq!(xml(redirected).unwrap().0, Severity::Low);
    // A device that is always there counts more.
    assert_eq!(
        xml(&format!("{redirected}{host}")),
        high("device of the host")
    );
}

#[test]
fn a_controller_changes_no_slot_of_others() {
    let fixed = |words: &str| {
        let Text::Arguments(words) = named("usb-uhci", line(words)).text else {
            unreachable!()
        };
        words.join(std::ffi::OsStr::new(" ")).into_string().unwrap()
    };
    // It has the slot of the one before.
    let own = fixed("-M pc -device piix3-usb-uhci,id=u,addr=01.2 -device usb-tablet,bus=u.0");
    assert!(own.contains("qemu-xhci,id=u,addr=01.2"), "{own}");
    // The built-in controller leaves no slot: the new one gets a free one.
    let taken = "-M pc,usb=on -device usb-tablet -device virtio-net-pci,addr=0x1a -device \
                 virtio-blk-pci,addr=19.0";
    let other = fixed(taken);
    assert!(other.contains("qemu-xhci,addr=0x18"), "{other}");
}

#[test]
fn a_windows_without_a_driver_for_xhci_keeps_its_controller() {
    let tablet = "<devices><controller type='usb' index='0' model='piix3-uhci'/><input \
                  type='tablet' bus='usb'/></devices>";
    let of = |id: &str| {
        domain(&format!(
            "<metadata><l:libosinfo xmlns:l='http://libosinfo.org/xmlns/libvirt/domain/1.0'><l:os \
             id='http://microsoft.com/win/{id}'/></l:libosinfo></metadata>{tablet}"
        ))
    };
    for old in ["xp", "7", "2k8r2", "vista"] {
        assert!(ids(&of(old), &context()).contains(&"usb-uhci"), "{old}");
        assert_eq!(named("usb-uhci", of(old)).text, of(old), "{old}");
        // It has no synthetic timers either.
        let list = context().findings(&of(old)).unwrap();
        assert!(!format!("{list:?}").contains("hv-stimer"), "{old}");
    }
    for new in ["8", "10", "2k12", "2k22"] {
        assert_ne!(named("usb-uhci", of(new)).text, of(new), "{new}");
        assert!(ids(&of(new), &context()).contains(&"hv-stimer"), "{new}");
    }
    let named_only = line("-M pc,usb=on -accel kvm -name win7 -device usb-tablet");
    assert_eq!(named("usb-uhci", named_only.clone()).text, named_only);
}
