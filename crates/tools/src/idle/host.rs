//! Facts about the host that rules about idle guests look at.

use std::collections::BTreeSet;
use std::path::Path;

use brisk_host::beside;
use brisk_host::cpu::{Cpu, parse_list};
use brisk_host::sysfs;
use brisk_vm::cache::Cache;
use brisk_vm::hardware::document;
use brisk_vm::qemu::Capabilities;

use super::rules::Host;

/// Looks at the host below `root`, which is `/` but for tests. What libvirt's QEMU knows is in the
/// text of `virsh domcapabilities`, if there is one.
#[must_use]
pub fn gather(root: &Path, capabilities: Option<&str>) -> Host {
    let cpu = Cpu::below(root);
    let flags = cpu.flags();
    let parameter = |path: &str| sysfs::line(root, &format!("module/{path}"));
    let intel = parameter("kvm_intel/parameters/enable_apicv");
    let amd = parameter("kvm_amd/parameters/avic");
    let is_on = |text: String| matches!(&*text, "Y" | "1");
    Host {
        is_amd: match (flags.contains("svm"), flags.contains("vmx")) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        },
        has_apicv: intel.or(amd).map(is_on),
        hyperv: capabilities.and_then(hyperv),
        qemu: None,
        halt_poll_ns: parameter("kvm/parameters/halt_poll_ns").and_then(|text| text.parse().ok()),
        cpus: sysfs::line(root, "devices/system/cpu/online").and_then(|list| parse_list(&list)),
        free_huge_pages: meminfo(root).as_deref().and_then(free_huge_pages),
        ksmd: None,
        khugepaged: None,
    }
}

/// Version of the QEMU that runs a guest, or would: of its program, which is asked if only root and
/// the calling user can change it. None where it cannot be known, also if the machine type, as
/// `pc-q35-9.2`, is newer than what the program says: it has been replaced since.
#[must_use]
pub fn qemu_of(program: &Path, machine: &str, cache: &Cache) -> Option<(u32, u32)> {
    let user = rustix::process::geteuid().as_raw();
    let trusted = Some(program).filter(|path| beside::is_trusted(path, user))?;
    let version = Capabilities::of(trusted, cache).ok()?.version;
    (machine_version(machine) <= Some(version)).then_some(version)
}

/// The version of QEMU that a machine type of upstream's names. Those of distributions, as
/// `pc-q35-rhel9.2.0`, have versions of their own.
fn machine_version(machine: &str) -> Option<(u32, u32)> {
    let (_, version) = machine.rsplit_once('-')?;
    let (major, minor) = version.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn meminfo(root: &Path) -> Option<String> {
    std::fs::read_to_string(root.join("proc/meminfo")).ok()
}

/// Bytes of free huge pages in the text of `/proc/meminfo` (proc_meminfo(5)).
fn free_huge_pages(meminfo: &str) -> Option<u64> {
    let field = |name: &str| {
        let rest = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        rest.split_whitespace().next()?.parse::<u64>().ok()
    };
    field("HugePages_Free:")?
        .checked_mul(field("Hugepagesize:")?)?
        .checked_mul(1024)
}

/// Enlightenments in the text of `virsh domcapabilities`, in QEMU's spelling. None if it says
/// nothing of them, as of libvirt before 8.1.
fn hyperv(capabilities: &str) -> Option<BTreeSet<String>> {
    let xml = document(capabilities).ok()?;
    let mut nodes = xml.descendants();
    let hyperv = nodes.find(|node| node.has_tag_name("hyperv"))?;
    if hyperv.attribute("supported") != Some("yes") {
        return Some(BTreeSet::new());
    }
    let values = hyperv
        .descendants()
        .filter(|node| node.has_tag_name("value"));
    let names = values.filter_map(|node| Some(node.text()?.trim().replace('_', "-")));
    Some(names.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_types_of_upstream_name_a_version() {
        for (machine, version) in [
            ("pc-q35-9.2", Some((9, 2))),
            ("pc-i440fx-10.0", Some((10, 0))),
            ("q35", None),
            ("pc-q35-rhel9.2.0", None),
            ("pc-q35-jammy", None),
        ] {
            assert_eq!(machine_version(machine), version, "{machine}");
        }
    }

    #[test]
    fn the_host_is_known_by_its_files() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        assert_eq!(gather(root.path(), None), Host::default());
        write(
            "proc/cpuinfo",
            "processor\t: 0\nflags\t\t: fpu svm hypervisor\n",
        );
        write("sys/module/kvm_amd/parameters/avic", "N\n");
        write(
            "proc/meminfo",
            "HugePages_Total:       8\nHugePages_Free:        3\nHugepagesize:       2048 kB\n",
        );
        write("sys/devices/system/cpu/online", "0-2\n");
        write("sys/module/kvm/parameters/halt_poll_ns", "400000\n");
        let host = gather(root.path(), None);
        assert_eq!(host.is_amd, Some(true));
        assert_eq!(host.has_apicv, Some(false));
        assert_eq!(host.halt_poll_ns, Some(400_000));
        assert_eq!(host.hyperv, None);
        assert_eq!(host.cpus, Some(vec![0, 1, 2]));
        assert_eq!(host.free_huge_pages, Some(6 << 20));
    }

    /// As libvirt 11.3's documentation of domain capabilities has it.
    #[test]
    fn enlightenments_of_libvirt_have_the_names_of_qemu() {
        let text = "<domainCapabilities><features><hyperv supported='yes'><enum \
                    name='features'><value>relaxed</value><value>vendor_id</value>\
                    <value>emsr_bitmap</value></enum></hyperv></features></domainCapabilities>";
        let known = hyperv(text).unwrap();
        let names: Vec<_> = known.iter().map(String::as_str).collect();
        assert_eq!(names, ["emsr-bitmap", "relaxed", "vendor-id"]);
        let none = "<domainCapabilities><features><hyperv \
                    supported='no'/></features></domainCapabilities>";
        assert_eq!(hyperv(none), Some(BTreeSet::new()));
        assert_eq!(hyperv("<domainCapabilities/>"), None);
        assert_eq!(hyperv("no XML"), None);
    }
}
