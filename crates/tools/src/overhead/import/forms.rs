//! Tests: outputs and tables in the forms that people bring. The forms are those of the programs and
//! of public posts that are named; the numbers are made up.

use super::*;

/// Results as `TITLE [UNIT] TARGET=VALUE …`, with `<` where less is better, and what is no run.
fn shown(files: &[(&str, &str)]) -> Vec<String> {
    let files = files.iter();
    let files = files.map(|(name, text)| ((*name).to_owned(), read(text).unwrap()));
    let found = joined(files.collect()).unwrap().results;
    let one = |one: &Imported| {
        let entries = one.entries.iter().map(|entry| {
            let values: Vec<_> = entry
                .values
                .iter()
                .map(|value| format!("{}", (value * 1e6).round() / 1e6))
                .collect();
            let mark = match entry.origin {
                Origin::Runs => "",
                Origin::Number => "?",
                Origin::Mean => " mean",
                Origin::Share => " share",
            };
            format!(" {}={}{mark}", entry.name, values.join(","))
        });
        let better = if one.lower_is_better { "<" } else { ">" };
        format!(
            "{} [{better}{}]{}",
            one.title,
            one.unit,
            entries.collect::<String>()
        )
    };
    found.iter().map(one).collect()
}

fn of(text: &str) -> Vec<String> {
    shown(&[("file", text)])
}

fn refusal(text: &str) -> String {
    let error = read(text).and_then(|found| joined(vec![("file".to_owned(), found)]));
    error.unwrap_err().to_string()
}

#[test]
fn tests_in_lines_have_their_systems_in_columns() {
    let expected = [
        "compile [<s] bare metal=120.4? KVM=131.9? Xen=140.2?",
        "untar [<s] bare metal=8.21? KVM=9.77? Xen=10.4?",
        "fio randread [>IOPS] bare metal=91000? KVM=60100? Xen=55300?",
    ];
    let csv = "test,bare metal,KVM,Xen\ncompile (s),120.4,131.9,140.2\nuntar (s),8.21,9.77,10.4\n\
               fio randread (IOPS),91000,60100,55300\n";
    let markdown = "# My results\n\n| Test | bare metal | KVM | Xen |\n|:---|---:|---:|---:|\n\
                    | **compile** (s) | 120.4 | 131.9 (+9.5%) | 140.2 |\n\
                    | untar | 8.21 s | 9.77 s | 10.4 s |\n\
                    | fio randread | 91000 IOPS | 60100 IOPS | 55300 IOPS |\n\nMeasured 2 days ago.\n";
    // The form of a table in a mail about paravirtual locks, with a rule below the heading.
    let mail = ">>                  bare metal    KVM     Xen\n>> ----------------------------------\n\
                >> compile (s)           120.4    131.9   140.2\n\
                >> untar (s)              8.21     9.77    10.4\n\
                >> fio randread (IOPS)   91000    60100   55300\n";
    let units = "benchmark;unit;bare metal;KVM;Xen\ncompile;s;120.4;131.9;140.2\n\
                 untar;ms;8210;9770;10400\nfio randread;IOPS;91000;60100;55300\n";
    for text in [csv, markdown, mail, units] {
        assert_eq!(of(text), expected, "{text}");
    }
    // A system without a test is left out of it; systems may be called by versions.
    let text = "test,6.1,6.12\nbuild time,12.5,12.1\nuntar (s),8.2,-\n";
    assert_eq!(of(text), ["build time [<s] 6.1=12.5? 6.12=12.1?"]);
}

#[test]
fn systems_in_lines_have_a_result_in_each_column() {
    let text = "| System | compile (s) | fio (IOPS) | remark |\n|---|---|---|---|\n\
                | host | 120.4 | 91000 | |\n| KVM | 131.9 | 60100 | virtio |\n";
    let expected = [
        "compile [<s] host=120.4? KVM=131.9?",
        "fio [>IOPS] host=91000? KVM=60100?",
    ];
    assert_eq!(of(text), expected);
    let text = "System,7-Zip (MIPS),build (s)\nhost,65000,42.1\nKVM:,63000,44\n";
    let expected = [
        "7-Zip [>MIPS] host=65000? KVM=63000?",
        "build [<s] host=42.1? KVM=44?",
    ];
    assert_eq!(of(text), expected);
    let text = "system;mean (ms);stddev (ms);min (ms)\nhost;120.4;2;118\nKVM;131.9;3;128\n";
    assert_eq!(of(text), [" [<s] host=0.1204 mean KVM=0.1319 mean"]);
    let text = "system,run 1,run 2,mean\nhost,1.5,1.7,1.6\nKVM,2.5,2.7,2.6\n";
    assert_eq!(of(text), [" [<s] host=1.5,1.7 KVM=2.5,2.7"]);
    assert_eq!(
        of("host 91000 IOPS 100 %\nKVM 50 %\n"),
        [" [>IOPS] host=91000? KVM=45500 share"]
    );
    assert_eq!(
        of("name | time\n---|---\nhost | 2.0 ± 0.1 ms\nKVM | 3.0 ± 0.2 ms\n"),
        [" [<s] host=0.002 mean KVM=0.003 mean"]
    );
}

