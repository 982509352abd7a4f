//! Workloads: shell text and files that are the same for every target. Pure.

use super::kit::Kit;

/// Options of the compiler. The units of the kit are parts of a kernel.
pub const FLAGS: &str = "-O2 -w -c -std=gnu11 -m64 -mcmodel=kernel -mno-red-zone -mno-sse -mno-mmx \
                         -mno-80387 -fno-pie -fno-common -fno-strict-aliasing \
                         -fno-stack-protector -fno-asynchronous-unwind-tables -fshort-wchar";

/// Something that is run in every target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Workload {
    /// Compiles units of the kit one after another.
    Compile(Kit),
    /// A command of the user's.
    Command {
        /// Text for a shell.
        command: String,
        /// Text for a shell that succeeds if the command did what it should.
        check: Option<String>,
    },
}

impl Workload {
    /// Files that every target gets into its work directory: name and content.
    pub(super) fn files(&self) -> &[(String, Vec<u8>)] {
        match self {
            Self::Compile(kit) => &kit.units,
            Self::Command { .. } => &[],
        }
    }

    /// Shell text that says, in lines of `fact NAME VALUE`, which tools a target uses for it.
    pub(super) const fn tools(&self) -> &'static str {
        match self {
            Self::Compile(_) => COMPILER,
            Self::Command { .. } => "",
        }
    }

    /// Shell text of the work itself, in the work directory; its status is that of the work.
    pub(super) fn work(&self) -> String {
        match self {
            Self::Compile(kit) => {
                let names = kit
                    .units
                    .iter()
                    .map(|(name, _)| name.trim_end_matches(".i"));
                let names = names.collect::<Vec<_>>().join(" ");
                format!(
                    "s=0; for u in {names}; do gcc {FLAGS} \"$u.i\" -o \"out/$u.o\" </dev/null \
                     2>out/errors || {{ s=$?; break; }}; done; (exit $s)"
                )
            }
            Self::Command { command, .. } => {
                format!(
                    "sh -c {} </dev/null >out/output 2>out/errors",
                    quoted(command)
                )
            }
        }
    }

    /// Shell text that proves the work, after its end: lines of `proof HASH NAME`, and the status.
    pub(super) fn proof(&self) -> String {
        match self {
            Self::Compile(_) => {
                "(cd out && for o in *.o; do h=$(sha256sum <\"$o\") && say \"proof ${h%% *} $o\"; \
                 done)"
                    .to_owned()
            }
            Self::Command { check, .. } => check.as_ref().map_or(":".to_owned(), |check| {
                format!("sh -c {} </dev/null >/dev/null 2>out/errors", quoted(check))
            }),
        }
    }
}

/// Hashes of the compiler and of the assembler that gcc calls.
const COMPILER: &str = "\
say \"fact compiler gcc $(gcc -dumpfullversion)\"
for p in cc1 as; do f=$(gcc -print-prog-name=$p); case $f in */*) ;; *) f=$(command -v $f);; esac; \
h=$(sha256sum <\"$f\"); say \"fact $p ${h%% *}\"; done
";

fn quoted(text: &str) -> String {
    brisk_host::program::quote(text.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_quoted_and_its_check_is_the_proof() {
        let workload = Workload::Command {
            command: "make -s 'a b'".into(),
            check: Some("test -e x".into()),
        };
        assert_eq!(
            workload.work(),
            r"sh -c 'make -s '\''a b'\''' </dev/null >out/output 2>out/errors"
        );
        assert_eq!(
            workload.proof(),
            "sh -c 'test -e x' </dev/null >/dev/null 2>out/errors"
        );
        assert!(workload.files().is_empty());
    }
}
