//! A QEMU of the user's, with its first serial port on brisk's pipes. Pure.

use std::collections::BTreeSet;
use std::ffi::OsString;

use brisk_vm::qemu::cmdline::{CommandLine, Item};

use super::start::{Channel, Launch};

/// Options that are left out: they would take standard input and output, or open a window.
const REPLACED: [&str; 5] = ["serial", "nographic", "monitor", "mon", "display"];

/// Options instead. Images are not written (`-snapshot`), as far as a drive does not say
/// `snapshot=off`.
const OWN: [&str; 9] = [
    "-snapshot",
    "-display",
    "none",
    "-monitor",
    "none",
    "-chardev",
    "stdio,id=brisk-shell,signal=off",
    "-serial",
    "chardev:brisk-shell",
];

/// A command line that cannot be measured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in super::super) enum QemuError {
    /// It goes into the background, where it is not a child.
    #[error("-daemonize has QEMU leave: take it out of the command line")]
    Daemon,
    /// It would write to an image.
    #[error(
        "-snapshot, by which images are not written, does not work with -blockdev {0}: make it \
         read-only=on, or give the image as -drive"
    )]
    Writes(String),
}

/// Whether the command line can be measured.
///
/// # Errors
/// If it leaves, or would write to an image.
pub(in super::super) fn check(words: &[String]) -> Result<(), QemuError> {
    let line = CommandLine::with_program(words);
    if line.has("daemonize") {
        return Err(QemuError::Daemon);
    }
    let writes = |item: &&Item| {
        let fields = item.fields().unwrap_or_default();
        // What cannot be read is for QEMU to refuse.
        !fields.is_empty() && fields.is_on("read-only") != Some(true)
    };
    match line.all("blockdev").find(writes) {
        Some(item) => Err(QemuError::Writes(item.text().into_owned())),
        None => Ok(()),
    }
}

pub(super) fn launch(words: &[String]) -> Launch {
    let line = CommandLine::with_program(words);
    let items = line.items().iter();
    let replaced = items.filter(|item| REPLACED.contains(&&*item.name));
    let left_out: BTreeSet<usize> = replaced
        .flat_map(|item| {
            let argument = item.argument.as_ref().map(|argument| argument.word);
            std::iter::once(item.word).chain(argument)
        })
        .collect();
    let theirs = words.iter().enumerate();
    let theirs = theirs.filter(|(place, _)| !left_out.contains(place));
    let theirs = theirs.map(|(_, word)| OsString::from(word));
    Launch {
        channel: Channel::Console,
        ends_by_signal: true,
        ..Launch::of(theirs.chain(OWN.map(OsString::from)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn its_serial_port_is_taken_and_the_rest_stays() {
        let line = "qemu-system-x86_64 -M q35 -nographic -serial mon:stdio --display gtk -m 1G \
                    -append console=ttyS0 disk.img";
        let launch = launch(&words(line));
        let left: Vec<_> = launch.words.iter().map(|word| word.to_str()).collect();
        let left: Option<Vec<_>> = left.into_iter().collect();
        let own = OWN.join(" ");
        let expected = "qemu-system-x86_64 -M q35 -m 1G -append console=ttyS0 disk.img";
        assert_eq!(left.unwrap().join(" "), format!("{expected} {own}"));
    }

    #[test]
    fn what_would_leave_or_write_is_refused() {
        let checked = |line: &str| check(&words(line));
        assert_eq!(checked("qemu -daemonize"), Err(QemuError::Daemon));
        let writes = "driver=file,node-name=a,filename=a";
        let error = Err(QemuError::Writes(writes.into()));
        assert_eq!(checked(&format!("qemu -blockdev {writes}")), error);
        let reads = format!("qemu -blockdev {writes},read-only=on -drive file=b");
        assert_eq!(checked(&reads), Ok(()));
    }
}
