//! From which size on an offload takes less of one quantity, on the safe side. Pure.

use crate::crypto::fit::{Crossover, Order, Rejection, Size, Verdict};

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
    /// There are sizes at which the two are not told apart, and the answer depends on these.
    Undecided,
    /// Nothing was measured.
    Nothing,
}

impl Gain {
    /// Of a comparison.
    #[must_use]
    pub fn of(crossover: &Crossover) -> Self {
        let sizes = &crossover.sizes;
        let Some(largest) = sizes.last() else {
            return Self::Nothing;
        };
        match &crossover.verdict {
            Verdict::From(estimate) => {
                let interval = estimate.interval.and_then(|bounds| bounds.high);
                let above = crossover.bracket.map(|bracket| bracket.high);
                let interval = interval.map(|bytes| bytes.ceil() as u64);
                // A measured size at which the offload takes less is as safe as a computed one.
                let sure = [interval, above].into_iter().flatten().min();
                Self::From(sure.unwrap_or(estimate.bytes.ceil() as u64))
            }
            Verdict::UpTo(estimate) => Self::UpTo {
                bytes: estimate.bytes.floor() as u64,
            },
            Verdict::Always { smallest, .. } => Self::From(*smallest),
            Verdict::Step { from, .. } => Self::From(*from),
            Verdict::Never { .. } => Self::Never {
                largest: largest.bytes,
            },
            Verdict::Alike => Self::Alike,
            Verdict::Rejected(Rejection::Changes(_) | Rejection::Contradiction(_)) => Self::Unclear,
            Verdict::Partly { .. } | Verdict::Rejected(_) | Verdict::TooFew { .. } => {
                Self::by_sizes(crossover)
            }
        }
    }

    /// By the order of the sizes alone.
    fn by_sizes(crossover: &Crossover) -> Self {
        let sizes = &crossover.sizes;
        let is = |order: Order| move |size: &Size| size.order == order;
        // From the first size on above which the offload takes less at each.
        let mut upper = sizes.rsplit(|size| size.order != Order::Offload);
        if let Some(first) = upper.next().and_then(|upper| upper.first()) {
            return Self::From(first.bytes);
        }
        if sizes.iter().any(is(Order::Undecided)) {
            return Self::Undecided;
        }
        match (
            sizes.iter().rev().find(|size| size.order == Order::Offload),
            sizes.iter().any(is(Order::Software)),
        ) {
            (Some(last), _) => Self::UpTo { bytes: last.bytes },
            (None, true) => Self::Never {
                largest: sizes.last().map_or(0, |size| size.bytes),
            },
            (None, false) => Self::Alike,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{GENERIC, Times, VIRTIO_TIMES, curve};
    use super::*;
    use crate::crypto::Curve;

    #[test]
    fn a_gain_is_on_the_safe_side() {
        let of = |software: Times, offload: Times| {
            let found = Crossover::of(&curve("s", software), &curve("o", offload));
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
                ..Curve::default()
            },
            &curve("o", GENERIC),
        );
        assert_eq!(Gain::of(&nothing), Gain::Nothing);
        // Few sizes have no line, and an order.
        let few = |curve: Curve| Curve {
            points: curve.points[3..].to_vec(),
            ..curve
        };
        let few = Crossover::of(&few(curve("s", GENERIC)), &few(curve("o", VIRTIO_TIMES)));
        assert_eq!(Gain::of(&few), Gain::From(16384));
    }
}