#[test]
fn numbers_that_may_be_anything_are_refused_with_their_line() {
    for (text, says) in [
        (
            "test,host,KVM\ncompile,120,131\n",
            "line 2: what the numbers of compile are is not said",
        ),
        (
            "system,Kernel build\nhost,120\nKVM,131\n",
            "line 1: what the numbers below Kernel build",
        ),
        (
            "system,threads,compile\nhost,4,12\nKVM,4,13\n",
            "below compile",
        ),
        (
            "test,run 1,run 2\ncompile,12,13\nuntar,4,5\n",
            "line 1: whether run 1 is a system",
        ),
        (
            "compile (s),12,13\nuntar (s),4,5\n",
            "line 1: compile (s) is a test",
        ),
        (
            "system,compile (s)\nhost,60.1k\nKVM,70\n",
            "line 2: host: 60.1k is no number",
        ),
        (
            "test,host,KVM\nfio (MB/s),120 KB/s,131\n",
            "line 2: fio (MB/s): MB/s and KB/s are not",
        ),
        (
            "test,host,KVM\nmemory (GiB),2,3\n",
            "line 2: what the numbers of memory (GiB)",
        ),
        (
            "| system | s |\n|---|---|\n| host | 12 |\n| KVM | crashed |\n",
            "line 4: KVM: crashed",
        ),
        (
            "| system | s |\n|---|---|\n| host | 12 |\n| KVM | it hangs |\n",
            "line 4: KVM has no",
        ),
        (
            "test,host,KVM\nuntar (s),1,2,3\n",
            "line 2: it has 4 columns",
        ),
        // A prompt of a shell is no target.
        (
            "[me@box ~]$ make -j 4\nhost 12.5\n",
            "line 1: it is a command line of a shell",
        ),
        (
            "host 12.5 12.6\nKVM 14 14.5 14.6\nXen 15.5\n",
            "line 1: it has more numbers",
        ),
        (
            "Player 5 12.5\nFusion 6 13.5\n",
            "line 1: whether 5 belongs to the name",
        ),
        (
            "host 12.5\nall runs took long, of 5 or 6 minutes each\nKVM 13\n",
            "line 2: it ends with",
        ),
        (
            "We ran it on both machines and KVM took 12 s\nhost 11 s\n",
            "line 1: it begins with no",
        ),
    ] {
        let error = refusal(text);
        assert!(error.contains(says), "{text}: {error}");
        let line = error
            .split_once("line ")
            .and_then(|(_, rest)| rest.split_once(':'));
        let line = line.and_then(|(line, _)| line.parse::<usize>().ok());
        let line = text.lines().nth(line.unwrap() - 1).unwrap();
        assert!(error.ends_with(&format!("\"{line}\"")), "{error}");
    }
}

#[test]
fn runs_may_be_one_blank_apart() {
    let text = "host 12.5 12.4 12.6\nkvm 14.1 14.0 14.2\n";
    assert_eq!(of(text), [" [<s] host=12.5,12.4,12.6 kvm=14.1,14,14.2"]);
}

