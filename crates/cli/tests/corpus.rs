//! Inputs as people bring them, each with the answer that is right, or the refusal.
//!
//! The files are made here, each after a kind that was met in public: forum posts, bug reports, mails
//! and other programs' outputs. They are in `crates/testkit/corpus`, a directory for each command.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::path::{Path, PathBuf};

use brisk_testkit::brisk_of;
use tempfile::tempdir;

/// A command on files of the corpus.
struct Case {
    /// Words of the command; those with a `/` are files of the corpus.
    words: &'static [&'static str],
    status: i32,
    /// What it says, on either stream.
    says: &'static [&'static str],
    /// What it must not say.
    never: &'static [&'static str],
}

const FOUND: i32 = 1;
const REFUSED: i32 = 125;
const SAVED: &str = "--output=report.json";

const CASES: &[Case] = &[
    // `-cpu host,-hypervisor`, as in guides against software that refuses virtual machines.
    Case {
        words: &["idle", "lint", "idle/hidden-hypervisor.cmd"],
        status: FOUND,
        says: &["high: the hypervisor is hidden"],
        never: &["No problems found"],
    },
    // A mail program wrapped the line.
    Case {
        words: &["idle", "lint", "idle/wrapped.txt"],
        status: FOUND,
        says: &["high: a USB tablet is in a UHCI controller"],
        never: &["No problems found"],
    },
    // The command is one word of tmux's.
    Case {
        words: &["idle", "lint", "idle/quoted.sh"],
        status: FOUND,
        says: &["high: a USB tablet is in a UHCI controller"],
        never: &["CD-ROM"],
    },
    // Proxmox's name for a machine type.
    Case {
        words: &["idle", "lint", "idle/proxmox.cmd"],
        status: FOUND,
        says: &["high: there is an HPET, by default"],
        never: &["No problems found"],
    },
    Case {
        words: &["idle", "lint", "idle/hostdev.xml"],
        status: FOUND,
        says: &["high: a USB device of the host is in a UHCI controller"],
        never: &[],
    },
    Case {
        words: &["idle", "lint", "idle/lxc.xml"],
        status: REFUSED,
        says: &["domain of type lxc", "QEMU does not run its guest"],
        never: &["No problems found"],
    },
    Case {
        words: &["doctor", "idle/lxc.xml"],
        status: REFUSED,
        says: &["domain of type lxc"],
        never: &["USB", "balloon"],
    },
    // What lint reads doctor reads.
    Case {
        words: &["doctor", "idle/wrapped.txt"],
        status: 0,
        says: &["USB tablet"],
        never: &["not XML"],
    },
    Case {
        words: &["doctor", "idle/proxmox.conf"],
        status: 0,
        says: &["the processor is kvm64"],
        never: &[],
    },
    // Of Proxmox, with a snapshot below.
    Case {
        words: &["idle", "lint", "idle/101.conf"],
        status: FOUND,
        says: &[
            "[hpet]",
            "[usb-uhci]",
            "qm set 101 --tablet 0",
            "--delete ide2",
        ],
        never: &["hv-"],
    },
    Case {
        words: &["idle", "fix", "idle/101.conf"],
        status: 0,
        says: &["qm set 101 --tablet 0\n", "-machine hpet=off\"\n", "noVNC"],
        never: &["qemu-xhci", "--delete"],
    },
    Case {
        words: &["idle", "lint", "idle/container.conf"],
        status: REFUSED,
        says: &["a container of Proxmox VE"],
        never: &["No problems found"],
    },
    // libvirt adds neither to a virt machine.
    Case {
        words: &["doctor", "idle/arm.xml"],
        status: 0,
        says: &[],
        never: &["USB controller", "memory balloon"],
    },
    // The tablet is the need of the controller.
    Case {
        words: &["doctor", "idle/desktop.xml"],
        status: 0,
        says: &[],
        never: &["without a need"],
    },
    // Windows 7 has no driver for an xHCI.
    Case {
        words: &["idle", "fix", "idle/windows-7.xml"],
        status: 0,
        says: &["hypervclock"],
        never: &["xhci", "stimer"],
    },
    // Xen's event channels need the I/O APIC in QEMU.
    Case {
        words: &["idle", "lint", "idle/xen-emulation.cmd"],
        status: 0,
        says: &["No problems found"],
        never: &["irqchip"],
    },
    Case {
        words: &[
            "crypto",
            "crossover",
            SAVED,
            "--from",
            "crypto/software.txt",
            "crypto/offload.txt",
        ],
        status: 0,
        says: &["is faster than", "from 1147 bytes on"],
        never: &[],
    },
    Case {
        words: &[
            "crypto",
            "crossover",
            SAVED,
            "--from",
            "crypto/software.txt",
            "crypto/other-mode.txt",
        ],
        status: REFUSED,
        says: &["the algorithms differ"],
        never: &["faster"],
    },
    // Each call failed, and a failure takes as long at any size.
    Case {
        words: &[
            "crypto",
            "crossover",
            SAVED,
            "--from",
            "crypto/software.txt",
            "crypto/failed-engine.txt",
        ],
        status: REFUSED,
        says: &["there is an error within it"],
        never: &["faster"],
    },
    Case {
        words: &[
            "crypto",
            "crossover",
            SAVED,
            "--from",
            "crypto/software.txt",
            "crypto/invalid-engine.txt",
        ],
        status: REFUSED,
        says: &["this side is no offload"],
        never: &["faster"],
    },
    // Throughputs by CPU time: the offload's CPU time is nearly none.
    Case {
        words: &[
            "crypto",
            "crossover",
            SAVED,
            "--from",
            "crypto/cpu-time-software.txt",
            "crypto/cpu-time-offload.txt",
        ],
        status: REFUSED,
        says: &["no verdict", "-elapsed"],
        never: &["faster"],
    },
    Case {
        words: &[
            "crypto",
            "crossover",
            SAVED,
            "--from",
            "crypto/software.txt",
            "crypto/cryptsetup.txt",
        ],
        status: REFUSED,
        says: &["output of cryptsetup benchmark"],
        never: &["faster"],
    },
    Case {
        words: &[
            "crypto",
            "crossover",
            SAVED,
            "--from",
            "crypto/software.txt",
            "crypto/tcrypt.txt",
        ],
        status: REFUSED,
        says: &["module tcrypt"],
        never: &["faster"],
    },
    Case {
        words: &[
            "crypto",
            "crossover",
            SAVED,
            "--from",
            "crypto/tcrypt-two-lines.txt",
        ],
        status: REFUSED,
        says: &["module tcrypt"],
        never: &["no result of openssl speed"],
    },
    // One algorithm by its short and its long name.
    Case {
        words: &[
            "crypto",
            "crossover",
            SAVED,
            "--from",
            "crypto/gcm-short-name.txt",
            "crypto/gcm-long-name.txt",
        ],
        status: 0,
        says: &["is faster than id-aes128-GCM from"],
        never: &["the algorithms differ"],
    },
    // Tests in rows, systems in columns; the last test has no seconds.
    Case {
        words: &["overhead", "import", SAVED, "overhead/tests-in-rows.csv"],
        status: 0,
        says: &[
            "compile
target",
            "bare metal",
            "fio randread",
            "52400 IOPS",
        ],
        never: &["60100 s", "IOPS s"],
    },
    // The heading stands above the rows of another block.
    Case {
        words: &["overhead", "import", SAVED, "overhead/mmtests-min.txt"],
        status: 0,
        says: &[
            "fork
target",
            "patched   101.7",
        ],
        never: &["column 1"],
    },
    Case {
        words: &["overhead", "import", SAVED, "overhead/mmtests-title.txt"],
        status: 0,
        says: &["autonumabench elsp-NUMA01", "patched  240.1 s"],
        never: &["autonumabench base"],
    },
    // The prompt is no result.
    Case {
        words: &[
            "overhead",
            "import",
            SAVED,
            "overhead/kcbench-host.txt",
            "overhead/kcbench-guest.txt",
        ],
        status: 0,
        says: &["kcbench-guest.txt  268.7 s", "1.07"],
        never: &["4 s "],
    },
    Case {
        words: &["overhead", "import", SAVED, "overhead/kcbench-host.txt"],
        status: REFUSED,
        says: &["has one target only"],
        never: &[],
    },
    Case {
        words: &["overhead", "import", SAVED, "overhead/single-spaces.txt"],
        status: 0,
        says: &["guest   14.00 s", "1.12"],
        never: &["host 12.5 12.4"],
    },
    // Means and extremes are no runs.
    Case {
        words: &[
            "overhead",
            "import",
            SAVED,
            "overhead/hyperfine-terminal.txt",
        ],
        status: REFUSED,
        says: &["hyperfine on a terminal", "--export-json"],
        never: &[],
    },
    // A table of a blog, with thousands and percentages.
    Case {
        words: &["overhead", "import", SAVED, "overhead/iops.md"],
        status: 0,
        says: &["4K Random Read", "95000 IOPS", "520.0 MB/s"],
        never: &["95 s"],
    },
    // The script installs QEMU before it starts it.
    Case {
        words: &["idle", "lint", "idle/installs-first.sh"],
        status: FOUND,
        says: &["high: there is an HPET", "UHCI"],
        never: &[],
    },
    Case {
        words: &["idle", "lint", "idle/asks-first.sh"],
        status: 0,
        says: &["No problems found"],
        never: &["HPET"],
    },
    // A vendor of Hyper-V's, against NVIDIA's driver, in a Linux guest.
    Case {
        words: &["idle", "fix", "idle/linux-vendor.sh"],
        status: 0,
        says: &["q35,hpet=off"],
        never: &["hv-stimer", "hv_stimer"],
    },
    // Windows uses no enlightenment, so none is advised, and the HPET stays.
    Case {
        words: &["idle", "lint", "idle/windows-hidden.sh"],
        status: FOUND,
        says: &["high: the hypervisor is hidden"],
        never: &["no synthetic timer (hv-stimer)"],
    },
    Case {
        words: &["idle", "fix", "idle/windows-hidden.sh"],
        status: 0,
        says: &[],
        never: &["hpet=off", "stimer"],
    },
    // Tables alone, which the commands above them tell apart.
    Case {
        words: &[
            "crypto",
            "crossover",
            SAVED,
            "--from",
            "crypto/commands.txt",
        ],
        status: 0,
        says: &[
            "aes-256-cbc, engine afalg is faster than aes-256-cbc, OPENSSL_CONF / from",
            "measured between 256 and 8192 bytes",
        ],
        never: &["runs of the same"],
    },
    Case {
        words: &[
            "crypto",
            "config",
            "--by=time",
            SAVED,
            "--from",
            "crypto/commands.txt",
        ],
        status: FOUND,
        says: &["by these figures it would be worth it from"],
        never: &["not that of an implementation"],
    },
    // In a sentence that fits one file and several.
    Case {
        words: &["crypto", "config", SAVED, "--from", "crypto/commands.txt"],
        status: FOUND,
        says: &["is not known, since it is missing in "],
        never: &["does not have it"],
    },
    // Rows have names of their own; the algorithm is in the command.
    Case {
        words: &[
            "crypto",
            "config",
            "--by=time",
            "--software=software",
            SAVED,
            "--from",
            "crypto/renamed-rows.txt",
        ],
        status: FOUND,
        says: &["engine-1.1 is faster than software from"],
        never: &["do not say which algorithm"],
    },
    // Tables alone, whose clock is in the commands, behind a prompt without $ and #.
    Case {
        words: &["crypto", "crossover", SAVED, "--from", "crypto/prompts.txt"],
        status: 0,
        says: &["aes-128-cbc, engine cryptodev is faster than aes-128-cbc from"],
        never: &["CPU time"],
    },
    Case {
        words: &[
            "crypto",
            "crossover",
            SAVED,
            "--from",
            "crypto/failing-calls.txt",
        ],
        status: REFUSED,
        says: &["an error within it"],
        never: &["faster"],
    },
];

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../testkit/corpus")
        .canonicalize()
        .unwrap()
}

