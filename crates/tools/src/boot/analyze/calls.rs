//! Activities whose begin and end are logged: initcalls (`initcall_debug`, `init/main.c`), probes
//! of drivers (`drivers/base/dd.c`) and the steps of brisk's init.

use brisk_measure::{Clock, Timeline};

use super::clock::Placed;
use super::phases::Frame;

/// Prefix of init's lines.
pub(super) const INIT: &str = "brisk: ";
/// Most activities of an untrusted log.
const MOST: usize = 20_000;

/// A line of the kernel about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Call<'a> {
    /// `calling  NAME+0x0/0x10 [MODULE] @ TASK`
    Begin {
        name: &'a str,
        module: Option<&'a str>,
        task: u64,
    },
    /// `initcall NAME+0x0/0x10 [MODULE] returned 0 after 12 usecs`
    End {
        name: &'a str,
        module: Option<&'a str>,
        micros: u64,
    },
    /// `probe of DEVICE returned 0 after 12 usecs`
    Probe { device: &'a str, micros: u64 },
}

impl<'a> Call<'a> {
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        if let Some(rest) = text.strip_prefix("calling  ") {
            let (call, task) = rest.rsplit_once(" @ ")?;
            let (name, module) = function(call)?;
            let task = task.trim_end().parse().ok()?;
            return Some(Self::Begin { name, module, task });
        }
        if let Some(rest) = text.strip_prefix("initcall ") {
            let (call, micros) = returned(rest)?;
            let (name, module) = function(call)?;
            return Some(Self::End {
                name,
                module,
                micros,
            });
        }
        let (device, micros) = returned(text.strip_prefix("probe of ")?)?;
        Some(Self::Probe { device, micros })
    }
}

/// Whether a line is init's first one: what follows in the log is init's.
pub(super) fn is_of_init(text: &str) -> bool {
    text.starts_with(INIT)
}

/// Parses `CALL returned 0 after 12 usecs`, perhaps with a complaint behind.
fn returned(text: &str) -> Option<(&str, u64)> {
    let (call, rest) = text.split_once(" returned ")?;
    let (_, rest) = rest.split_once(" after ")?;
    let (micros, _) = rest.split_once(" usecs")?;
    Some((call, micros.parse().ok()?))
}

/// Parses `NAME+0x0/0x10 [MODULE]`; without symbols the name is an address.
fn function(text: &str) -> Option<(&str, Option<&str>)> {
    let (call, module) = match text.split_once(" [") {
        Some((call, module)) => (call, module.strip_suffix(']')),
        None => (text, None),
    };
    let name = call.split('+').next()?.trim();
    (!name.is_empty()).then_some((name, module))
}

/// A line `brisk: begin WHAT` or `brisk: end WHAT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step<'a> {
    pub(super) begins: bool,
    pub(super) what: &'a str,
}

impl<'a> Step<'a> {
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let (verb, what) = text.strip_prefix(INIT)?.split_once(' ')?;
        let begins = match verb {
            "begin" => true,
            "end" => false,
            _ => return None,
        };
        let what = what.trim_end();
        Some(Self { begins, what })
    }

    /// Name and kind of the step; a module has its name instead of its path.
    fn title(&self) -> (String, &'static str) {
        let (what, subject) = self.what.split_once(' ').unwrap_or((self.what, ""));
        match what {
            "module" => {
                let file = subject.rsplit('/').next().unwrap_or(subject);
                let name = file.split(".ko").next().unwrap_or(file);
                (format!("module {name}"), "module")
            }
            "command" => (self.what.to_owned(), "command"),
            "release" => ("release the root".to_owned(), "shutdown"),
            _ => (self.what.to_owned(), "userspace"),
        }
    }
}

/// An activity that has begun.
struct Open<'a> {
    key: (&'a str, Option<&'a str>),
    at: u64,
}

