//! How a session ended, as messages and an exit status.

use std::time::Duration;

use brisk_tools::run::Ending;
use brisk_vm::guest::Stage;

use crate::exit;
use crate::ui::Ui;

/// Says what went wrong, if anything, and gives the exit status.
pub(crate) fn conclude(ending: &Ending, timeout: Option<Duration>, ui: &Ui) -> u8 {
    match ending {
        Ending::Command(exit) => match exit {
            brisk_vm::guest::Exit::Status(code) => *code,
            brisk_vm::guest::Exit::Signal(signal) => 128 + (signal & 0x7f),
        },
        Ending::Guest {
            stage,
            errno,
            subject,
            console,
        } => {
            let reason = std::io::Error::from_raw_os_error(*errno);
            let reason = reason.to_string();
            let reason = reason.split(" (os error").next().unwrap_or_default();
            let doing = doing(*stage);
            match stage {
                Stage::NotFound => {
                    ui.note(&format!("error: {subject}: command not found in the guest"));
                    return exit::NOT_FOUND;
                }
                Stage::Execute => {
                    ui.note(&format!(
                        "error: cannot execute {subject} in the guest: {reason}"
                    ));
                    return exit::NOT_EXECUTABLE;
                }
                _ => ui.note(&format!(
                    "error: the guest cannot {doing} {subject}: {reason}"
                )),
            }
            show_console(console, ui);
            exit::GUEST
        }
        Ending::Panic { console } => {
            ui.note("error: the guest's kernel gave up; --console shows all that it says");
            show_console(console, ui);
            exit::PANIC
        }
        Ending::QemuEnded { stderr, console } => {
            ui.note("error: QEMU ended before the command did");
            if !stderr.trim().is_empty() {
                ui.plain(&format!("it said:\n{}\n", stderr.trim()));
            }
            show_console(console, ui);
            exit::QEMU
        }
        Ending::TimedOut { started, console } => {
            let limit = timeout.unwrap_or_default().as_secs_f64();
            let what = if *started {
                "the command did not end"
            } else {
                "the guest did not boot"
            };
            ui.note(&format!("error: {what} within {limit} s"));
            show_console(console, ui);
            exit::TIMEOUT
        }
        Ending::Interrupted(signal) => exit::by_signal(signal.0),
    }
}

fn show_console(console: &str, ui: &Ui) {
    if !console.is_empty() {
        ui.plain(&format!("last lines of its console:\n{console}\n"));
    }
}

/// What a stage is, behind "the guest cannot".
fn doing(stage: Stage) -> &'static str {
    match stage {
        Stage::Module => "load the module",
        Stage::Config => "understand its",
        Stage::Prepare => "make",
        Stage::Device => "find the device",
        Stage::Mount => "mount",
        Stage::Enter => "enter",
        Stage::Network => "set up the network interface",
        Stage::NotFound | Stage::Execute => "execute",
        Stage::Internal => "get",
    }
}
