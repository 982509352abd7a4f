//! Each rule, near misses, and what a guest is after the edits.

use std::ffi::OsString;

use crate::idle::fix::{Context, Fixed, Wanted, fix};
use crate::idle::rules::Host;
use crate::idle::text::Text;
use brisk_lint::Finding;

use super::{descriptions, findings};

fn context(host: Host) -> Context {
    Context {
        look: findings,
        host,
        ..Context::default()
    }
}

fn host(cpus: usize, free_huge_pages: u64) -> Host {
    Host {
        cpus: Some((0..cpus).collect()),
        free_huge_pages: Some(free_huge_pages),
        ..Host::default()
    }
}

fn fixed(text: Text, host: Host, rules: &[&str]) -> Fixed {
    let rules: Vec<_> = rules.iter().map(|rule| (*rule).to_owned()).collect();
    fix(text, &context(host), Wanted { rules: &rules }).unwrap()
}

fn arguments(line: &str) -> Text {
    let words = shlex::split(line).unwrap();
    Text::Arguments(words.into_iter().map(OsString::from).collect())
}

fn line(text: &Text) -> String {
    match text {
        Text::Arguments(words) => {
            let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
            words.join(" ")
        }
        Text::Xml(text) | Text::Vm { text, .. } => text.clone(),
    }
}

fn names(found: &[Finding]) -> Vec<&str> {
    found.iter().map(|finding| finding.rule).collect()
}

const QEMU: &str = "qemu-system-x86_64 -accel kvm -cpu qemu64,+aes -m 1G \
                    -drive file=a.qcow2,id=a,if=virtio,cache=unsafe \
                    -drive file=b.raw,id=b,if=virtio,cache=writethrough \
                    -blockdev driver=file,node-name=c,filename=c.raw,cache.no-flush=on";

#[test]
fn a_command_line_loses_less_after_its_edits() {
    let enough = host(4, 1 << 30);
    let after = fixed(arguments(QEMU), enough.clone(), &[]);
    assert_eq!(
        names(&after.applied),
        [
            "guest-unsafe-cache",
            "guest-unsafe-cache",
            "guest-cpu-model",
            "guest-huge-pages"
        ]
    );
    assert_eq!(names(&after.left), ["guest-sync-cache"]);
    assert!(after.failed.is_empty(), "{:?}", after.failed);
    insta::assert_snapshot!(line(&after.text), @r"
    qemu-system-x86_64 -accel kvm -cpu host -m 1G -drive file=a.qcow2,id=a,if=virtio,cache=writeback -drive file=b.raw,id=b,if=virtio,cache=writethrough -blockdev driver=file,node-name=c,filename=c.raw -mem-path /dev/hugepages
    ");
    let asked = fixed(after.text, enough, &["guest-sync-cache"]);
    assert!(line(&asked.text).contains("file=b.raw,id=b,if=virtio,cache=writeback"));
    assert!(asked.left.is_empty(), "{:?}", names(&asked.left));
}

const DOMAIN: &str = "\
<domain type='kvm'>
  <name>a</name>
  <!-- kept -->
  <memory unit='GiB'>1</memory>
  <vcpu>2</vcpu>
  <os><type arch='x86_64' machine='q35'>hvm</type></os>
  <cpu mode='custom' match='exact'>
    <model>qemu64</model>
  </cpu>
  <devices>
    <disk type='file' device='disk'>
      <driver name='qemu' type='raw' cache='unsafe'/>
      <source file='/a'/>
      <target dev='vda' bus='virtio'/>
    </disk>
  </devices>
</domain>
";

#[test]
fn a_domain_loses_less_after_its_edits() {
    let after = fixed(
        Text::Xml(DOMAIN.into()),
        host(4, 1 << 30),
        &[
            "guest-unsafe-cache",
            "guest-cpu-model",
            "guest-huge-pages",
            "guest-pinning",
        ],
    );
    assert!(after.left.is_empty(), "{:?}", names(&after.left));
    insta::assert_snapshot!(line(&after.text), @r"
    <domain type='kvm'>
      <name>a</name>
      <!-- kept -->
      <memory unit='GiB'>1</memory>
      <vcpu>2</vcpu>
      <os><type arch='x86_64' machine='q35'>hvm</type></os>
      <cpu mode='host-model' match='exact'>
      </cpu>
      <devices>
        <disk type='file' device='disk'>
          <driver name='qemu' type='raw' cache='writeback'/>
          <source file='/a'/>
          <target dev='vda' bus='virtio'/>
        </disk>
      </devices>
      <memoryBacking>
        <hugepages/>
      </memoryBacking>
      <cputune>
        <vcpupin vcpu='0' cpuset='2'/>
        <vcpupin vcpu='1' cpuset='3'/>
      </cputune>
    </domain>
    ");
}

#[test]
fn what_cannot_be_had_or_was_chosen_is_left() {
    let left = |text: &str, host: Host| {
        let after = fixed(arguments(text), host, &[]);
        assert!(after.applied.is_empty(), "{:?}", names(&after.applied));
        names(&after.left).join(" ")
    };
    let none = host(1, 0);
    // A processor of the host's, memory that is somewhere, and a cache that waits for nothing.
    let good = "qemu-system-x86_64 -accel kvm -cpu host -m 1G -mem-path /dev/hugepages -drive \
                file=a,cache=none";
    assert_eq!(left(good, none.clone()), "");
    // No pages are set aside.
    let small = "qemu-system-x86_64 -accel kvm -cpu max -m 1G";
    assert_eq!(left(small, none.clone()), "guest-huge-pages");
    // A model that may be one to migrate with.
    let model = "qemu-system-x86_64 -accel kvm -cpu Skylake-Server -mem-path /x -m 1G";
    assert_eq!(left(model, none.clone()), "");
    let emulated = "qemu-system-x86_64 -accel tcg -cpu qemu64 -mem-path /x -m 1G";
    assert_eq!(left(emulated, none), "guest-tcg");
    // More virtual CPUs than processors cannot each have one.
    let pinned = fixed(Text::Xml(DOMAIN.into()), host(1, 0), &["guest-pinning"]);
    assert!(pinned.applied.is_empty() && names(&pinned.left).contains(&"guest-pinning"));
}

#[test]
fn a_definition_is_given_huge_pages() {
    let text = "memory = \"1G\" # kept\nhuge-pages = false\n";
    let words = ["qemu-system-x86_64", "-accel", "tcg"].map(OsString::from);
    let vm = Text::Vm {
        text: text.into(),
        words: words.into(),
    };
    let after = fixed(vm, host(1, 0), &[]);
    assert_eq!(names(&after.applied), ["guest-small-pages"]);
    assert_eq!(
        line(&after.text),
        "memory = \"1G\" # kept\nhuge-pages = true\n"
    );
}

#[test]
fn each_rule_has_a_case() {
    let rules: Vec<_> = descriptions().iter().map(|rule| rule.id).collect();
    let cases = include_str!("tests.rs");
    for rule in rules {
        assert!(cases.contains(&format!("\"{rule}")), "{rule}");
    }
}
