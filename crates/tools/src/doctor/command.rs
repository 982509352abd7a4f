//! What a QEMU command line says about the boot it makes. Pure.

use std::ffi::OsString;

/// A QEMU command line, taken apart as far as findings need.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    /// Machine type with its options, lower case.
    pub machine: String,
    /// Value of -bios or of a flash drive.
    pub firmware: Option<String>,
    /// Kernel.
    pub kernel: Option<String>,
    /// The kernel's command line.
    pub append: String,
    /// Whether the machine has a serial port.
    pub serial: bool,
    /// Whether KVM is asked for.
    pub kvm: bool,
    /// Whether there are devices that nobody asked for (no -nodefaults).
    pub defaults: bool,
    /// Whether memory is taken from the host before the start.
    pub preallocated: bool,
}

impl Line {
    /// From the words, the program first or not.
    #[must_use]
    pub fn parse(words: &[OsString]) -> Self {
        let texts: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        let mut line = Self {
            machine: "pc".into(),
            serial: true,
            defaults: true,
            ..Self::default()
        };
        let mut serial_given = false;
        for (index, word) in texts.iter().enumerate() {
            let value = texts.get(index + 1).map_or("", |value| value);
            let Some(option) = word.strip_prefix('-') else {
                continue;
            };
            match option.trim_start_matches('-') {
                "M" | "machine" => {
                    let machine = value.strip_prefix("type=").unwrap_or(value);
                    line.kvm |= machine.contains("accel=kvm");
                    line.machine = machine.to_lowercase();
                }
                "bios" => line.firmware = Some(value.to_owned()),
                "drive" if value.contains("if=pflash") => {
                    line.firmware = Some(value.to_owned());
                }
                "kernel" => line.kernel = Some(value.to_owned()),
                "append" => line.append = value.to_owned(),
                "accel" => line.kvm |= value.starts_with("kvm"),
                "enable-kvm" => line.kvm = true,
                "nodefaults" => line.defaults = false,
                "serial" => {
                    serial_given = true;
                    line.serial = value != "none";
                }
                "nographic" => serial_given = true,
                "mem-prealloc" => line.preallocated = true,
                "object" if value.contains("prealloc=on") => line.preallocated = true,
                _ => {}
            }
        }
        if !line.defaults && !serial_given {
            line.serial = false;
        }
        line
    }

    /// The machine type without its options.
    #[must_use]
    pub fn machine_type(&self) -> &str {
        self.machine.split(',').next().unwrap_or_default()
    }

    /// Whether the kernel's command line has this parameter.
    #[must_use]
    pub fn has(&self, start: &str) -> bool {
        self.append
            .split_whitespace()
            .any(|word| word.starts_with(start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Line {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        Line::parse(&words)
    }

    #[test]
    fn defaults_are_those_of_qemu() {
        let line = parse("qemu-system-x86_64 -kernel /boot/vmlinuz");
        assert_eq!((line.machine_type(), line.serial), ("pc", true));
        assert!(line.defaults && !line.kvm);
    }

    #[test]
    fn options_are_read_with_one_dash_or_two() {
        let line = parse("q --machine q35,accel=kvm,hpet=off --nodefaults -append console=ttyS0");
        assert_eq!(line.machine_type(), "q35");
        assert!(line.kvm && !line.serial && line.has("console=ttyS0"));
        assert!(parse("q -nodefaults -serial stdio").serial);
        assert!(!parse("q -serial none").serial);
    }
}
