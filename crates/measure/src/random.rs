//! Seeded random numbers for bootstrap, permutation and the order of runs.

/// SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
/// OOPSLA 2014, with the output mix of Vigna's reference implementation.
///
/// A fixed generator and seed make every statistic of a report reproducible from its raw
/// samples, on every host and with every version of brisk.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// A generator for a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `bound`, which must not be 0.
    ///
    /// Lemire, "Fast random integer generation in an interval", ACM TOMACS 29(1), 2019, without
    /// the rejection step: its bias is below `bound` / 2⁶⁴.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// A number in [0, 1).
    #[cfg(test)]
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The output mix of SplitMix64, a bijection that maps 0 to 0.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The order in which `count` things take their turns in a round: random, and always the same for a
/// seed and a round.
///
/// Things that are compared by interleaved runs need a random order. What the host does
/// meanwhile then cannot favour one of them, and tests that turn signs around are exact (Fisher,
/// "The Design of Experiments", 1935). An order that alternates has neither property: with noise
/// that lasts for some runs, its differences go together.
#[must_use]
pub fn turns(seed: u64, round: u32, count: usize) -> Vec<usize> {
    let mut random = SplitMix64::new(mix(seed) ^ u64::from(round));
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        order.swap(last, random.below(last + 1));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_everybodys_and_in_any_order() {
        let mut first = [0; 3];
        for round in 0..3000 {
            let order = turns(0, round, 3);
            let mut all = order.clone();
            all.sort_unstable();
            assert_eq!(all, [0, 1, 2]);
            first[order[0]] += 1;
            assert_eq!(order, turns(0, round, 3));
        }
        assert!(
            first.iter().all(|count| (900..1100).contains(count)),
            "{first:?}"
        );
        // What comes first once does not determine the next one.
        let ahead = |round| turns(0, round, 2)[0] == 0;
        let same = (0..1000)
            .filter(|round| ahead(*round) == ahead(round + 1))
            .count();
        assert!((430..570).contains(&same), "{same}");
        assert!(turns(0, 1, 0).is_empty());
    }

    #[test]
    fn each_seed_has_orders_of_its_own() {
        let all = |seed: u64| -> Vec<_> { (0..64).map(|round| turns(seed, round, 4)).collect() };
        assert_eq!(all(7), all(7));
        for other in [0, 1, 8, u64::MAX] {
            let (ours, theirs) = (all(7), all(other));
            let same = ours.iter().zip(&theirs).filter(|(a, b)| a == b).count();
            assert!(same < 16, "seed {other}: {same} of 64 rounds alike");
        }
        // The orders of reports that were made before there were seeds.
        let first: Vec<_> = (0..6).map(|round| turns(0, round, 3)).collect();
        assert_eq!(
            first,
            [
                [1, 0, 2],
                [0, 2, 1],
                [0, 2, 1],
                [2, 1, 0],
                [0, 2, 1],
                [0, 2, 1]
            ]
        );
    }

    #[test]
    fn matches_the_reference_sequence() {
        // First outputs for seed 1234567, as published with the reference implementation
        // (prng.di.unimi.it/splitmix64.c) and in Rosetta Code's "Pseudo-random numbers/Splitmix64".
        let mut random = SplitMix64::new(1_234_567);
        let first: Vec<u64> = (0..5).map(|_| random.next()).collect();
        assert_eq!(
            first,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821,
            ]
        );
    }

    #[test]
    fn every_number_below_the_bound_comes_up() {
        let mut random = SplitMix64::new(1);
        let mut seen = [0u32; 7];
        for _ in 0..7000 {
            seen[random.below(7)] += 1;
        }
        assert!(
            seen.iter().all(|&times| (850..1150).contains(&times)),
            "{seen:?}"
        );
    }
}
