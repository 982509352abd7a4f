//! Parser of `virsh domjobinfo` in the C locale. Pure.

/// Progress of a job, such as a save.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Job {
    /// Bytes that are written.
    pub processed: u64,
    /// Bytes that are left.
    pub remaining: u64,
}

impl Job {
    /// Parses the output; `None` if there is no job, or no data of one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let value = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(':'));
            let (_, value) = lines.find(|(found, _)| found.trim() == name)?;
            bytes(value)
        };
        Some(Self {
            processed: value("Data processed")?,
            remaining: value("Data remaining")?,
        })
    }
}

/// Bytes of a number with a unit, as `vshPrettyCapacity()` prints it.
fn bytes(text: &str) -> Option<u64> {
    let mut words = text.split_whitespace();
    let number: f64 = words.next()?.parse().ok()?;
    let shift = match words.next()? {
        "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        "TiB" => 40,
        _ => return None,
    };
    let bytes = number * (1_u64 << shift) as f64;
    (0.0..1e18).contains(&bytes).then_some(bytes as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Output of virsh 9.0, shortened.
    const OUTPUT: &str = "\
Job type:         Unbounded   
Operation:        Save        
Time elapsed:     1048         ms
Data processed:   233.000 MiB
Data remaining:   1.500 GiB
Data total:       2.016 GiB
Memory processed: 233.000 MiB

";

    #[test]
    fn a_job_has_what_is_done_and_what_is_left() {
        let job = Job::parse(OUTPUT).unwrap();
        assert_eq!(job.processed, 233 << 20);
        assert_eq!(job.remaining, 3 << 29);
    }

    #[test]
    fn without_data_there_is_no_job() {
        for text in [
            "",
            "Job type:         None        \n\n",
            &OUTPUT.replace("GiB", "XiB"),
            &OUTPUT.replace("1.500", "-1"),
            &OUTPUT.replace("1.500", "nan"),
            &OUTPUT.replace("1.500", "1e300"),
        ] {
            assert_eq!(Job::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in "(Data processed: )?\\PC{0,40}\n?\\PC{0,20}") {
            let _ = Job::parse(&text);
        }
    }
}
