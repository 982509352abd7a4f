use super::*;
use crate::render::example;
use crate::{Sample, Unit};

#[test]
fn a_saved_report_is_loaded_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("boot.json");
    let mut report = example::report();
    report.save(&path).unwrap();
    assert_eq!(Report::load(&path).unwrap(), report);
    report
        .series_mut("more", Unit::Count)
        .push(Sample::measured(0, 0.1 + 0.2));
    report.save(&path).unwrap();
    assert_eq!(Report::load(&path).unwrap(), report);
    let files = std::fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(files, 1, "nothing but the report stays behind");
}

/// A report took the place of /dev/full, where root named that.
#[cfg(unix)]
#[test]
fn nothing_but_a_file_is_replaced() {
    use std::os::unix::fs::{FileTypeExt, symlink};
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let to_socket = directory.path().join("to-socket");
    symlink("socket", &to_socket).unwrap();
    for path in [&socket, &to_socket] {
        let error = example::report().save(path).unwrap_err();
        let source = std::error::Error::source(&error).map(ToString::to_string);
        let text = format!("{error} {}", source.unwrap_or_default());
        assert!(text.contains("a report would take its place"), "{text}");
    }
    assert!(socket.metadata().unwrap().file_type().is_socket());
    let link = directory.path().join("link");
    symlink("report.json", &link).unwrap();
    for _ in 0..2 {
        std::fs::write(directory.path().join("report.json"), "old").unwrap();
        example::report().save(&link).unwrap();
        assert!(link.is_symlink());
        assert!(Report::load(&directory.path().join("report.json")).is_ok());
    }
}

#[test]
fn a_report_that_cannot_be_saved_leaves_the_old_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("taken");
    std::fs::create_dir(&path).unwrap();
    let error = example::report().save(&path).unwrap_err();
    assert!(error.to_string().starts_with("cannot save the report "));
    assert!(path.is_dir());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    assert!(
        example::report()
            .save(&directory.path().join("no/such"))
            .is_err()
    );
}

#[cfg(unix)]
#[test]
fn a_report_that_is_replaced_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("report.json");
    std::fs::write(&path, "old").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o4600)).unwrap();
    example::report().save(&path).unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
}

#[track_caller]
fn refused(text: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("report.json");
    std::fs::write(&path, text).unwrap();
    let error = Report::load(&path).unwrap_err().to_string();
    error.replace(&directory.path().display().to_string(), "DIR")
}

#[test]
fn other_schemas_are_refused() {
    insta::assert_snapshot!(
        refused(r#"{"schema":"brisk.report/2","kind":7}"#),
        @r#"DIR/report.json has the schema "brisk.report/2", and this version reads "brisk.report/1": use the version of brisk that wrote it"#
    );
    insta::assert_snapshot!(
        refused("{}"),
        @r#"DIR/report.json has the schema "", and this version reads "brisk.report/1": use the version of brisk that wrote it"#
    );
    insta::assert_snapshot!(refused("{"), @"DIR/report.json is not a brisk report");
    insta::assert_snapshot!(
        refused(r#"{"schema":"brisk.report/1"}"#),
        @"DIR/report.json is not a brisk report"
    );
}

#[test]
fn additions_of_a_later_version_are_passed_over() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("report.json");
    let text = r#"{"schema":"brisk.report/1","kind":"boot","created":"","environment":{},"new":1}"#;
    std::fs::write(&path, text).unwrap();
    assert_eq!(Report::load(&path).unwrap().kind, "boot");
}

#[test]
fn warnings_are_added_once() {
    let mut report = example::report();
    report.warn();
    let once = report.warnings.clone();
    assert!(!once.is_empty());
    report.warn();
    assert_eq!(report.warnings, once);
}

#[test]
fn the_schema_is_the_documented_one() {
    insta::assert_snapshot!(
        "report_schema",
        serde_json::to_string_pretty(&json_schema()).unwrap()
    );
}
