//! Output of fio: `--output-format=json`, and `terse` of version 3 (HOWTO of fio, "Terse output").
//! Pure.

use serde_json::Value;

use super::{Entry, ImportError, Imported, Origin, number, refused};

/// Operations a second of a job in a direction: of the whole job, and no run.
fn result(job: &str, direction: &str, rate: f64) -> Imported {
    Imported {
        key: Some("fio".to_owned()),
        title: format!("fio {job}: {direction}"),
        unit: "IOPS".to_owned(),
        lower_is_better: false,
        entries: vec![Entry::of_file(vec![rate], Origin::Mean)],
    }
}

pub(super) fn is_json(file: &Value) -> bool {
    file.get("fio version").is_some() && file.get("jobs").is_some_and(Value::is_array)
}

pub(super) fn of_json(file: &Value) -> Result<Vec<Imported>, ImportError> {
    let mut found = Vec::new();
    for job in file["jobs"].as_array().into_iter().flatten() {
        let name = job["jobname"].as_str().unwrap_or("job");
        if job["error"].as_i64().is_some_and(|error| error != 0) {
            return Err(ImportError::Job(name.to_owned()));
        }
        for direction in ["read", "write", "trim"] {
            let rate = job[direction]["iops"].as_f64();
            found.extend(
                rate.filter(|rate| rate.is_finite() && *rate > 0.0)
                    .map(|rate| result(name, direction, rate)),
            );
        }
    }
    Ok(found)
}

/// Places of the operations a second of reads and of writes.
const RATES: [(&str, usize); 2] = [("read", 7), ("write", 48)];

fn is_line(line: &str) -> bool {
    let mut fields = line.trim().split(';');
    let version = fields
        .next()
        .and_then(|version| version.parse::<u32>().ok());
    version.is_some() && fields.next().is_some_and(|name| name.starts_with("fio-"))
}

pub(super) fn is_terse(text: &str) -> bool {
    text.lines().any(is_line)
}

pub(super) fn of_terse(text: &str) -> Result<Vec<Imported>, ImportError> {
    let mut found = Vec::new();
    for (place, line) in text.lines().enumerate().filter(|(_, line)| is_line(line)) {
        let fields: Vec<_> = line.trim().split(';').collect();
        let is_known = fields[0] == "3" && fields.len() > RATES[1].1;
        if !is_known || fields[4] != "0" {
            return Err(refused(
                place + 1,
                line,
                "terse output of version 3 is read, of a job without an error; \
                 write --output-format=json",
            ));
        }
        let rates = RATES.iter().filter_map(|(direction, place)| {
            let rate = number(fields[*place])?;
            Some(result(fields[2], direction, rate))
        });
        found.extend(rates);
    }
    Ok(found)
}
