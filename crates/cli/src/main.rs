//! The `brisk` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(brisk_cli::main())
}
