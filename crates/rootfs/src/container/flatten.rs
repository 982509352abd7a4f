//! The two passes over the layers.

use std::collections::HashMap;
use std::io::Read;
use std::ops::Range;

use super::archive::{Kind, Reader};
use super::erofs::{Layout, Place};
use super::manifest::{self, Expect};
use super::model::Limits;
use super::source::Source;
use super::stream;
use super::tree::{Content, Tree};
use crate::Fault;

/// The result of the first pass.
pub(super) struct Flattened {
    pub(super) tree: Tree,
    /// A key made of the digests of all layers as stored.
    pub(super) digest: String,
}

/// The first pass: names and attributes.
pub(super) fn read(
    source: &Source,
    layers: &[manifest::Layer],
    limits: Limits,
    tick: &mut dyn FnMut(u64),
) -> Result<Flattened, Fault> {
    let mut tree = Tree::new(limits);
    let mut digests = String::new();
    let mut entries = 0;
    let mut before = 0;
    for (number, layer) in (0..).zip(layers) {
        let mut read = 0;
        // The limit is that of all layers: one can be listed any number of times.
        let limits = Limits {
            content: limits.content.saturating_sub(before),
            ..limits
        };
        let digest = walk(source, layer, limits, tick, &mut |entry, index, reader| {
            read = reader.position();
            entries += 1;
            if entries > limits.entries {
                return Err(Fault::TooMuch {
                    what: "entries",
                    limit: limits.entries,
                });
            }
            tree.apply(
                entry,
                Content {
                    layer: number,
                    entry: index,
                },
                before + read,
            )
        })?;
        before += read;
        digests.push_str(&digest);
    }
    Ok(Flattened {
        tree,
        digest: manifest::key(&digests),
    })
}

/// The second pass: content, each file's straight to its place.
pub(super) fn copy(
    source: &Source,
    layers: &[manifest::Layer],
    layout: &Layout,
    write: &mut Write<'_>,
    tick: &mut dyn FnMut(u64),
) -> Result<(), Fault> {
    let mut places: HashMap<Content, Place> = layout.places().collect();
    let mut buffer = vec![0; 256 << 10];
    for (number, layer) in (0..).zip(layers) {
        walk(
            source,
            layer,
            Limits::default(),
            tick,
            &mut |entry, index, reader| {
                let content = Content {
                    layer: number,
                    entry: index,
                };
                let Some(place) = places.remove(&content) else {
                    return Ok(());
                };
                if entry.kind != Kind::File(place.size) {
                    return Err(Fault::Changed);
                }
                let whole = [(0, place.size)];
                for &(start, length) in entry.segments.as_deref().unwrap_or(&whole) {
                    fill(reader, write, place, start..start + length, &mut buffer)?;
                }
                Ok(())
            },
        )?;
    }
    match places.values().all(|place| place.size == 0) {
        true => Ok(()),
        false => Err(Fault::Changed),
    }
}

/// Writes bytes at a place of the image.
type Write<'a> = dyn FnMut(&[u8], u64) -> Result<(), Fault> + 'a;

/// Copies a part of a file. The last part of a file may lie elsewhere.
fn fill(
    reader: &mut dyn Read,
    write: &mut Write<'_>,
    place: Place,
    part: Range<u64>,
    buffer: &mut [u8],
) -> Result<(), Fault> {
    let (mut start, end) = (part.start, part.end);
    while start < end {
        let (position, run) = place.at(start);
        let want = usize::try_from(run.min(end - start))
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        reader.read_exact(&mut buffer[..want])?;
        write(&buffer[..want], position)?;
        start += want as u64;
    }
    Ok(())
}

type Visit<'a> =
    dyn FnMut(super::archive::Entry, u32, &mut Reader<stream::Layer<'_>>) -> Result<(), Fault> + 'a;

/// Walks one layer, checks its digest at the end and returns the digest of its stored form.
fn walk(
    source: &Source,
    layer: &manifest::Layer,
    limits: Limits,
    tick: &mut dyn FnMut(u64),
    visit: &mut Visit<'_>,
) -> Result<String, Fault> {
    let (blob, _) = source.blob(&layer.name)?;
    let hash_unpacked = matches!(layer.expect, Expect::Unpacked(_));
    let unpacked = stream::Layer::new(blob, tick, hash_unpacked, limits.content)?;
    let mut reader = Reader::new(unpacked);
    let mut index = 0;
    let mut outcome = Ok(());
    while outcome.is_ok() {
        match reader.next_entry() {
            Ok(Some(entry)) => outcome = visit(entry, index, &mut reader),
            Ok(None) => break,
            Err(fault) => outcome = Err(fault),
        }
        index += 1;
    }
    // A wrong digest explains a damaged archive, so it is reported rather than its consequence.
    if matches!(layer.expect, Expect::Nothing) {
        outcome?;
        return Ok(reader.into_inner().finish()?.0);
    }
    let (stored, unpacked) = match (reader.into_inner().finish(), outcome) {
        (Ok(digests), outcome) => {
            check(layer, &digests)?;
            outcome?;
            digests
        }
        (Err(_), Err(fault)) | (Err(fault), Ok(())) => return Err(fault),
    };
    drop(unpacked);
    Ok(stored)
}

fn check(layer: &manifest::Layer, digests: &(String, Option<String>)) -> Result<(), Fault> {
    let (expected, found) = match &layer.expect {
        Expect::Stored(expected) => (expected, Some(&digests.0)),
        Expect::Unpacked(expected) => (expected, digests.1.as_ref()),
        Expect::Nothing => return Ok(()),
    };
    if found == Some(expected) {
        return Ok(());
    }
    Err(Fault::Digest {
        what: layer.name.clone(),
        expected: format!("sha256:{expected}"),
        found: format!("sha256:{}", found.map_or("", String::as_str)),
    })
}
