//! Compiles `guest/init`, which has no C library and thus cannot be a target of cargo's like
//! the others, and leaves it for `src/guest/` to embed.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    // Asked for when it runs: a build script compiled in one work tree may be run for another.
    let home = env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let source = Path::new(&home).join("../../guest/init/src");
    println!("cargo::rerun-if-changed={}", source.display());
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let rustc = env::var("RUSTC").expect("cargo sets RUSTC");
    let status = Command::new(rustc)
        .args([
            "--edition",
            "2024",
            "--crate-name",
            "brisk_init",
            "--crate-type",
            "bin",
        ])
        .args(["--target", "x86_64-unknown-linux-gnu"])
        // No unwinding, no position independence, as small as it gets.
        .args([
            "-C",
            "panic=abort",
            "-C",
            "opt-level=s",
            "-C",
            "codegen-units=1",
        ])
        .args([
            "-C",
            "lto=fat",
            "-C",
            "relocation-model=static",
            "-C",
            "strip=symbols",
        ])
        .args(["-C", "link-arg=-nostdlib", "-C", "link-arg=-nostartfiles"])
        .args([
            "-C",
            "link-arg=-static",
            "-C",
            "link-arg=-Wl,--build-id=none",
        ])
        // The same bytes wherever the source lies: the initramfs is reproducible.
        .arg(format!("--remap-path-prefix={}=init", source.display()))
        .arg("-o")
        .arg(Path::new(&out).join("init"))
        .arg(source.join("main.rs"))
        .status()
        .expect("cargo's own compiler can be run");
    assert!(status.success(), "guest/init does not compile: {status}");
}
