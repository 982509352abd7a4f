//! From which size on an offload takes less of one quantity, on the safe side. Pure.

use crate::crypto::fit::{Crossover, Order, Rejection, Verdict};

/// Where an offload takes less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gain {
    /// From a size on, in bytes: the upper end of the interval of the crossover, or the measured
    /// size above it.
    From(u64),
    /// At no size.
    Never {
        /// The largest that was measured, in bytes.
        largest: u64,
    },
    /// Up to a size only.
    UpTo {
        /// That size, in bytes.
        bytes: u64,
    },
    /// The two do not differ.
    Alike,
    /// The figures contradict one another.
    Unclear,
    /// Nothing was measured.
    Nothing,
}

impl Gain {
    /// Of a comparison.
    #[must_use]
    pub fn of(crossover: &Crossover) -> Self {
        let sizes = &crossover.sizes;
        let (Some(largest), has) = (sizes.last(), |order| {
            sizes.iter().any(|size| size.order == order)
        }) else {
            return Self::Nothing;
        };
        match &crossover.verdict {
            Verdict::From(estimate) => {
                let interval = estimate.interval.and_then(|bounds| bounds.high);
                let above = crossover.bracket.map(|bracket| bracket.high);
                let interval = interval.map(|bytes| bytes.ceil() as u64);
                // A measured size at which the offload takes less is as safe as a computed one.
                let sure = [interval, above].into_iter().flatten().min();
                return Self::From(sure.unwrap_or(estimate.bytes.ceil() as u64));
            }
            Verdict::UpTo(estimate) => {
                return Self::UpTo {
                    bytes: estimate.bytes.floor() as u64,
                };
            }
            Verdict::Rejected(
                Rejection::Changes(_) | Rejection::Contradiction(_) | Rejection::Undecided(_),
            ) => {
                return Self::Unclear;
            }
            _ => {}
        }
        match (has(Order::Software), has(Order::Offload)) {
            (false, false) => Self::Alike,
            (true, false) => Self::Never {
                largest: largest.bytes,
            },
            (false, true) => {
                let first = sizes.iter().find(|size| size.order == Order::Offload);
                first.map_or(Self::Unclear, |size| Self::From(size.bytes))
            }
            (true, true) => match crossover.bracket {
                Some(bracket) if largest_of(crossover, Order::Offload) >= bracket.high => {
                    Self::From(bracket.high)
                }
                Some(bracket) => Self::UpTo { bytes: bracket.low },
                None => Self::Unclear,
            },
        }
    }
}

fn largest_of(crossover: &Crossover, order: Order) -> u64 {
    let sizes = crossover.sizes.iter().rev();
    let mut sizes = sizes.filter(|size| size.order == order);
    sizes.next().map_or(0, |size| size.bytes)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{GENERIC, Times, VIRTIO_TIMES, curve};
    use super::*;
    use crate::crypto::Curve;

    #[test]
    fn a_gain_is_on_the_safe_side() {
        let of = |software: Times, offload: Times| {
            let found = Crossover::of(&curve("s", software), &curve("o", offload), 0);
            (Gain::of(&found), found)
        };
        let (gain, found) = of(GENERIC, VIRTIO_TIMES);
        let estimate = found.estimate().unwrap();
        let Gain::From(bytes) = gain else {
            panic!("{gain:?}");
        };
        // The crossover is at 4.9 KB, and at 16 KiB the offload was measured to be faster.
        assert!(bytes as f64 >= estimate.bytes && bytes <= 16384, "{bytes}");
        assert_eq!(of(GENERIC, [9e3; 5]).0, Gain::Never { largest: 65536 });
        assert_eq!(of(GENERIC, [1.0; 5]).0, Gain::From(16));
        assert_eq!(of(GENERIC, GENERIC).0, Gain::Alike);
        // A driver that leaves small data to software, and is not on a line.
        let threshold = [33.1, 69.1, 174.1, 500.0, 617.0];
        assert_eq!(of(GENERIC, threshold).0, Gain::From(16384));
        let Gain::UpTo { bytes } = of(VIRTIO_TIMES, GENERIC).0 else {
            panic!("the offload is faster for small data");
        };
        assert!((1024..16384).contains(&bytes), "{bytes}");
        let waves = [1.0, 900.0, 1.0, 900.0, 1.0];
        assert_eq!(of(GENERIC, waves).0, Gain::Unclear);
        let nothing = Crossover::of(
            &Curve {
                name: "s".into(),
                points: Vec::new(),
            },
            &curve("o", GENERIC),
            0,
        );
        assert_eq!(Gain::of(&nothing), Gain::Nothing);
        // Few sizes have no line, and an order.
        let few = |curve: Curve| Curve {
            points: curve.points[3..].to_vec(),
            ..curve
        };
        let few = Crossover::of(&few(curve("s", GENERIC)), &few(curve("o", VIRTIO_TIMES)), 0);
        assert_eq!(Gain::of(&few), Gain::From(16384));
    }
}
