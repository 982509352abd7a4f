//! What rules say of offload, and of figures that mislead.

use super::*;
use crate::crypto::kernel::Version;

#[test]
fn doctor_and_figures_learn_what_is_unused_or_refused() {
    let rules = |machine: &Machine| -> Vec<_> {
        let all = findings(machine).into_iter().chain(figures(machine));
        all.map(|finding| finding.rule).collect()
    };
    let speed = ["openssl-speed-elapsed", "openssl-speed-count"];
    let not_loaded = machine(NOT_LOADED, debian_12(""));
    assert_eq!(rules(&not_loaded)[0], "crypto-offload-unused");
    assert_eq!(rules(&not_loaded)[1..], speed);
    // Up to 1.1.1 -evp matters.
    let mut old = debian_12("");
    old.version.major = Some(1);
    assert!(rules(&machine(NOT_LOADED, old)).contains(&"openssl-speed-evp"));
    let virtio = machine(VIRTIO, debian_12(""));
    assert_eq!(
        rules(&virtio)[..4],
        [
            "crypto-offload-refused",
            "crypto-offload-refused",
            "crypto-virtio-large",
            "cryptsetup-benchmark"
        ]
    );
    let shown = figures(&virtio).remove(0).what;
    assert_eq!(
        shown,
        "cryptsetup benchmark measures virtio_crypto_aes_cbc for cbc(aes), and dm-crypt uses \
         cbc(aes-generic)"
    );
    let off = machine(&edited(VIRTIO, &[OFF]), four(ENGINE));
    let found = rules(&off);
    assert!(found.contains(&"crypto-af-alg-restricted"), "{found:?}");
    assert!(found.contains(&"crypto-engine-gone"), "{found:?}");
    assert!(found.contains(&"crypto-virtio-large"), "{found:?}");
    let nothing = machine(NO_DEVICE, four(""));
    assert!(rules(&nothing).is_empty());
}

#[test]
fn cryptsetup_benchmark_misleads_where_work_is_done_elsewhere() {
    let shown = |edits: &[(&str, &str)], version| {
        let mut machine = machine(&edited(VIRTIO, edits), debian_12(""));
        machine.kernel.version = Some(version);
        let figures = figures(&machine).into_iter();
        let own = figures.filter(|it| it.rule == "cryptsetup-benchmark");
        own.map(|it| it.what).collect::<Vec<_>>()
    };
    let (old, new) = (Version::new(5, 4, 0), Version::new(6, 12, 0));
    let driver = |name| [("driver       : virtio_crypto_aes_cbc", name)];
    // The driver is the same, and the work is not.
    let sectors = |name: &str| {
        format!(
            "cryptsetup benchmark hands {name} 64 KiB at once for cbc(aes), one request after the \
             other; dm-crypt hands over sectors of 512 to 4096 bytes, many at once"
        )
    };
    let cesa = driver("driver       : mv-cbc-aes");
    assert_eq!(shown(&cesa, old), [sectors("mv-cbc-aes")]);
    assert!(shown(&cesa, new)[0].ends_with("and dm-crypt uses cbc(aes-generic)"));
    let omap = driver("driver       : cbc-aes-omap");
    let unknown = "if it uses that driver: whether it has ALLOCATES_MEMORY is not known";
    assert_eq!(shown(&omap, old), [sectors("cbc-aes-omap")]);
    assert_eq!(
        shown(&omap, new),
        [format!("{}, {unknown}", sectors("cbc-aes-omap"))]
    );
    let cryptd = driver("driver       : cryptd(cbc-aes-aesni)");
    assert_eq!(shown(&cryptd, new), [sectors("cryptd(cbc-aes-aesni)")]);
    // The CPU does the work at once, also where its wrapper is asynchronous.
    let aesni = driver("driver       : cbc-aes-aesni");
    assert_eq!(shown(&aesni, new), [""; 0]);
    // Since Linux 7.2 AF_ALG gets less than the disk.
    let names = shown(&aesni, Version::new(7, 2, 0));
    assert_eq!(
        names,
        [
            "cryptsetup benchmark measures cbc(aes-generic) for cbc(aes), and dm-crypt uses cbc-aes-aesni"
        ]
    );
    // Without AF_ALG it shows nothing.
    let no_socket = ("CONFIG_CRYPTO_USER_API_SKCIPHER=m\n", "");
    assert_eq!(shown(&[cesa[0], no_socket], old), [""; 0]);
    assert_eq!(shown(&[cesa[0], OFF], old), [""; 0]);
}
