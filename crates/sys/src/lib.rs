//! Kernel interfaces of brisk that need unsafe code, as safe functions.
