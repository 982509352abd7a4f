//! Options for keys of images. A command line never has a key itself, only the file that has it.

use std::path::{Path, PathBuf};

use brisk_image::{
    Error, Header, Image, Keys, Recipient, Secret, SlotKind, host_key, host_key_path,
};
use brisk_tools::vm::{HostRecipient, StateDirs};

use super::with_hint;
use crate::passphrase;
use crate::ui::Ui;

/// Keys that open an image.
#[derive(Debug, clap::Args)]
pub struct KeyArgs {
    /// File with a secret key of age-keygen. May be given several times.
    #[arg(long, value_name = "FILE")]
    pub identity: Vec<PathBuf>,

    /// File whose first line is the passphrase; /dev/fd/N for a descriptor.
    ///
    /// Without it, and where no key fits, the terminal is asked.
    #[arg(long, value_name = "FILE")]
    pub passphrase_file: Option<PathBuf>,

    /// Key file of this host. Default: suspend.key below /var/lib/brisk for root,
    /// ~/.local/state/brisk for others, if it exists.
    #[arg(long, value_name = "FILE")]
    pub host_key: Option<PathBuf>,
}

/// Recipients that an image is encrypted to.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true)]
pub struct NewKeyArgs {
    /// Encrypt the image to this public key of age-keygen. May be given several times.
    #[arg(long, value_name = "age1…")]
    pub recipient: Vec<String>,

    /// Encrypt it to a passphrase, the first line of this file; /dev/fd/N for a descriptor.
    #[arg(long, value_name = "FILE")]
    pub new_passphrase_file: Option<PathBuf>,

    /// Encrypt it to a passphrase that the terminal is asked for.
    #[arg(long)]
    pub new_passphrase: bool,

    /// Encrypt it to this host, by its key file, which is made if it does not exist.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub for_host: Option<Option<PathBuf>>,
}

impl KeyArgs {
    /// Whether any key was given.
    pub(super) fn is_given(&self) -> bool {
        !self.identity.is_empty() || self.passphrase_file.is_some() || self.host_key.is_some()
    }

    /// Opens an image; asks for a passphrase where only that is missing.
    pub(super) fn open(&self, path: &Path, ui: &Ui) -> Result<(Image, Keys), Error> {
        // A file that is no image should not cost anyone a passphrase.
        let header = Header::read(path)?;
        let keys = self.keys()?;
        let error = match Image::open(path, &keys) {
            Ok(image) => return Ok((image, keys)),
            Err(error) => error,
        };
        let takes = |slot: &brisk_image::Slot| slot.kind() == SlotKind::Passphrase;
        let missing = matches!(error, Error::NoKey { .. })
            && self.passphrase_file.is_none()
            && header.slots.iter().any(takes);
        if !missing {
            return Err(error);
        }
        let Some(secret) = passphrase_of(path)? else {
            return Err(error);
        };
        let keys = keys.with_passphrase(secret);
        let spinner = ui.spinner("unlocking");
        let image = Image::open(path, &keys)?;
        drop(spinner);
        Ok((image, keys))
    }

    /// The keys that the options name.
    pub(in crate::command) fn given(&self) -> Result<Keys, Error> {
        let mut keys = Keys::new();
        for file in &self.identity {
            keys = keys.with_identity_file(file)?;
        }
        if let Some(file) = &self.passphrase_file {
            keys = keys.with_passphrase(Secret::read(file)?);
        }
        match &self.host_key {
            Some(path) => Ok(keys.with_identity(host_key(path, false)?)),
            None => Ok(keys),
        }
    }

    fn keys(&self) -> Result<Keys, Error> {
        let keys = self.given()?;
        let usual = usual_host_key().ok().filter(|path| path.exists());
        if let (None, Some(usual)) = (&self.host_key, usual) {
            return Ok(keys.with_identity(host_key(&usual, false)?));
        }
        Ok(keys)
    }
}

impl NewKeyArgs {
    /// The recipients that the options name; asks for a passphrase if one is wanted.
    pub(super) fn recipients(&self, ui: &Ui) -> anyhow::Result<Vec<Recipient>> {
        let given = self.recipient.iter().map(|text| Recipient::parse(text));
        let mut recipients = given.collect::<Result<Vec<_>, _>>().map_err(with_hint)?;
        if let Some(file) = &self.new_passphrase_file {
            let secret = Secret::read(file).map_err(with_hint)?;
            recipients.push(Recipient::Passphrase(secret));
        }
        if self.new_passphrase {
            let secret = passphrase::ask_twice("New passphrase: ", ui).map_err(with_hint)?;
            recipients.push(Recipient::Passphrase(secret));
        }
        if let Some(path) = self.host_key()? {
            recipients.push(host_recipient(&path, ui)?);
        }
        Ok(recipients)
    }

    /// File of the host's key, if that is wanted.
    ///
    /// # Errors
    /// If there is no directory that it could be in.
    pub(super) fn host_key(&self) -> anyhow::Result<Option<PathBuf>> {
        let file = self.for_host.as_ref();
        let path = file.map(|file| file.clone().map_or_else(usual_host_key, Ok));
        path.transpose().map_err(with_hint)
    }
}

/// A host's key, which is made if it is not there. This host's own is not made while a suspended VM
/// needs the one that is lost.
fn host_recipient(path: &Path, ui: &Ui) -> anyhow::Result<Recipient> {
    let dirs = StateDirs::here().ok().filter(|dirs| dirs.key == path);
    let HostRecipient { recipient, is_new } = match dirs {
        Some(dirs) => dirs.host_recipient()?,
        None => HostRecipient::of(path).map_err(with_hint)?,
    };
    if is_new {
        ui.note(&HostRecipient::advice(path));
    }
    Ok(recipient)
}

/// Asks for the passphrase of an image; `None` if nobody is at a terminal.
pub(in crate::command) fn passphrase_of(image: &Path) -> Result<Option<Secret>, Error> {
    passphrase::ask(&format!("Passphrase of {}: ", image.display()))
}

fn usual_host_key() -> Result<PathBuf, Error> {
    let state = brisk_host::dirs::Dirs::here().state();
    let state = state.ok_or_else(|| Error::Key {
        what: "this host's key".to_owned(),
        why: "there is no directory that it could be in: HOME is not set; set BRISK_STATE_DIR, or \
              name the file"
            .to_owned(),
    })?;
    Ok(host_key_path(&state))
}
