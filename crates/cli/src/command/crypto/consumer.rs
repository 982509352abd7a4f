//! Consumers of an offload, as options name them.

use brisk_tools::crypto::explain::Route;
use brisk_tools::crypto::list::Consumer;
use clap::ValueEnum;

/// Consumer of an offload.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum ConsumerOption {
    /// Programs with OpenSSL.
    Openssl,
    /// Programs with sockets of the kernel's crypto API.
    AfAlg,
    /// Encrypted disks.
    DmCrypt,
    /// Encrypted directories.
    Fscrypt,
    /// TLS in the kernel.
    Ktls,
    /// IPsec.
    Ipsec,
}

impl ConsumerOption {
    pub(super) const fn route(self) -> Route {
        match self {
            Self::Openssl => Route::Openssl,
            Self::AfAlg => Route::Kernel(Consumer::AfAlg),
            Self::DmCrypt => Route::Kernel(Consumer::DmCrypt),
            Self::Fscrypt => Route::Kernel(Consumer::Fscrypt),
            Self::Ktls => Route::Kernel(Consumer::Ktls),
            Self::Ipsec => Route::Kernel(Consumer::Ipsec),
        }
    }
}
