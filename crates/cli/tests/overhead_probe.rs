//! The probe in several targets, and what a target lacks for a workload.
#![expect(clippy::unwrap_used, reason = "what cannot go on fails the test")]

use std::fs;
use std::path::Path;

use brisk_testkit::{
    Brisk, brisk_of, missing, not_root, read_report, reasons, trial, trials, values,
};
use brisk_tools::overhead::probe::OPERATIONS;
use libtest_mimic::Arguments;
use serde_json::Value;
use tempfile::tempdir;

fn main() {
    let plain: [(_, fn()); 1] = [("a_guest_of_brisk_is_probed", || {
        probed(&["brisk:--accel tcg"]);
    })];
    let mut all = trials(None, plain);
    all.extend([
        trial(
            "a_container_and_user_mode_linux_are_probed",
            missing("runc").or_else(|| missing("linux.uml")),
            || probed(&["runc:", "uml:"]),
        ),
        trial(
            "two_processors_interrupt_one_another",
            one_processor(),
            two_processors_interrupt_one_another,
        ),
        trial(
            "the_probe_runs_where_programs_are_allowed",
            not_root(),
            the_probe_runs_where_programs_are_allowed,
        ),
        trial(
            "a_kernel_is_built_afresh_in_each_run",
            without_build()
                .or_else(|| missing("runc"))
                .or_else(|| missing("linux.uml")),
            a_kernel_is_built_afresh_in_each_run,
        ),
        trial(
            "another_object_of_a_kernel_is_found",
            without_build(),
            another_object_of_a_kernel_is_found,
        ),
        trial(
            "what_is_no_clean_kernel_is_refused",
            without_build(),
            what_is_no_clean_kernel_is_refused,
        ),
        trial(
            "a_target_without_a_compiler_or_space_says_so",
            without_build().or_else(not_root),
            a_target_without_a_compiler_or_space_says_so,
        ),
    ]);
    // One after another: each measures on one processor.
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, all).exit();
}

/// The reason not to compile a kernel.
fn without_build() -> Option<String> {
    let programs = ["gcc", "ld", "make", "flex", "bison", "bc", "perl"];
    let header = !Path::new("/usr/include/gelf.h").exists();
    let header = header.then(|| "without libelf-dev".to_owned());
    programs.into_iter().find_map(missing).or(header)
}

/// The reason not to have two threads run at once.
fn one_processor() -> Option<String> {
    let count = std::thread::available_parallelism().unwrap().get();
    (count < 2).then(|| "with one CPU".to_owned())
}

/// `brisk overhead run` with a report, of one round.
fn overhead(report: &Path, words: &[&str]) -> Brisk {
    brisk_of![
        "overhead",
        "run",
        "--keep-disturbed",
        "--rounds=1",
        "--output"
    ]
    .arg(report)
    .args(words)
}

/// The probe, as short as it gets.
fn probe(report: &Path, words: &[&str]) -> Brisk {
    overhead(report, &["--workload=probe", "--probe-time=1"]).args(words)
}

/// The reason of the last run that failed.
fn reason(report: &Value, target: &str) -> String {
    reasons(report, target).pop().unwrap_or_default()
}