/// Adds all activities to the timeline.
pub(super) fn draw(
    records: &[Placed],
    frame: &Frame,
    clock: Clock,
    timeline: &mut Timeline,
    notes: &mut Vec<String>,
) {
    let mut calls: Vec<Open<'_>> = Vec::new();
    let mut steps: Vec<Open<'_>> = Vec::new();
    let mut drawn = 0;
    for record in records {
        if drawn >= MOST {
            notes.push(format!(
                "Only the first {MOST} initcalls and steps are shown."
            ));
            break;
        }
        drawn += 1;
        match Call::parse(&record.text) {
            Some(Call::Begin { name, module, .. }) => calls.push(Open {
                key: (name, module),
                at: record.at,
            }),
            Some(Call::End {
                name,
                module,
                micros,
            }) => {
                let start =
                    close(&mut calls, (name, module)).unwrap_or_else(|| since(record.at, micros));
                let kind = if module.is_some() {
                    "module"
                } else {
                    "initcall"
                };
                timeline.whole_activity(name, kind, start, record.at, clock);
            }
            Some(Call::Probe { device, micros }) => {
                // Before the kernel has a fine clock it counts ticks; a probe does not begin
                // before the initcall that it is part of.
                let outer = calls.last().map_or(0, |call| call.at);
                let start = since(record.at, micros).max(outer);
                let name = format!("probe {device}");
                timeline.whole_activity(name, "probe", start, record.at, clock);
            }
            None => drawn -= 1,
        }
        if let Some(step) = Step::parse(&record.text) {
            drawn += 1;
            if step.begins {
                steps.push(Open {
                    key: (step.what, None),
                    at: record.at,
                });
            } else if let Some(start) = close(&mut steps, (step.what, None)) {
                draw_step(&step, (start, record.at), frame, clock, timeline);
            }
        }
    }
    for open in calls.iter().chain(&steps) {
        notes.push(format!("{} began and did not end.", open.key.0));
    }
}

fn since(at: u64, micros: u64) -> u64 {
    at.saturating_sub(micros.saturating_mul(1000))
}

/// Closes the last open activity of that name; the result is its start.
fn close<'a>(open: &mut Vec<Open<'a>>, key: (&'a str, Option<&'a str>)) -> Option<u64> {
    let place = open.iter().rposition(|open| open.key == key)?;
    Some(open.remove(place).at)
}

fn draw_step(
    step: &Step<'_>,
    span: (u64, u64),
    frame: &Frame,
    clock: Clock,
    timeline: &mut Timeline,
) {
    let (name, kind) = step.title();
    // Init's stamps say the same and better.
    if name == "command" && frame.command {
        return;
    }
    timeline.whole_activity(name, kind, span.0, span.1, clock);
    // The last of init's steps but one, which cannot log itself.
    if let Some(sent) = frame
        .sent
        .filter(|sent| step.what == "release" && *sent > span.1)
    {
        timeline.whole_activity("send the log", "shutdown", span.1, sent, clock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn calls_of_kernel_and_modules_are_read() {
        let begin = "calling  virtio_pci_init+0x0/0xff0 [virtio_pci] @ 54";
        let name = "virtio_pci_init";
        let module = Some("virtio_pci");
        let task = 54;
        assert_eq!(Call::parse(begin), Some(Call::Begin { name, module, task }));
        let end = "initcall acpi_init+0x0/0x4bd returned -19 after 40000 usecs";
        assert_eq!(
            Call::parse(end),
            Some(Call::End {
                name: "acpi_init",
                module: None,
                micros: 40_000
            })
        );
        let probe = "probe of 0000:00:02.0 returned 0 after 4945 usecs";
        assert_eq!(
            Call::parse(probe),
            Some(Call::Probe {
                device: "0000:00:02.0",
                micros: 4945
            })
        );
        for other in [
            "calling back",
            "initcall x blacklisted",
            "entering initcall level: late",
        ] {
            assert_eq!(Call::parse(other), None, "{other}");
        }
    }

    #[test]
    fn modules_are_named_without_their_path() {
        let step = Step::parse("brisk: begin module /lib/modules/virtio_pci.ko\n").unwrap();
        assert!(step.begins);
        assert_eq!(step.title().0, "module virtio_pci");
        assert_eq!(Step::parse("brisk: hello"), None);
        assert_eq!(Step::parse("brisk-init: no port"), None);
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in prop_oneof![
            any::<String>(),
            "(calling  |initcall |probe of |brisk: begin )[a-z+0-9 \\[\\]@]{0,30}( returned | after | usecs)*",
        ]) {
            let _ = Call::parse(&text);
            let _ = Step::parse(&text).map(|step| step.title());
        }
    }
}
