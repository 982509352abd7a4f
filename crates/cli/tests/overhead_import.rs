//! Results of others are read and drawn.

use std::fs;

use brisk_testkit::{Brisk, brisk_of};
use serde_json::Value;
use tempfile::tempdir;

/// A comparison that many know: building a kernel on bare metal and on eight hypervisors.
const TABLE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/fixtures/kernel-compile.txt"
);

fn import() -> Brisk {
    brisk_of!["overhead", "import"]
}

#[test]
fn a_table_is_drawn_as_its_two_graphs_and_called_what_it_is() {
    let dir = tempdir().unwrap();
    let at = |name: &str| {
        dir.path()
            .join(name)
            .into_os_string()
            .into_string()
            .unwrap()
    };
    let (svg, html, json) = (at("a.svg"), at("a.html"), at("a.json"));
    let shown = import()
        .args([TABLE, "--svg", &svg, "--html", &html, "--output", &json])
        .exits(0)
        .text();
    for line in [
        "target      result  × Bare metal  % of Bare metal  runs",
        "Bare metal  1042 s          1.00          100.0 %     -",
        "VirtualBox  5470 s          5.25           19.1 %     -",
    ] {
        assert!(shown.lines().any(|one| one == line), "{line}: {shown}");
    }
    assert!(shown.contains("not measured here"));
    assert!(shown.contains("computed from shares of the first: Xen PV, ESXi,"));
    let picture = fs::read_to_string(svg).unwrap();
    for text in ["Seconds", "in percent of Bare metal's", "5470 s", "19.06 %"] {
        assert!(picture.contains(text), "{text}");
    }
    assert_eq!(picture.matches("not measured here").count(), 2);
    assert!(fs::read_to_string(html).unwrap().contains("5470 s"));
    let report: Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    assert_eq!(report["kind"], "overhead-import");
    assert_eq!(report["series"].as_array().unwrap().len(), 8);
    assert!(
        report["notes"][0]
            .as_str()
            .unwrap()
            .ends_with("not measured here")
    );
}

#[test]
fn another_base_and_one_of_several_results_can_be_chosen() {
    let dir = tempdir().unwrap();
    let out = dir.path().join("report.json");
    let out = out.to_str().unwrap();
    let of_kvm = import().args([TABLE, "--base", "KVM", "-o", out]).exits(0);
    assert!(
        of_kvm
            .text()
            .contains("Bare metal  1042 s   0.62   162.3 %     -")
    );
    // The form is that of mmtests; the numbers are made up.
    let text = "                 base       patched\n\
                Amean elsp-2 100.0 ( 0.00%) 80.0 * 20.00%*\n\
                Amean elsp-4 50.0 ( 0.00%) 50.0 ( 0.00%)\n";
    let file = dir.path().join("mmtests.txt");
    fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let both = import().args([file, "-o", out]).exits(0).text();
    assert!(both.contains("elsp-2\n") && both.contains("elsp-4\n"));
    let one = import()
        .args([file, "--result", "elsp-2", "-o", out])
        .exits(0);
    let one = one.text();
    assert!(one.contains("125.0 %") && !one.contains("elsp-4"), "{one}");
}

#[test]
fn rates_and_means_are_called_so() {
    let dir = tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (file, json, svg) = (at("results.csv"), at("a.json"), at("a.svg"));
    let text = "test,bare metal,KVM\nuntar (s),8.0,10.0\nfio randread (IOPS),90000,60000\n";
    fs::write(&file, text).unwrap();
    let shown = import()
        .args([&*file, "-o", &json, "--svg", &svg])
        .exits(0)
        .text();
    for line in [
        "fio randread",
        "KVM         60000 IOPS          1.50           66.7 %     -",
    ] {
        assert!(shown.lines().any(|one| one == line), "{line}: {shown}");
    }
    let report: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    let better = |place: usize| report["series"][place]["better"].clone();
    assert_eq!((better(0), better(2)), ("lower".into(), "higher".into()));
    assert!(
        fs::read_to_string(svg)
            .unwrap()
            .contains("fio randread: IOPS")
    );
    // What was imported is read again as what it is.
    let again = import().args([&*json, "-o", &at("b.json")]).exits(0);
    assert!(again.text().contains("1.50           66.7 %     -"));
    // The form is that of hyperfine --export-csv; the numbers are made up.
    let text = "command,mean,stddev,median,user,system,min,max\nmake,2,1,2,1,1,1,3\n\
                podman,3,1,3,1,1,2,4\n";
    fs::write(&file, text).unwrap();
    let shown = import().args([&*file, "-o", &json]).exits(0).text();
    assert!(
        shown.contains("podman  3.000 s    1.50     66.7 %  mean"),
        "{shown}"
    );
    assert!(fs::read_to_string(&json).unwrap().contains("podman (mean)"));
}

#[test]
fn what_is_no_result_is_named() {
    let dir = tempdir().unwrap();
    let file = dir.path().join("file");
    let path = file.to_str().unwrap();
    let refused = |words: &[&str], says: &[&str]| {
        let _ = import().args(words).exits(125).explains(says);
    };
    refused(&["/nonexistent"], &["cannot read /nonexistent"]);
    refused(&["/dev/zero"], &["not a regular file"]);
    fs::write(&file, [0xff, 0xfe]).unwrap();
    refused(&[path], &[path, "UTF-8"]);
    fs::write(&file, "<svg/>").unwrap();
    refused(&[path], &["<svg>", "composite.xml"]);
    fs::write(&file, "host 12.5\n").unwrap();
    refused(&[path], &["one target only"]);
    fs::write(&file, "test,host,KVM\nmemory (GiB),2,3\n").unwrap();
    refused(&[path], &["line 2", "\"memory (GiB),2,3\""]);
    refused(
        &[TABLE, "--base", "Xen"],
        &["no target Xen", "Xen PV, ESXi"],
    );
    refused(&[TABLE, "--result", "elsp"], &["no result with \"elsp\""]);
}
