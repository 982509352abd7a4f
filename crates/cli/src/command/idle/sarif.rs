//! Findings as SARIF 2.1.0 (<https://docs.oasis-open.org/sarif/sarif/v2.1.0/>). Pure.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use brisk_lint::{Description, Finding, Severity};
use brisk_vm::hardware::Place;
use serde_json::{Value, json};

use super::lint::Linted;

/// The log of one run.
pub(super) fn log(linted: &[Linted], rules: &[Description]) -> Value {
    let results: Vec<_> = linted
        .iter()
        .flat_map(|guest| {
            guest
                .findings
                .iter()
                .map(move |finding| result(guest, finding, rules))
        })
        .collect();
    let rules: Vec<_> = rules
        .iter()
        .map(|rule| {
            json!({
                "id": rule.id,
                "shortDescription": { "text": rule.why },
                "help": { "text": format!("Source: {}", rule.source) },
            })
        })
        .collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "brisk idle lint",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            } },
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Impossible | Severity::Faulty | Severity::High => "error",
        Severity::Slow | Severity::Medium => "warning",
        Severity::Low | Severity::Note => "note",
    }
}

fn result(guest: &Linted, finding: &Finding, rules: &[Description]) -> Value {
    let index = rules.iter().position(|rule| rule.id == finding.rule);
    let evidence = finding.evidence.iter().map(|text| format!(" ({text})"));
    let evidence = evidence.collect::<String>();
    let text = format!(
        "{}{evidence}: {}. Fix: {}",
        finding.what, finding.effect, finding.fix
    );
    let location = match &guest.file {
        Some(path) => json!({ "physicalLocation": physical(path, finding) }),
        None => json!({
            "logicalLocations": [{ "fullyQualifiedName": guest.guest, "kind": "resource" }],
        }),
    };
    json!({
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": level(finding.severity),
        "message": { "text": text },
        "locations": [location],
        "properties": { "severity": finding.severity },
    })
}

fn physical(path: &Path, finding: &Finding) -> Value {
    let artifact = json!({ "uri": uri(path) });
    match &finding.place {
        Some(Place::Element { line, column, .. }) => json!({
            "artifactLocation": artifact,
            "region": { "startLine": line, "startColumn": column },
        }),
        _ => json!({ "artifactLocation": artifact }),
    }
}

/// A path, of any bytes, as a relative reference or a file URI (RFC 3986).
fn uri(path: &Path) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let bytes = path.as_os_str().as_bytes();
    let escaped: String = bytes
        .iter()
        .map(|byte| match is_plain(*byte) {
            true => char::from(*byte).to_string(),
            false => format!("%{byte:02X}"),
        })
        .collect();
    match path.is_absolute() {
        true => format!("file://{escaped}"),
        false => escaped,
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn paths_are_references() {
        let uri = |path: &[u8]| uri(Path::new(OsStr::from_bytes(path)));
        assert_eq!(uri(b"vms/my web.xml"), "vms/my%20web.xml");
        assert_eq!(uri("/etc/é".as_bytes()), "file:///etc/%C3%A9");
        assert_eq!(uri(b"50%/a:b?"), "50%25/a%3Ab%3F");
        assert_eq!(uri(b"\xff.xml"), "%FF.xml");
    }
}
