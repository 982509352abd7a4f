//! Library of PID 1 of brisk's guests: the parts that the host shares with it.
//!
//! The program itself (`main.rs` and the modules only it names) has no standard library, no
//! C library and no allocator; the build script of `brisk-vm` compiles it with `rustc` and
//! embeds it. This library holds its two languages, so that the host speaks the same, and what
//! else is read, so that tests can reach it.
#![no_std]

pub mod mounts;
pub mod protocol;
pub mod script;
