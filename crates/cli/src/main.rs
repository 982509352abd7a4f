//! The `brisk` command.
fn main() {}