#[test]
fn comparisons_of_mmtests_are_read_in_each_form() {
    // Minima below the heading, as older versions print them.
    let minima = "kernbench\n                          base              patched\n\
                  Min       elsp-2     120.10 (   0.00%)   110.20 (   8.24%)\n\
                  Amean     elsp-2     121.50 (   0.00%)   111.40 *   8.31%*\n\
                  Stddev    elsp-2       0.90 (   0.00%)     0.80 (  11.11%)\n";
    let expected = "kernbench elsp-2 [<s] base=121.5 mean patched=111.4 mean";
    assert_eq!(of(minima), [expected]);
    let alone: Vec<_> = minima
        .lines()
        .filter(|line| !line.starts_with("Amean"))
        .collect();
    let expected = "kernbench elsp-2 (Min) [<s] base=120.1? patched=110.2?";
    assert_eq!(of(&alone.join("\n")), [expected]);
    // Titles of as many words as there are columns, and a heading that counts for all below it.
    let titles = "autonumabench NUMA02\n--------------------\n                          base              patched\n\
                  Amean     elsp-NUMA02        3.50 (   0.00%)        3.56 *  -1.84%*\n\n\
                  Duration Elapsed     2277.45     2213.25\n\nautonumabench NUMA03\n\n\
                  Amean     elsp-NUMA03        7.00 (   0.00%)        3.50 *  50.00%*\n";
    let expected = [
        "autonumabench NUMA02 elsp-NUMA02 [<s] base=3.5 mean patched=3.56 mean",
        "autonumabench NUMA03 elsp-NUMA03 [<s] base=7 mean patched=3.5 mean",
    ];
    assert_eq!(of(titles), expected);
    // Rates, of which a rise is for the better, in three columns; encoded as in a mail.
    let rates = "1)                      HVM-HT          HVM-noHT           HVM-c=\nsc\n\
                 MB/sec copy     100.00 (   0.00%)     80.00 ( -20.00%)    110.00 (  =\n10.00%)\n\
                 MB/sec add      200.00 (   0.00%)    100.00 ( -50.00%)    210.00 (  =\n5.00%)\n";
    let expected = [
        "1) copy (MB/sec) [>] HVM-HT=100? HVM-noHT=80? HVM-csc=110?",
        "1) add (MB/sec) [>] HVM-HT=200? HVM-noHT=100? HVM-csc=210?",
    ];
    assert_eq!(of(rates), expected.map(|line| line.replace("1) ", "")));
    let hmean = "           base     new\nHmean  mb 100.0 (   0.00%) 150.0 (  50.00%)\n";
    assert_eq!(of(hmean), ["mb [>] base=100 mean new=150 mean"]);
}

#[test]
fn comparisons_of_mmtests_without_names_are_refused() {
    let row = "Amean elsp-2 100.0 (   0.00%) 80.0 *  20.00%*";
    for (text, says) in [
        (
            format!("kernbench, more system time:\n{row}\n"),
            "line 2: no line above has the names",
        ),
        (
            format!("     vanillapatched-v1r1\n{row}\n"),
            "line 2: no line above has the names",
        ),
        (
            format!("  a  b\n{row}\n{row}\n   90.0 (  10.00%)\n"),
            "line 4: it is the rest of a line that was wrapped",
        ),
        (
            "  a  b\nAmean elsp-2 100.0 (   0.00%) 0.00 *  100.00%*\n".to_owned(),
            "line 2: b has 0",
        ),
    ] {
        let error = refusal(&text);
        assert!(error.contains(says), "{text}: {error}");
    }
}

#[test]
fn logs_of_kcbench_have_their_runs() {
    let log = |first: &str, second: &str| {
        format!(
            "[me@box ~]$ bash kcbench -s 5.3 -n 2 -j 4\nProcessor:          Example CPU [4 CPUs]\n\
             Linux compiled:      5.3.0 [/home/me/.cache]\n\
             Run 1 (-j 4):       {first} seconds / 14.40 kernels/hour [P:384%]\n\
             Run 2 (-j 4):       {second} seconds / 14.33 kernels/hour\n\
             Run 3 (-j 6):       260.00 seconds / 13.85 kernels/hour\n"
        )
    };
    let (host, guest) = (log("250.03", "251.11"), log("268.40", "269.02"));
    let expected = [
        "kcbench -j 4 [<s] host.txt=250.03,251.11 guest.txt=268.4,269.02",
        "kcbench -j 6 [<s] host.txt=260 guest.txt=260",
    ];
    assert_eq!(
        shown(&[("host.txt", &host), ("guest.txt", &guest)]),
        expected
    );
    let other = guest.replace("5.3.0", "6.1.0");
    let files = [("host.txt", host.clone()), ("guest.txt", other)];
    let files = files.map(|(name, text)| (name.to_owned(), read(&text).unwrap()));
    assert!(joined(files.into()).is_err());
    assert!(refusal(&host).contains("one target only"));
    assert!(refusal(&(host + &guest)).contains("line 8: another log begins here"));
}

