//! External programs: search, execution and errors.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};

use rustix::process::geteuid;

use crate::files::in_memory;

/// Where distributions keep programs that are not in `PATH`, such as virtiofsd.
const LIBEXEC: [&str; 6] = [
    "/usr/local/libexec",
    "/usr/lib/qemu",
    "/usr/libexec",
    "/usr/libexec/qemu",
    "/usr/lib",
    "/usr/sbin",
];
/// How much of a failing program's stderr an error shows, in lines.
const TAIL_LINES: usize = 10;

/// An external program with its arguments.
#[derive(Debug, Clone)]
pub struct Program {
    path: PathBuf,
    args: Vec<OsString>,
    set: Vec<(OsString, OsString)>,
    unset: Vec<OsString>,
}

/// Reason why an external program failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It is not installed.
    #[error("`{name}` was found neither in PATH nor in {}", LIBEXEC.join(", "))]
    NotFound {
        /// Name of the program.
        name: String,
    },
    /// It could not be started.
    #[error("cannot run {command}")]
    Start {
        /// The shell-quoted command.
        command: String,
        /// Error of the system.
        source: io::Error,
    },
    /// It ran and failed.
    #[error("{command}: {status}{}", indented(stderr))]
    Failed {
        /// The shell-quoted command.
        command: String,
        /// Exit status.
        status: ExitStatus,
        /// The last lines of its stderr.
        stderr: String,
    },
}

impl Program {
    /// Finds a program by name in `PATH`, then in the libexec directories, then where `cargo
    /// install` puts programs.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] if there is no executable file of that name.
    pub fn find(name: &str) -> Result<Self, Error> {
        let path = env::var_os("PATH").unwrap_or_default();
        #[allow(deprecated, reason = "it was, for Windows' sake, until Rust 1.87")]
        let home = env::home_dir();
        // Root may have the home of the user who ran sudo, and is not to run that one's programs.
        let own = |home: &PathBuf| {
            let owner = home.metadata().map(|meta| meta.uid());
            owner.is_ok_and(|owner| owner == geteuid().as_raw())
        };
        let home = home.filter(own);
        Self::find_in(
            name,
            env::split_paths(&path)
                .chain(LIBEXEC.map(PathBuf::from))
                .chain(home.map(|home| home.join(".cargo/bin"))),
        )
    }

    /// Finds a program by name in the given directories.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`] if there is no executable file of that name.
    pub fn find_in(name: &str, dirs: impl IntoIterator<Item = PathBuf>) -> Result<Self, Error> {
        dirs.into_iter()
            .map(|dir| dir.join(name))
            .find(|path| executable(path))
            .map(Self::at)
            .ok_or_else(|| Error::NotFound {
                name: name.to_owned(),
            })
    }

    /// A program at a known path.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            args: Vec::new(),
            set: Vec::new(),
            unset: Vec::new(),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Runs it with a variable added to this process's environment.
    #[must_use]
    pub fn set(mut self, variable: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.set.push((variable.into(), value.into()));
        self
    }

    /// Runs it without some variables of this process's environment.
    #[must_use]
    pub fn unset(mut self, variables: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.unset.extend(variables.into_iter().map(Into::into));
        self
    }

    /// The command, for callers that start it themselves.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.args(&self.args);
        command.envs(self.set.iter().map(|(name, value)| (name, value)));
        for variable in &self.unset {
            command.env_remove(variable);
        }
        command
    }

    /// The command as a line that a shell would run.
    #[must_use]
    pub fn shell_quoted(&self) -> String {
        std::iter::once(self.path.as_os_str())
            .chain(self.args.iter().map(OsString::as_os_str))
            .map(quote)
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// Runs it to its end without stdin and returns what it wrote to stdout.
    ///
    /// # Errors
    ///
    /// [`Error::Start`] if it cannot be started, [`Error::Failed`] if it does not exit with 0.
    pub fn run(&self) -> Result<Vec<u8>, Error> {
        self.finish(self.command().stdin(Stdio::null()).output())
    }

    /// Runs it to its end with these bytes on stdin and returns what it wrote to stdout.
    ///
    /// # Errors
    ///
    /// As of [`Program::run`].
    pub fn run_with(&self, input: &[u8]) -> Result<Vec<u8>, Error> {
        let piped = || {
            // Not a pipe: the program may write before it has read all of it. In memory: there may
            // be passwords in it.
            let file = in_memory("input", input)?;
            self.command().stdin(file).output()
        };
        self.finish(piped())
    }

    fn finish(&self, output: io::Result<Output>) -> Result<Vec<u8>, Error> {
        let output = output.map_err(|source| Error::Start {
            command: self.shell_quoted(),
            source,
        })?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        Err(Error::Failed {
            command: self.shell_quoted(),
            status: output.status,
            stderr: tail(&String::from_utf8_lossy(&output.stderr)),
        })
    }
}

