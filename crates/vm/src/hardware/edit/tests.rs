use std::ffi::OsString;

use proptest::prelude::*;

use super::*;

fn set(path: &str, attribute: &'static str, value: &str) -> XmlChange {
    XmlChange::Set {
        path: Path::domain(path),
        attribute,
        value: value.to_owned(),
    }
}

fn apply(xml: &str, changes: &[XmlChange]) -> String {
    XmlChange::apply(changes, xml).unwrap()
}

const DOMAIN: &str = "<!-- mine -->
<domain type=\"kvm\">
  <name>web</name> <!-- the shop -->
  <features>
    <acpi/>
    <hyperv mode=\"custom\">
      <relaxed state=\"on\"/>
    </hyperv>
  </features>
\t<clock offset=\"utc\">
\t\t<timer name=\"rtc\" tickpolicy=\"catchup\"/>
\t</clock>
  <devices/>
</domain>
";

/// Lines of the result that the original does not have.
fn new_lines(original: &str, changed: &str) -> Vec<String> {
    let old: Vec<_> = original.lines().collect();
    let new = changed.lines().filter(|line| !old.contains(line));
    new.map(str::to_owned).collect()
}

#[test]
fn elements_are_made_as_their_neighbours_are() {
    let changed = apply(
        DOMAIN,
        &[
            set("features/hyperv/stimer", "state", "on"),
            set("features/kvm/hidden", "state", "on"),
            set("clock(offset=utc)/timer[name=hpet]", "present", "no"),
            set("devices/controller[type=usb]", "model", "none"),
        ],
    );
    assert_eq!(
        new_lines(DOMAIN, &changed),
        [
            "      <stimer state=\"on\"/>",
            "    <kvm>",
            "      <hidden state=\"on\"/>",
            "    </kvm>",
            "\t\t<timer name=\"hpet\" present=\"no\"/>",
            "  <devices>",
            "    <controller type=\"usb\" model=\"none\"/>",
            "  </devices>",
        ]
    );
    assert!(changed.starts_with("<!-- mine -->\n<domain type=\"kvm\">\n  <name>web</name> <!-- "));
    let lines = DOMAIN.lines().filter(|line| *line != "  <devices/>");
    assert!(lines.into_iter().all(|line| changed.contains(line)));
}

#[test]
fn what_is_as_it_should_be_keeps_its_bytes() {
    let same = [
        set("features/hyperv/relaxed", "state", "on"),
        XmlChange::Ensure(Path::domain("features/acpi")),
        XmlChange::Unset {
            path: Path::domain("clock"),
            attribute: "basis",
        },
    ];
    assert_eq!(apply(DOMAIN, &same), DOMAIN);
    let changes = [set("features/hyperv/relaxed", "state", "off")];
    let once = apply(DOMAIN, &changes);
    assert_eq!(
        once,
        DOMAIN.replace("<relaxed state=\"on\"/>", "<relaxed state=\"off\"/>")
    );
    assert_eq!(apply(&once, &changes), once);
}

#[test]
fn a_missing_clock_gets_what_the_schema_asks_for() {
    let changes = [set("clock(offset=utc)/timer[name=hpet]", "present", "no")];
    let xml = "<domain type='kvm'><name>a</name></domain>";
    assert_eq!(
        apply(xml, &changes),
        "<domain type='kvm'><name>a</name><clock offset='utc'><timer name='hpet' \
         present='no'/></clock></domain>"
    );
    assert_eq!(
        apply("<domain>\n</domain>", &changes),
        "<domain>\n  <clock offset='utc'>\n    <timer name='hpet' present='no'/>\n  </clock>\n\
         </domain>"
    );
    let dos = "<domain>\r\n    <name>a</name>\r\n</domain>\r\n";
    let expected = "<domain>\r\n    <name>a</name>\r\n    <clock offset='utc'>\r\n        <timer \
                    name='hpet' present='no'/>\r\n    </clock>\r\n</domain>\r\n";
    assert_eq!(apply(dos, &changes), expected);
}

#[test]
fn elements_and_attributes_go_with_the_white_space_before_them() {
    let xml = "<domain>\n  <devices>\n    <a x='1'  y = '2'/>\n    <!-- b --><b/>\n    <c>\n      \
               <d/>\n    </c>\n  </devices>\n</domain>";
    let place = |name: &str| Path::at(name, xml.rfind(&format!("<{name}")).unwrap());
    assert_eq!(
        apply(xml, &[XmlChange::Remove(place("c"))]),
        xml.replace("\n    <c>\n      <d/>\n    </c>", "")
    );
    let changes = [
        XmlChange::Unset {
            path: place("a"),
            attribute: "y",
        },
        XmlChange::Remove(place("b")),
        // Bytes of places are those of the original.
        XmlChange::Set {
            path: place("d"),
            attribute: "z",
            value: "a'b<&".into(),
        },
        XmlChange::Remove(Path::domain("devices/a")),
    ];
    let expected = "<domain>\n  <devices>\n    <!-- b -->\n    <c>\n      <d \
                    z='a&apos;b&lt;&amp;'/>\n    </c>\n  </devices>\n</domain>";
    assert_eq!(apply(xml, &changes), expected);
}

