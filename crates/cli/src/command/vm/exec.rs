//! `brisk vm exec`.

use std::ffi::OsString;
use std::time::Duration;

use brisk_tools::guest::{User, harmless};
use brisk_tools::run::Terminal;
use brisk_tools::vm::{self as tool, ExecRequest, Execution};

use super::named::{explain, paths};
use crate::ending::conclude;
use crate::parse::{duration, variable};
use crate::ui::Ui;

/// Run a command in a running VM.
///
/// Up to four commands run at once; a fifth one waits. Standard input, output and error, signals
/// and the exit status are passed as with brisk run. When brisk ends first, the command gets
/// SIGHUP.
#[derive(Debug, clap::Args)]
pub(super) struct ExecArgs {
    /// Name of the VM.
    pub(super) name: String,

    /// Set a variable of the command's environment, or pass on the host's value of it.
    #[arg(long, short, value_name = "NAME[=VALUE]")]
    env: Vec<String>,

    /// User, by the names or numbers of the VM's /etc/passwd and /etc/group. Default: that of the
    /// definition, or root.
    #[arg(long, short, value_name = "USER[:GROUP]")]
    user: Option<String>,

    /// Working directory.
    #[arg(long, short, value_name = "DIR")]
    workdir: Option<String>,

    /// Time limit of the command.
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    timeout: Option<Duration>,

    /// Use no terminal, even where standard input and output are one.
    #[arg(long)]
    no_tty: bool,

    /// Command and its arguments; without a command, a shell.
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub(super) fn exec(args: &ExecArgs, ui: &Ui) -> anyhow::Result<u8> {
    let paths = paths(&args.name)?;
    let definition = paths.definition().map_err(explain)?;
    let timeout = args.timeout;
    let words = ExecRequest {
        command: args.command.clone(),
        env: args.env.iter().filter_map(|text| variable(text)).collect(),
        workdir: args.workdir.clone(),
        user: args
            .user
            .as_deref()
            .or(definition.user.as_deref())
            .map(User::parse),
        terminal: Terminal::size().filter(|_| !args.no_tty),
    };
    let mut waits = |running: &[Execution]| ui.note(&waiting(&paths.name, running));
    let ending = tool::exec(&paths, &words, timeout, &mut waits).map_err(explain)?;
    Ok(conclude(&ending, timeout, ui))
}

fn waiting(name: &str, running: &[Execution]) -> String {
    let list = listed(running);
    format!("waiting: {name} runs as many commands as it can at once: {list}")
}

/// Lists commands in a line.
pub(super) fn listed(executions: &[Execution]) -> String {
    let list: Vec<_> = executions.iter().map(Execution::to_string).collect();
    harmless(list.join("; ").as_bytes())
}
