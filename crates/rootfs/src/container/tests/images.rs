//! Whole images: manifests, digests, names, platforms, the cache.

use std::io::Write;
use std::path::PathBuf;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::super::stream::hex;
use super::*;
use crate::{Accounts, Found, detect};

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(bytes)))
}

fn blob(home: &Path, bytes: &[u8]) -> Value {
    let digest = digest(bytes);
    let directory = home.join("image/blobs/sha256");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join(&digest[7..]), bytes).unwrap();
    json!({"digest": digest, "size": bytes.len()})
}

fn configuration(architecture: &str, layers: &[Vec<u8>]) -> Vec<u8> {
    let diff_ids: Vec<_> = layers.iter().map(|layer| digest(layer)).collect();
    json!({
        "os": "linux", "architecture": architecture,
        "config": {
            "Env": ["A=b"], "Entrypoint": ["/init"], "Cmd": ["sh"],
            "WorkingDir": "/srv", "User": "7:8",
        },
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
    })
    .to_string()
    .into_bytes()
}

fn manifest(home: &Path, architecture: &str, layers: &[Vec<u8>]) -> Value {
    let packed = layers.iter().enumerate().map(|(at, layer)| {
        blob(
            home,
            &match at % 3 {
                0 => gzip(layer),
                1 => zstd::encode_all(&layer[..], 1).unwrap(),
                _ => layer.clone(),
            },
        )
    });
    let packed: Vec<_> = packed.collect();
    let config = blob(home, &configuration(architecture, layers));
    blob(
        home,
        json!({"config": config, "layers": packed})
            .to_string()
            .as_bytes(),
    )
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn index(home: &Path, manifests: &[Value]) -> Container {
    let image = home.join("image");
    fs::write(
        image.join("oci-layout"),
        r#"{"imageLayoutVersion":"1.0.0"}"#,
    )
    .unwrap();
    fs::write(
        image.join("index.json"),
        json!({"manifests": manifests}).to_string(),
    )
    .unwrap();
    Container {
        path: image,
        form: Form::OciDirectory,
        name: None,
    }
}

pub(super) fn oci(home: &Path, layers: &[Vec<u8>]) -> Container {
    let manifest = manifest(home, "amd64", layers);
    index(home, &[manifest])
}

fn with(mut descriptor: Value, key: &str, value: Value) -> Value {
    descriptor[key] = value;
    descriptor
}

fn name(name: &str) -> Value {
    json!({"org.opencontainers.image.ref.name": name})
}

fn docker(home: &Path, layers: &[Vec<u8>], stated: &[Vec<u8>]) -> Container {
    let mut builder = Builder::new(Vec::new());
    let mut add = |name: &str, bytes: &[u8]| {
        let header = header(name, EntryType::Regular, bytes.len() as u64);
        builder.append(&header, bytes).unwrap();
    };
    add("config.json", &configuration("amd64", stated));
    let names: Vec<_> = (0..layers.len())
        .map(|at| format!("{at}/layer.tar"))
        .collect();
    for (name, layer) in names.iter().zip(layers) {
        add(name, layer);
    }
    let manifest = json!([{"Config": "config.json", "RepoTags": ["a:1"], "Layers": names}]);
    add("manifest.json", manifest.to_string().as_bytes());
    let path = home.join("docker.tar.gz");
    fs::write(&path, gzip(&builder.into_inner().unwrap())).unwrap();
    match detect(&path, None).unwrap() {
        Found::Container(found) => found,
        other => panic!("{other:?}"),
    }
}

fn setup() -> (tempfile::TempDir, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let cache = home.path().join("cache");
    (home, cache)
}

fn content(root: &ContainerRoot, path: &str) -> String {
    let mut files = reading::read(&fs::read(&root.image).unwrap());
    String::from_utf8(files.remove(path).unwrap().data).unwrap()
}

#[test]
fn what_was_taken_for_something_else_is_read_again() {
    let (home, cache) = setup();
    let layers = [layer(&[file("a", "1")])];
    let found = docker(home.path(), &layers, &layers);
    let tarball = Container {
        form: Form::Tarball,
        ..found.clone()
    };
    let root = take(&tarball, &cache).unwrap();
    assert!(content(&root, "/manifest.json").contains("config.json"));
    assert_eq!(content(&take(&found, &cache).unwrap(), "/a"), "1");
}

#[test]
fn the_configuration_comes_along() {
    let (home, cache) = setup();
    let config = take(&oci(home.path(), &[layer(&[])]), &cache)
        .unwrap()
        .config;
    assert_eq!(config.env, ["A=b"]);
    assert_eq!(config.entrypoint, ["/init"]);
    assert_eq!(config.cmd, ["sh"]);
    assert_eq!((&config.workdir[..], &config.user[..]), ("/srv", "7:8"));
}

#[test]
fn users_and_groups_come_along_from_the_layer_that_counts() {
    let (home, cache) = setup();
    // More than a block, and an end that does not fill one.
    let passwd = "web:x:1001:1002::/home/web:/bin/sh\n".repeat(200);
    let layers = [
        layer(&[
            file("etc/passwd", "old:x:1:1::/:/bin/sh\n"),
            file("etc/group", ""),
        ]),
        layer(&[
            file("etc/passwd", &passwd),
            Member::Symlink("etc/shadow".into(), "/dev/zero".into()),
        ]),
    ];
    let found = oci(home.path(), &layers);
    let accounts = |root: ContainerRoot| root.config.accounts.unwrap();
    let lists = accounts(take(&found, &cache).unwrap());
    assert_eq!(lists.passwd, passwd);
    assert_eq!(lists.group, "");
    // They are kept with the image.
    assert_eq!(accounts(take(&found, &cache).unwrap()), lists);
    let long = "#".repeat((1 << 20) + 1);
    for layers in [
        [layer(&[file("etc/passwd", &long)])],
        [layer(&[Member::Symlink(
            "etc/passwd".into(),
            "/dev/zero".into(),
        )])],
        [layer(&[file("etc", "")])],
    ] {
        let home = tempfile::tempdir().unwrap();
        let root = take(&oci(home.path(), &layers), &cache).unwrap();
        assert_eq!(accounts(root), Accounts::default());
    }
}

#[test]
fn a_second_call_unpacks_nothing() {
    let (home, cache) = setup();
    let layers = [layer(&[file("a", "1")]), layer(&[file("a", "2")])];
    let plain = home.path().join("root.tar");
    fs::write(&plain, &layers[1]).unwrap();
    for found in [
        oci(home.path(), &layers),
        docker(home.path(), &layers, &layers),
        tarball(&plain),
    ] {
        let first = take(&found, &cache).unwrap();
        assert_eq!(content(&first, "/a"), "2");
        let again = unpack(&found, &cache, Limits::default(), &mut |_, _| {
            panic!("unpacked again")
        });
        assert_eq!(again.unwrap(), first);
    }
    assert!(fs::read_dir(cache).unwrap().all(|entry| {
        !entry
            .unwrap()
            .file_name()
            .to_string_lossy()
            .starts_with(".new-")
    }));
}

#[test]
fn a_changed_archive_and_a_shortened_image_are_noticed() {
    let (home, cache) = setup();
    let path = home.path().join("root.tar");
    fs::write(&path, layer(&[file("a", "1")])).unwrap();
    let first = take(&tarball(&path), &cache).unwrap();
    fs::write(&first.image, "short").unwrap();
    assert_eq!(content(&take(&tarball(&path), &cache).unwrap(), "/a"), "1");
    fs::write(&path, layer(&[file("a", "2")])).unwrap();
    assert_eq!(content(&take(&tarball(&path), &cache).unwrap(), "/a"), "2");
}

#[test]
fn wrong_digests_are_refused() {
    let (home, cache) = setup();
    let found = oci(home.path(), &[layer(&[file("a", "1")])]);
    let other = gzip(&layer(&[file("a", "2")]));
    for blob in fs::read_dir(home.path().join("image/blobs/sha256")).unwrap() {
        let path = blob.unwrap().path();
        if fs::read(&path).unwrap().starts_with(&[0x1f, 0x8b]) {
            fs::write(&path, &other).unwrap();
        }
    }
    let fault = take(&found, &cache).unwrap_err();
    assert!(matches!(fault, Fault::Digest { .. }), "{fault}");
    let found = docker(
        home.path(),
        &[layer(&[file("a", "1")])],
        &[layer(&[file("a", "2")])],
    );
    let fault = take(&found, &cache).unwrap_err();
    assert!(matches!(fault, Fault::Digest { .. }), "{fault}");
}

#[test]
fn digests_cannot_lead_out_of_the_layout() {
    let (home, cache) = setup();
    oci(home.path(), &[]);
    let found = index(
        home.path(),
        &[json!({"digest": "sha256:../../../../etc/passwd"})],
    );
    assert!(matches!(take(&found, &cache), Err(Fault::DigestForm(_))));
}

#[test]
fn the_platform_of_this_machine_is_found_in_nested_indexes() {
    let (home, cache) = setup();
    let platform = |arch: &str| json!({"os": "linux", "architecture": arch});
    let arm = manifest(home.path(), "arm64", &[layer(&[file("a", "arm")])]);
    let amd = manifest(home.path(), "amd64", &[layer(&[file("a", "amd")])]);
    let arm = with(arm, "platform", platform("arm64"));
    let inner = json!({"manifests": [arm, with(amd, "platform", platform("amd64"))]});
    let inner = blob(home.path(), inner.to_string().as_bytes());
    let found = index(home.path(), &[inner]);
    assert_eq!(content(&take(&found, &cache).unwrap(), "/a"), "amd");
    let attestation = json!({
        "digest": digest(b""), "platform": {"os": "unknown", "architecture": "unknown"},
    });
    let fault = take(&index(home.path(), &[arm, attestation]), &cache).unwrap_err();
    assert_eq!(
        fault.to_string(),
        "no image for linux/amd64 here, but for: linux/arm64"
    );
}

#[test]
fn a_configuration_for_another_machine_is_refused() {
    let (home, cache) = setup();
    let manifest = manifest(home.path(), "riscv64", &[]);
    let fault = take(&index(home.path(), &[manifest]), &cache).unwrap_err();
    assert!(fault.to_string().ends_with("linux/riscv64"), "{fault}");
}

#[test]
fn one_of_several_images_is_chosen_by_name() {
    let (home, cache) = setup();
    let image = |text: &str, label: &str| {
        let manifest = manifest(home.path(), "amd64", &[layer(&[file("a", text)])]);
        with(manifest, "annotations", name(label))
    };
    let (one, two) = (
        image("1", "docker.io/library/debian:12"),
        image("2", "b:latest"),
    );
    let mut found = index(home.path(), &[one.clone(), two]);
    assert_eq!(
        take(&found, &cache).unwrap_err().to_string(),
        "there are several images; append one of them to the path: \
         #b:latest #docker.io/library/debian:12"
    );
    for (asked, expected) in [("debian:12", "1"), ("b", "2")] {
        found.name = Some(asked.into());
        assert_eq!(content(&take(&found, &cache).unwrap(), "/a"), expected);
    }
    found.name = Some("debian:13".into());
    assert!(matches!(take(&found, &cache), Err(Fault::Name { .. })));
    let tagged_twice = with(one.clone(), "annotations", name("debian:bookworm"));
    let found = index(home.path(), &[one, tagged_twice]);
    assert_eq!(content(&take(&found, &cache).unwrap(), "/a"), "1");
}
