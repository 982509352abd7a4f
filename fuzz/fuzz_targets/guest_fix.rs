//! Descriptions of guests that are changed: definitions of domains, command lines, and definitions
//! of brisk's VMs. What has nothing to change keeps its bytes, what is changed is still a
//! description, and twice is as once.
#![no_main]

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use brisk_tools::idle::fix::{Context, Wanted, fix};
use brisk_tools::idle::rules::descriptions;
use brisk_tools::idle::text::Text;
use libfuzzer_sys::fuzz_target;

/// Parts of a domain, each well-formed by itself.
const PARTS: [&str; 24] = [
    "<os><type arch='x86_64' machine='pc-q35-8.2'>hvm</type><cmdline>TEXT</cmdline></os>",
    "<os><type arch=\"x86_64\">hvm</type></os>",
    "<os>\r\n<cmdline>nohz=off TEXT idle=poll</cmdline></os>",
    "<features><acpi/></features>",
    "<features><hyperv><stimer state='on'/></hyperv></features>",
    "<features>\n  <hyperv mode='custom'>\n    <synic state='off'/>\n  </hyperv></features>",
    "<features><hyperv mode='passthrough'/></features>",
    "<clock offset='localtime'/>",
    "<clock offset='utc'><timer name='hpet'/></clock>",
    "<clock><timer name='rtc' tickpolicy='catchup'/><!-- TEXT --></clock>",
    "<clock/>",
    "<cpu mode='host-passthrough'><feature policy='disable' name='TEXT'/></cpu>",
    "<devices/>",
    "<devices><input type='tablet' bus='usb'/></devices>",
    "<devices><controller type='usb' index='0' model='piix3-uhci'/><input type='tablet' bus='usb'/></devices>",
    "<devices>\n <memballoon model='virtio'>\n  <stats period='1'/>\n </memballoon>\n</devices>",
    "<devices><disk type='file' device='cdrom'><target dev='sda'/></disk></devices>",
    "<devices><graphics type='vnc' passwd='TEXT'/><video><model type='vga'/></video></devices>",
    "<iothreads>1</iothreads>",
    "<iothreadids><iothread id='1'><poll max='10000000'/></iothread></iothreadids>",
    "<metadata><x:y xmlns:x='u'>TEXT</x:y></metadata>",
    "<name>TEXT win10</name>",
    "TEXT",
    "<![CDATA[TEXT]]>",
];

/// Words of a command line.
const WORDS: [&str; 24] = [
    "-M",
    "pc",
    "q35,hpet=on",
    "-machine",
    "microvm",
    "-usb",
    "-device",
    "usb-tablet",
    "piix3-usb-uhci,id=u",
    "usb-tablet,bus=u.0",
    "-cpu",
    "host,hv-stimer",
    "qemu64,-apic",
    "-append",
    "nohz=off a=\"b nohz=off c\"",
    "idle=poll",
    "-accel",
    "kvm",
    "-object",
    "iothread,id=i,poll-max-ns=10000000",
    "{\"driver\":\"usb-tablet\",\"bus\":\"u.0\"}",
    "-global",
    "kvm-pit.lost_tick_policy=slew",
    "virtio-balloon-pci,guest-stats-polling-interval=1",
];

fn domain(parts: &[u8], text: &str) -> Text {
    let text = text.replace(['<', '&', ']', '\'', '-'], "_");
    let part = |byte: &u8| PARTS[usize::from(*byte) % PARTS.len()].replace("TEXT", &text);
    let parts: String = parts.iter().map(part).collect();
    Text::Xml(format!("<domain type='kvm'>\n {parts}\n</domain>\n"))
}

fn line(words: &[u8], text: &[u8]) -> Vec<OsString> {
    let word = |byte: &u8| match WORDS.get(usize::from(*byte) % (WORDS.len() + 1)) {
        Some(word) => OsString::from(word),
        None => OsString::from_vec(text.to_vec()),
    };
    let program = OsString::from("qemu-system-x86_64");
    std::iter::once(program)
        .chain(words.iter().map(word))
        .collect()
}

fn definition(text: &str) -> Text {
    let word = text.split_whitespace().next().unwrap_or("nohz=off");
    let quoted = format!("{text:?}");
    Text::Vm {
        text: format!("append = [ 'nohz=off' # {word}\n, {quoted}, \"idle=poll\",]\n{text}"),
        words: ["q", "-append"]
            .map(OsString::from)
            .into_iter()
            .chain([format!("nohz=off {text}").into()])
            .collect(),
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((form, data)) = data.split_first() else {
        return;
    };
    let (chosen, text) = data.split_at(data.len().min(12));
    let lossy = String::from_utf8_lossy(text);
    let guest = match form % 4 {
        0 => domain(chosen, &lossy),
        1 => Text::Arguments(line(chosen, text)),
        2 => definition(&lossy),
        _ => Text::Xml(String::from_utf8_lossy(data).into_owned()),
    };
    let context = Context::default();
    // Those that are made only on request, too.
    let all: Vec<String> = descriptions()
        .iter()
        .map(|rule| rule.id.to_owned())
        .collect();
    let rules = if form & 4 == 0 { &[][..] } else { &all[..] };
    let wanted = Wanted { rules };
    let Ok(fixed) = fix(guest.clone(), &context, wanted) else {
        return;
    };
    if fixed.applied.is_empty() {
        assert_eq!(fixed.text, guest);
    }
    let again = fix(fixed.text.clone(), &context, wanted).expect("it is still a description");
    assert!(again.applied.is_empty(), "{:?}", again.applied);
    assert_eq!(again.text, fixed.text);
});
