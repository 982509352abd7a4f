//! Definitions are read as they were written, and mistakes are named.

use super::*;

const KEY: &str = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p";

#[test]
fn what_is_written_is_read() {
    let definition = Definition {
        kernel: Some("6.12".into()),
        root: "/images/db1.img".into(),
        rw: Access::SetId,
        huge_pages: false,
        lock_memory: true,
        keep_memory: true,
        init: Some("/sbin/init".into()),
        append: vec!["a=1".into()],
        uuid: Some(text_of_uuid([0xab; 16])),
        autoboot: true,
        autoshutdown: Autoshutdown::Suspend,
        suspend: Suspend {
            path: Some("/images/%{uuid}".into()),
            compression: "lz4:3".into(),
            host_key: false,
            recipients: vec![KEY.into()],
            passphrase: false,
            threads: 3,
            incremental: false,
            drop_cache: true,
            bandwidth: "1.5G".into(),
        },
        ..Definition::default()
    };
    let text = definition.text().unwrap();
    assert_eq!(Definition::parse(&text).unwrap(), definition);
    assert_eq!(Definition::parse("").unwrap(), Definition::default());
}

#[test]
fn mistakes_are_named() {
    for (text, parts) in [
        ("memroy = \"1G\"", ["memroy", "expected one of"]),
        ("memory = \"1\"", ["memory = \"1\"", "512M"]),
        ("memory = \"32M\"", ["memory = \"32M\"", "96M"]),
        (
            "root = \"host\"\nrw = true",
            ["rw = \"true\"", "its own root"],
        ),
        (
            "disks = [\"a.img\"]",
            ["disks = \"a.img\"", "absolute path"],
        ),
        (
            "shares = [\"/srv:mnt\"]",
            ["shares = \"/srv:mnt\"", "two absolute paths"],
        ),
        ("root = \"disk\"", ["root = \"disk\"", "absolute"]),
        ("init = \"init\"", ["init = \"init\"", "absolute"]),
        (
            "[suspend]\npath = \"here\"",
            ["suspend.path = \"here\"", "absolute"],
        ),
        ("cpus = 0", ["cpus = \"0\"", "one"]),
        (
            "[suspend]\ncompression = \"gzip\"",
            ["suspend.compression", "zstd"],
        ),
        (
            "[suspend]\nrecipients = [\"me\"]",
            ["suspend.recipients", "age1"],
        ),
        ("net = \"bridge\"", ["bridge", "user"]),
        ("uuid = \"db1\"", ["uuid = \"db1\"", "uuidgen"]),
        ("autoshutdown = \"stop\"", ["stop", "`shutdown`"]),
        (
            "[suspend]\npath = \"/x/%{id}\"",
            ["suspend.path = \"/x/%{id}\"", "%{uuid}"],
        ),
        (
            "[suspend]\npath = \"/x/%{uuid}\"",
            ["suspend.path = \"/x/%{uuid}\"", "no UUID"],
        ),
        (
            "[suspend]\nbandwidth = \"200MiB\"",
            ["suspend.bandwidth = \"200MiB\"", "200M"],
        ),
        (
            "[suspend]\nthreads = 257",
            ["suspend.threads = \"257\"", "256"],
        ),
        (
            "[suspend]\nhost-key = false",
            ["suspend.host-key = \"false\"", "nobody could open"],
        ),
        (
            "autoshutdown = \"suspend\"\n[suspend]\npassphrase = true",
            ["suspend.passphrase = \"true\"", "nobody types it"],
        ),
    ] {
        let error = Definition::parse(text).unwrap_err().to_string();
        assert!(
            parts.iter().all(|part| error.contains(part)),
            "{text}: {error}"
        );
    }
}

#[test]
fn the_images_path_is_a_template() {
    let text = "uuid = \"00112233-4455-6677-8899-aabbccddeeff\"\n\
                [suspend]\npath = \"/x/%{uuid}/%{name}.brisk\"";
    let definition = Definition::parse(text).unwrap();
    let path = "/x/00112233-4455-6677-8899-aabbccddeeff/db1.brisk";
    assert_eq!(definition.image("db1"), Some(path.into()));
}

#[test]
fn a_uuid_is_sixteen_bytes() {
    let text = "00112233-4455-6677-8899-aabbccddeeff";
    let bytes = bytes_of_uuid(text).unwrap();
    assert_eq!((bytes[0], bytes[1], bytes[15]), (0, 0x11, 0xff));
    assert_eq!(text_of_uuid(bytes), text);
    let wrong = [
        "00112233445566778899aabbccddeeff",
        "+0112233-4455-6677-8899-aabbccddeeff",
        "00112233-4455-6677-8899-aabbccddeef",
        "0011223-34455-6677-8899-aabbccddeeff",
        "00112233-4455-6677-8899-aabbccddeegg",
    ];
    for text in wrong {
        assert_eq!(bytes_of_uuid(text), None, "{text}");
    }
}

#[test]
fn how_an_image_is_written_is_as_it_says() {
    let options = |text: &str| Definition::parse(text).unwrap().suspend.options().unwrap();
    let usual = options("");
    assert_eq!((usual.limit, usual.threads > 0), (None, true));
    let set = options("[suspend]\ncompression = \"none\"\nthreads = 3\nbandwidth = \"2K\"");
    assert_eq!((set.limit, set.threads), (Some(2000), 3));
    assert_eq!(set.compression.to_string(), "none");
}
