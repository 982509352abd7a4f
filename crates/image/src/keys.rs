//! Recipients of an image, and the keys that open it.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use age::secrecy::{ExposeSecret, SecretString};
use age::{scrypt, x25519};
use zeroize::Zeroizing;

use crate::error::{Error, io_error};
use crate::format::seal::DataKey;
use crate::format::slot::{self, MAX_SLOT, MAX_SLOTS, Slot, SlotKind};

/// Work factor of scrypt for a passphrase, as a power of two: a tenth of a second and 32 MiB, so
/// that suspending stays within 64 MB. Each guess costs an eighth of that with age's usual 18.
const PASSPHRASE_WORK: u8 = 15;
/// Most work that a file may ask for: 1 GiB.
const MAX_PASSPHRASE_WORK: u8 = 20;
/// Largest file of keys or passphrases.
const MAX_KEY_FILE: u64 = 64 << 10;

/// A passphrase, wiped when dropped and never shown.
#[derive(Clone)]
pub struct Secret(SecretString);

impl Secret {
    /// Takes a passphrase from a terminal or a test. The caller should wipe its text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(SecretString::from(text.to_owned()))
    }

    /// Reads the first line of a file or pipe.
    ///
    /// # Errors
    /// If the file cannot be read, or the line is empty.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = read_text(path, File::open(path).map_err(io_error("read", path))?)?;
        let line = text.lines().next().unwrap_or_default();
        if line.is_empty() {
            return Err(Error::Key {
                what: path.display().to_string(),
                why: "its first line, the passphrase, is empty".into(),
            });
        }
        Ok(Self::new(line))
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.expose_secret() == other.0.expose_secret()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// A recipient, to which an image is encrypted.
#[derive(Clone)]
pub enum Recipient {
    /// A public key of `age-keygen`.
    Age(x25519::Recipient),
    /// The host, by the public half of its key file.
    Host(x25519::Recipient),
    /// A passphrase.
    Passphrase(Secret),
}

impl fmt::Debug for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Age(key) => write!(f, "Age({key})"),
            Self::Host(key) => write!(f, "Host({key})"),
            Self::Passphrase(_) => f.write_str("Passphrase"),
        }
    }
}

impl Recipient {
    /// Parses `age1…`.
    ///
    /// # Errors
    /// If it is no X25519 public key of age.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let key = text.trim().parse().map_err(|why| Error::Key {
            what: format!("{text:?} is no recipient"),
            why: format!("{why}; a public key of age-keygen begins with age1"),
        });
        key.map(Self::Age)
    }

    fn kind(&self) -> SlotKind {
        match self {
            Self::Age(_) => SlotKind::Recipient,
            Self::Host(_) => SlotKind::HostKey,
            Self::Passphrase(_) => SlotKind::Passphrase,
        }
    }

    fn wrap(&self, key: &DataKey) -> Result<Slot, Error> {
        let wrapped = match self {
            Self::Age(recipient) | Self::Host(recipient) => age::encrypt(recipient, key.bytes()),
            Self::Passphrase(secret) => {
                let mut recipient = scrypt::Recipient::new(secret.0.clone());
                recipient.set_work_factor(work());
                age::encrypt(&recipient, key.bytes())
            }
        };
        let bytes =
            wrapped.map_err(|error| Error::invalid(format!("cannot wrap a key: {error}")))?;
        if bytes.len() > MAX_SLOT {
            return Err(Error::invalid("a wrapped key is too long"));
        }
        let kind = self.kind();
        Ok(Slot { kind, bytes })
    }
}

/// Work factor: a small one in unit tests, whose results do not depend on it.
fn work() -> u8 {
    if cfg!(test) { 4 } else { PASSPHRASE_WORK }
}

/// Wraps a data key for each of them.
pub(crate) fn wrap(key: &DataKey, recipients: &[Recipient]) -> Result<Vec<Slot>, Error> {
    if recipients.is_empty() {
        return Err(Error::invalid(
            "no one could open the image: give a recipient",
        ));
    }
    if recipients.len() > MAX_SLOTS {
        return Err(Error::invalid(format!("more than {MAX_SLOTS} recipients")));
    }
    recipients
        .iter()
        .map(|recipient| recipient.wrap(key))
        .collect()
}

/// Keys that open an image.
#[derive(Clone, Default)]
pub struct Keys {
    identities: Vec<x25519::Identity>,
    passphrases: Vec<Secret>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (identities, passphrases) = (self.identities.len(), self.passphrases.len());
        write!(
            f,
            "Keys({identities} identities, {passphrases} passphrases)"
        )
    }
}

