//! The command line of a rehearsal: that of the target, and the words that make the VM talk. Pure.

use brisk_host::boot_entries::words;
use serde::Serialize;

use super::goal::Goal;

/// The serial port that brisk reads.
const CONSOLE: &str = "console=ttyS0,115200";
/// The trace event of a program that is executed.
const EVENT: &str = "sched:sched_process_exec";

/// Words that a rehearsed command line has and the target's has not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Departure {
    /// The words.
    pub words: String,
    /// Reason for them.
    pub why: &'static str,
}

/// A command line for a rehearsal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rehearsed {
    /// All of it.
    pub(super) line: String,
    /// How it departs from the target's.
    pub(super) departures: Vec<Departure>,
}

/// Adds the words. They come before `--`, behind which words are those of init
/// (`parse_args` of `kernel/params.c`).
#[must_use]
pub(super) fn rehearsed(cmdline: &str, goal: &Goal) -> Rehearsed {
    let all = words(cmdline);
    let end = all.iter().position(|word| *word == "--");
    let (of_kernel, of_init) = all.split_at(end.unwrap_or(all.len()));
    let departures = departures(of_kernel, goal);
    let added = departures.iter().map(|one| &*one.words);
    let line: Vec<_> = of_kernel
        .iter()
        .copied()
        .chain(added)
        .chain(of_init.iter().copied())
        .collect();
    Rehearsed {
        line: line.join(" "),
        departures,
    }
}

/// The last value of an option of the kernel.
pub(super) fn last<'a>(words: &[&'a str], name: &str) -> Option<&'a str> {
    let mut values = words.iter().rev();
    values.find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

fn departures(of_kernel: &[&str], goal: &Goal) -> Vec<Departure> {
    let mut list = Vec::new();
    let mut add = |words: &str, why| {
        list.push(Departure {
            words: words.to_owned(),
            why,
        });
    };
    // The last one is /dev/console, to which initial RAM disks and init write.
    let is_console = |value: &str| value == "ttyS0" || value.starts_with("ttyS0,");
    if !last(of_kernel, "console").is_some_and(is_console) {
        add(CONSOLE, "the console is what brisk can read");
    }
    if !of_kernel
        .iter()
        .any(|word| word.starts_with("earlyprintk="))
    {
        add(
            "earlyprintk=ttyS0,115200",
            "a kernel that fails early says so there, such as one that cannot be decompressed",
        );
    }
    if !of_kernel.contains(&"ignore_loglevel") {
        add(
            "ignore_loglevel",
            "all messages are seen, whatever quiet and loglevel= hide",
        );
    }
    if !of_kernel.contains(&"no_timer_check") {
        // `check_timer` of arch/x86/kernel/apic/io_apic.c, which panics, counts ticks while it spins.
        add(
            "no_timer_check",
            "a VM on a busy host may look as if its timer were broken",
        );
    }
    let events = match last(of_kernel, "trace_event") {
        Some(others) => format!("trace_event={others},{EVENT} tp_printk"),
        None => format!("trace_event={EVENT} tp_printk"),
    };
    add(
        &events,
        "the kernel says which programs it executes: so the root's init is known from that of the \
         initial RAM disk",
    );
    if goal.is_of_systemd() {
        add(
            "systemd.log_target=kmsg systemd.status_unit_format=combined printk.devkmsg=on",
            "systemd says on the console which units it has started, by their names",
        );
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: &str = "console=ttyS0,115200 earlyprintk=ttyS0,115200 ignore_loglevel \
                         no_timer_check trace_event=sched:sched_process_exec tp_printk";

    fn line(cmdline: &str) -> String {
        rehearsed(cmdline, &Goal::Init).line
    }

    #[test]
    fn the_targets_words_come_first_and_unchanged() {
        assert_eq!(
            line("root=/dev/vda1 ro quiet"),
            format!("root=/dev/vda1 ro quiet {USUAL}")
        );
        assert_eq!(line("a=\"b  c\""), format!("a=\"b  c\" {USUAL}"));
        assert_eq!(line(""), USUAL);
    }

    #[test]
    fn words_of_init_stay_behind() {
        assert_eq!(line("ro -- single"), format!("ro {USUAL} -- single"));
    }

    #[test]
    fn nothing_is_added_twice() {
        let console = "console=tty0 console=ttyS0 earlyprintk=vga ignore_loglevel no_timer_check";
        let events = "trace_event=sched:sched_process_exec tp_printk";
        assert_eq!(line(console), format!("{console} {events}"));
        // /dev/console is the last one.
        let other = line("console=ttyS0,9600n8 console=tty0");
        assert!(
            other.contains("console=tty0 console=ttyS0,115200 "),
            "{other}"
        );
        let other = line("console=ttyS01");
        assert!(other.contains(" console=ttyS0,115200 "), "{other}");
        // The last trace_event= is what the kernel takes.
        let traced = line("trace_event=irq:*");
        assert!(
            traced.ends_with("trace_event=irq:*,sched:sched_process_exec tp_printk"),
            "{traced}"
        );
    }

    #[test]
    fn systemd_talks_where_it_is_waited_for() {
        let unit = Goal::Unit("multi-user.target".to_owned());
        for goal in [Goal::Userspace, unit] {
            assert!(rehearsed("ro", &goal).line.ends_with(" printk.devkmsg=on"));
        }
        assert!(!line("ro").contains("systemd"));
    }

    #[test]
    fn each_departure_has_a_reason() {
        let all = rehearsed("root=/dev/sda1", &Goal::Userspace);
        for departure in &all.departures {
            assert!(all.line.contains(&departure.words) && !departure.why.is_empty());
        }
        assert_eq!(all.departures.len(), 6);
    }
}
