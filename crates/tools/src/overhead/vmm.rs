//! Facts about the QEMU of a target, from its command line.

use std::path::Path;

use brisk_vm::hardware::{Backend, GuestHardware};

/// Accelerators that QEMU tries, with commas.
pub(super) const ACCELERATORS: &str = "accelerators";
/// Whether a disk ignores flushes.
pub(super) const UNSAFE_CACHE: &str = "unsafe cache";
/// Names of all facts.
pub(super) const NAMES: [&str; 2] = [ACCELERATORS, UNSAFE_CACHE];

/// Whether a QEMU with these accelerators, as in the fact, emulates the processor: its own choice,
/// if nothing is said, is TCG.
pub(super) fn is_emulated(accelerators: &str) -> bool {
    !accelerators.split(',').any(|name| name == "kvm")
}

/// Facts about the QEMU among some processes; none if there is none.
pub(super) fn facts(processes: &[u32]) -> Vec<(String, String)> {
    let guests = processes
        .iter()
        .filter_map(|pid| GuestHardware::of_process(Path::new("/"), *pid).ok());
    guests.flat_map(|guest| of_guest(&guest)).collect()
}

fn of_guest(guest: &GuestHardware) -> Vec<(String, String)> {
    let mut facts = vec![(ACCELERATORS.to_owned(), guest.accelerators.join(","))];
    if guest.backends.iter().any(ignores_flushes) {
        facts.push((UNSAFE_CACHE.to_owned(), "yes".to_owned()));
    }
    facts
}

/// `cache=unsafe` of `-drive` is `cache.no-flush=on` of `-blockdev` (qemu(1)).
fn ignores_flushes(backend: &Backend) -> bool {
    let is = |name: &str, values: &[&str]| {
        let value = backend.properties.get(name);
        value.is_some_and(|value| values.contains(&&**value))
    };
    is("cache", &["unsafe"]) || is("cache.no-flush", &["on", "true"])
}

#[cfg(test)]
mod tests {
    use brisk_vm::qemu::cmdline::CommandLine;

    use super::*;

    fn found(line: &str) -> Vec<(String, String)> {
        let words: Vec<_> = line.split(' ').collect();
        of_guest(&GuestHardware::of_arguments(&CommandLine::with_program(
            &words,
        )))
    }

    #[test]
    fn accelerator_and_cache_are_read_in_all_spellings() {
        let accelerators = |names: &str| ("accelerators".to_owned(), names.to_owned());
        let unsafe_cache = ("unsafe cache".to_owned(), "yes".to_owned());
        let plain = found("qemu-system-x86_64 -accel tcg -drive file=a,cache=none");
        assert_eq!(plain, [accelerators("tcg")]);
        let unsafe_lines = [
            "qemu-system-x86_64 -machine q35,accel=kvm -drive file=a,cache=unsafe",
            "qemu-system-x86_64 -enable-kvm -blockdev driver=file,node-name=a,filename=a,cache.no-flush=on",
        ];
        for line in unsafe_lines {
            assert_eq!(
                found(line),
                [accelerators("kvm"), unsafe_cache.clone()],
                "{line}"
            );
        }
    }
}
