//! Defects of container images.

use std::io;

/// Defects of a container image.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// Reading or writing failed.
    #[error("reading or writing failed")]
    Io(#[source] io::Error),
    /// The end is missing.
    #[error("the archive ends too early; fetch or write it again")]
    Truncated,
    /// The archive breaks its format.
    #[error("{0}")]
    Archive(String),
    /// A name that no file can have or that leads out of the root.
    #[error("the entry {path:?} {problem}; nobody packs that by accident")]
    Path {
        /// The name as it is in the archive.
        path: String,
        /// Problem of the name.
        problem: &'static str,
    },
    /// A hard link to nothing.
    #[error("{path:?} is a hard link to {target:?}, which is not a file here")]
    Link {
        /// The link.
        path: String,
        /// Target of the link.
        target: String,
    },
    /// A bound was passed.
    #[error("more than {limit} {what}: refused")]
    TooMuch {
        /// Kind of the objects.
        what: &'static str,
        /// Their largest number or size.
        limit: u64,
    },
    /// What it unpacks to does not fit.
    #[error(
        "it does not fit: {} MiB are free where the cache is, of which {} MiB stay free; free some, \
         or put the cache elsewhere with BRISK_CACHE_DIR",
        free >> 20,
        reserve >> 20
    )]
    Full {
        /// Free bytes.
        free: u64,
        /// Bytes that stay free.
        reserve: u64,
    },
    /// The content does not match the manifest.
    #[error("{} has the digest {found}, not {expected}; fetch the image again", what.escape_debug())]
    Digest {
        /// The blob.
        what: String,
        /// Digest in the manifest.
        expected: String,
        /// Digest of the content.
        found: String,
    },
    /// A digest that is not `sha256:` and 64 hexadecimal digits.
    #[error("cannot check the digest {0:?}: only sha256 is supported")]
    DigestForm(String),
    /// An object that the manifest refers to is missing.
    #[error("{} is missing from the image", .0.escape_debug())]
    Missing(String),
    /// A JSON document that lacks fields.
    #[error("cannot understand {}", what.escape_debug())]
    Json {
        /// Name of the document.
        what: String,
        /// Position and reason.
        #[source]
        source: serde_json::Error,
    },
    /// There is no variant for the host.
    #[error("no image for linux/amd64 here, but for: {}", available.join(", ").escape_debug())]
    Platform {
        /// Platforms of the image.
        available: Vec<String>,
    },
    /// Several images and no choice, or a name that is not among them.
    #[error("{}; append one of them to the path: {}", match name {
        Some(name) => format!("no image is called {name:?}"),
        None => "there are several images".into(),
    }, available.iter().map(|name| format!("#{}", name.escape_debug())).collect::<Vec<_>>().join(" "))]
    Name {
        /// The name that was asked for.
        name: Option<String>,
        /// Names of the images.
        available: Vec<String>,
    },
    /// The image was written to while it was read.
    #[error("the image changed while it was read; try again")]
    Changed,
}

impl From<io::Error> for Fault {
    /// Decoders report a stream that stops early as `UnexpectedEof`, as `read_exact` does; a bound
    /// that a reader found passed travels inside of the error.
    fn from(error: io::Error) -> Self {
        match error.downcast::<Self>() {
            Ok(fault) => fault,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Self::Truncated,
            Err(error) => Self::Io(error),
        }
    }
}