/// Each operation is measured in a target, or it is said why not.
fn probed(kinds: &[&str]) {
    /// What depends on the host and the target.
    const MAY_LACK: [&str; 3] = ["memory-chase-huge", "ipi-mprotect", "net-loopback"];
    let dir = tempdir().unwrap();
    let path = dir.path().join("report.json");
    let picture = dir.path().join("report.svg");
    let targets = kinds.iter().enumerate();
    let targets = targets.map(|(place, kind)| format!("--target=x{place}={kind}"));
    let ended = probe(&path, &["--svg"])
        .arg(&picture)
        .args(targets)
        .exits(0);
    let report = read_report(&path);
    let facts = &report["environment"]["extra"];
    let sides = ["host", "host again", "x0", "x1"];
    for side in sides.into_iter().take(2 + kinds.len()) {
        for operation in OPERATIONS {
            let name = operation.name;
            let values = values(&report, side, name);
            let skipped = &facts[format!("{side}: {name}")];
            match &values[..] {
                [] if MAY_LACK.contains(&name) => {
                    let reason = skipped.as_str();
                    let reason = reason.unwrap_or_else(|| panic!("{side}: {name}: no reason"));
                    assert!(reason.starts_with("skipped: "), "{side}: {name}: {reason}");
                    assert!(ended.text().contains(reason), "{}", ended.text());
                }
                [value] => {
                    assert!(*value > 0.0 && *value < 1.0, "{side}: {name}: {value}");
                    // It may be lacking as the target starts, and there as it runs.
                    let is_silent = skipped.is_null() || MAY_LACK.contains(&name);
                    assert!(is_silent, "{side}: {name}: {skipped}");
                }
                values => panic!("{side}: {name}: {values:?}, {skipped}"),
            }
        }
    }
    let compared: Vec<_> = report["comparisons"].as_array().unwrap().iter().collect();
    let is_compared = |name: &str| compared.iter().any(|one| one["b"] == *name);
    assert!(is_compared("x0: switch-pipe"), "{compared:?}");
    assert!(!is_compared("x0: time"), "its length is chosen");
    for operation in OPERATIONS {
        let begin = format!("{} ", operation.name);
        let text = ended.text();
        let mut lines = text.lines();
        assert!(lines.any(|line| line.starts_with(&begin)), "{begin}");
    }
    let picture = fs::read_to_string(picture).unwrap();
    assert!(picture.contains("x0: what operations cost"));
    assert!(picture.contains("fault-anonymous"));
}

fn two_processors_interrupt_one_another() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("report.json");
    probe(&path, &["--cpus=0-1", "--target=x=host"]).exits(0);
    assert_eq!(values(&read_report(&path), "x", "ipi-mprotect").len(), 1);
}

fn the_probe_runs_where_programs_are_allowed() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("report.json");
    let target = |name: &str, places: &str| {
        format!(
            "{name}=command:unshare --mount sh -c 'for p in {places}; do mount -t tmpfs -o noexec \
             tmpfs $p || exit; done; exec \"$@\"' sh"
        )
    };
    let words = [
        "--target",
        &target("one", "/dev/shm"),
        "--target",
        &target("both", "/dev/shm /tmp"),
    ];
    probe(&path, &words).exits(0);
    let report = read_report(&path);
    assert_eq!(values(&report, "one", "process-exec").len(), 1);
    let reason = reason(&report, "both");
    for part in ["cannot run the probe", "noexec", "Permission denied"] {
        assert!(reason.contains(part), "{reason}");
    }
}

/// A tree whose Makefile does what brisk asks that of a kernel for, in less than a second: it
/// configures and compiles in another directory.
fn kernel(tree: &Path) {
    fs::create_dir_all(tree.join("lib")).unwrap();
    fs::write(tree.join("Kconfig"), "").unwrap();
    fs::write(tree.join("lib/one.c"), "int one = 1;\n").unwrap();
    let makefile = "\
$(if $(filter brisk,$(KBUILD_BUILD_USER)),,$(error built by $(KBUILD_BUILD_USER)))
tinyconfig:
\t[ ! -e $(O)/lib ]
\techo CONFIG_TINY=y >$(O)/.config
olddefconfig:
\techo CONFIG_NEW=y >>$(O)/.config
all:
\tgrep -q CONFIG_ $(O)/.config
\tmkdir $(O)/lib
\t$(if $(EXTRA),echo '#define one two' >$(O)/one.h,: >$(O)/one.h)
\tgcc -include $(O)/one.h -c lib/one.c -o $(O)/lib/one.o
large:
\thead -c 64M /dev/zero >$(O)/large
";
    fs::write(tree.join("Makefile"), makefile).unwrap();
}

/// `brisk overhead run` that builds a tree.
fn build(report: &Path, tree: &Path, words: &[&str]) -> Brisk {
    let ended = overhead(report, &["--workload=kernel", "--tree"]);
    ended.arg(tree).args(words)
}