impl Keys {
    /// No keys.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether there are no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.identities.is_empty() && self.passphrases.is_empty()
    }

    /// Adds a passphrase.
    #[must_use]
    pub fn with_passphrase(mut self, passphrase: Secret) -> Self {
        self.passphrases.push(passphrase);
        self
    }

    /// Adds a secret key.
    #[must_use]
    pub fn with_identity(mut self, identity: x25519::Identity) -> Self {
        self.identities.push(identity);
        self
    }

    /// Adds the secret keys of a file of `age-keygen`.
    ///
    /// # Errors
    /// If the file cannot be read or has anything else in it.
    pub fn with_identity_file(mut self, path: &Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(io_error("read", path))?;
        self.identities.extend(parse_identities(path, file)?);
        Ok(self)
    }

    /// Opens one of the slots. Passphrases, which take long, come last.
    pub(crate) fn unwrap(&self, path: &Path, slots: &[Slot]) -> Result<DataKey, Error> {
        let is_passphrase = |slot: &&Slot| slot.kind == SlotKind::Passphrase;
        let by_identity = slots
            .iter()
            .filter(|slot| !is_passphrase(slot))
            .find_map(|slot| {
                let mut identities = self.identities.iter();
                identities.find_map(|identity| age::decrypt(identity, &slot.bytes).ok())
            });
        let by_passphrase = || {
            slots.iter().filter(is_passphrase).find_map(|slot| {
                self.passphrases.iter().find_map(|secret| {
                    let mut identity = scrypt::Identity::new(secret.0.clone());
                    identity.set_max_work_factor(MAX_PASSPHRASE_WORK);
                    age::decrypt(&identity, &slot.bytes).ok()
                })
            })
        };
        let opened = by_identity.or_else(by_passphrase).map(Zeroizing::new);
        let key = opened.and_then(|bytes| DataKey::from_slice(&bytes));
        key.ok_or_else(|| Error::NoKey {
            path: path.to_owned(),
            slots: slot::summary(slots),
        })
    }
}

/// The secret keys in a file: one on a line, with comments after `#`.
pub(crate) fn parse_identities(path: &Path, file: File) -> Result<Vec<x25519::Identity>, Error> {
    let text = read_text(path, file)?;
    let lines = text.lines().map(str::trim);
    let keys = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let keys: Result<Vec<x25519::Identity>, _> = keys.map(str::parse).collect();
    let wrong = |why: &str| Error::Key {
        what: path.display().to_string(),
        why: format!("{why}; a file of age-keygen has a line AGE-SECRET-KEY-1…"),
    };
    let keys = keys.map_err(wrong)?;
    if keys.is_empty() {
        return Err(wrong("there is no secret key in it"));
    }
    Ok(keys)
}

/// The text of a key file for its owner to be written.
pub(crate) fn identity_text(identity: &x25519::Identity) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(256));
    text.push_str(
        "# The key of this host for suspend images of brisk. Who has it can read them;\n",
    );
    text.push_str("# without it they are lost. Public key: ");
    text.push_str(&identity.to_public().to_string());
    text.push('\n');
    text.push_str(identity.to_string().expose_secret());
    text.push('\n');
    text
}

fn read_text(path: &Path, file: File) -> Result<Zeroizing<String>, Error> {
    // Once allocated, it does not move and leave copies behind.
    let mut text = Zeroizing::new(String::with_capacity(MAX_KEY_FILE as usize + 1));
    file.take(MAX_KEY_FILE + 1)
        .read_to_string(&mut text)
        .map_err(io_error("read", path))?;
    if text.len() as u64 > MAX_KEY_FILE {
        return Err(Error::Key {
            what: path.display().to_string(),
            why: "too long for a file of keys".into(),
        });
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passphrase_opens_what_was_locked_with_more_work() {
        let (key, secret) = (DataKey::random().unwrap(), Secret::new("long ago"));
        let mut recipient = scrypt::Recipient::new(secret.0.clone());
        // What images had before.
        recipient.set_work_factor(18);
        let slot = Slot {
            kind: SlotKind::Passphrase,
            bytes: age::encrypt(&recipient, key.bytes()).unwrap(),
        };
        let keys = Keys::new().with_passphrase(secret);
        let opened = keys.unwrap(Path::new("old"), &[slot]).unwrap();
        assert_eq!(opened.bytes(), key.bytes());
    }
}
