//! A machine as crypto offload sees it.

use std::path::Path;

use super::kernel::Kernel;
use super::libcrypto::Library;

/// A machine.
#[derive(Debug, Clone)]
pub struct Machine {
    /// Its kernel.
    pub kernel: Kernel,
    /// Its OpenSSL, or why there is none.
    pub library: Result<Library, String>,
    /// Whether it is the one that brisk runs on.
    pub is_here: bool,
}

impl Machine {
    /// A machine that cannot be looked at, with the release of its kernel, if that is known.
    #[must_use]
    pub fn elsewhere(release: Option<&str>) -> Self {
        Self {
            kernel: Kernel::named(release),
            library: Err("it is another machine's".to_owned()),
            is_here: false,
        }
    }

    /// Looks at the machine with this root. If that is `/`, the kernel is asked for the flags of
    /// implementations, and the program `openssl` for its library, if there is one to ask; of
    /// another system's tree files alone are read.
    #[must_use]
    pub fn at(root: &Path, openssl: Option<&str>) -> Self {
        let is_here = root == Path::new("/");
        let kernel = match is_here {
            true => Kernel::of_this_machine(),
            false => Kernel::below(root),
        };
        let library = match (openssl, is_here) {
            (None, _) => Err("not asked for".to_owned()),
            (Some(_), false) => Err("OpenSSL of another system's tree is not run".to_owned()),
            (Some(openssl), true) => Library::of(openssl, root),
        };
        Self {
            kernel,
            library,
            is_here,
        }
    }
}
