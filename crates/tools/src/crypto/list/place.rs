//! Where an implementation runs: on the CPU, or on a device. Pure.

use serde::{Serialize, Serializer};

use crate::crypto::kernel::{Driver, Flags, Modules, glob::matches};

/// Where an implementation runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// On the CPU, in a thread that may not be the caller's.
    Cpu,
    /// On a device.
    Device,
    /// Nothing says.
    Unknown,
}

impl Place {
    /// For people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "CPU",
            Self::Device => "device",
            Self::Unknown => "unknown",
        }
    }
}

/// Implementations of one kind.
#[derive(Debug, PartialEq, Eq)]
pub struct Family {
    /// Pattern of names of implementations; `*` stands for anything.
    pub pattern: &'static str,
    /// Where they run.
    pub place: Place,
    /// What runs them: a device, or instructions of the CPU.
    pub by: &'static str,
    /// Flags that the source gives all of them, for kernels that do not tell them: of those that
    /// consumers look at, and without `ASYNC`, which `/proc/crypto` shows.
    pub flags: Option<Flags>,
}

const ALLOCATES: Option<Flags> = Some(Flags::ALLOCATES_MEMORY);
const ALLOCATES_ALONE: Option<Flags> = Some(Flags::ALLOCATES_MEMORY.with(Flags::KERN_DRIVER_ONLY));

const fn device(pattern: &'static str, by: &'static str, flags: Option<Flags>) -> Family {
    Family {
        pattern,
        place: Place::Device,
        by,
        flags,
    }
}

const fn cpu(pattern: &'static str, by: &'static str) -> Family {
    Family {
        pattern,
        place: Place::Cpu,
        by,
        flags: Some(Flags(0)),
    }
}

/// Kinds of implementations; the first that fits counts, so that `-sun8i-ce`, a device, comes before
/// `-ce`, the instructions of Armv8. Names and flags are those of `cra_driver_name` and `cra_flags`
/// below `drivers/crypto`, `arch/*/crypto` and `crypto` of Linux 6.1 to 6.12.
pub const FAMILIES: &[Family] = &[
    device("virtio_crypto*", "virtio-crypto", ALLOCATES),
    device("qat_*", "Intel QAT", ALLOCATES),
    device("*-ccp", "AMD CCP", ALLOCATES_ALONE),
    device("ccp-*", "AMD CCP", ALLOCATES_ALONE),
    device("*-caam*", "NXP CAAM", ALLOCATES_ALONE),
    device("mv-*", "Marvell CESA", ALLOCATES_ALONE),
    device("safexcel-*", "Inside Secure SafeXcel", ALLOCATES_ALONE),
    device("*-iproc", "Broadcom SPU", ALLOCATES_ALONE),
    device("n5_*", "Cavium Nitrox", ALLOCATES),
    device("*-chcr", "Chelsio", ALLOCATES),
    device("cvm-*", "Cavium CPT", None),
    device("cpt_*", "Marvell CPT", None),
    device("*-sun4i-ss", "Allwinner", None),
    device("*-sun8i-*", "Allwinner", None),
    device("*-rk", "Rockchip", None),
    device("rk-*", "Rockchip", None),
    device("hisi_*", "HiSilicon", None),
    device("*-qce", "Qualcomm", None),
    device("*-omap", "TI OMAP", None),
    device("*-sa2ul", "TI SA2UL", None),
    device("stm32-*", "STM32", None),
    device("atmel-*", "Atmel", None),
    device("*-dcp", "NXP DCP", None),
    device("*-sahara", "NXP Sahara", None),
    device("*-talitos*", "Freescale SEC", None),
    device("*-ppc4xx", "AMCC 4xx", None),
    device("*-ccree", "Arm CryptoCell", None),
    device("*-s5p", "Samsung", None),
    device("*-tegra", "NVIDIA Tegra", None),
    device("*-gxl", "Amlogic", None),
    device("*-geode", "AMD Geode", None),
    device("zynqmp-*", "Xilinx ZynqMP", None),
    device("starfive-*", "StarFive", None),
    device("aspeed-*", "ASPEED", None),
    device("artpec6-*", "Axis", None),
    device("keembay-*", "Intel Keem Bay", None),
    device("*-ixp4xx", "Intel IXP4xx", None),
    device("*eip93*", "Inside Secure EIP93", None),
    device("*-nx", "IBM NX", None),
    device("n2_*", "SPARC N2", None),
    cpu("*-aesni*", "AES-NI"),
    cpu("*-vaes*", "VAES"),
    cpu("*-padlock*", "VIA PadLock"),
    cpu("*-avx512*", "AVX-512"),
    cpu("*-avx2*", "AVX2"),
    cpu("*-avx*", "AVX"),
    cpu("*-ssse3*", "SSSE3"),
    cpu("*-sse*", "SSE"),
    cpu("*-simd", "SIMD"),
    cpu("*-clmulni*", "PCLMULQDQ"),
    cpu("*-pclmul*", "PCLMULQDQ"),
    cpu("*-ni", "SHA-NI"),
    cpu("*-ce", "Armv8 Crypto Extensions"),
    cpu("*-ce-*", "Armv8 Crypto Extensions"),
    cpu("*-neon*", "NEON"),
    cpu("*-arm64*", "arm64"),
    cpu("*-arm", "arm"),
    cpu("*-s390", "CPACF"),
    cpu("*-vx", "vector facility"),
    cpu("p8_*", "POWER8"),
    cpu("p10-*", "POWER10"),
    cpu("*-riscv64*", "RISC-V vector"),
    cpu("*-x86_64*", "x86-64"),
    cpu("*-asm", "assembler"),
    cpu("*-fixed-time", "C, constant time"),
    cpu("*-generic", "C"),
    cpu("*-lib", "the kernel's library"),
];

