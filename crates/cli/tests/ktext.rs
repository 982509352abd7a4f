//! brisk ktext, on trees of kernels that replicate their text and of one that does not.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use brisk_testkit::{Files, brisk_of, capture, tool};
use serde_json::Value;

/// Where the kernel shows it.
const DIRECTORY: &str = "sys/kernel/debug/ktext_repl";
const STATS: &str = "name value\nactive 1\noff_reason \nslots 1\nresident_pages 512\n\
                     module_pages 0\npage_table_pages 6\npage_alloc_failures 0\n\
                     pgtbl_alloc_failures 0\npgd_alloc_failures 0\n";
const MAP: &str = "node va size pa pa_node prot kind leaf state\n\
    0 0xffffffff81000000 2097152 0x1000000 0 r-x text 2097152 master\n\
    1 0xffffffff81000000 2097152 0x8200000 1 r-x text 2097152 copy\n";
const CPUS: &str =
    "cpu node slot cr3 pgd_node verdict\n0 0 0 0x2c0a000 0 own\n1 1 1 0x8abc000 1 own\n";
const VERIFY: &str = "node bytes different first entries_different first_entry\n\
                      1 2097152 0 0x0 0 0x0\n";

/// A system whose kernel replicates its text on two nodes.
struct System(Files);

impl System {
    fn new() -> Self {
        let system = Self(Files::new());
        for (name, text) in [
            ("stats", STATS),
            ("map", MAP),
            ("cpus", CPUS),
            ("verify", VERIFY),
            ("active", "1\n"),
        ] {
            system.write(&format!("{DIRECTORY}/{name}"), &text.replace(' ', "\t"));
        }
        system
    }

    fn root(&self) -> String {
        self.0.at("")
    }

