//! Users and groups of an image, which the host cannot read from it later.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::erofs::Layout;
use super::model::Accounts;
use super::tree::Tree;

/// Most bytes of a list that is kept.
const LONGEST: u64 = 1 << 20;

/// Reads the lists from the image, whose content has been written.
pub(super) fn read(tree: &Tree, layout: &Layout<'_>, image: &File) -> io::Result<Accounts> {
    Ok(Accounts {
        passwd: list(tree, layout, image, b"passwd")?,
        group: list(tree, layout, image, b"group")?,
    })
}

fn list(tree: &Tree, layout: &Layout<'_>, image: &File, name: &[u8]) -> io::Result<String> {
    let node = tree
        .below(tree.root(), b"etc")
        .and_then(|etc| tree.below(etc, name));
    let place = node.and_then(|node| layout.place(node));
    let Some((_, place)) = place.filter(|(_, place)| place.size <= LONGEST) else {
        return Ok(String::new());
    };
    let mut bytes = vec![0; usize::try_from(place.size).unwrap_or_default()];
    let mut rest = &mut bytes[..];
    let mut offset = 0;
    while !rest.is_empty() {
        let (position, run) = place.at(offset);
        let run = usize::try_from(run).unwrap_or(usize::MAX).min(rest.len());
        let (now, later) = rest.split_at_mut(run);
        image.read_exact_at(now, position)?;
        offset += run as u64;
        rest = later;
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