#[test]
fn words_of_a_kernel_command_line_go() {
    let cut = |line: &str, word: &str| {
        let xml = format!("<domain><os><cmdline>{line}</cmdline></os></domain>");
        let change = XmlChange::Cut {
            path: Path::domain("os/cmdline"),
            word: word.to_owned(),
        };
        let changed = XmlChange::apply(&[change], &xml)?;
        let start = changed.find("<cmdline>").unwrap() + "<cmdline>".len();
        let end = changed.find("</cmdline>").unwrap();
        Ok(changed[start..end].to_owned())
    };
    assert_eq!(cut("quiet nohz=off ro", "nohz=off").unwrap(), "quiet ro");
    assert_eq!(cut("nohz=off ro", "nohz=off").unwrap(), "ro");
    assert_eq!(cut("  ro nohz=off  ", "nohz=off").unwrap(), "  ro  ");
    assert_eq!(cut("nohz=off", "nohz=off").unwrap(), "");
    let quoted = "x=&quot;a nohz=off b&quot; nohz=off y";
    let kept = "x=&quot;a nohz=off b&quot; y";
    assert_eq!(cut(quoted, "nohz=off").unwrap(), kept);
    // Only the whole word.
    let error: EditError = cut("xnohz=off nohz=offx", "nohz=off").unwrap_err();
    assert_eq!(error, EditError::Missing("<cmdline>".into()));
}

#[test]
fn what_is_not_there_cannot_be_changed() {
    let gone = [XmlChange::Remove(Path::domain("devices/memballoon"))];
    let error = XmlChange::apply(&gone, DOMAIN).unwrap_err();
    assert_eq!(error.to_string(), "there is no <memballoon> to change");
    let error = XmlChange::apply(&gone, "<network/>").unwrap_err();
    assert!(matches!(error, EditError::Xml(_)));
}

fn line(text: &str, changes: &[ArgumentChange]) -> Result<String, EditError> {
    let words: Vec<OsString> = text
        .split(' ')
        .map(|word| word.replace('~', " ").into())
        .collect();
    let changed = ArgumentChange::apply(changes, &words)?;
    let words = changed
        .iter()
        .map(|word| word.to_str().unwrap().replace(' ', "~"));
    Ok(words.collect::<Vec<_>>().join(" "))
}

fn machine(key: &'static str, value: &str) -> ArgumentChange {
    ArgumentChange::SetMachine {
        key,
        value: value.to_owned(),
    }
}

fn feature(key: &str) -> ArgumentChange {
    ArgumentChange::SetCpu {
        key: key.to_owned(),
        value: "on".to_owned(),
    }
}

#[test]
fn options_are_changed_where_they_count() {
    for (before, change, after) in [
        ("q -M q35", machine("hpet", "off"), "q -M q35,hpet=off"),
        ("q", machine("hpet", "off"), "q -machine hpet=off"),
        (
            "q -M q35,hpet=on,usb=on -machine accel=kvm",
            machine("hpet", "off"),
            "q -M q35,hpet=off,usb=on -machine accel=kvm",
        ),
        (
            "q -M q35,kernel_irqchip=split",
            machine("kernel-irqchip", "on"),
            "q -M q35,kernel_irqchip=on",
        ),
        ("q -cpu host", feature("hv-time"), "q -cpu host,hv-time=on"),
        (
            "q -cpu qemu64 -cpu host,hv_time=off,-hv-time,+x",
            feature("hv-time"),
            "q -cpu qemu64 -cpu host,hv-time=on,+x",
        ),
        ("q", feature("hv-time"), "q -cpu qemu64,hv-time=on"),
        (
            "q -cpu host,kvmclock=off,x=1",
            ArgumentChange::UnsetCpu("kvmclock".into()),
            "q -cpu host,x=1",
        ),
        (
            "q -overcommit cpu-pm=on",
            ArgumentChange::SetOption {
                option: "overcommit",
                key: "cpu-pm",
                value: "off".into(),
            },
            "q -overcommit cpu-pm=off",
        ),
        (
            "q -append ro~nohz=off~quiet",
            ArgumentChange::CutAppend("nohz=off".into()),
            "q -append ro~quiet",
        ),
        (
            "q -append x=\"a~nohz=off~b\"~nohz=off~y~nohz=off",
            ArgumentChange::CutAppend("nohz=off".into()),
            "q -append x=\"a~nohz=off~b\"~y",
        ),
        (
            "q -machine pc,append=nohz=off,kernel=k",
            ArgumentChange::CutAppend("nohz=off".into()),
            "q -machine pc,append=,kernel=k",
        ),
        (
            "q -a b -usb -c",
            ArgumentChange::Replace {
                words: 3..4,
                with: vec!["-device".into(), "qemu-xhci".into()],
            },
            "q -a b -device qemu-xhci -c",
        ),
    ] {
        assert_eq!(
            line(before, std::slice::from_ref(&change)).unwrap(),
            after,
            "{before}"
        );
        // Again, it changes nothing, but for words that are gone.
        if matches!(
            change,
            ArgumentChange::SetMachine { .. } | ArgumentChange::SetCpu { .. }
        ) {
            assert_eq!(line(after, &[change]).unwrap(), after);
        }
    }
}

