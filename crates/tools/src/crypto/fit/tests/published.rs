//! Measurements that people published.

use super::super::line::At;
use super::*;

/// What a source gives at each size.
enum Given {
    /// Operations in 3 s.
    Operations,
    /// Thousands of bytes per second.
    Kilobytes,
    /// A cost, in any unit.
    Cost,
}

fn curve(name: &str, given: &Given, sizes: &[u64], figures: &[f64]) -> Curve {
    let points = sizes.iter().zip(figures).map(|(bytes, figure)| {
        let seconds = match given {
            Given::Operations => 3.0 / figure,
            Given::Kilobytes => *bytes as f64 / (figure * 1000.0),
            Given::Cost => figure * 1e-9,
        };
        Point {
            bytes: *bytes,
            seconds: vec![seconds],
        }
    });
    Curve {
        name: name.into(),
        points: points.collect(),
        ..Curve::default()
    }
}

/// Measurements that people published.
struct Published {
    /// Where.
    source: &'static str,
    given: Given,
    sizes: &'static [u64],
    software: &'static [f64],
    offload: &'static [f64],
    /// The crossover in bytes, or why there is none.
    expected: &'static str,
}

const PUBLISHED: &[Published] = &[
    Published {
        source: "a board of 1.2 GHz with an engine",
        given: Given::Operations,
        sizes: &[16, 64, 256, 1024, 8192],
        software: &[1_870_065.0, 516_074.0, 132_474.0, 33_342.0, 4171.0],
        offload: &[85_277.0, 82_960.0, 59_806.0, 40_939.0, 8227.0],
        expected: "730, between 256 and 8192",
    },
    Published {
        source: "openwrt/packages#11182, WRT3200ACM, AES-256",
        given: Given::Kilobytes,
        sizes: SIX,
        software: &[37255.54, 42867.84, 45405.70, 46087.17, 46295.72, 46301.18],
        offload: &[1232.86, 4851.14, 17397.67, 48835.24, 91714.90, 97479.34],
        expected: "1001, between 256 and 8192",
    },
    Published {
        source: "the former, with small sizes left to software by the driver",
        given: Given::Kilobytes,
        sizes: SIX,
        software: &[37255.54, 42867.84, 45405.70, 46087.17, 46295.72, 46301.18],
        offload: &[28900.50, 39968.58, 44547.84, 47765.16, 90431.49, 96665.60],
        expected: "a step between 256 and 8192",
    },
    Published {
        source: "openwrt/openwrt#1547, mvebu, AES-128",
        given: Given::Operations,
        sizes: SIX,
        software: &[
            7_512_300.0,
            2_439_800.0,
            663_195.0,
            169_934.0,
            21_325.0,
            10_637.0,
        ],
        offload: &[
            188_354.0, 187_457.0, 170_825.0, 133_037.0, 35_897.0, 19_600.0,
        ],
        expected: "1708, between 256 and 8192",
    },
    Published {
        source: "openwrt/openwrt#10042, EIP93, CTR with 128 bits",
        given: Given::Cost,
        sizes: &[16, 64, 256, 1024, 1472, 8192],
        software: &[1313.0, 2576.5, 10025.75, 36891.5, 52833.75, 292_113.5],
        offload: &[14915.0, 12889.0, 17183.5, 19410.0, 24109.5, 68983.5],
        expected: "465, between 64 and 1024",
    },
    Published {
        source: "openwrt/openwrt#965, ramips",
        given: Given::Operations,
        sizes: SIX,
        software: &[992_301.0, 316_861.0, 85_408.0, 21_787.0, 2726.0, 1366.0],
        offload: &[58_029.0, 47_902.0, 30_504.0, 12_592.0, 1892.0, 944.0],
        expected: "never up to 16384, Parallel",
    },
    Published {
        source: "intel/QAT_Engine#72",
        given: Given::Kilobytes,
        sizes: SIX,
        software: &[
            57102.53, 100_105.0, 112_768.78, 135_473.49, 145_940.48, 134_955.01,
        ],
        offload: &[
            44193.89, 79474.41, 116_756.31, 134_160.04, 37451.09, 97949.01,
        ],
        expected: "partly: 8192",
    },
];

fn described(crossover: &Crossover) -> String {
    let between = |bracket: &Bracket| format!("between {} and {}", bracket.low, bracket.high);
    let bracket = crossover.bracket.as_ref().map(between).unwrap_or_default();
    match &crossover.verdict {
        Verdict::From(estimate) => format!("{:.0}, {bracket}", estimate.bytes),
        Verdict::Never { largest, beyond } => format!("never up to {largest}, {beyond:?}"),
        Verdict::Rejected(Rejection::Residual {
            name,
            bytes,
            residual,
        }) => {
            let percent = residual * 100.0;
            format!("rejected: {name} at {bytes}, {percent:.0} %; {bracket}")
        }
        Verdict::Rejected(Rejection::Changes(brackets)) => {
            let places: Vec<_> = brackets.iter().map(between).collect();
            format!("rejected: {}", places.join(", "))
        }
        Verdict::Step { up_to, from } => format!("a step between {up_to} and {from}"),
        Verdict::Partly { .. } => {
            let decided = crossover.sizes.iter();
            let decided = decided.filter(|size| size.order != Order::Undecided);
            let decided: Vec<_> = decided.map(|size| size.bytes.to_string()).collect();
            format!("partly: {}", decided.join(", "))
        }
        other => format!("{other:?}"),
    }
}

#[test]
fn published_measurements_have_their_crossovers() {
    for one in PUBLISHED {
        let of = |name, figures| curve(name, &one.given, one.sizes, figures);
        let (software, offload) = (of("software", one.software), of("offload", one.offload));
        let crossover = Crossover::of(&software, &offload);
        assert_eq!(described(&crossover), one.expected, "{}", one.source);
        let Some(estimate) = crossover.estimate() else {
            continue;
        };
        let bounds = estimate.interval.unwrap();
        let high = bounds.high.unwrap();
        assert!(
            bounds.low < estimate.bytes && estimate.bytes < high,
            "{}: {bounds:?}",
            one.source
        );
    }
}

#[test]
fn quick_assist_is_rejected_by_its_line_too() {
    let one = PUBLISHED.last().unwrap();
    let offload = curve("offload", &one.given, one.sizes, one.offload);
    let points = offload.points.iter().map(|point| At {
        bytes: point.bytes as f64,
        seconds: point.seconds[0],
    });
    let line = Line::through(&points.collect::<Vec<_>>()).unwrap();
    assert!((line.residual() - 0.67).abs() < 0.005, "{line:?}");
}