#[test]
fn minutes_of_time_are_read() {
    let bash = "real\t1m2.500s\nuser\t0m50.000s\nsys\t0m1.000s\n";
    let expected = " [<s] a=62.5 b=62.5";
    for text in [
        bash,
        "$ time make\nreal    1m2,500s\nuser    0m50,000s\nsys     0m1,000s\n",
        "real 62.50\nuser 50.00\nsys 1.00\n",
        "50.00user 1.00system 1:02.50elapsed 81%CPU (0avgtext+0avgdata 1000maxresident)k\n\
         0inputs+0outputs (0major+100minor)pagefaults 0swaps\n",
        "\tCommand being timed: \"make\"\n\tUser time (seconds): 50.00\n\
         \tElapsed (wall clock) time (h:mm:ss or m:ss): 1:02.50\n\tMajor page faults: 0\n",
        "make  50.00s user 1.00s system 81% cpu 1:02.50 total\n",
    ] {
        assert_eq!(shown(&[("a", text), ("b", text)]), [expected], "{text}");
    }
    let labelled = format!("host:\n{bash}\nkvm:\n{}", bash.replace("1m2", "2m2"));
    assert_eq!(of(&labelled), [" [<s] host=62.5 kvm=122.5"]);
    let runs = format!("$ time make\n{bash}$ time make\n{bash}");
    assert_eq!(
        shown(&[("a", &runs), ("b", bash)]),
        [" [<s] a=62.5,62.5 b=62.5"]
    );
    // They may be times of anything.
    let mixed = format!("$ time make\n{bash}$ ssh vm time make\n{bash}");
    assert!(refusal(&mixed).contains("line 5: it stands between two times"));
}

#[test]
fn averages_are_not_runs() {
    let csv = "command,mean,stddev,median,user,system,min,max\nmake,2.5,0.1,2.4,1,1,2.3,2.6\n\
               ssh vm make,3,0.1,3,1,1,2.9,3.1\n";
    let markdown = "| Command | Mean [ms] | Min [ms] | Max [ms] | Relative |\n|:---|---:|---:|---:|---:|\n\
                    | `make` | 2500 ± 100 | 2300 | 2600 | 1.00 |\n\
                    | `ssh vm make` | 3000 ± 100 | 2900 | 3100 | 1.20 ± 0.05 |\n";
    for text in [csv, markdown] {
        assert_eq!(
            of(text),
            [" [<s] make=2.5 mean ssh vm make=3 mean"],
            "{text}"
        );
    }
}

#[test]
fn exports_of_the_phoronix_test_suite_are_read() {
    let csv = "Kernel test\n\n ,,\"host\",\"kvm\"\nProcessor,,Example CPU,Example CPU\n\n \
               ,,\"host\",\"kvm\"\n\"pts/build-linux-kernel-1.0 - defconfig\",LIB,100.5,125\n\
               \"pts/fio-2.0 - read\",HIB,900,\n";
    assert_eq!(
        of(csv),
        ["pts/build-linux-kernel-1.0 - defconfig [<] host=100.5 mean kvm=125 mean"]
    );
    let old = r#"{"title": "t", "results": {"pts/x": {"arguments": "a", "units": "Seconds", "results":
        {"host": {"value": "2", "all_results": "1:3"}, "kvm": {"value": "4", "all_results": null}}}}}"#;
    assert_eq!(of(old), ["pts/x: a [<s] host=1,3 kvm=4 mean"]);
    let new = r#"{"results": {"0a": {"identifier": "pts/y", "title": "Y", "description": "b",
        "scale": "Points Won", "proportion": "HIB", "results": {"host": {"value": 10, "raw_values": [9, 11]},
        "kvm": {"value": 5, "raw_values": [5]}}}}}"#;
    assert_eq!(of(new), ["Y: b [>Points Won] host=9,11 kvm=5"]);
    assert!(
        refusal(&old.replace("Seconds", "Marks Won")).contains("whether more of \"Marks Won\"")
    );
}

