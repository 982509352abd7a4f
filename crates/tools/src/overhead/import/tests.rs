use super::*;

fn import(text: &str) -> Result<Vec<Imported>, ImportError> {
    Ok(joined(vec![("file".to_owned(), read(text)?)])?.results)
}

fn entries(text: &str) -> Vec<(String, f64)> {
    let mut found = import(text).unwrap();
    assert_eq!(found.len(), 1);
    let entries = found.remove(0).entries.into_iter();
    entries
        .map(|entry| (entry.name.clone(), (entry.value() * 10.0).round() / 10.0))
        .collect()
}

fn named(list: &[(&str, f64)]) -> Vec<(String, f64)> {
    let owned = list
        .iter()
        .map(|(name, value)| ((*name).to_owned(), *value));
    owned.collect()
}

#[test]
fn tables_are_read_as_people_write_them() {
    let expected = named(&[
        ("bare metal", 1042.5),
        ("KVM", 1691.8),
        ("Player 5", 1478.7),
    ]);
    for text in [
        "bare metal 1042.5 s 100 %\nKVM 61.62 %\nPlayer 5 70.5 %\n",
        "| System | Time | % |\n|---|---|---|\n| bare metal | 1042.5 | 100 % |\n| KVM | 1691.8 | \
         61.62% |\n| Player 5 | | 70.5 % |\n",
        "name;seconds\nbare metal;1,042.5\nKVM;1691.8\nPlayer 5;1478.7\n",
        "bare metal\t1042.5\nKVM\t1691.8 s\nPlayer 5\t1478.7 sec\n",
        "bare metal      1042.5 s\nKVM             1691.8 s\nPlayer 5        1478.7 s\n",
        "name,seconds\nbare metal,1042.5\nKVM,1691.8\n\"Player 5\",1478.7\n",
        "bare metal 1042.5\nKVM 1691.8\nPlayer 5 1478.7\n",
        "bare metal: 17m22.5s\nKVM: 28m11.8s\nPlayer 5: 24m38.7s\n",
        "> bare metal  1042.5 s  (100 %)\n> KVM         1691.8 s\n> Player 5    1478.7 s\n",
    ] {
        assert_eq!(entries(text), expected, "{text}");
    }
    let runs = import("host|1|2|9\nbox|4|5|6\n").unwrap();
    assert_eq!(runs[0].entries[0].values, [1.0, 2.0, 9.0]);
    let base = runs[0].base(Some("box")).unwrap();
    assert_eq!(runs[0].share(&runs[0].entries[0], base), 250.0);
    let derived = import("a 2 s 100 %\nb 50 %\n").unwrap();
    let origins = |one: &Imported| one.entries.iter().map(|one| one.origin).collect::<Vec<_>>();
    assert_eq!(origins(&derived[0]), [Origin::Number, Origin::Share]);
    assert_eq!(origins(&runs[0]), [Origin::Runs; 2]);
}

#[test]
fn quotes_keep_a_comma_and_what_is_no_number_is_named() {
    let quoted = "name,seconds\n\"bare metal, cold\",\"1,042.5\"\nKVM,\"1,691.8\"\n";
    let expected = named(&[("bare metal, cold", 1042.5), ("KVM", 1691.8)]);
    assert_eq!(entries(quoted), expected);
    for (text, reason) in [
        (
            "host;12,5\nKVM;20,5\n",
            "line 1: host: 12,5 is no number: write 12.5",
        ),
        ("host 12,5 s\nKVM 20 s\n", "line 1: host: 12,5 is no number"),
        (
            "host | 12.5\nKVM | n/a\nXen | 3\n",
            "line 2: KVM: n/a is no number",
        ),
        (
            "host | n/a\nKVM | 4\nXen | 3\n",
            "line 1: host: n/a is no number",
        ),
        ("host;12.5\nKVM;0\nXen;3\n", "line 2: KVM: 0 is not above 0"),
        ("host;12.5\nKVM;-4 s\n", "line 2: KVM: -4 is not above 0"),
        ("host 12.5\nKVM 0\n", "line 2: KVM: 0 is not above 0"),
    ] {
        let error = import(text).unwrap_err().to_string();
        assert!(error.starts_with(reason), "{text}: {error}");
    }
}

#[test]
fn errors_say_what_is_wrong() {
    let of = |text: &str| import(text).unwrap_err().to_string();
    assert!(of("").contains("for example host;12.5"));
    assert!(of("host 12.5\n").contains("one target only"));
    assert!(of("a 50 %\nb 2 s\n").starts_with("line 1: a is the first, and has no seconds"));
    let share = of("a 2 s 100 %\nb 4 s 60 %\n");
    assert_eq!(
        share,
        "line 2: b has 60 %, and its seconds are 50.0 % of the first's speed: \"b 4 s 60 %\""
    );
    assert!(of("<html/>").contains("its root is <html>"));
    assert!(of("<a>").contains("well-formed"));
    assert!(of("<PhoronixTestSuite/>").contains("no results"));
    let base = import("a 2 s\nb 4 s\n").unwrap()[0]
        .base(Some("c"))
        .unwrap_err();
    assert!(base.to_string().contains("which has a, b"));
}

