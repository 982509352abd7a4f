//! The commands that `cargo xtask bench` times.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use brisk_vm::initramfs::{Content, Extra, Request, Signatures};

use super::{
    ALONE, Args, Case, GUESTFISH, HOST, NONE, PC, PLAIN, READY, READY_HOST, VNG, WARM, WARM_HOST,
    WARM_PLAIN, brisk, words,
};

/// Source of the cases.
struct Maker<'a> {
    args: &'a Args,
    brisk: String,
    /// Directory of files that a case writes.
    scratch: &'a Path,
    /// A directory in memory.
    memory: &'a Path,
}

/// A program that is no brisk.
fn case(name: &'static str, words: Vec<String>) -> Case {
    Case {
        name,
        words,
        environment: Vec::new(),
        timing: None,
        readies: None,
    }
}

impl Maker<'_> {
    fn of_brisk(&self, name: &'static str, file: &str, rest: &[&str]) -> Case {
        let timing = self.scratch.join(file);
        let flag = format!("--timing={}", timing.display());
        let brisk = &self.brisk;
        let mut all = words(&[brisk, "run", "--accel", "tcg", "--format", "json", &flag]);
        all.extend(words(rest));
        Case {
            timing: Some(timing),
            ..case(name, all)
        }
    }

    /// A case that continues a guest which waits. In a directory of its own: another case must not
    /// get its guest.
    fn ready(&self, name: &'static str, file: &str, rest: &[&str]) -> anyhow::Result<Case> {
        let place = self.memory.join(file);
        DirBuilder::new().mode(0o700).create(&place)?;
        let mut all = vec!["--warm=ready"];
        all.extend(rest);
        Ok(Case {
            environment: vec![
                ("BRISK_WARM_DIR", place.to_string_lossy().into_owned()),
                // Longer than a round.
                ("BRISK_READY_SECONDS", "600".to_owned()),
            ],
            readies: Some(place.join("v1/ready")),
            ..self.of_brisk(name, file, &all)
        })
    }

    /// Guests with the kernel of a cloud image.
    fn of_cloud(&self) -> anyhow::Result<Vec<Case>> {
        let kernel = ["--kernel", &self.args.kernel];
        let none = ["--root", "none", "--", "true"];
        let alone = [&["--pretranslate", "no"], &kernel[..], &none].concat();
        let warm = [&["--warm"], &kernel[..]].concat();
        Ok(vec![
            self.of_brisk(NONE, "none.json", &[&kernel[..], &none].concat()),
            self.of_brisk(ALONE, "alone.json", &alone),
            self.of_brisk(
                PLAIN,
                "plain.json",
                &[&kernel[..], &["--", "uname", "-a"]].concat(),
            ),
            self.of_brisk(WARM, "warm.json", &[&warm[..], &none].concat()),
            self.of_brisk(
                WARM_PLAIN,
                "warm-plain.json",
                &[&warm[..], &["--", "true"]].concat(),
            ),
            self.ready(READY, "ready.json", &[&kernel[..], &none].concat())?,
        ])
    }

    /// Guests with the kernel of a distribution.
    fn of_distribution(&self, generic: &str) -> anyhow::Result<Vec<Case>> {
        let uname = ["--kernel", generic, "--", "uname", "-r"];
        Ok(vec![
            self.of_brisk(HOST, "host.json", &uname),
            self.of_brisk(
                WARM_HOST,
                "warm-host.json",
                &[&["--warm"], &uname[..]].concat(),
            ),
            self.ready(READY_HOST, "ready-host.json", &uname)?,
        ])
    }

    /// QEMU's own machine with a small initramfs.
    fn of_qemu(&self) -> anyhow::Result<Case> {
        let kernel = image(&self.args.kernel)?;
        let initramfs = busybox_initramfs(self.scratch)?;
        Ok(case(
            PC,
            words(&[
                "qemu-system-x86_64",
                "-accel",
                "tcg",
                "-M",
                "pc",
                "-m",
                "512",
                "-nographic",
                "-no-reboot",
                "-kernel",
                &kernel,
                "-initrd",
                &initramfs,
                "-append",
                "console=ttyS0 quiet",
            ]),
        ))
    }
}

/// The cases, and the names of those whose program is not installed.
pub(super) fn cases(
    args: &Args,
    scratch: &Path,
    memory: &Path,
) -> anyhow::Result<(Vec<Case>, Vec<&'static str>)> {
    let maker = Maker {
        args,
        brisk: brisk(args)?,
        scratch,
        memory,
    };
    let mut list = maker.of_cloud()?;
    list.push(maker.of_qemu()?);
    let mut missing = Vec::new();
    if installed("guestfish") {
        list.push(Case {
            environment: vec![
                ("LIBGUESTFS_BACKEND", "direct".to_owned()),
                ("LIBGUESTFS_BACKEND_SETTINGS", "force_tcg".to_owned()),
            ],
            ..case(GUESTFISH, words(&["guestfish", "-a", "/dev/null", "run"]))
        });
    } else {
        missing.push(GUESTFISH);
    }
    if let Some(generic) = &args.generic {
        list.extend(maker.of_distribution(generic)?);
        if installed("vng") {
            let kernel = image(generic)?;
            let command = ["vng", "--disable-kvm", "-r", &kernel, "--", "uname", "-r"];
            list.push(case(VNG, words(&command)));
        } else {
            missing.push(VNG);
        }
    }
    Ok((list, missing))
}

fn image(version: &str) -> anyhow::Result<String> {
    let running = brisk_host::kernel::running();
    let kernel = brisk_host::kernel::resolve(Path::new("/"), Some(version), &running)?;
    Ok(kernel.image.to_string_lossy().into_owned())
}

fn installed(program: &str) -> bool {
    brisk_host::program::Program::find(program).is_ok()
}

/// What a careful user of plain QEMU would write: busybox, a command, power off.
fn busybox_initramfs(scratch: &Path) -> anyhow::Result<String> {
    let script = "#!/bin/busybox sh\n/bin/busybox true\n/bin/busybox poweroff -f\n";
    let request = Request {
        init: Content::Bytes(script.into()),
        modules: Vec::new(),
        deny: Vec::new(),
        files: vec![Extra::File {
            path: "/bin/busybox".into(),
            content: Content::File("/bin/busybox".into()),
            mode: 0o755,
        }],
        signatures: Signatures::Keep,
    };
    let cache = brisk_vm::cache::Cache::new(scratch.join("cache"));
    let built = brisk_vm::initramfs::initramfs(&request, "none", None, &cache)?;
    Ok(built.path.to_string_lossy().into_owned())
}
