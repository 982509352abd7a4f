//! Parser of `virsh dominfo` in the C locale. Pure.

/// State of a domain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Info {
    /// UUID, which identifies a domain in every command of `virsh`.
    pub uuid: String,
    /// State, such as `shut off`.
    pub state: String,
    /// Whether it is defined when it does not run.
    pub persistent: bool,
    /// Whether it has a managed save, which would be restored instead of booting.
    pub managed_save: bool,
}

impl Info {
    /// Parses the output; missing fields are empty.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut info = Self::default();
        for line in text.lines() {
            let Some((name, value)) = line.split_once(':') else {
                continue;
            };
            let value = value.trim();
            match name.trim() {
                "UUID" => info.uuid = value.to_owned(),
                "State" => info.state = value.to_owned(),
                "Persistent" => info.persistent = value == "yes",
                "Managed save" => info.managed_save = value == "yes",
                _ => {}
            }
        }
        info
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of virsh 11.3.
    const OUTPUT: &str = "\
Id:             -
Name:           plain
UUID:           340d86d3-c3bf-4858-a1a7-6dc41bf08d7b
OS Type:        hvm
State:          shut off
CPU(s):         1
Max memory:     524288 KiB
Used memory:    524288 KiB
Persistent:     yes
Autostart:      disable
Autostart Once: disable
Managed save:   no
Security model: none
Security DOI:   0

";

    #[test]
    fn what_virsh_says_is_understood() {
        let info = Info::parse(OUTPUT);
        assert_eq!(info.state, "shut off");
        assert_eq!(info.uuid, "340d86d3-c3bf-4858-a1a7-6dc41bf08d7b");
        assert!(info.persistent && !info.managed_save);
        let saved = Info::parse(&OUTPUT.replace("save:   no", "save:   yes"));
        assert!(saved.managed_save);
    }

    #[test]
    fn other_text_says_nothing() {
        assert_eq!(Info::parse("error: x\n:\n"), Info::default());
    }
}
