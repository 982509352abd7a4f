use std::path::Path;

use super::*;
use crate::crypto::captured::{FLAGS, NO_DEVICE, VIRTIO, VIRTIO_AND_AESNI, bytes, edited, kernel};
use crate::crypto::kernel::parse_netlink;
use crate::crypto::libcrypto::{Configuration, CpuSettings, Library, VersionInfo};

/// A line for each implementation: name, priority, what is chosen, and what each consumer makes of
/// it.
fn shown(name: &str, kernel: &Kernel) -> String {
    let listing = listing(name, kernel, None);
    let line = |row: &DriverRow| {
        let uses: Vec<_> = row.consumers.iter().map(|it| it.used.name()).collect();
        let mark = if row.is_default { "*" } else { "" };
        format!(
            "{} {}{mark} [{}] {}\n",
            row.driver.driver,
            row.driver.priority,
            row.runs.text(),
            uses.join(" ")
        )
    };
    listing.drivers.iter().map(line).collect()
}

#[test]
fn a_driver_of_a_device_is_listed_with_what_may_use_it() {
    insta::assert_snapshot!(shown("cbc(aes)", &kernel(VIRTIO)), @"
    virtio_crypto_aes_cbc 150* [device: virtio-crypto] chosen no no - chosen
    cbc(aes-generic) 100 [CPU: C] yes chosen chosen - yes
    ");
    insta::assert_snapshot!(shown("cbc(aes)", &kernel(VIRTIO_AND_AESNI)), @"
    cbc-aes-aesni 400* [CPU: AES-NI] chosen chosen chosen - chosen
    virtio_crypto_aes_cbc 150 [device: virtio-crypto] yes no no - yes
    cbc(aes-generic) 100 [CPU: C] yes yes yes - yes
    ");
    insta::assert_snapshot!(shown("gcm(aes)", &kernel(VIRTIO_AND_AESNI)), @"
    generic-gcm-aesni-avx 500* [CPU: AES-NI] chosen chosen - chosen yes
    generic-gcm-aesni 400 [CPU: AES-NI] yes yes - yes yes
    ");
    insta::assert_snapshot!(shown("cbc(aes)", &kernel(NO_DEVICE)), @"cbc(ecb(aes-fixed-time)) 101* [CPU: C, constant time] absent absent chosen - absent");
}

/// A capture with another configuration of its kernel; none without one.
fn configured(capture: &str, options: Option<&str>) -> Kernel {
    let (text, rest) = capture.split_once("=== boot/config-").unwrap();
    let release = rest.lines().next().unwrap();
    let config = options.map(|options| format!("=== boot/config-{release}\n{options}\n"));
    kernel(&format!("{text}{}=== end\n", config.unwrap_or_default()))
}

#[test]
fn the_kernels_configuration_excludes_and_its_absence_promises_nothing() {
    // What its modules are, and of the rest neither yes nor no.
    insta::assert_snapshot!(shown("cbc(aes)", &configured(VIRTIO, None)), @"
    virtio_crypto_aes_cbc 150* [device: virtio-crypto] chosen no no - ?
    cbc(aes-generic) 100 [CPU: C] yes chosen ? - ?
    ");
    let empty = configured(VIRTIO, Some(""));
    assert_eq!(empty.config, None);
    insta::assert_snapshot!(shown("cbc(aes)", &configured(VIRTIO, Some("CONFIG_INET6_ESP=m"))), @"
    virtio_crypto_aes_cbc 150* [device: virtio-crypto] absent absent absent - chosen
    cbc(aes-generic) 100 [CPU: C] absent absent absent - yes
    ");
    let none = configured(VIRTIO, Some("CONFIG_NET=y"));
    assert_eq!(
        why(&none, "cbc(aes-generic)", Consumer::Ipsec).unwrap(),
        "the kernel was built without CONFIG_INET_ESP and CONFIG_INET6_ESP (the kernel's \
         configuration)"
    );
    let without = |kernel: &Kernel| listing("xts(aes)", kernel, None).without;
    assert_eq!(without(&none), Some("CONFIG_CRYPTO_XTS"));
    assert_eq!(without(&empty), None);
    let with = configured(VIRTIO, Some("CONFIG_CRYPTO_XTS=m"));
    assert_eq!(without(&with), None);
    let version = VersionInfo::parse(include_str!("../captured/openssl-3.0.txt"));
    let library = Library {
        installed_engines: vec!["afalg".into()],
        ..Library::below(Path::new("/nonexistent"), version, None)
    };
    let afalg = |options| {
        let rows = library_rows("cbc(aes)", &configured(NO_DEVICE, options), &library);
        rows.last().map(|row| row.how.clone()).unwrap()
    };
    assert_eq!(afalg(Some("CONFIG_TLS=y")), "the kernel has no AF_ALG");
    assert_eq!(
        afalg(None),
        "-engine afalg; whether the kernel has AF_ALG is not known"
    );
    let yes = "CONFIG_CRYPTO_USER_API_SKCIPHER=y";
    assert_eq!(afalg(Some(yes)), "-engine afalg");
}

/// Why a consumer refuses an implementation.
fn why(kernel: &Kernel, driver: &str, consumer: Consumer) -> Option<String> {
    let listing = listing("cbc(aes)", kernel, None);
    let mut rows = listing.drivers.iter();
    let row = rows.find(|row| row.driver.driver == driver)?;
    let mut uses = row.consumers.iter();
    uses.find(|it| it.consumer == consumer)?.used.why()
}

#[test]
fn a_refusal_has_its_reason_and_source() {
    let mut kernel = kernel(VIRTIO);
    let guessed = why(&kernel, "virtio_crypto_aes_cbc", Consumer::DmCrypt);
    let source = "(crypt_alloc_tfms_skcipher of drivers/md/dm-crypt.c, since Linux 5.10)";
    assert_eq!(
        guessed.unwrap(),
        format!("it has ALLOCATES_MEMORY by its source {source}")
    );
    kernel.add_flags(&parse_netlink(&bytes(FLAGS)).reported);
    let told = why(&kernel, "virtio_crypto_aes_cbc", Consumer::DmCrypt);
    assert_eq!(told.unwrap(), format!("it has ALLOCATES_MEMORY {source}"));
    assert_eq!(why(&kernel, "cbc(aes-generic)", Consumer::DmCrypt), None);
}

#[test]
fn names_of_openssl_of_the_kernel_and_of_drivers_mean_an_algorithm() {
    let kernel = kernel(VIRTIO);
    for (name, algorithm) in [
        ("aes-256-xts", Some("xts(aes)")),
        ("sha256", Some("sha256")),
        ("virtio_crypto_aes_cbc", Some("cbc(aes)")),
        ("nothing", None),
    ] {
        assert_eq!(kernel_name(name, &kernel).as_deref(), algorithm, "{name}");
    }
    let names = kernel_names();
    assert_eq!(names[..2], ["cbc(aes)", "ctr(aes)"]);
    assert_eq!(names.len(), 9);
}

#[test]
fn modules_that_are_not_loaded_are_named() {
    let loadable = |capture| listing("cbc(aes)", &kernel(capture), None).loadable;
    assert_eq!(loadable(VIRTIO), ["aesni_intel", "padlock_aes"]);
    assert_eq!(loadable(VIRTIO_AND_AESNI), ["padlock_aes"]);
    assert!(loadable(NO_DEVICE).is_empty());
}

/// A line for each implementation of OpenSSL.
fn of_openssl(name: &str, library: &Library) -> String {
    let listing = listing(name, &kernel(VIRTIO), Some(library));
    let line = |row: &LibraryRow| {
        let used = if row.is_used { "used" } else { "not used" };
        format!("{} [{}] {used} {}", row.name, row.runs, row.how)
    };
    let lines = listing.library.iter().map(line);
    lines
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect()
}

#[test]
fn libcrypto_is_listed_with_features_of_the_cpu_and_without() {
    let text = include_str!("../captured/openssl-3.0.txt");
    let library = Library {
        cpu: CpuSettings::parse(text),
        installed_engines: vec!["afalg".into(), "devcrypto".into(), "padlock".into()],
        installed_providers: vec!["qatprovider".into()],
        ..Library::below(Path::new("/nonexistent"), VersionInfo::parse(text), None)
    };
    insta::assert_snapshot!(of_openssl("cbc(aes)", &library), @"
    OpenSSL 3.0.19 [CPU: AES-NI] used
    OpenSSL 3.0.19 [CPU: SSSE3] not used OPENSSL_ia32cap=~0x200000000000000:~0x0:~0x0:~0x0:~0x0
    provider qatprovider [unknown] not used installed; the configuration does not activate it
    engine afalg [the kernel, by AF_ALG] not used -engine afalg
    engine devcrypto [the kernel, by /dev/crypto] not used -engine devcrypto; whether there is /dev/crypto is not known
    ");
    insta::assert_snapshot!(of_openssl("sha512", &library), @"
    OpenSSL 3.0.19 [CPU: AVX2, AVX] used
    OpenSSL 3.0.19 [CPU: SSSE3] not used OPENSSL_ia32cap=~0x1000000000000000:~0x20:~0x0:~0x0:~0x0
    provider qatprovider [unknown] not used installed; the configuration does not activate it
    engine devcrypto [the kernel, by /dev/crypto] not used -engine devcrypto; whether there is /dev/crypto is not known
    ");
    let arm = Library {
        cpu: CpuSettings::parse("OPENSSL_armcap=0xbd"),
        installed_engines: Vec::new(),
        installed_providers: Vec::new(),
        ..library.clone()
    };
    insta::assert_snapshot!(of_openssl("gcm(aes)", &arm), @"
    OpenSSL 3.0.19 [CPU: Armv8 Crypto Extensions] used
    OpenSSL 3.0.19 [CPU: no such instructions] not used OPENSSL_armcap=0xb9
    ");
    let four = VersionInfo::parse(include_str!("../captured/openssl-4.0.txt"));
    let engine =
        "openssl_conf = i\n[i]\nengines = e\n[e]\nafalg = a\n[a]\ndefault_algorithms = ALL";
    let four = Library {
        configuration: Some(Configuration::parse(engine)),
        ..Library::below(Path::new("/nonexistent"), four, None)
    };
    insta::assert_snapshot!(of_openssl("cbc(aes)", &four), @"
    OpenSSL 4.0.3 [CPU] used
    engine afalg [the kernel, by AF_ALG] not used configured, but OpenSSL 4 has no engines: remove it
    ");
    assert_eq!(of_openssl("cts(cbc(aes))", &library), "");
}

#[test]
fn a_failed_self_test_and_restrictions_are_refusals() {
    let restricted = |level: &str| format!("=== proc/sys/crypto/af_alg_restrict\n{level}\n=== end");
    let failed = (
        "priority     : 150\nrefcnt       : 1\nselftest     : passed",
        "priority     : 150\nrefcnt       : 1\nselftest     : unknown",
    );
    let other = (
        "driver       : virtio_crypto_aes_cbc",
        "driver       : new-aes-cbc",
    );
    let nobody = ("CapEff:\t000001ffffffffff", "CapEff:\t0000000000000000");
    let (one, two) = (restricted("1"), restricted("2"));
    let shown = |edits: &[(&str, &str)]| shown("cbc(aes)", &kernel(&edited(VIRTIO, edits)));
    insta::assert_snapshot!(shown(&[failed]), @"
    virtio_crypto_aes_cbc 150 [device: virtio-crypto] no no no - no
    cbc(aes-generic) 100* [CPU: C] chosen chosen chosen - chosen
    ");
    insta::assert_snapshot!(shown(&[("=== end", &one), nobody]), @"
    virtio_crypto_aes_cbc 150* [device: virtio-crypto] no no no - chosen
    cbc(aes-generic) 100 [CPU: C] no chosen chosen - yes
    ");
    insta::assert_snapshot!(shown(&[("=== end", &one)]), @"
    virtio_crypto_aes_cbc 150* [device: virtio-crypto] chosen no no - chosen
    cbc(aes-generic) 100 [CPU: C] yes chosen chosen - yes
    ");
    insta::assert_snapshot!(shown(&[("=== end", &two)]), @"
    virtio_crypto_aes_cbc 150* [device: virtio-crypto] no no no - chosen
    cbc(aes-generic) 100 [CPU: C] no chosen chosen - yes
    ");
    // Its module says where it runs, but nothing which flags it has.
    insta::assert_snapshot!(shown(&[other]), @"
    new-aes-cbc 150* [device] chosen ? ? - chosen
    cbc(aes-generic) 100 [CPU: C] yes yes yes - yes
    ");
}
