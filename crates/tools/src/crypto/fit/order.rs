//! Which implementation is faster, size by size: the answer that needs no line.

use super::sizes::{Order, Size};
use super::verdict::Bracket;

/// Between which sizes the faster one changes. Sizes that are alike or not decided are passed over,
/// so that a bracket may have them inside.
pub(super) fn changes(sizes: &[Size]) -> Vec<Bracket> {
    let decided: Vec<&Size> = sizes
        .iter()
        .filter(|size| matches!(size.order, Order::Software | Order::Offload))
        .collect();
    let pairs = decided
        .windows(2)
        .filter(|pair| pair[0].order != pair[1].order);
    pairs
        .map(|pair| Bracket {
            low: pair[0].bytes,
            high: pair[1].bytes,
        })
        .collect()
}