#[test]
fn two_features_share_the_option_that_is_added() {
    let changes = [
        feature("hv-vpindex"),
        feature("hv-synic"),
        machine("hpet", "off"),
    ];
    let expected = "q -cpu qemu64,hv-vpindex=on,hv-synic=on -machine hpet=off";
    assert_eq!(line("q", &changes).unwrap(), expected);
}

#[test]
fn pairs_of_an_argument_are_changed_in_both_notations() {
    let unset = |word, key| ArgumentChange::Unset { word, key };
    let poll = ArgumentChange::Set {
        word: 2,
        key: "poll-max-ns",
        value: "0".into(),
    };
    let keyed = "q -object iothread,id=a,poll-max-ns=50000";
    assert_eq!(
        line(keyed, std::slice::from_ref(&poll)).unwrap(),
        "q -object iothread,id=a,poll-max-ns=0"
    );
    assert_eq!(
        line(keyed, &[unset(2, "poll-max-ns")]).unwrap(),
        "q -object iothread,id=a"
    );
    let json = r#"q -object {"qom-type":"iothread","poll-max-ns":50000,~"id":"a"}"#;
    let zero = json.replace("50000", "0");
    assert_eq!(line(json, std::slice::from_ref(&poll)).unwrap(), zero);
    let without = r#"q -object {"qom-type":"iothread",~"id":"a"}"#;
    assert_eq!(line(json, &[unset(2, "poll-max-ns")]).unwrap(), without);
    let added = r#"q -object {"qom-type":"iothread",~"id":"a","poll-max-ns":0}"#;
    assert_eq!(line(without, &[poll]).unwrap(), added);
    let first = line(without, &[unset(2, "qom-type")]).unwrap();
    assert_eq!(first, r#"q -object {"id":"a"}"#);
}

#[test]
fn a_change_without_its_word_is_an_error() {
    let change = ArgumentChange::Unset {
        word: 7,
        key: "addr",
    };
    assert!(line("q -device x", &[change]).is_err());
    let cut = ArgumentChange::CutAppend("nohz=off".into());
    assert!(line("q -append quiet", &[cut]).is_err());
}

proptest! {
    /// No XML is too strange, and what is changed is still XML with all that was there.
    #[test]
    fn a_domain_stays_one(
        inner in "(<a x='1'/>|<features><hyperv/></features>|<clock/>|\n  |<!-- c -->|é|&amp;){0,6}",
    ) {
        let xml = format!("<domain>{inner}</domain>");
        let changes = [
            set("features/hyperv/stimer", "state", "on"),
            set("clock(offset=utc)/timer[name=hpet]", "present", "no"),
        ];
        let changed = XmlChange::apply(&changes, &xml).unwrap();
        prop_assert_eq!(XmlChange::apply(&changes, &changed).unwrap(), changed.clone());
        let before = roxmltree::Document::parse(&xml).unwrap();
        let after = roxmltree::Document::parse(&changed).unwrap();
        let comments = |document: &roxmltree::Document<'_>| {
            document.descendants().filter(|node| node.is_comment()).count()
        };
        prop_assert_eq!(comments(&before), comments(&after));
        let removed = before.descendants().filter(|node| node.has_tag_name("a")).count();
        prop_assert_eq!(removed, after.descendants().filter(|node| node.has_tag_name("a")).count());
    }

    #[test]
    fn no_argument_is_too_strange(text in "\\PC{0,30}", json in "\\{\\PC{0,30}\\}?") {
        for argument in [text, json] {
            let words = ["q", "-device", &argument, "-cpu", &argument, "-M", &argument];
            let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
            for change in [
                ArgumentChange::Set { word: 2, key: "addr", value: "1".into() },
                ArgumentChange::Unset { word: 2, key: "addr" },
                feature("hv-time"),
                machine("hpet", "off"),
            ] {
                if let Ok(changed) = ArgumentChange::apply(std::slice::from_ref(&change), &words) {
                    prop_assert!(changed.len() >= words.len());
                }
            }
        }
    }
}