#[test]
fn each_input_has_its_answer() {
    let dir = tempdir().unwrap();
    let mut wrong = Vec::new();
    for case in CASES {
        let words = case.words.iter().map(|word| match word.contains('/') {
            true => corpus().join(word).into_os_string(),
            false => word.into(),
        });
        let output = brisk_of!().args(words).current_dir(dir.path()).output();
        let text = output.text() + &output.stderr;
        // Of this host, which may be anything.
        let status = output
            .status
            .code()
            .filter(|_| case.words[0] != "doctor" || case.status != 0);
        let missing: Vec<_> = case
            .says
            .iter()
            .filter(|says| !text.contains(**says))
            .collect();
        let said: Vec<_> = case
            .never
            .iter()
            .filter(|never| text.contains(**never))
            .collect();
        let is_status = status.is_none_or(|status| status == case.status);
        if !is_status || !missing.is_empty() || !said.is_empty() || text.contains("panicked") {
            wrong.push(format!(
                "{:?}: status {status:?} of {}, lacks {missing:?}, has {said:?}:\n{text}",
                case.words, case.status
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_file_is_used() {
    let named: Vec<_> = CASES.iter().flat_map(|case| case.words).collect();
    let mut files = 0;
    for directory in std::fs::read_dir(corpus()).unwrap() {
        let directory = directory.unwrap();
        for file in std::fs::read_dir(directory.path()).unwrap() {
            let name = directory.path().join(file.unwrap().path());
            let name = name
                .strip_prefix(corpus())
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            assert!(named.iter().any(|word| **word == name), "{name}");
            files += 1;
        }
    }
    assert_ne!(files, 0);
}
