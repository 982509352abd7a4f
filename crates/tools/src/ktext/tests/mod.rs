//! Replication on trees: such as kernels made them, and with what kernels do not write.

mod absence;
mod captured;
mod damaged;
mod shown;
mod switched;
mod tree;
mod units;