fn executable(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// A word as a shell takes it, quoted where it has to be.
#[must_use]
pub fn quote(arg: &OsStr) -> String {
    let arg = arg.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !arg.is_empty() && arg.chars().all(plain) {
        arg.into_owned()
    } else {
        format!("'{}'", arg.replace('\'', r"'\''"))
    }
}

/// The last lines of a failing program's messages, as an error shows them.
#[must_use]
pub fn tail(text: &str) -> String {
    let lines: Vec<_> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("\n  {line}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_captured() {
        let out = Program::find("sh")
            .unwrap()
            .args(["-c", "printf hello"])
            .run()
            .unwrap();
        assert_eq!(out, b"hello");
    }

    #[test]
    fn input_is_read_to_its_end() {
        let cat = Program::find("cat").unwrap();
        let input = vec![b'x'; 1 << 20];
        assert_eq!(cat.run_with(&input).unwrap(), input);
        // It may be opened once more by its name.
        let cat = cat.arg("/dev/stdin");
        assert_eq!(cat.run_with(b"hello").unwrap(), b"hello");
    }

    #[test]
    fn a_variable_that_is_unset_is_not_passed_on() {
        let shown = Program::at("/bin/sh").args(["-c", "echo ${PATH+set}${HOME+set}"]);
        let shown = shown.unset(["HOME", "NO_SUCH_VARIABLE"]);
        assert!(env::var_os("PATH").is_some());
        assert_eq!(shown.run().unwrap(), b"set\n");
    }

    #[test]
    fn a_variable_that_is_set_is_passed_on() {
        let shown = Program::at("/bin/sh").args(["-c", "echo $BRISK_X"]);
        assert_eq!(shown.set("BRISK_X", "y").run().unwrap(), b"y\n");
    }

    #[test]
    fn a_failure_shows_command_status_and_the_end_of_stderr() {
        let script = "seq 20 >&2; exit 3";
        let error = Program::at("/bin/sh")
            .args(["-c", script])
            .run()
            .unwrap_err();
        let lines: String = (11..=20).map(|i| format!("\n  {i}")).collect();
        assert_eq!(
            error.to_string(),
            format!("/bin/sh -c 'seq 20 >&2; exit 3': exit status: 3{lines}")
        );
    }

    #[test]
    fn quotes_survive_a_shell() {
        let args = ["plain", "two words", "", "it's", "$HOME", "a\nb"];
        let program = Program::at("printf").args(["%s|"]).args(args);
        let line = program.shell_quoted();
        let out = Program::at("/bin/sh")
            .args(["-c", line.as_str()])
            .run()
            .unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            format!("{}|", args.join("|"))
        );
    }

    #[test]
    fn only_executable_files_are_programs() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("tool"), "").unwrap();
        std::fs::create_dir(dir.path().join("folder")).unwrap();
        let dirs = || [dir.path().to_owned()];
        assert!(Program::find_in("tool", dirs()).is_err());
        assert!(Program::find_in("folder", dirs()).is_err());
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(dir.path().join("tool"), mode).unwrap();
        assert_eq!(
            Program::find_in("tool", dirs()).unwrap().path(),
            dir.path().join("tool")
        );
    }

    #[test]
    fn an_unstartable_program_is_named() {
        let error = Program::at("/nonexistent/tool").run().unwrap_err();
        assert_eq!(error.to_string(), "cannot run /nonexistent/tool");
    }
}
