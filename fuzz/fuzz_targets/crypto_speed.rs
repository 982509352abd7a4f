//! Outputs of `openssl speed`, as users paste them: any text has curves or a reason why not, and any
//! two curves have a verdict.
#![no_main]

use brisk_tools::crypto::fit::{Crossover, Metric};
use brisk_tools::crypto::speed::{Speed, failure};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let _ = failure(&text, "aes-128-cbc");
    let Ok(speed) = Speed::parse(&text) else {
        return;
    };
    for one in &speed.measured {
        assert!(!one.curve.points.is_empty());
        for point in &one.curve.points {
            assert!(
                point
                    .seconds
                    .iter()
                    .all(|time| *time > 0.0 && time.is_finite())
            );
        }
    }
    for remark in &speed.remarks {
        assert!(!remark.to_string().is_empty());
    }
    if let [first, .., last] = &speed.measured[..] {
        let crossover = Crossover::of(&first.curve, &last.curve, 0);
        assert!(!crossover.sentence(Metric::Time).is_empty());
    }
});