/// Where an implementation runs, and by what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Runs {
    /// Where.
    pub place: Place,
    /// By what, if it is known.
    pub by: Option<&'static str>,
    /// Flags that its source gives it, if they are known.
    pub flags: Option<Flags>,
}

impl Runs {
    /// Where an implementation runs: by its name, those of its parts if it is a template, its flags,
    /// or the place of its module in the kernel's source.
    #[must_use]
    pub fn of(driver: &Driver, modules: &Modules) -> Self {
        let parts = || driver.driver.split(['(', ')', ',']);
        let whole = std::iter::once(&*driver.driver).chain(parts());
        let families: Vec<_> = whole.filter_map(family).collect();
        let on_device = families
            .iter()
            .find(|family| family.place == Place::Device)
            .or(families.first());
        if let Some(family) = on_device {
            return Self {
                place: family.place,
                by: Some(family.by),
                flags: family.flags,
            };
        }
        let alone = driver
            .flags
            .is_some_and(|flags| !flags.common(Flags::KERN_DRIVER_ONLY).is_empty());
        let path = modules.path(&driver.module).unwrap_or_default();
        let place = match () {
            () if alone || modules.is_of_device(&driver.module) => Place::Device,
            () if path.contains("arch/") || path.starts_with("kernel/crypto/") => Place::Cpu,
            () => Place::Unknown,
        };
        Self {
            place,
            by: None,
            flags: None,
        }
    }

    /// For people: `CPU: AES-NI`.
    #[must_use]
    pub fn text(self) -> String {
        match self.by {
            Some(by) => format!("{}: {by}", self.place.name()),
            None => self.place.name().to_owned(),
        }
    }
}

impl Serialize for Runs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value = serde_json::json!({ "on": self.place.name(), "by": self.by });
        value.serialize(serializer)
    }
}

fn family(name: &str) -> Option<&'static Family> {
    // Internal implementations have two underscores before the name.
    let name = name.trim_start_matches('_');
    FAMILIES.iter().find(|family| matches(family.pattern, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(name: &str) -> String {
        let driver = Driver {
            driver: name.into(),
            ..Driver::default()
        };
        Runs::of(&driver, &Modules::default()).text()
    }

    #[test]
    fn devices_and_instructions_are_told_apart() {
        for (name, text) in [
            ("virtio_crypto_aes_cbc", "device: virtio-crypto"),
            ("qat_aes_cbc", "device: Intel QAT"),
            ("cbc-aes-ccp", "device: AMD CCP"),
            ("cbc-aes-caam-qi2", "device: NXP CAAM"),
            ("cbc-aes-sun8i-ce", "device: Allwinner"),
            ("cbc-aes-ce", "CPU: Armv8 Crypto Extensions"),
            ("cbc-aes-padlock", "CPU: VIA PadLock"),
            ("cbc-aes-aesni", "CPU: AES-NI"),
            ("__cbc-aes-aesni", "CPU: AES-NI"),
            ("cryptd(__xts-aes-aesni)", "CPU: AES-NI"),
            ("xts-aes-vaes-avx10_256", "CPU: VAES"),
            ("sha256-ni", "CPU: SHA-NI"),
            ("cbc(aes-generic)", "CPU: C"),
            ("cbc(ecb(aes-fixed-time))", "CPU: C, constant time"),
            ("gcm_base(ctr-aes-aesni,ghash-clmulni)", "CPU: AES-NI"),
            (
                "authenc(hmac(sha256-generic),virtio_crypto_aes_cbc)",
                "device: virtio-crypto",
            ),
            ("n5_cbc(aes)", "device: Cavium Nitrox"),
            ("something-new", "unknown"),
        ] {
            assert_eq!(runs(name), text, "{name}");
        }
    }

    #[test]
    fn a_flag_tells_devices_whose_names_are_not_known() {
        let driver = Driver {
            driver: "something-new".into(),
            flags: Some(Flags::KERN_DRIVER_ONLY),
            ..Driver::default()
        };
        let runs = Runs::of(&driver, &Modules::default());
        assert_eq!(runs.place, Place::Device);
    }
}
