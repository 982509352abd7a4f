//! Pages of the guest's memory.

use brisk_vm::hardware::Form;
use brisk_vm::hardware::edit::{ArgumentChange, Path, XmlChange};

use crate::idle::rules::Subject;
use brisk_lint::{Applies, Edit, Findings, Rule, Severity};

pub(super) const RULES: &[Rule<Subject>] = &[
    Rule {
        id: "guest-huge-pages",
        applies: Applies::Guest,
        why: "with small pages of the host, each of the guest's is a fault of its own at first, and \
              a miss of the TLB takes longer",
        source: "Linux: Documentation/admin-guide/mm/hugetlbpage.rst; 436 against 474 s for a \
                 kernel's compilation on an EPYC 7402P",
        check: huge_pages,
    },
    Rule {
        id: "guest-small-pages",
        applies: Applies::Guest,
        why: "its definition forbids huge pages",
        source: "brisk: `huge-pages` of the definition of a VM",
        check: small_pages,
    },
];

fn huge_pages(subject: &Subject, findings: &mut Findings) {
    let hardware = &subject.hardware;
    let memory = &hardware.memory;
    // Memory that is somewhere already is somebody's choice.
    if memory.huge_pages || memory.path.is_some() || hardware.form == Form::Process {
        return;
    }
    let Some(bytes) = memory.bytes else {
        return;
    };
    let free = subject.host.free_huge_pages;
    let edit = Edit::of(hardware)
        .exact_xml(XmlChange::Ensure(Path::domain("memoryBacking/hugepages")))
        .exact(ArgumentChange::Add(vec![
            "-mem-path".into(),
            "/dev/hugepages".into(),
        ]));
    let (severity, edit) = match free {
        Some(free) if free >= bytes => (Severity::Medium, edit),
        _ => {
            // Of 2 MiB, as x86-64 has them by default.
            let pages = bytes.div_ceil(2 << 20);
            let first = format!("sysctl vm.nr_hugepages={pages} sets them aside");
            (Severity::Note, edit.after(first).on_request())
        }
    };
    let what = "its memory is in pages that the host has to make huge by itself";
    findings.add(severity, what, edit);
}

fn small_pages(subject: &Subject, findings: &mut Findings) {
    if subject.has_small_pages {
        let edit = Edit::of(&subject.hardware).allowing_huge_pages();
        findings.add(
            Severity::Medium,
            "its definition has huge-pages = false",
            edit,
        );
    }
}
