//! What the kernel and OpenSSL say of their implementations: /proc/crypto, netlink, openssl.
#![no_main]

use brisk_tools::crypto::kernel::{Config, Driver, parse_netlink};
use brisk_tools::crypto::libcrypto::{Configuration, CpuSettings, Engine, Provider, VersionInfo};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = parse_netlink(data);
    let text = String::from_utf8_lossy(data);
    for driver in Driver::parse(&text) {
        let _ = driver.takes_key(16);
    }
    let _ = Config::parse(&text);
    let _ = Configuration::parse(&text).is_fips();
    let _ = CpuSettings::parse(&text);
    let _ = Engine::parse(&text);
    let _ = Provider::parse(&text);
    let _ = VersionInfo::parse(&text);
});
