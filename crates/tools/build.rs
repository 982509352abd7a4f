//! Compiles what targets of `brisk overhead` run, and leaves it for `src/overhead` to embed:
//! `guest/probe`, linked statically so that it runs in every target, and the library `guest/xstate`.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

/// Options of all: as fast as it gets, whatever brisk itself is compiled with.
const OPTIONS: [&str; 10] = [
    "--edition",
    "2024",
    "--target",
    "x86_64-unknown-linux-gnu",
    "-C",
    "opt-level=3",
    "-C",
    "panic=abort",
    "-C",
    "codegen-units=1",
];
/// Options of a program.
const STATIC: [&str; 4] = [
    "-C",
    "target-feature=+crt-static",
    "-C",
    "relocation-model=static",
];
/// Options of what is embedded: as small as it gets, and the same bytes each time.
const SMALL: [&str; 6] = [
    "-C",
    "lto=fat",
    "-C",
    "strip=symbols",
    "-C",
    "link-arg=-Wl,--build-id=none",
];

fn main() {
    // Asked for when it runs: a build script compiled in one work tree may be run for another.
    let home = env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let guest = Path::new(&home).join("../../guest");
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let out = Path::new(&out);
    probe(&guest.join("probe/src"), out);
    let source = guest.join("xstate/src");
    compile("xstate", &source, "preload.rs", "cdylib", |command| {
        command
            .args(SMALL)
            // The C library is there: this library's symbols are looked up in it.
            .args(["-C", "link-arg=-nostdlib", "-o"])
            .arg(out.join("libxstate.so"))
    });
}

/// The probe's list of operations, which the program needs, and the program.
fn probe(source: &Path, out: &Path) {
    let list = out.join("libbrisk_probe.rlib");
    let mut listed = OsString::from("brisk_probe=");
    listed.push(&list);
    compile("probe", source, "lib.rs", "lib", |command| {
        command
            .args(STATIC)
            .args(["--crate-name", "brisk_probe", "-o"])
            .arg(&list)
    });
    compile("probe", source, "main.rs", "bin", |command| {
        command
            .args(STATIC)
            .args(SMALL)
            .arg("--extern")
            .arg(&listed)
            .arg("-o")
            .arg(out.join("probe"))
    });
}

/// Compiles a crate of a package of `guest` from its first file.
fn compile(
    package: &str,
    source: &Path,
    first: &str,
    kind: &str,
    more: impl FnOnce(&mut Command) -> &mut Command,
) {
    println!("cargo::rerun-if-changed={}", source.display());
    let rustc = env::var("RUSTC").expect("cargo sets RUSTC");
    let mut command = Command::new(rustc);
    command
        .args(OPTIONS)
        .args(["--crate-type", kind])
        // The same bytes wherever the source lies.
        .arg(format!(
            "--remap-path-prefix={}={package}",
            source.display()
        ))
        .arg(source.join(first));
    let status = more(&mut command)
        .status()
        .expect("cargo's own compiler can be run");
    assert!(
        status.success(),
        "guest/{package} does not compile: {status}; guest/probe needs the static C library \
         (libc6-dev on Debian)"
    );
}