fn a_kernel_is_built_afresh_in_each_run() {
    let dir = tempdir().unwrap();
    let (path, tree) = (dir.path().join("report.json"), dir.path().join("linux"));
    kernel(&tree);
    let targets = ["box=runc:", "uml=uml:", "tcg=brisk:--accel tcg", "x=host"];
    let words = targets.map(|target| format!("--target={target}"));
    let words = words.each_ref().map(String::as_str);
    build(&path, &tree, &words).exits(0);
    let report = read_report(&path);
    for name in ["host", "host again", "box", "uml", "tcg", "x"] {
        assert_eq!(reason(&report, name), "", "{name}");
        assert_eq!(values(&report, name, "time").len(), 1, "{name}");
    }
    let facts = &report["environment"]["extra"];
    assert_eq!(facts["workload"], "kernel: make -j1 all");
    assert!(
        facts["host: make"].as_str().unwrap().contains("Make"),
        "{facts}"
    );
    assert_eq!(
        facts["host: configuration"].as_str().unwrap().len(),
        64,
        "{facts}"
    );
    // The tree of the user is left as it is.
    assert!(!tree.join("build").exists());
    // A file is a configuration, too, and so is an archive a tree.
    let config = dir.path().join("my.config");
    fs::write(&config, "CONFIG_MINE=y\n").unwrap();
    let archive = dir.path().join("linux.tar");
    let mut tar = std::process::Command::new("tar");
    let packed = tar
        .arg("-cf")
        .arg(&archive)
        .arg("-C")
        .arg(dir.path())
        .arg("linux")
        .status();
    assert!(packed.unwrap().success());
    let own = ["--target=x=host", "--config", config.to_str().unwrap()];
    build(&path, &archive, &own).exits(0);
    let other = read_report(&path)["environment"]["extra"]["x: configuration"].clone();
    assert_ne!(other, facts["host: configuration"]);
}

fn another_object_of_a_kernel_is_found() {
    let dir = tempdir().unwrap();
    let (path, tree) = (dir.path().join("report.json"), dir.path().join("linux"));
    kernel(&tree);
    build(&path, &tree, &["--target=x=command:env EXTRA=1"]).exits(125);
    let expected = "not comparable: it differs from the host's object lib";
    assert_eq!(reason(&read_report(&path), "x"), expected);
}

fn what_is_no_clean_kernel_is_refused() {
    let dir = tempdir().unwrap();
    let (path, tree) = (dir.path().join("report.json"), dir.path().join("linux"));
    fs::create_dir(&tree).unwrap();
    let refused = build(&path, &tree, &["--target=x=host"]).exits(125);
    refused.explains(&["linux is no kernel source"]);
    kernel(&tree);
    fs::write(tree.join(".config"), "").unwrap();
    let refused = build(&path, &tree, &["--target=x=host"]).exits(125);
    refused.explains(&["linux was built in", "make mrproper"]);
    fs::remove_file(tree.join(".config")).unwrap();
    let words = ["--target=x=host", "--config=nosuch"];
    let refused = build(&path, &tree, &words).exits(125);
    refused.explains(&["--config nosuch: neither a file nor a target such as tinyconfig"]);
}

fn a_target_without_a_compiler_or_space_says_so() {
    let dir = tempdir().unwrap();
    let (path, tree) = (dir.path().join("report.json"), dir.path().join("linux"));
    kernel(&tree);
    let programs = dir.path().join("programs");
    fs::create_dir(&programs).unwrap();
    for directory in ["/usr/bin", "/bin"] {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name();
            if name != "gcc" && name != "bison" {
                // A name that both have is one program.
                let _ = std::os::unix::fs::symlink(entry.path(), programs.join(name));
            }
        }
    }
    let bare = format!("bare=command:env PATH={}", programs.display());
    let small = "small=command:unshare --mount sh -c 'mount -t tmpfs -o size=16m tmpfs /dev/shm && \
                 exec \"$@\"' sh";
    let words = ["--make-target=large", "--target", &bare, "--target", small];
    build(&path, &tree, &words).exits(125);
    let report = read_report(&path);
    let lacks = reason(&report, "bare");
    for part in [
        "it lacks what compiling a kernel needs",
        "there is no gcc: install gcc",
        "there is no bison: install bison",
    ] {
        assert!(lacks.contains(part), "{lacks}");
    }
    let full = reason(&report, "small");
    for part in [
        "the work failed",
        "no space is left in /dev/shm/",
        "of 16 MiB",
    ] {
        assert!(full.contains(part), "{full}");
    }
    assert_eq!(values(&report, "host again", "time").len(), 1);
    // There is no room even for the source.
    fs::write(tree.join("large"), vec![1; 32 << 20]).unwrap();
    build(&path, &tree, &["--target", small]).exits(125);
    let full = reason(&read_report(&path), "small");
    for part in [
        "its tar cannot unpack the files",
        "no space is left in /dev/shm/",
    ] {
        assert!(full.contains(part), "{full}");
    }
}
