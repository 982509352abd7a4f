//! Command lines that people, libvirt and brisk write.

use proptest::prelude::*;

use super::*;

fn line(text: &str) -> CommandLine {
    let words: Vec<_> = text.split_whitespace().collect();
    CommandLine::with_program(&words)
}

fn pairs(fields: &Fields) -> Vec<(&str, &str)> {
    fields
        .iter()
        .map(|field| (&*field.key, &*field.value))
        .collect()
}

#[test]
fn options_have_one_dash_or_two_and_several_spellings() {
    for text in ["-M q35", "--M q35", "-machine q35", "--machine type=q35"] {
        assert_eq!(line(text).machine().get("type"), Some("q35"), "{text}");
    }
    assert_eq!(option_name("---x"), Some("-x"));
    assert_eq!(option_name("x"), None);
}

#[test]
fn options_are_in_order_with_the_words_they_are_in() {
    let line = line("q -S a.img -kernel k -append --x -device e1000,id=n");
    let items: Vec<_> = line
        .items()
        .iter()
        .map(|item| (&*item.name, item.word, item.text().into_owned()))
        .collect();
    let expected = [
        ("S", 1, ""),
        ("hda", 2, "a.img"),
        ("kernel", 3, "k"),
        ("append", 5, "--x"),
        ("device", 7, "e1000,id=n"),
    ];
    assert_eq!(
        items,
        expected.map(|(name, word, text)| (name, word, text.to_owned()))
    );
    assert_eq!(line.program(), Some(Path::new("q")));
    let id = line.settings("device").field("id").cloned().unwrap();
    assert_eq!((id.word, id.bytes, id.value_bytes), (8, 6..10, Some(9..10)));
}

#[test]
fn words_behind_the_program_count_from_zero() {
    let line = CommandLine::options(&["a.img", "-kernel", "k"]);
    assert_eq!((line.items()[0].word, line.items()[1].word), (0, 1));
    assert_eq!(line.program(), None);
}

#[test]
fn a_doubled_comma_is_one() {
    let fields = fields("drive", "file=/a,,b,,,if=none,id=x,,").unwrap();
    let expected = [("file", "/a,b,"), ("if", "none"), ("id", "x,")];
    assert_eq!(pairs(&fields), expected);
    assert_eq!(fields.field("file").unwrap().value_bytes, Some(5..12));
    assert_eq!(escape("/a,b,"), "/a,,b,,");
}

#[test]
fn the_first_key_may_be_left_out_where_qemu_has_one() {
    let first = |option, text| {
        let fields = fields(option, text).unwrap();
        let field = fields.iter().next().unwrap().clone();
        (field.key, field.value)
    };
    for (option, text, key, value) in [
        ("device", "e1000,id=n", "driver", "e1000"),
        ("device", "id=n,driver=e1000", "id", "n"),
        ("m", "512", "size", "512"),
        ("smp", "4,sockets=2", "cpus", "4"),
        ("object", "iothread,id=i", "qom-type", "iothread"),
        ("chardev", "pty,id=c", "backend", "pty"),
        ("netdev", "user,id=n", "type", "user"),
        ("option-rom", "/a,,b", "romfile", "/a,b"),
        // A drive has none: QEMU takes this for a switch.
        ("drive", "a.img", "a.img", "on"),
    ] {
        assert_eq!(first(option, text), (key.to_owned(), value.to_owned()));
    }
}

#[test]
fn keys_without_a_value_are_switches() {
    let fields = fields("chardev", "socket,server,nowait,,id=c").unwrap();
    let expected = [
        ("backend", "socket"),
        ("server", "on"),
        ("wait", "off"),
        ("id", "c"),
    ];
    assert_eq!(pairs(&fields), expected);
    assert_eq!(fields.is_on("server"), Some(true));
    assert_eq!(fields.is_on("id"), None);
}

#[test]
fn of_repeated_options_the_last_counts_or_all_are_merged() {
    let line = line("q -M pc -cpu host,+x -M hpet=off,type=q35 -cpu max -m 1G -m slots=2 -smp 4");
    let machine = line.machine();
    assert_eq!(machine.get("type"), Some("q35"));
    assert_eq!(machine.is_on("hpet"), Some(false));
    assert_eq!(machine.get("memory.size"), Some("1G"));
    assert_eq!(machine.get("memory.slots"), Some("2"));
    assert_eq!(machine.get("smp.cpus"), Some("4"));
    assert_eq!(pairs(&line.settings("cpu")), [("model", "max")]);
}

