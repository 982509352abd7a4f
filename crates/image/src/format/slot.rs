//! Key slots: the data key, encrypted to each recipient.

use std::fmt;

/// Most slots of an image.
pub(crate) const MAX_SLOTS: usize = 64;
/// Largest slot; an age file with one recipient has some 200 bytes.
pub(crate) const MAX_SLOT: usize = 4096;

/// Kind of a slot's recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum SlotKind {
    /// A key of `age-keygen`.
    Recipient = 1,
    /// A passphrase.
    Passphrase = 2,
    /// The key file of the host that wrote it.
    HostKey = 3,
}

impl SlotKind {
    fn from_byte(byte: u8) -> Option<Self> {
        [Self::Recipient, Self::Passphrase, Self::HostKey]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }

    /// Name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Recipient => "recipient",
            Self::Passphrase => "passphrase",
            Self::HostKey => "host key",
        }
    }
}

/// The encrypted data key: a whole age file (<https://c2sp.org/age>).
#[derive(Clone, PartialEq, Eq)]
pub struct Slot {
    pub(crate) kind: SlotKind,
    pub(crate) bytes: Vec<u8>,
}

impl Slot {
    /// Kind of the recipient.
    #[must_use]
    pub fn kind(&self) -> SlotKind {
        self.kind
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slot({}, {} bytes)", self.kind.name(), self.bytes.len())
    }
}

/// "host key, 2 recipients".
pub(crate) fn summary(slots: &[Slot]) -> String {
    let kinds = [SlotKind::HostKey, SlotKind::Recipient, SlotKind::Passphrase];
    let each = kinds.into_iter().filter_map(|kind| {
        let count = slots.iter().filter(|slot| slot.kind == kind).count();
        let name = kind.name();
        match count {
            0 => None,
            1 => Some(format!("a {name}")),
            _ => Some(format!("{count} {name}s")),
        }
    });
    each.collect::<Vec<_>>().join(", ")
}

/// Each slot is its kind, a zero, its length and its bytes.
pub(crate) fn encode(slots: &[Slot], out: &mut Vec<u8>) {
    for slot in slots {
        out.extend([slot.kind as u8, 0]);
        let length = u16::try_from(slot.bytes.len()).expect("limited when wrapped");
        out.extend(length.to_le_bytes());
        out.extend(&slot.bytes);
    }
}

/// The slots and what is behind them.
pub(crate) fn decode(mut bytes: &[u8], count: usize) -> Result<(Vec<Slot>, &[u8]), &'static str> {
    if count == 0 || count > MAX_SLOTS {
        return Err("an impossible number of key slots");
    }
    let mut slots = Vec::with_capacity(count);
    for _ in 0..count {
        let (prefix, rest) = bytes.split_at_checked(4).ok_or("a key slot is cut off")?;
        let kind = SlotKind::from_byte(prefix[0]).ok_or("a key slot of unknown kind")?;
        let length = usize::from(u16::from_le_bytes([prefix[2], prefix[3]]));
        if prefix[1] != 0 || length > MAX_SLOT {
            return Err("an impossible key slot");
        }
        let (slot, rest) = rest
            .split_at_checked(length)
            .ok_or("a key slot is cut off")?;
        let bytes_of_slot = slot.to_vec();
        slots.push(Slot {
            kind,
            bytes: bytes_of_slot,
        });
        bytes = rest;
    }
    Ok((slots, bytes))
}
