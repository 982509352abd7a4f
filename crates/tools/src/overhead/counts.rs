//! What a target's own kernel counted during a run. Pure.

use super::metrics::COUNTS;

/// Shell text that defines `count_calls` and `count_rest`, which print what the kernel has counted
/// of the shell and of the processes that it has waited for, and of all processes. Only builtins are
/// used; what reading itself costs is not in the calls if these are read last before the work, and
/// first after it.
pub(super) const DEFINITIONS: &str = "\
count_calls() { r=; w=; while read -r n v; do case $n in syscr:) r=$v;; syscw:) w=$v;; esac; done \
2>/dev/null </proc/self/io; [ -z \"$r\" ] || say \"count calls $((r+w))\"; }
count_rest() { if read -r l </proc/self/stat; then l=${l##*) }; set -- $l; \
say \"count faults $(($8+$9))\"; say \"count major $((${10}+${11}))\"; fi; while read -r n v _; do \
case $n in processes) say \"count processes $v\";; ctxt) say \"count switches $v\";; esac; done \
</proc/stat; } 2>/dev/null
";

/// Names of the counts in the lines of the shell text, in the order of [`COUNTS`].
const NAMES: [&str; COUNTS.len()] = ["faults", "major", "calls", "processes", "switches"];

/// Counts so far, in the order of [`COUNTS`]; none for what a target does not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts([Option<u64>; COUNTS.len()]);

impl Counts {
    /// Takes a line of the shell text; whether it is one.
    pub(super) fn take(&mut self, line: &str) -> bool {
        let Some((name, value)) = line
            .strip_prefix("count ")
            .and_then(|text| text.split_once(' '))
        else {
            return false;
        };
        let place = NAMES.iter().position(|known| *known == name);
        if let Some(place) = place {
            self.0[place] = value.trim().parse().ok();
        }
        true
    }

    /// How many more there are than before.
    pub(super) fn since(&self, before: &Self) -> [Option<u64>; COUNTS.len()] {
        std::array::from_fn(|place| self.0[place]?.checked_sub(before.0[place]?))
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn lines_are_counted_and_others_are_left() {
        let (mut before, mut after) = (Counts::default(), Counts::default());
        assert!(before.take("count faults 10"));
        assert!(before.take("count calls 7"));
        assert!(after.take("count faults 25"));
        assert!(after.take("count unknown 1"));
        assert!(!after.take("begin 1"));
        assert_eq!(after.since(&before), [Some(15), None, None, None, None]);
        // A counter that went back counts nothing.
        assert_eq!(before.since(&after)[0], None);
    }

    #[test]
    fn a_shell_counts_what_its_children_do() {
        for shell in ["sh", "bash"] {
            let script = format!(
                "say() {{ echo \"$*\"; }}; {DEFINITIONS}\ncount_rest; count_calls; echo --; \
                 dd if=/dev/zero of=/dev/null bs=1 count=500 2>/dev/null; count_calls; count_rest"
            );
            let output = Command::new(shell).args(["-c", &script]).output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            let (before, after) = text.split_once("--\n").unwrap();
            let parse = |text: &str| {
                let mut counts = Counts::default();
                let all = text.lines().all(|line| counts.take(line));
                assert!(all, "{text}");
                counts
            };
            let counts = parse(after).since(&parse(before));
            let [faults, major, calls, processes, switches] = counts.map(Option::unwrap);
            // 500 reads and 500 writes, those with which dd starts, and a shell that reads the rest
            // of the counters byte by byte.
            assert!((1000..1300).contains(&calls), "{shell}: {calls}");
            assert!((20..2000).contains(&faults), "{shell}: {faults}");
            assert!(
                major < 100 && processes >= 1 && switches >= 1,
                "{shell}: {counts:?}"
            );
        }
    }
}
