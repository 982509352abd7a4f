//! A guest that checks whether its memory is unchanged.

use std::fs;

use crate::machines::Machines;
use crate::running::Running;
use crate::wait::until;

/// Script for a guest that writes files in memory without end, checks their content, and counts: in
/// `/run/n` is the number of rounds, in `/run/bad` what was wrong.
pub const CHECK_MEMORY: &str = r#"
busybox mkdir -p /run; cd /run
cat > check <<'END'
n=0
while :; do
  n=$((n+1))
  for k in 0 1 2 3; do
    if test -e p$k && ! busybox md5sum -c -s s$k; then echo "p$k at $n" >> bad; fi
    busybox seq $((n*k)) $((n*k+1000)) > p$k
    busybox md5sum p$k > s$k
  done
  read last < n
  if test $last != $((n-1)); then echo "$last before $n" >> bad; fi
  echo $n > m; busybox mv m n; busybox sleep 0.02
done
END
echo 0 > n
busybox setsid sh check < /dev/null > /dev/null 2>&1 &
n=0; until test $n -gt 2; do busybox sleep 0.05; read n < n; done
cat /proc/sys/kernel/random/boot_id
"#;

/// Script that waits for one more round of [`CHECK_MEMORY`], and says what [`rounds`] reads.
pub const MEMORY_STATE: &str = "cat /proc/sys/kernel/random/boot_id; cd /run; read before < n; \
     n=$before; until test $n -gt $before; do busybox sleep 0.05; read n < n; done; echo $n; \
     if test -e bad; then cat bad; fi";

/// Rounds that a guest has made, by what [`MEMORY_STATE`] said of it. `boot` is what
/// [`CHECK_MEMORY`] said.
///
/// # Panics
/// If it is another guest, or its memory was not as it left it.
#[must_use]
#[track_caller]
pub fn rounds(state: &str, boot: &str) -> u64 {
    let rest = state.strip_prefix(boot);
    let rest = rest.unwrap_or_else(|| panic!("{state} {boot}"));
    rest.trim().parse().unwrap_or_else(|_| panic!("{rest}"))
}

/// A VM `a` that checks its memory.
#[derive(Debug)]
pub struct Checked {
    /// Directories of the VM.
    pub all: Machines,
    boot: String,
    rounds: u64,
}

impl Checked {
    /// Boots the VM. `words` are further options of its definition.
    #[must_use]
    #[track_caller]
    pub fn new(all: Machines, words: &[&str]) -> Self {
        all.boot("a", words);
        let boot = all.output("a", CHECK_MEMORY);
        Self {
            all,
            boot,
            rounds: 0,
        }
    }

    /// Asserts that the VM runs, that it is the guest that never lost a round, and that it makes
    /// progress.
    #[track_caller]
    pub fn is_well(&mut self) {
        let all = &self.all;
        assert_eq!((all.doing("a").as_str(), all.count()), ("running", 1));
        let rounds = rounds(&all.output("a", MEMORY_STATE), &self.boot);
        assert!(rounds > self.rounds, "{rounds} {}", self.rounds);
        self.rounds = rounds;
        let image = all.state_dir("a").join("a.brisk");
        assert!(!image.exists() && !image.with_extension("brisk.resuming").exists());
    }

    /// Starts a suspend, and waits until it has begun.
    #[must_use]
    #[track_caller]
    pub fn suspends(&self) -> Running {
        let log = self.all.state_dir("a").join("log");
        let count = || {
            let text = fs::read_to_string(&log).unwrap();
            text.matches("VM suspending").count()
        };
        let before = count();
        let run = self.all.vm(&["suspend", "a"]).spawn();
        until("it suspends", || (count() > before).then_some(()));
        run
    }
}
