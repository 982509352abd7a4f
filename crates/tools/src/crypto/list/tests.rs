use super::*;
use crate::crypto::captured::{FLAGS, NO_DEVICE, VIRTIO, VIRTIO_AND_AESNI, bytes, kernel};
use crate::crypto::kernel::parse_netlink;

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