#[test]
fn results_of_the_phoronix_test_suite_have_their_runs() {
    let xml = "<?xml version=\"1.0\"?>\n<!--Phoronix Test Suite-->\n<PhoronixTestSuite><Result>\
               <Title>Timed Linux Kernel Compilation</Title><Description>Build: defconfig</Description>\
               <Scale>Seconds</Scale><Proportion>LIB</Proportion><Data><Entry><Identifier>host\
               </Identifier><Value>100</Value><RawString>99:101:100</RawString></Entry><Entry>\
               <Identifier>kvm</Identifier><Value>125</Value><RawString/></Entry></Data></Result>\
               <Result><Title>Frames</Title><Scale>FPS</Scale><Proportion>HIB</Proportion><Data>\
               <Entry><Identifier>host</Identifier><Value>60</Value></Entry><Entry><Identifier>kvm\
               </Identifier><Value>30</Value></Entry></Data></Result><Result><Title>One</Title><Data>\
               <Entry><Identifier>host</Identifier><Value>1</Value></Entry></Data></Result>\
               </PhoronixTestSuite>";
    let found = import(xml).unwrap();
    let [time, frames] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!(
        time.title,
        "Timed Linux Kernel Compilation: Build: defconfig"
    );
    assert_eq!((&*time.unit, time.lower_is_better), ("s", true));
    assert_eq!(time.entries[0].values, [99.0, 101.0, 100.0]);
    let share = |one: &Imported| one.share(&one.entries[1], one.base(None).unwrap());
    assert_eq!((share(time), share(frames)), (80.0, 50.0));
    assert!(!frames.lower_is_better);
}

#[test]
fn comparisons_of_mmtests_have_their_kernels() {
    // The form is that of mmtests; the numbers are made up.
    let text = "kernbench\n                                5.4.0-rc3              5.4.0-rc3\n\
                \x20                                 vanilla         patched-v1r1\n\
                Amean     user-256    13249.50 (   0.00%)    15928.40 * -20.22%*\n\
                Amean     elsp-256      160.00 (   0.00%)      200.00 * -25.00%*\n\
                Stddev    elsp-256        2.46 (   0.00%)        0.81 (  67.01%)\n\n\
                Duration Elapsed      519.11      387.65\n";
    let found = import(text).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(
        (&*found[0].title, &*found[0].unit),
        ("kernbench elsp-256", "s")
    );
    assert_eq!(found[0].entries[0].origin, Origin::Mean);
    let names: Vec<_> = found[0].entries.iter().map(|entry| &*entry.name).collect();
    assert_eq!(names, ["5.4.0-rc3 vanilla", "5.4.0-rc3 patched-v1r1"]);
    assert_eq!(
        found[0].share(&found[0].entries[1], &found[0].entries[0]),
        80.0
    );
    // Quoted in a mail, and with a heading of another form.
    let mail: String = text
        .lines()
        .filter(|line| !line.contains("rc3"))
        .map(|line| format!("> {line}\n"))
        .collect();
    let names = &import(&mail).unwrap()[0].entries[0].name;
    assert_eq!(names, "vanilla");
    // An empty line below the heading.
    let apart = text.replace("v1r1\n", "v1r1\n\n");
    let names = &import(&apart).unwrap()[0].entries[1].name;
    assert_eq!(names, "5.4.0-rc3 patched-v1r1");
}

#[test]
fn hyperfine_is_read_with_its_runs() {
    // The form is that of hyperfine; the numbers are made up.
    let text = r#"{"results": [
        {"command": "make", "mean": 2.0, "median": 2.0, "min": 1.9, "times": [1.9, 2.0, 2.1]},
        {"command": "podman run box make", "mean": 2.5, "median": 2.4, "min": 2.4}]}"#;
    let found = import(text).unwrap();
    assert_eq!(found[0].entries[0].values, [1.9, 2.0, 2.1]);
    assert_eq!(found[0].entries[1].values, [2.4]);
    assert!(matches!(import("{}"), Err(ImportError::Json(_))));
}

/// The form is that of the Phoronix Test Suite; the numbers are made up.
fn of_system(name: &str, results: &[(&str, &[&str])]) -> Vec<Imported> {
    let mut xml = "<PhoronixTestSuite>".to_owned();
    for (title, values) in results {
        xml += &format!(
            "<Result><Title>{title}</Title><Scale>Seconds</Scale><Proportion>LIB</Proportion><Data>"
        );
        for value in *values {
            xml += &format!("<Entry><Identifier>{name}</Identifier><Value>{value}</Value></Entry>");
        }
        xml += "</Data></Result>";
    }
    read(&(xml + "</PhoronixTestSuite>")).unwrap()
}

