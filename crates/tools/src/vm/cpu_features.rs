//! Features of the CPU that a guest sees: one that goes on where they are fewer executes instructions
//! that are not there. With the model `host` under KVM they are those of the host's CPU, of its
//! microcode and of the kernel's KVM, and QEMU does not compare them.

use std::collections::BTreeMap;
use std::path::Path;

use brisk_vm::qemu::control::{self, Control};
use serde_json::{Value, json};

use super::error::Error;

/// Bits of features, by the leaf and register of CPUID in Intel's notation, such as
/// `CPUID.(EAX=07H,ECX=0):EBX`.
pub(super) type CpuFeatures = BTreeMap<String, u32>;

/// Features that the guest sees, of its first CPU; none if this QEMU does not tell. When the channel's
/// time limit is over, `wait` decides whether to wait as long again.
pub(super) fn cpu_features(
    qmp: &mut Control<'_>,
    wait: &mut dyn FnMut() -> bool,
) -> Result<CpuFeatures, control::Error> {
    let cpus = qmp.execute_while("query-cpus-fast", &json!(null), wait)?;
    let arguments = json!({ "path": cpus[0]["qom-path"], "property": "feature-words" });
    match qmp.execute_while("qom-get", &arguments, wait) {
        Ok(words) => Ok(parse(&words)),
        Err(control::Error::Refused { .. }) => Ok(CpuFeatures::new()),
        Err(error) => Err(error),
    }
}

/// Reads QEMU's `X86CPUFeatureWordInfo` of each word.
fn parse(words: &Value) -> CpuFeatures {
    let words = words.as_array().into_iter().flatten();
    let word = |word: &Value| {
        let leaf = word["cpuid-input-eax"].as_u64()?;
        let register = word["cpuid-register"].as_str()?;
        let bits = u32::try_from(word["features"].as_u64()?).ok()?;
        let name = match word["cpuid-input-ecx"].as_u64() {
            Some(subleaf) => format!("CPUID.(EAX={leaf:02X}H,ECX={subleaf}):{register}"),
            None => format!("CPUID.{leaf:02X}H:{register}"),
        };
        Some((name, bits))
    };
    words
        .filter_map(word)
        .filter(|(_, bits)| *bits != 0)
        .collect()
}

/// Refuses features that an image's guest saw, and that this host does not give.
pub(super) fn have_all(path: &Path, then: &CpuFeatures, now: &CpuFeatures) -> Result<(), Error> {
    let lost = lost(then, now);
    if lost.is_empty() {
        return Ok(());
    }
    Err(Error::Unlike {
        path: path.to_owned(),
        reason: format!(
            "its guest may use features of the CPU that it would not have here, {}: boot this host \
             with the microcode, kernel and firmware settings that it had; if you know that the \
             guest does without, say so with --accept-cpu",
            lost.join(", ")
        ),
    })
}

/// Bits that are not there any more, such as `CPUID.07H:EBX[11]`.
fn lost(then: &CpuFeatures, now: &CpuFeatures) -> Vec<String> {
    let words = then.iter().filter_map(|(name, bits)| {
        let lost = bits & !now.get(name).copied().unwrap_or(0);
        let bits = (0..u32::BITS).filter(|bit| lost >> bit & 1 == 1);
        let bits: Vec<_> = bits.map(|bit| bit.to_string()).collect();
        (!bits.is_empty()).then(|| format!("{name}[{}]", bits.join(",")))
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_that_are_lost_are_named_as_in_manuals() {
        // QEMU's answer, shortened.
        let then = parse(&json!([
            {"cpuid-register": "EDX", "cpuid-input-eax": 1, "features": 0x178b_fbff},
            {"cpuid-input-ecx": 0, "cpuid-register": "EBX", "cpuid-input-eax": 7, "features": 0x810},
            {"cpuid-register": "EDX", "cpuid-input-eax": 2_147_483_649_u64, "features": 0x2010_0800},
            {"cpuid-register": "ECX", "cpuid-input-eax": 1, "features": 0},
            {"cpuid-register": "EAX", "features": 1},
            {"cpuid-register": "EAX", "cpuid-input-eax": 6, "features": -1},
        ]));
        assert_eq!(then.len(), 3, "{then:?}");
        assert_eq!(lost(&then, &then), [""; 0]);
        let mut now = then.clone();
        now.insert("CPUID.(EAX=07H,ECX=0):EBX".to_owned(), 0x1000);
        now.remove("CPUID.80000001H:EDX");
        let names = [
            "CPUID.(EAX=07H,ECX=0):EBX[4,11]",
            "CPUID.80000001H:EDX[11,20,29]",
        ];
        assert_eq!(lost(&then, &now), names);
        // More are no loss, and an image without any was made before they were noted.
        assert_eq!(lost(&CpuFeatures::new(), &now), [""; 0]);
        let refused = have_all(Path::new("a.brisk"), &then, &now).unwrap_err();
        assert!(refused.to_string().contains("EBX[4,11], "), "{refused}");
    }
}
