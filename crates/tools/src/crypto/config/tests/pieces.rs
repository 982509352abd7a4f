//! Texts of recommendations.

use super::*;
use crate::crypto::kernel::Flags;

#[test]
fn engines_have_a_section_that_says_why() {
    insta::assert_snapshot!(text(&case(Route::Openssl, "engine:afalg").answer()), @r##"
    Worth it from 5616 bytes on, by wall-clock time and CPU time of the whole system.

    offload is faster than openssl from 4896 bytes on (95 % interval 4193 to 5616; measured between 4096 and 16384 bytes).
    offload takes less CPU time of the whole system than openssl from 4896 bytes on (95 % interval 4193 to 5616; measured between 4096 and 16384 bytes).

    --- /etc/ssl/openssl-offload.cnf
    # aes-128-cbc with engine:afalg: worth it from 5616 bytes on, by wall-clock time and CPU time of the whole system.
    # offload is faster than openssl from 4896 bytes on (95 % interval 4193 to 5616; measured between 4096 and 16384 bytes).
    # offload takes less CPU time of the whole system than openssl from 4896 bytes on (95 % interval 4193 to 5616; measured between 4096 and 16384 bytes).
    # Measured: report.json.
    # An engine: OpenSSL 4 has none any more.
    .include /etc/ssl/openssl.cnf

    [openssl_init]
    engines = brisk_engines

    [brisk_engines]
    afalg = brisk_afalg

    [brisk_afalg]
    engine_id = afalg
    default_algorithms = CIPHERS

    Note: Give it to a program by OPENSSL_CONF=/etc/ssl/openssl-offload.cnf, for a service by Environment=OPENSSL_CONF=/etc/ssl/openssl-offload.cnf of its unit; or append all but the line .include to /etc/ssl/openssl.cnf, for all programs.
    Note: Prove it before: brisk crypto config aes-128-cbc --check /etc/ssl/openssl-offload.cnf. OpenSSL goes on without what it cannot load; with config_diagnostics = 1 programs do not start without an engine.
    Note: afalg has no threshold of size: smaller data goes to the device, too. Use it for programs alone whose data is larger.
    Note: afalg takes what the kernel prefers for the algorithm, now and after every update.
    "##);
}

#[test]
fn cryptodev_needs_a_module_and_a_rule() {
    let answer = case(Route::Openssl, "engine:devcrypto").answer();
    let places: Vec<_> = answer.pieces.iter().map(|one| &*one.place).collect();
    assert_eq!(
        places,
        [
            "/etc/ssl/openssl-offload.cnf",
            "/etc/modules-load.d/brisk-crypto.conf",
            "/etc/udev/rules.d/60-brisk-crypto.rules"
        ]
    );
    assert!(answer.pieces[1].text.ends_with("\ncryptodev\n"));
    let rule = &answer.pieces[2].text;
    assert!(rule.contains("KERNEL==\"crypto\", SUBSYSTEM==\"misc\""));
    // Everybody may open the node already.
    let open = Case {
        cryptodev_mode: Some(0o020_666),
        ..case(Route::Openssl, "engine:devcrypto")
    };
    assert_eq!(open.answer().pieces.len(), 2);
}

#[test]
fn providers_are_preferred_beside_the_default_one() {
    let case = Case {
        machine: machine(four()),
        ..case(Route::Openssl, "provider:qatprovider")
    };
    insta::assert_snapshot!(text(&case.answer()), @r##"
    Worth it from 5616 bytes on, by wall-clock time and CPU time of the whole system.

    offload is faster than openssl from 4896 bytes on (95 % interval 4193 to 5616; measured between 4096 and 16384 bytes).
    offload takes less CPU time of the whole system than openssl from 4896 bytes on (95 % interval 4193 to 5616; measured between 4096 and 16384 bytes).

    --- /etc/ssl/openssl-offload.cnf
    # aes-128-cbc with provider:qatprovider: worth it from 5616 bytes on, by wall-clock time and CPU time of the whole system.
    # offload is faster than openssl from 4896 bytes on (95 % interval 4193 to 5616; measured between 4096 and 16384 bytes).
    # offload takes less CPU time of the whole system than openssl from 4896 bytes on (95 % interval 4193 to 5616; measured between 4096 and 16384 bytes).
    # Measured: report.json.
    .include /etc/ssl/openssl.cnf

    [provider_sect]
    qatprovider = brisk_qatprovider

    [default_sect]
    activate = 1

    [brisk_qatprovider]
    activate = 1

    [openssl_init]
    alg_section = brisk_algorithms

    [brisk_algorithms]
    default_properties = ?provider=qatprovider

    Note: Give it to a program by OPENSSL_CONF=/etc/ssl/openssl-offload.cnf, for a service by Environment=OPENSSL_CONF=/etc/ssl/openssl-offload.cnf of its unit; or append all but the line .include to /etc/ssl/openssl.cnf, for all programs.
    Note: Prove it before: brisk crypto config aes-128-cbc --check /etc/ssl/openssl-offload.cnf. OpenSSL goes on without what it cannot load; with config_diagnostics = 1 programs do not start without an engine.
    Note: ?provider=qatprovider prefers the provider for all that it has, for data of any size: OpenSSL has no threshold of size.
    "##);
}

#[test]
fn dm_crypt_is_told_the_driver() {
    // Fast enough for a sector.
    let case = Case {
        compared: both([20.0; 5], [20.0; 5]),
        ..case(DM_CRYPT, DRIVER)
    };
    insta::assert_snapshot!(text(&case.answer()), @r##"
    Worth it from 16 bytes on, by wall-clock time and CPU time of the whole system.

    offload is faster than openssl at every size measured, from 16 bytes on.
    offload takes less CPU time of the whole system than openssl at every size measured, from 16 bytes on.

    --- /etc/modules-load.d/brisk-crypto.conf
    # aes-128-cbc with af-alg:virtio_crypto_aes_cbc: worth it from 16 bytes on, by wall-clock time and CPU time of the whole system.
    # offload is faster than openssl at every size measured, from 16 bytes on.
    # offload takes less CPU time of the whole system than openssl at every size measured, from 16 bytes on.
    # Measured: report.json.
    # A driver is not loaded when it is asked for by its name, virtio_crypto_aes_cbc.
    virtio_crypto

    --- command, on a disk that is made anew: it destroys what DEVICE has
    # aes-128-cbc with af-alg:virtio_crypto_aes_cbc: worth it from 16 bytes on, by wall-clock time and CPU time of the whole system.
    # offload is faster than openssl at every size measured, from 16 bytes on.
    # offload takes less CPU time of the whole system than openssl at every size measured, from 16 bytes on.
    # Measured: report.json.
    # capi: names the driver; without it dm-crypt chooses by priority.
    # Each sector is an operation: the largest, 4096 bytes, is the best for a device.
    # If the driver is missing, the disk cannot be opened.
    cryptsetup luksFormat --type luks2 --cipher 'capi:virtio_crypto_aes_cbc-essiv:sha256-generic' --key-size 128 --sector-size 4096 DEVICE

    Note: For the root file system the initramfs needs the module, too: /etc/initramfs-tools/modules, or add_drivers of dracut.
    Note: Leave --perf-no_read_workqueue and --perf-no_write_workqueue away unless they are measured with this driver: with them dm-crypt encrypts where the request comes, without its queues.
    Note: It was measured through AF_ALG, and dm-crypt has costs of its own.
    "##);
}

#[test]
fn programs_with_sockets_name_the_driver() {
    insta::assert_snapshot!(text(&case(AF_ALG, DRIVER).answer()), @r##"
    Worth it from 5616 bytes on, by wall-clock time and CPU time of the whole system.

    offload is faster than openssl from 4896 bytes on (95 % interval 4193 to 5616; measured between 4096 and 16384 bytes).
    offload takes less CPU time of the whole system than openssl from 4896 bytes on (95 % interval 4193 to 5616; measured between 4096 and 16384 bytes).

    --- /etc/modules-load.d/brisk-crypto.conf
    # aes-128-cbc with af-alg:virtio_crypto_aes_cbc: worth it from 5616 bytes on, by wall-clock time and CPU time of the whole system.
    # offload is faster than openssl from 4896 bytes on (95 % interval 4193 to 5616; measured between 4096 and 16384 bytes).
    # offload takes less CPU time of the whole system than openssl from 4896 bytes on (95 % interval 4193 to 5616; measured between 4096 and 16384 bytes).
    # Measured: report.json.
    # A driver is not loaded when it is asked for by its name, virtio_crypto_aes_cbc.
    virtio_crypto

    --- source of the program
    /* The driver by its name: by the name of the algorithm the kernel chooses by priority.
       Data of less than 5616 bytes is better left to software. */
    struct sockaddr_alg address = {
        .salg_family = AF_ALG,
        .salg_type = "skcipher",
        .salg_name = "virtio_crypto_aes_cbc",
    };
    "##);
}

#[test]
fn consumers_that_take_what_the_kernel_prefers_need_nothing() {
    let answer = Case {
        compared: both([20.0; 5], [20.0; 5]),
        ..case(Route::Kernel(Consumer::Ipsec), DRIVER)
    }
    .answer();
    assert_eq!(answer.worth, Worth::From(16), "{answer:?}");
    assert_eq!(answer.pieces, []);
    assert!(answer.remarks[0].starts_with("There is nothing to configure: ipsec takes"));
}

/// Where the kernel prefers a driver that is not worth it.
#[test]
fn a_driver_that_is_chosen_and_slower_is_left_out() {
    let slower = || both([9e3; 5], VIRTIO_TIMES);
    let answer = |case: Case<'_>| {
        Case {
            compared: slower(),
            ..case
        }
        .answer()
    };
    let by_name = answer(case(AF_ALG, DRIVER));
    assert_eq!(by_name.worth, Worth::Not);
    let [piece] = &by_name.pieces[..] else {
        panic!("{by_name:?}")
    };
    insta::assert_snapshot!(format!("--- {}\n{}", piece.place, piece.text), @r"
    --- /etc/modprobe.d/brisk-crypto.conf
    # aes-128-cbc with af-alg:virtio_crypto_aes_cbc: not worth it, by wall-clock time and CPU time of the whole system.
    # offload is faster than openssl at none of the sizes measured, up to 65536 bytes. The lines cross at 252143 bytes, 95 % interval 243927 to 260932; that is an extrapolation: measure sizes there.
    # offload takes less CPU time of the whole system than openssl from 4896 bytes on (95 % interval 4193 to 5616; measured between 4096 and 16384 bytes).
    # Measured: report.json.
    # af-alg gets this driver by its priority, 150, as long as the module is loaded.
    blacklist virtio_crypto
    ");
    let any = answer(case(AF_ALG, "af-alg"));
    assert!(any.pieces[0].text.ends_with("\nblacklist virtio_crypto\n"));
    // AES-NI is what the kernel prefers: the driver does no harm.
    let aesni = Case {
        machine: as_captured(crate::crypto::captured::VIRTIO_AND_AESNI),
        ..case(AF_ALG, DRIVER)
    };
    assert_eq!(answer(aesni).pieces, []);
    // No difference is no harm, either.
    let alike = Case {
        compared: both(GENERIC, GENERIC),
        ..case(AF_ALG, DRIVER)
    };
    assert_eq!(alike.answer().pieces, []);
    assert_eq!(answer(case(Route::Openssl, "engine:afalg")).pieces, []);
}

#[test]
fn a_driver_with_a_threshold_gets_it() {
    let mut machine = machine(three());
    for driver in machine.kernel.drivers.iter_mut().flatten() {
        if driver.driver == "virtio_crypto_aes_cbc" {
            "omap_aes_driver".clone_into(&mut driver.module);
            // The device was at work when it was measured.
            driver.flags = Some(Flags::NEED_FALLBACK);
        }
    }
    let mut case_of = case(AF_ALG, DRIVER);
    case_of.machine = machine;
    // As little as is known of it otherwise, software may have done the work.
    assert_eq!(case_of.answer().worth, Worth::Unknown);
    let shared = format!(
        "{DRIVER} was in use; its device shares its interrupt line with usb1, so that interrupts \
         show nothing"
    );
    case_of.facts.proof = Some(shared);
    assert_eq!(case_of.answer().worth, Worth::Unknown);
    let proof = format!("{DRIVER} was in use, and its device raised 1.00 interrupts an operation");
    case_of.facts.proof = Some(proof);
    let answer = case_of.answer();
    let rule = answer.pieces.iter().find(|one| one.place.contains("udev"));
    assert!(
        rule.unwrap_or_else(|| panic!("{answer:?}"))
            .text
            .ends_with("DRIVER==\"omap-aes\", ATTR{fallback}=\"5616\"\n"),
        "{answer:?}"
    );
    let none = case(AF_ALG, DRIVER).answer();
    assert!(none.pieces.iter().all(|one| !one.place.contains("udev")));
}
