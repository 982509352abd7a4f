//! PID 1 of brisk's guests.
#![no_std]
