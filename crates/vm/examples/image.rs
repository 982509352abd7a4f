//! Images of a file of memory, for trying `brisk image` and for measuring.
//!
//! ```text
//! cargo run --release -p brisk-vm --example image -- write MEMORY IMAGE KEY [COMPRESSION [THREADS [CHUNK]]]
//! cargo run --release -p brisk-vm --example image -- load IMAGE FILE KEY [THREADS]
//! ```
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "an example without the Ui, whose failures may be ugly"
)]

use std::fs::File;
use std::path::Path;
use std::time::Instant;

use brisk_image::{
    Compression, Control, Description, Image, Keys, Options, Recipient, Source, host_key, write,
};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["write", memory, image, key, rest @ ..] => write_image(memory, image, key, rest),
        ["load", image, file, key, rest @ ..] => load(image, file, key, rest),
        _ => println!("see the head of crates/vm/examples/image.rs"),
    }
}

fn write_image(memory: &str, image: &str, key: &str, rest: &[&str]) {
    let memory = File::open(memory).unwrap();
    let identity = host_key(Path::new(key), true).unwrap();
    let options = Options {
        compression: rest
            .first()
            .map_or(Compression::default(), |text| text.parse().unwrap()),
        threads: rest.get(1).map_or(2, |text| text.parse().unwrap()),
        chunk_size: rest.get(2).map(|text| text.parse().unwrap()),
        limit: None,
        replace: true,
    };
    let description = Description {
        name: "example".into(),
        uuid: [7; 16],
        machine: "pc".into(),
        definition: "# none\n".into(),
        ..Description::default()
    };
    let source = Source {
        memory: &memory,
        size: memory.metadata().unwrap().len(),
        leave_out: None,
        state: b"no device state",
        description: &description,
        base: None,
        kept: None,
        working_set: &[],
    };
    let recipients = [Recipient::Host(identity.to_public())];
    let report = write(
        Path::new(image),
        &source,
        &recipients,
        &options,
        Control::none(),
    )
    .unwrap();
    for line in report.lines() {
        println!("{line}");
    }
    println!("{:?}", report.stages);
}

fn load(image: &str, file: &str, key: &str, rest: &[&str]) {
    let threads = rest.first().map_or(2, |text| text.parse().unwrap());
    let keys = Keys::new().with_identity(host_key(Path::new(key), false).unwrap());
    let started = Instant::now();
    let image = Image::open(Path::new(image), &keys).unwrap();
    let into = File::create_new(file).unwrap();
    let opened = started.elapsed();
    image
        .load(&into, Path::new(file), threads, Control::none())
        .unwrap();
    let seconds = started.elapsed().as_secs_f64();
    let memory = image.header().memory as f64 / 1e6;
    println!(
        "{memory:.0} MB in {seconds:.3} s, {:.0} MB/s; opened in {opened:?}",
        memory / seconds
    );
}