#[test]
fn rates_of_benchmarks_are_not_seconds() {
    let fio = |iops: f64| {
        format!(
            r#"{{"fio version": "fio-3.33", "jobs": [{{"jobname": "j", "error": 0, "read": {{"iops": {iops}}}, "write": {{"iops": 0}}}}]}}"#
        )
    };
    let expected = ["fio j: read [>IOPS] a=900.5 mean b=600 mean"];
    assert_eq!(shown(&[("a", &fio(900.5)), ("b", &fio(600.0))]), expected);
    let terse = |iops: &str| {
        let mut fields = vec!["0"; 130];
        (fields[0], fields[1], fields[2], fields[7]) = ("3", "fio-3.33", "j", iops);
        fields.join(";")
    };
    let found = shown(&[("a", &terse("900.5")), ("b", &terse("600"))]);
    assert_eq!(found, expected);
    assert!(refusal(&terse("9").replacen('3', "5", 1)).contains("terse output of version 3"));
    let sysbench = "sysbench 1.0.20 (using LuaJIT)\nCPU speed:\n    events per second:  4128.44\n\n\
                    General statistics:\n    total time:                          10.0010s\n";
    let found = shown(&[("a", sysbench), ("b", sysbench)]);
    assert_eq!(found, ["sysbench events [>events/s] a=4128.44? b=4128.44?"]);
    let perf = "# Running 'sched/messaging' benchmark:\n# 20 sender and receiver processes per group\n\n\
                \x20    Total time: 1.261 [sec]\n";
    let found = shown(&[("a", perf), ("b", perf)]);
    assert_eq!(found, ["perf bench sched/messaging [<s] a=1.261? b=1.261?"]);
    let stat = " Performance counter stats for 'make' (5 runs):\n\n  2.5000 +- 0.0100 seconds time \
                elapsed  ( +-  0.40% )\n";
    assert_eq!(
        shown(&[("a", stat), ("b", stat)]),
        ["perf stat [<s] a=2.5 mean b=2.5 mean"]
    );
    let unixbench = "BYTE UNIX Benchmarks (Version 5.1.3)\n2 CPUs in system; running 1 parallel copy of tests\n\
                     Execl Throughput                 4548.0 lps   (30.0 s, 2 samples)\n\
                     Shell Scripts (8 concurrent)     1000.5 lpm   (60.0 s, 2 samples)\n\n\
                     System Benchmarks Index Values               BASELINE       RESULT    INDEX\n\
                     Execl Throughput                                 43.0       4548.0   1057.7\n";
    let expected = [
        "UnixBench Execl Throughput, 1 parallel copy [>lps] a=4548 mean b=4548 mean",
        "UnixBench Shell Scripts (8 concurrent), 1 parallel copy [>lpm] a=1000.5 mean b=1000.5 mean",
    ];
    assert_eq!(shown(&[("a", unixbench), ("b", unixbench)]), expected);
}

#[test]
fn output_that_is_not_read_is_named() {
    for (text, says) in [
        (
            "Geekbench 5.4.1 : https\n\nSingle-Core Score   1200\n",
            "Geekbench",
        ),
        (
            "Benchmark 1: make\n  Time (mean ± σ):  2.5 s ± 0.1 s\n",
            "--export-json",
        ),
        (
            "j: (groupid=0, jobs=1): err= 0\n  read: IOPS=900k\n",
            "--output-format=json",
        ),
        (
            "   4 workers completed 8 kernels so far (avrg: 1100.75 s/run)\n",
            "kcbenchrate",
        ),
        (
            "Kernel\n    Seconds < Lower Is Better\n    host . 100.5 |==\n",
            "its composite.xml",
        ),
        (r#"{"benchmarks": []}"#, "no JSON of hyperfine"),
        (
            r#"{"schema": "brisk.report/1", "kind": "x"}"#,
            "missing field",
        ),
    ] {
        let error = refusal(text);
        assert!(error.contains(says), "{text}: {error}");
    }
}

#[test]
fn reports_of_brisk_are_read() {
    use brisk_measure::{Environment, Report, Sample, Series, Unit, render};
    let report = |kind: &str| Report::new(kind, "2026-11-25T00:00:00Z", Environment::default());
    let mut own = report("overhead");
    let work = ("workload".to_owned(), "make".to_owned());
    own.environment.extra.extend([work]);
    for (name, value) in [("host: time", 1.5), ("box: time", 3.0), ("box: user", 9.0)] {
        own.series
            .push(Series::of_values(name, Unit::Seconds, [value, value + 0.5]));
    }
    own.series[1].push(Sample::failed(
        2,
        brisk_measure::Phase::Measured,
        "dropped: x",
    ));
    assert_eq!(of(&render::json(&own)), ["make [<s] host=1.5,2 box=3,3.5"]);
    let mut other = report("overhead-import");
    for name in ["a: b: host (mean)", "a: b: box (mean)"] {
        other
            .series
            .push(Series::of_values(name, Unit::Seconds, [2.0]));
    }
    assert_eq!(
        of(&render::json(&other)),
        ["a: b [<s] host=2 mean box=2 mean"]
    );
    assert!(refusal(&render::json(&report("boot"))).contains("of the kind \"boot\""));
}
