//! Container images as roots.

use std::fs::{self, File};
use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// What an image says about its command.
#[derive(Debug, Clone, Default)]
pub struct Image {
    /// `NAME=value`.
    pub env: Vec<&'static str>,
    /// Words before the command.
    pub entrypoint: Vec<&'static str>,
    /// The command where the user gives none.
    pub cmd: Vec<&'static str>,
    /// Working directory.
    pub workdir: &'static str,
    /// User and group.
    pub user: &'static str,
}

impl Image {
    fn config(&self, layer: &[u8]) -> Vec<u8> {
        json!({
            "os": "linux",
            "architecture": "amd64",
            "config": {
                "Env": self.env,
                "Entrypoint": self.entrypoint,
                "Cmd": self.cmd,
                "WorkingDir": self.workdir,
                "User": self.user,
            },
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", hash(layer))]},
        })
        .to_string()
        .into_bytes()
    }
}

/// An OCI layout of one layer, a tree (image-layout.md of the OCI image specification).
pub fn oci_layout(tree: &Path, image: &Image, layout: &Path) {
    let layer = layer(tree);
    let config = blob(layout, "config.v1", &image.config(&layer));
    let layers = [blob(layout, "layer.v1.tar", &layer)];
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config,
        "layers": layers,
    });
    let manifest = blob(layout, "manifest.v1", manifest.to_string().as_bytes());
    let index = json!({"schemaVersion": 2, "manifests": [manifest]});
    fs::write(layout.join("index.json"), index.to_string()).unwrap();
    let version = json!({"imageLayoutVersion": "1.0.0"}).to_string();
    fs::write(layout.join("oci-layout"), version).unwrap();
}

fn blob(layout: &Path, kind: &str, bytes: &[u8]) -> Value {
    let directory = layout.join("blobs/sha256");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join(hash(bytes)), bytes).unwrap();
    let json = if kind.ends_with("tar") { "" } else { "+json" };
    json!({
        "mediaType": format!("application/vnd.oci.image.{kind}{json}"),
        "digest": format!("sha256:{}", hash(bytes)),
        "size": bytes.len(),
    })
}

/// What `docker save` writes for an image of one layer, a tree.
pub fn docker_archive(tree: &Path, image: &Image, archive: &Path) {
    let layer = layer(tree);
    let config = image.config(&layer);
    let name = format!("{}.json", hash(&config));
    let member = format!("{}/layer.tar", hash(&layer));
    let manifest = json!([{"Config": name, "RepoTags": ["test:latest"], "Layers": [member]}]);
    let mut out = tar::Builder::new(File::create(archive).unwrap());
    let manifest = manifest.to_string().into_bytes();
    for (name, bytes) in [
        (&*member, &layer),
        (&*name, &config),
        ("manifest.json", &manifest),
    ] {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(bytes.len() as u64);
        out.append_data(&mut header, name, &bytes[..]).unwrap();
    }
    out.finish().unwrap();
}

fn layer(tree: &Path) -> Vec<u8> {
    let mut out = tar::Builder::new(Vec::new());
    out.follow_symlinks(false);
    out.append_dir_all(".", tree).unwrap();
    out.into_inner().unwrap()
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