#[test]
fn options_of_their_own_are_properties_of_the_machine() {
    let line = line("q -M kernel=a -kernel b -no-hpet -bios f -boot menu=on -usb -M hpet=on");
    let machine = line.machine();
    assert_eq!(machine.get("kernel"), Some("b"));
    assert_eq!(machine.get("firmware"), Some("f"));
    assert_eq!(machine.is_on("boot.menu"), Some(true));
    assert_eq!(machine.is_on("usb"), Some(true));
    assert_eq!(machine.is_on("hpet"), Some(true));
}

#[test]
fn features_of_the_processor_are_applied_as_qemu_does() {
    let fields = fields(
        "cpu",
        "host,-hv_time,hv-relaxed,+x2apic,hv_spinlocks=0x1fff,x2apic=off",
    );
    let fields = fields.unwrap();
    assert_eq!(fields.get("model"), Some("host"));
    assert_eq!(fields.is_on("hv-time"), Some(false));
    assert_eq!(fields.is_on("hv-relaxed"), Some(true));
    assert_eq!(fields.is_on("x2apic"), Some(true), "+ comes behind =");
    let spinlocks = fields.field("hv-spinlocks").unwrap();
    assert_eq!(
        (&*spinlocks.value, spinlocks.value_bytes.clone()),
        ("0x1fff", Some(46..52))
    );
    assert!(super::fields("cpu", "").unwrap().is_empty());
    let both = super::fields("cpu", "host,-x2apic,+x2apic").unwrap();
    assert_eq!(both.is_on("x2apic"), Some(false), "- comes behind +");
}

#[test]
fn json_has_dotted_keys() {
    let text = r#"{"driver":"raw","file":{"driver":"file","filename":"a,b"},"n":2,"on":true,"l":[1,null]}"#;
    let fields = fields("blockdev", text).unwrap();
    let expected = [
        ("driver", "raw"),
        ("file.driver", "file"),
        ("file.filename", "a,b"),
        ("l.0", "1"),
        ("n", "2"),
        ("on", "on"),
    ];
    assert_eq!(pairs(&fields), expected);
    let field = fields.field("n").unwrap();
    assert_eq!(
        (field.bytes.clone(), field.value_bytes.clone()),
        (0..text.len(), None)
    );
}

#[test]
fn globals_have_two_forms() {
    let line = line(
        "q -global kvm-pit.lost_tick_policy=delay -global driver=ICH9-LPC,property=disable_s3,value=1 \
         -global virtio-blk-pci.x=a,b=c",
    );
    let globals: Vec<_> = line
        .globals()
        .into_iter()
        .map(|global| [global.driver, global.property, global.value])
        .collect();
    let expected = [
        ["kvm-pit", "lost_tick_policy", "delay"],
        ["ICH9-LPC", "disable_s3", "1"],
        ["virtio-blk-pci", "x", "a,b=c"],
    ];
    assert_eq!(globals, expected.map(|parts| parts.map(str::to_owned)));
    assert_eq!(line.errors(), []);
}

#[test]
fn properties_of_a_device_are_set_from_outside() {
    let line = line("q -set device.n.a.b=c -set device.n");
    let set = line.set();
    assert_eq!((&*set[0].option, &*set[0].id), ("device", "n"));
    assert_eq!((&*set[0].field.key, &*set[0].field.value), ("a.b", "c"));
    assert_eq!(set[0].field.value_bytes, Some(13..14));
    assert!(matches!(line.errors(), [Error::Incomplete { word: 4, .. }]));
}

#[test]
fn accelerators_are_in_the_order_they_are_tried() {
    for (text, expected) in [
        ("q", vec!["tcg"]),
        ("/usr/bin/qemu-kvm", vec!["kvm", "tcg"]),
        ("q -enable-kvm", vec!["kvm"]),
        ("q -M q35,accel=kvm:tcg", vec!["kvm", "tcg"]),
        ("q -accel tcg,thread=single", vec!["tcg"]),
        (
            "q -accel kvm,kernel-irqchip=split --accel tcg",
            vec!["kvm", "tcg"],
        ),
    ] {
        assert_eq!(line(text).accelerators(), expected, "{text}");
    }
}

