//! The guest's network.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::thread;

use brisk_testkit::brisk;

#[test]
fn by_default_there_is_only_loopback() {
    let run = brisk!["--root", "none"]
        .script("ls /sys/class/net; ping -c 1 127.0.0.1 | grep -c '1 packets received'");
    assert_eq!(run.exits(0).text(), "lo\n1\n");
}

#[test]
fn the_user_network_reaches_this_machine() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).unwrap();
        write!(stream, "heard {line}").unwrap();
        line
    });
    // 10.0.2.2 is the host in QEMU's user network.
    let script = format!("cat /etc/resolv.conf; echo hello | nc 10.0.2.2 {port}");
    let run = brisk!["--root", "none", "--net", "user"].script(&script);
    let run = run.exits(0);
    assert_eq!(run.text(), "nameserver 10.0.2.3\nheard hello\n");
    assert_eq!(server.join().unwrap(), "hello\n");
}
