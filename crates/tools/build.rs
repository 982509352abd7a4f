//! Compiles `guest/probe`, linked statically so that it runs in every target, and leaves it for
//! `src/overhead/probe.rs` to embed.

use std::env;
use std::path::Path;
use std::process::Command;

/// Options of both steps: as fast as it gets, whatever brisk itself is compiled with.
const OPTIONS: [&str; 14] = [
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
    "-C",
    "target-feature=+crt-static",
    "-C",
    "relocation-model=static",
];

fn main() {
    // Asked for when it runs: a build script compiled in one work tree may be run for another.
    let home = env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let source = Path::new(&home).join("../../guest/probe/src");
    println!("cargo::rerun-if-changed={}", source.display());
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let out = Path::new(&out);
    let list = out.join("libbrisk_probe.rlib");
    let mut listed = std::ffi::OsString::from("brisk_probe=");
    listed.push(&list);
    compile(&source, "lib", |command| {
        command
            .args(["--crate-name", "brisk_probe", "-o"])
            .arg(&list)
    });
    compile(&source, "bin", |command| {
        command
            .args(["-C", "lto=fat", "-C", "strip=symbols"])
            .args(["-C", "link-arg=-Wl,--build-id=none", "--extern"])
            .arg(&listed)
            .arg("-o")
            .arg(out.join("probe"))
    });
}

/// Compiles `lib.rs` to a library, or `main.rs` to a program.
fn compile(source: &Path, kind: &str, more: impl FnOnce(&mut Command) -> &mut Command) {
    let rustc = env::var("RUSTC").expect("cargo sets RUSTC");
    let mut command = Command::new(rustc);
    command
        .args(OPTIONS)
        .args(["--crate-type", kind])
        // The same bytes wherever the source lies.
        .arg(format!("--remap-path-prefix={}=probe", source.display()))
        .arg(source.join(if kind == "lib" { "lib.rs" } else { "main.rs" }));
    let status = more(&mut command)
        .status()
        .expect("cargo's own compiler can be run");
    assert!(
        status.success(),
        "guest/probe does not compile: {status}; it needs the static C library (libc6-dev on Debian)"
    );
}
