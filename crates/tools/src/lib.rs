//! The capabilities of brisk, one module each.