#[test]
fn what_qemu_would_refuse_is_told_and_the_rest_is_read() {
    let line = line(r#"q -nonsense x -device {"driver" -global x -kernel"#);
    assert_eq!(line.value("kernel"), None);
    let told: Vec<_> = line.errors().iter().map(ToString::to_string).collect();
    assert_eq!(told[0], "-nonsense is no option of QEMU");
    assert_eq!(told[1], "-kernel has no argument");
    assert!(told[2].starts_with("the argument of -device is no JSON object: "));
    assert_eq!(told[3], "-global x sets nothing");
    let next = super::CommandLine::options(&["-nonsense", "-S"]);
    assert!(next.has("S"));
}

#[test]
fn configuration_in_files_is_not_read() {
    let line = line("q -readconfig a.cfg");
    let files: Vec<_> = line.unread().map(Item::text).collect();
    assert_eq!(files, ["a.cfg"]);
}

#[test]
fn a_process_has_words_that_end_with_nul_bytes() {
    let line =
        CommandLine::of_process(b"/usr/bin/qemu-system-x86_64\0-append\0a b\0-initrd\0\0-S\0");
    assert_eq!(
        line.program(),
        Some(Path::new("/usr/bin/qemu-system-x86_64"))
    );
    assert_eq!(line.value("append"), Some("a b".as_ref()));
    assert_eq!(line.value("initrd"), Some("".as_ref()));
    assert!(line.has("S"));
    let word = [
        b"q\0-kernel\0/\xff,x\0".as_slice(),
        b"-device\0\xff=\xfe,id=n\0",
    ]
    .concat();
    let line = CommandLine::of_process(&word);
    assert_eq!(line.value("kernel").unwrap().as_bytes(), b"/\xff,x");
    assert_eq!(line.settings("device").field("id").unwrap().bytes, 4..8);
}

#[test]
fn a_number_of_options_are_known_and_none_twice() {
    let mut names: Vec<_> = all().map(|spec| spec.name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    assert_eq!(spec("M").unwrap().name, "machine");
}

/// As `/proc/PID/cmdline` showed it of a domain that libvirt 9.0 started.
#[test]
fn what_libvirt_starts_is_read() {
    let bytes = include_bytes!("../../hardware/fixtures/root/proc/4711/cmdline");
    let line = CommandLine::of_process(bytes);
    assert_eq!(line.errors(), []);
    let devices: Vec<_> = line
        .all("device")
        .filter_map(|item| item.fields().ok())
        .collect();
    assert_eq!(devices.len(), 19);
    let card = devices
        .iter()
        .find(|device| device.get("id") == Some("net0"))
        .unwrap();
    assert_eq!(card.get("driver"), Some("e1000e"));
    let port = &devices[0];
    assert_eq!(
        (port.get("port"), port.is_on("multifunction")),
        (Some("16"), Some(true))
    );
    let machine = line.machine();
    assert_eq!(machine.is_on("hpet"), Some(false));
    assert_eq!(machine.get("smp.cores"), Some("2"));
    assert_eq!(line.settings("rtc").get("driftfix"), Some("slew"));
    assert_eq!(line.globals().len(), 3);
    assert_eq!(
        line.value("uuid").unwrap(),
        "3795b4fd-cf13-4b36-a1a3-55ccdbb5ddea"
    );
}

proptest! {
    #[test]
    fn no_words_are_too_strange(words in proptest::collection::vec(
        "(--?(M|device|cpu|global|set|object|m|drive|kernel|S|x))|[-a,=.+{}\":\u{e9}]{0,12}", 0..12)) {
        let line = CommandLine::with_program(&words);
        for item in line.items() {
            for field in item.fields().unwrap_or_default().iter() {
                let word = words[field.word].as_bytes();
                prop_assert!(word.get(field.bytes.clone()).is_some());
                if let Some(bytes) = field.value_bytes.clone() {
                    let value = word.get(bytes).unwrap();
                    let value = String::from_utf8_lossy(value).replace(",,", ",");
                    prop_assert!(value == field.value || item.name == "cpu");
                }
            }
        }
        let _ = (line.machine(), line.accelerators(), line.globals(), line.set());
    }

    #[test]
    fn what_was_escaped_is_read_again(value in "[a,=]{1,10}") {
        let text = format!("e1000,x={},id=n", escape(&value));
        let fields = fields("device", &text).unwrap();
        prop_assert_eq!(fields.get("x"), Some(&*value));
        prop_assert_eq!(fields.get("id"), Some("n"));
    }
}