    fn write(&self, path: &str, text: &str) {
        let path = std::path::PathBuf::from(self.0.at(path));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// What a subcommand prints, with the status that it should exit with.
    #[track_caller]
    fn prints(&self, words: &[&str], status: i32) -> String {
        let run = brisk_of!["ktext"]
            .args(words)
            .arg("--root")
            .arg(self.root());
        run.exits(status).text()
    }
}

#[test]
fn info_shows_nodes_cpus_and_json() {
    let system = System::new();
    let text = system.prints(&["info"], 0);
    for words in [
        "replication is on, 1 slot",
        "Node 1: copies",
        "0xffffffff81000000  0x0000000008200000  2048 kB  node 1",
        "1     node 1  slot 1       node 1     own",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let modules = system.prints(&["info", "-m"], 0);
    assert!(
        modules.contains("CONFIG_KTEXT_REPLICATION_MODULES"),
        "{modules}"
    );
    let json: Value =
        serde_json::from_str(&system.prints(&["info", "--format", "json"], 0)).unwrap();
    assert_eq!(json["schema"], "brisk.ktext.info/1");
    assert_eq!(json["nodes"][1]["translations"][0]["memory_node"], 1);
}

#[test]
fn kernels_that_ran_are_shown() {
    for (name, nodes) in [("2node", 2), ("4node", 4), ("off", 2)] {
        let captured = concat!(env!("CARGO_MANIFEST_DIR"), "/../tools/src/ktext/captured/");
        let root = format!("{captured}{name}");
        let of = |words: &[&str], status: i32| {
            let run = brisk_of!["ktext"].args(words).arg("--root").arg(&root);
            run.exits(status).text()
        };
        let json: Value = serde_json::from_str(&of(&["info", "--format", "json"], 0)).unwrap();
        assert_eq!(json["nodes"].as_array().unwrap().len(), nodes, "{name}");
        let is_off = name == "off";
        assert_eq!(json["why_off"] == "ktext_repl=off", is_off, "{json:#}");
        let _ = of(&["verify"], if is_off { 125 } else { 0 });
        let drawn = of(&["draw"], 0);
        assert_eq!(
            drawn.matches(" 100.0 %").count(),
            if is_off { 2 } else { 2 * nodes }
        );
    }
}

#[test]
fn verify_has_a_status_for_equal_different_and_nothing() {
    let system = System::new();
    assert!(system.prints(&["verify"], 0).contains("Equal: 2.0 MB"));
    let verify = format!("{DIRECTORY}/verify");
    let different = VERIFY.replace("2097152 0 0x0", "2097152 1 0xffffffff81000007");
    system.write(&verify, &different.replace(' ', "\t"));
    let text = system.prints(&["verify"], 1);
    assert!(text.contains("Different: the copies of node 1"), "{text}");
    let json: Value =
        serde_json::from_str(&system.prints(&["verify", "--format", "json"], 1)).unwrap();
    assert_eq!(
        (&json["equal"], &json["nodes"][0]["different"]),
        (&false.into(), &1.into())
    );
    let head = VERIFY.lines().next().unwrap().replace(' ', "\t");
    system.write(&verify, &(head + "\n"));
    let run = brisk_of!["ktext", "verify", "--root"].arg(system.root());
    run.exits(125)
        .explains(&["verify", "it has 0 nodes, and stats has 1 slots"]);
}

#[test]
fn draw_writes_text_and_a_picture() {
    let system = System::new();
    let svg = system.0.at("kernel.svg");
    let text = system.prints(&["draw", "--svg", &svg], 0);
    assert!(text.contains("node 1     1  100.0 %"), "{text}");
    let svg = fs::read_to_string(svg).unwrap();
    assert!(
        svg.starts_with("<svg") && svg.contains("2048 kB of node 1"),
        "{svg}"
    );
}

#[test]
fn on_and_off_write_one_file() {
    let system = System::new();
    let active = || fs::read_to_string(system.0.at(&format!("{DIRECTORY}/active"))).unwrap();
    let _ = system.prints(&["off"], 0);
    assert_eq!(active(), "0\n");
    let _ = system.prints(&["on"], 0);
    assert_eq!(active(), "1\n");
    let refused = STATS
        .replace("slots 1", "slots 0")
        .replace("off_reason ", "off_reason rodata=off");
    system.write(&format!("{DIRECTORY}/stats"), &refused.replace(' ', "\t"));
    let run = brisk_of!["ktext", "on", "--root"].arg(system.root());
    run.exits(125)
        .explains(&["no copies to switch to: rodata=off", "boot again"]);
}

#[test]
fn a_kernel_without_says_so_and_what_to_do() {
    let system = System(Files::new());
    system.write("proc/sys/kernel/osrelease", "6.1.0-9-amd64\n");
    system.write("boot/config-6.1.0-9-amd64", "CONFIG_NUMA=y\n");
    for command in ["info", "verify", "draw", "on"] {
        let run = brisk_of!["ktext"]
            .arg(command)
            .arg("--root")
            .arg(system.root());
        run.exits(125).explains(&[
            "the kernel 6.1.0-9-amd64 does not replicate its text",
            "/boot/config-6.1.0-9-amd64",
            "brisk ktext check",
        ]);
    }
    let run = brisk_of!["ktext", "info", "--root", "/nonexistent"];
    run.exits(125).explains(&["there is no such directory"]);
}

#[test]
fn check_decides_on_this_machine_and_on_another() {
    let run = brisk_of!["ktext", "check", "--format", "json"].output();
    let json: Value = serde_json::from_str(&run.text()).unwrap();
    assert_eq!(json["schema"], "brisk.ktext.check/1");
    let nodes = json["nodes"].as_array().unwrap();
    let with_memory = nodes.iter().filter(|node| node["memory"] != 0).count();
    // Read without brisk's parser.
    let list = fs::read_to_string("/sys/devices/system/node/has_memory").unwrap();
    let is_one = list.trim().parse::<u32>().is_ok();
    assert_eq!(with_memory == 1, is_one, "{json:#}");
    if is_one {
        assert_eq!(json["verdict"], "no-gain");
        let _ = run.exited(1);
    }

    let system = System(Files::new());
    system.write("proc/cpuinfo", "vendor_id\t: GenuineIntel\nflags\t\t: lm\n");
    for (node, distance) in [("0", "10 21"), ("1", "21 10")] {
        let place = format!("sys/devices/system/node/node{node}");
        system.write(&format!("{place}/cpulist"), &format!("{node}\n"));
        system.write(&format!("{place}/distance"), &format!("{distance}\n"));
        let memory = format!("Node {node} MemTotal: 4194304 kB\n");
        system.write(&format!("{place}/meminfo"), &memory);
    }
    let text = system.prints(&["check"], 1);
    assert!(
        text.ends_with("Not known: what decides it cannot be read (1 finding).\n"),
        "{text}"
    );
    let meltdown = "sys/devices/system/cpu/vulnerabilities/meltdown";
    system.write(meltdown, "Not affected\n");
    let text = system.prints(&["check"], 0);
    assert!(
        text.ends_with("Could gain: measure it with a kernel that has the patch series.\n"),
        "{text}"
    );
    system.write("proc/cpuinfo", "flags\t\t: lm la57\n");
    let text = system.prints(&["check"], 1);
    assert!(text.contains("fix:  boot with no5lvl"), "{text}");
    let rules = system.prints(&["check", "--rules"], 0);
    assert!(rules.contains("\nla57"), "{rules}");
    assert!(
        system
            .prints(&["check", "--explain", "la57"], 0)
            .contains("source: ")
    );
}

/// A directory as `make kernel` leaves it, as far as files go.
fn kernel_directory() -> Files {
    let files = Files::new();
    for name in ["bzImage", "liblocality.so"] {
        fs::write(files.at(name), "not one").unwrap();
    }
    let map = "ffffffff81000000 T _text\nffffffff81200000 T _etext\nffffffff82000000 B _end\n";
    fs::write(files.at("System.map"), map).unwrap();
    files
}

#[test]
fn machines_that_cannot_be_emulated_are_named() {
    let kernel = kernel_directory();
    let place = kernel.at("");
    let locality = |words: &[&str]| {
        brisk_of!["ktext", "locality", "--kernel"]
            .arg(&place)
            .args(words)
    };
    let run = brisk_of!["ktext", "locality", "--kernel", "/nonexistent"];
    run.exits(125)
        .explains(&["/nonexistent/bzImage", "No such file"]);
    let none = brisk_of!["ktext", "bench", "--emulated"].env("BRISK_TOOLS_DIR", "/nonexistent");
    none.exits(125).explains(&["make kernel", "--kernel"]);
    for (words, reason) in [
        (&["--nodes", "8", "--cpus", "4"][..], "32 CPUs"),
        (&["--node-memory", "64M"], "at least 96 MiB"),
        (&["--node-memory", "2G"], "at most 2048 MiB"),
    ] {
        locality(words).exits(125).explains(&[reason]);
    }
    for words in [["--node-memory", "much"], ["--timeout", "soon"]] {
        locality(&words).exits(2).explains(&words);
    }
    // The plugin is code that QEMU runs.
    fs::set_permissions(kernel.at("liblocality.so"), Permissions::from_mode(0o666)).unwrap();
    locality(&[])
        .exits(125)
        .explains(&["liblocality.so", "other users"]);
    fs::remove_file(kernel.at("System.map")).unwrap();
    locality(&[]).exits(125).explains(&["System.map"]);
    fs::write(kernel.at("System.map"), "0 T nothing\n").unwrap();
    locality(&[]).exits(125).explains(&["_etext"]);
}

#[test]
fn a_file_that_is_no_kernel_ends_qemu_and_says_so() {
    let kernel = kernel_directory();
    let run = brisk_of!["ktext", "bench", "--emulated", "--rounds", "1", "--kernel"];
    let run = run
        .arg(kernel.at(""))
        .arg("--output")
        .arg(kernel.at("report.json"));
    run.exits(125).explains(&["QEMU ended by itself", "kernel"]);
}

#[test]
fn a_bench_needs_the_kernel_and_known_operations() {
    let run = brisk_of!["ktext", "bench", "--operations", "fork,exec"];
    run.exits(2).explains(&["there are fork, kill, mmap, open"]);
    // No distribution has such a kernel.
    let files = Files::new();
    let report = files.at("report.json");
    let run = brisk_of!["ktext", "bench", "--output"].arg(&report);
    let _ = run.exits(125);
    assert!(!std::path::Path::new(&report).exists());
    // The missing option is named, and not the report that cannot be written.
    let run = brisk_of!["ktext", "bench", "--output", "/nonexistent/report.json"];
    run.exits(125).explains(&["CONFIG_KTEXT_REPLICATION"]);
    // A machine is described, and this one would be measured.
    let run = brisk_of!["ktext", "bench", "--nodes", "4"];
    run.exits(125).explains(&["--nodes", "add --emulated"]);
}

/// A pipe in the place of a kernel would be waited for.
#[test]
fn a_pipe_is_no_kernel() {
    let files = Files::new();
    let _ = capture(&tool("mkfifo"), &[&files.at("bzImage")]);
    let run = brisk_of!["ktext", "locality", "--kernel", &files.at("")];
    run.exits(125)
        .explains(&["bzImage", "it is not a regular file"]);
}
