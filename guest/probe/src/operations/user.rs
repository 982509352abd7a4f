//! Operations that need no kernel.

use std::hint::black_box;

use crate::batch::{Batch, Prepared};

/// Numbers that are sorted at once.
const SORTED: usize = 4096;

/// The next number of the sequence (Marsaglia, "Xorshift RNGs", Journal of Statistical Software 8,
/// 2003).
pub(super) fn xorshift(mut state: u64) -> u64 {
    state ^= state << 13;
    state ^= state >> 7;
    state ^ (state << 17)
}

pub(super) fn integer() -> Prepared {
    Ok(Box::new(|count| {
        Batch::of(count, || {
            let mut state = black_box(0x2545_f491_4f6c_dd1d);
            for _ in 0..count {
                state = xorshift(state);
            }
            black_box(state);
            Ok(())
        })
    }))
}

pub(super) fn float() -> Prepared {
    Ok(Box::new(|count| {
        Batch::of(count, || {
            let (mut value, factor, term) = black_box((1.0_f64, 0.999_999, 0.5));
            for _ in 0..count {
                value = value * factor + term;
            }
            black_box(value);
            Ok(())
        })
    }))
}

pub(super) fn sort() -> Prepared {
    let mut state = 1;
    let numbers: Vec<u64> = std::iter::repeat_with(|| {
        state = xorshift(state);
        state
    })
    .take(SORTED)
    .collect();
    Ok(Box::new(move |_| {
        let mut numbers = numbers.clone();
        Batch::of(SORTED as u64, || {
            numbers.sort_unstable();
            black_box(&numbers);
            Ok(())
        })
    }))
}