#[test]
fn files_of_several_systems_are_put_side_by_side() {
    let host = of_system("host", &[("gcc", &["10", "12"]), ("only", &["1"])]);
    let guest = of_system("guest", &[("gcc", &["22"])]);
    let files = vec![("a.xml".to_owned(), host), ("b.xml".to_owned(), guest)];
    let Joined {
        results: found,
        left_out,
    } = joined(files).unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(left_out, ["only"]);
    let shown: Vec<_> = found[0]
        .entries
        .iter()
        .map(|entry| (&*entry.name, &*entry.values))
        .collect();
    // A system that is there twice has two runs.
    assert_eq!(shown, [("host", &[10.0, 12.0][..]), ("guest", &[22.0])]);
}

#[test]
fn systems_of_one_name_have_that_of_their_file() {
    let one = || read("make 10 s\n").unwrap();
    let files = ["host.txt", "guest.txt"].map(|file| (file.to_owned(), one()));
    let found = joined(files.into()).unwrap().results;
    let names: Vec<_> = found[0].entries.iter().map(|entry| &*entry.name).collect();
    assert_eq!(names, ["make (host.txt)", "make (guest.txt)"]);
}

#[test]
fn files_without_a_common_result_say_what_they_have() {
    let files = ["one", "two"].map(|title| (title.to_owned(), of_system("a", &[(title, &["1"])])));
    let error = joined(files.into()).unwrap_err().to_string();
    assert!(error.contains("which have one; two"), "{error}");
}

#[test]
fn a_file_that_has_a_result_twice_has_two_results() {
    let both = || of_system("a", &[("gcc", &["1"]), ("gcc", &["5"])]);
    let other = of_system("b", &[("gcc", &["2"]), ("gcc", &["10"])]);
    let files = vec![("a.xml".to_owned(), both()), ("b.xml".to_owned(), other)];
    let found = joined(files).unwrap().results;
    let values = |one: &Imported| one.entries.iter().map(Entry::value).collect::<Vec<_>>();
    assert_eq!(values(&found[0]), [1.0, 2.0]);
    assert_eq!(values(&found[1]), [5.0, 10.0]);
    // Comparisons of two machines in one mail.
    let mail = "    one two\nAmean elsp-2 100.0 ( 0.00%) 80.0 * 20.00%*\n\n    \
                one two\nAmean elsp-2 10.0 ( 0.00%) 20.0 * -100.00%*\n";
    assert_eq!(import(mail).unwrap().len(), 2);
}

#[test]
fn what_differs_in_more_than_its_title_is_not_compared() {
    let of = |version: &str| {
        let xml = format!(
            "<PhoronixTestSuite><Result><Title>Kernel</Title><AppVersion>{version}</AppVersion>\
             <Data><Entry><Identifier>a</Identifier><Value>1</Value></Entry></Data></Result>\
             </PhoronixTestSuite>"
        );
        (format!("{version}.xml"), read(&xml).unwrap())
    };
    assert!(joined(vec![of("5.18"), of("6.1")]).is_err());
    let table = ("table".to_owned(), read("a 1 s\n").unwrap());
    assert!(joined(vec![of("6.1"), table]).is_err());
}

#[test]
fn commands_of_hyperfine_are_compared_across_machines() {
    let of = |file: &str, seconds: [f64; 2]| {
        let [make, clean] = seconds;
        let text = format!(
            r#"{{"results": [{{"command": "make", "median": {make}}},
                {{"command": "make clean", "median": {clean}}}]}}"#
        );
        (file.to_owned(), read(&text).unwrap())
    };
    let files = vec![of("host.json", [2.0, 0.5]), of("guest.json", [3.0, 1.0])];
    let found = joined(files).unwrap().results;
    let titles: Vec<_> = found.iter().map(|one| &*one.title).collect();
    assert_eq!(titles, ["make", "make clean"]);
    let names: Vec<_> = found[1].entries.iter().map(|entry| &*entry.name).collect();
    assert_eq!(names, ["host.json", "guest.json"]);
}

#[test]
fn many_lines_are_read_in_a_moment() {
    let text = "a 1 s\n".repeat(200_000);
    let files = ["one", "two"].map(|file| (file.to_owned(), read(&text).unwrap()));
    assert_eq!(
        joined(files.into()).unwrap().results[0].entries.len(),
        400_000
    );
}

#[test]
fn an_element_of_phoronix_with_very_many_attributes_is_refused() {
    let attributes: String = (0..100_000)
        .map(|number| format!(" a{number}=''"))
        .collect();
    let text =
        format!("<?xml version=\"1.0\"?><PhoronixTestSuite><a{attributes}/></PhoronixTestSuite>");
    let error = import(&text).unwrap_err().to_string();
    assert!(error.contains("more than 1000 attributes"), "{error}");
}
