//! `brisk image info`.

use std::path::{Path, PathBuf};

use brisk_image::{Error, Header, Image, PAGE_SIZE, State, state};
use serde::Serialize;

use super::keys::KeyArgs;
use super::work::with_hint;
use crate::output::Format;
use crate::output::csv_field;
use crate::ui::Ui;

/// Describes an image, as text for standard output.
pub(super) fn info(path: &Path, keys: &KeyArgs, format: Format, ui: &Ui) -> anyhow::Result<String> {
    let header = Header::read(path).map_err(with_hint)?;
    let opened = match keys.open(path, ui) {
        Ok((image, _)) => Some(image),
        Err(Error::NoKey { slots, .. }) if !keys.is_given() => {
            ui.note(&format!(
                "encrypted to {slots}, and no key is at hand: only what is public is shown"
            ));
            None
        }
        Err(error) => return Err(with_hint(error)),
    };
    Info::of(path, &header, opened.as_ref())?.render(format)
}

#[derive(Serialize)]
struct Info {
    schema: &'static str,
    image: PathBuf,
    state: &'static str,
    id: String,
    version: u32,
    created: String,
    size: u64,
    memory: u64,
    chunk_size: u32,
    chunks: u64,
    stored_chunks: u64,
    stored_bytes: u64,
    compression: String,
    incremental: bool,
    #[serde(rename = "locked_for")]
    recipients: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    machine: Option<Machine>,
}

/// Fields of an image that only a key shows.
#[derive(Serialize)]
struct Machine {
    #[serde(flatten)]
    head: brisk_image::Head,
    uuid_text: String,
    device_state: u64,
    working_set: Option<usize>,
    parent_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_chunks: Option<u64>,
}

impl Info {
    fn of(path: &Path, header: &Header, opened: Option<&Image>) -> anyhow::Result<Self> {
        let machine = opened.map(machine).transpose()?;
        let created = jiff::Timestamp::from_second(header.created as i64).unwrap_or_default();
        Ok(Self {
            schema: "brisk.image/1",
            image: path.to_owned(),
            state: word(path)?,
            id: hex(&header.id),
            version: brisk_image::VERSION,
            created: created.to_string(),
            size: header.file_len(),
            memory: header.memory,
            chunk_size: header.chunk_size,
            chunks: header.chunks(),
            stored_chunks: header.stored_chunks,
            stored_bytes: header.stored_pages * PAGE_SIZE,
            compression: header.compression.to_string(),
            incremental: header.incremental,
            recipients: header.slots.iter().map(|slot| slot.kind().name()).collect(),
            machine,
        })
    }

    fn render(&self, format: Format) -> anyhow::Result<String> {
        if format == Format::Json {
            return Ok(serde_json::to_string_pretty(self)? + "\n");
        }
        let mut list = vec![
            ("image", self.image.display().to_string()),
            ("state", self.state.to_owned()),
            ("id", self.id.clone()),
            ("created", self.created.clone()),
            ("size", self.size.to_string()),
            ("memory", self.memory.to_string()),
        ];
        list.extend(stored(self.stored_chunks, self.chunks, self.stored_bytes));
        list.extend([
            ("chunk size", self.chunk_size.to_string()),
            ("compression", self.compression.clone()),
            ("incremental", yes_or_no(self.incremental)),
            ("encrypted to", self.recipients.join(" ")),
        ]);
        if let Some(machine) = &self.machine {
            list.extend(machine.rows());
        }
        Ok(rows(&list, format))
    }
}

impl Machine {
    fn rows(&self) -> Vec<(&'static str, String)> {
        let description = &self.head.description;
        let mut list = vec![
            ("name", description.name.clone()),
            ("uuid", self.uuid_text.clone()),
            ("qemu", description.qemu.clone()),
            ("machine", description.machine.clone()),
            ("cpu", description.cpu.clone()),
        ];
        if let Some(kernel) = &description.kernel {
            list.push((
                "kernel",
                format!("{} {}", kernel.version, kernel.path.display()),
            ));
        }
        for disk in &description.disks {
            list.push(("disk", format!("{} {}", disk.path.display(), disk.size)));
        }
        if let Some(kept) = &self.head.kept {
            list.push(("kept in RAM", kept.path.display().to_string()));
        }
        list.push(("device state", self.device_state.to_string()));
        if let Some(ranges) = self.working_set {
            list.push(("working set", format!("{ranges} ranges")));
        }
        if let Some(id) = &self.parent_id {
            list.push(("based on", id.clone()));
        }
        list.extend(self.parent_chunks.map(parents));
        list
    }
}

fn machine(image: &Image) -> anyhow::Result<Machine> {
    let uuid = hex(&image.description().uuid);
    let cuts = [0..8, 8..12, 12..16, 16..20, 20..32];
    let working_set = image.working_set().map_err(with_hint)?;
    Ok(Machine {
        head: image.head().clone(),
        uuid_text: cuts.map(|cut| uuid[cut].to_owned()).join("-"),
        device_state: image.head().state_len(),
        working_set: working_set.map(|ranges| ranges.len()),
        parent_id: image.head().parent.map(|parent| hex(&parent.id)),
        parent_chunks: image.head().parent.map(|_| image.parent_chunks()),
    })
}

/// The state of an image's resume, by the ending of its name.
fn word(path: &Path) -> anyhow::Result<&'static str> {
    let name = path.as_os_str().to_string_lossy();
    let usual = ["resuming", "resumed"]
        .iter()
        .find_map(|end| name.strip_suffix(&format!(".{end}")));
    let Some(usual) = usual else {
        return Ok("ready");
    };
    if name.ends_with(".resumed") {
        return Ok("resumed");
    }
    Ok(match state(Path::new(usual)).map_err(with_hint)? {
        State::Resuming { held: true } => "being resumed",
        _ => "claimed, and left before its guest ran",
    })
}

/// Rows that say how much of the memory is in the file itself: chunks that are not zero, the number
/// of chunks of the memory, and bytes of pages that are not zero.
pub(super) fn stored(chunks: u64, of: u64, bytes: u64) -> [(&'static str, String); 2] {
    [
        ("stored chunks", format!("{chunks} of {of}")),
        ("stored bytes", bytes.to_string()),
    ]
}

/// The row of chunks that are in base images.
pub(super) fn parents(chunks: u64) -> (&'static str, String) {
    ("parent chunks", chunks.to_string())
}

/// Formats names and values, one pair a line.
pub(super) fn rows(rows: &[(&'static str, String)], format: Format) -> String {
    let line = |(name, value): &(&str, String)| match format {
        Format::Csv => format!("{name},{}\n", csv_field(value)),
        _ => format!("{name:<13} {}\n", shown(value)),
    };
    rows.iter().map(line).collect()
}

/// Escapes control characters, so that texts of an image cannot move the cursor.
fn shown(value: &str) -> String {
    let one = |char: char| {
        if char.is_control() {
            char::REPLACEMENT_CHARACTER
        } else {
            char
        }
    };
    value.chars().map(one).collect()
}

fn yes_or_no(yes: bool) -> String {
    if yes { "yes" } else { "no" }.to_owned()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
