//! Manifests: selection of one image, its layers and its configuration.
//!
//! The OCI image specification (image-layout.md, image-index.md, manifest.md, config.md) and
//! docker's image specification v1.2 (manifest.json of `docker save`).

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::model::{Container, ContainerConfig, Form};
use super::source::Source;
use super::stream::hex;
use crate::Fault;

/// Version of the conversion: changes when an image would be unpacked to other bytes.
const FORMAT: &str = "brisk erofs 2";
const OS: &str = "linux";
const ARCHITECTURE: &str = "amd64";
/// Docker allows 127 layers, others more.
const LAYERS_MAX: usize = 512;
/// Most images of an index.
const DESCRIPTORS_MAX: usize = 4096;
const NESTING_MAX: u32 = 4;

/// Digest that a layer is checked against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expect {
    /// The digest of the blob as stored.
    Stored(String),
    /// The digest of the unpacked tar.
    Unpacked(String),
    /// A plain tar archive promises nothing.
    Nothing,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layer {
    /// Its name in the [`Source`].
    pub(super) name: String,
    pub(super) expect: Expect,
}

#[derive(Debug)]
pub(super) struct Image {
    /// Key of the unpacked image in the cache; of a plain tar archive unknown until it was read.
    pub(super) key: Option<String>,
    pub(super) layers: Vec<Layer>,
    pub(super) config: ContainerConfig,
}

/// Finds the image for the host, and the one with the name that `found` asks for.
pub(super) fn select(source: &Source, found: &Container) -> Result<Image, Fault> {
    match found.form {
        Form::OciDirectory | Form::OciArchive => oci(source, found.name.as_deref()),
        Form::DockerArchive => docker(source, found.name.as_deref()),
        Form::Tarball => Ok(Image {
            key: None,
            layers: vec![Layer {
                name: String::new(),
                expect: Expect::Nothing,
            }],
            config: ContainerConfig::default(),
        }),
    }
}

/// Key of content with this digest and this version of the conversion.
pub(super) fn key(digest: &str) -> String {
    hex(&Sha256::digest(format!("{FORMAT}\n{digest}")))
}

#[derive(Deserialize)]
struct Index {
    manifests: Vec<Descriptor>,
}

#[derive(Clone, Deserialize)]
struct Descriptor {
    digest: String,
    #[serde(default)]
    platform: Option<Platform>,
    #[serde(default)]
    annotations: std::collections::BTreeMap<String, String>,
}

#[derive(Clone, Default, Deserialize)]
struct Platform {
    #[serde(default)]
    os: String,
    #[serde(default)]
    architecture: String,
}

impl Platform {
    fn fits(&self) -> bool {
        self.os == OS && self.architecture == ARCHITECTURE
    }

    /// Build attestations hang in an index as images of the platform `unknown/unknown`.
    fn is_real(&self) -> bool {
        self.os != "unknown" && !self.os.is_empty()
    }
}

impl std::fmt::Display for Platform {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)
    }
}

/// A manifest or a nested index, whichever fields it has: the media types differ between OCI and
/// docker, the fields do not.
#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    manifests: Option<Vec<Descriptor>>,
    #[serde(default)]
    config: Option<Descriptor>,
    #[serde(default)]
    layers: Vec<Descriptor>,
}

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    os: String,
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    config: Option<Runtime>,
    #[serde(default)]
    rootfs: Option<RootFs>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Runtime {
    #[serde(default)]
    env: Option<Vec<String>>,
    #[serde(default)]
    entrypoint: Option<Vec<String>>,
    #[serde(default)]
    cmd: Option<Vec<String>>,
    #[serde(default)]
    working_dir: Option<String>,
    #[serde(default)]
    user: Option<String>,
}

#[derive(Deserialize)]
struct RootFs {
    #[serde(default)]
    diff_ids: Vec<String>,
}

impl Config {
    fn check_platform(&self) -> Result<(), Fault> {
        let platform = Platform {
            os: self.os.clone(),
            architecture: self.architecture.clone(),
        };
        if platform.fits() || !platform.is_real() {
            return Ok(());
        }
        Err(Fault::Platform {
            available: vec![platform.to_string()],
        })
    }

    fn runtime(self) -> ContainerConfig {
        let runtime = self.config.unwrap_or_default();
        ContainerConfig {
            env: runtime.env.unwrap_or_default(),
            entrypoint: runtime.entrypoint.unwrap_or_default(),
            cmd: runtime.cmd.unwrap_or_default(),
            workdir: runtime.working_dir.unwrap_or_default(),
            user: runtime.user.unwrap_or_default(),
            accounts: None,
        }
    }
}

fn oci(source: &Source, name: Option<&str>) -> Result<Image, Fault> {
    let index: Index = parse("index.json", &source.document("index.json")?)?;
    let mut available: Vec<String> = index.manifests.iter().flat_map(names).collect();
    available.sort();
    available.dedup();
    let chosen: Vec<Descriptor> = match name {
        Some(wanted) => {
            let named =
                |descriptor: &&Descriptor| names(descriptor).iter().any(|name| same(name, wanted));
            index.manifests.iter().filter(named).cloned().collect()
        }
        None if available.len() > 1 && !one_digest(&index.manifests) => Vec::new(),
        None => index.manifests,
    };
    if chosen.is_empty() {
        return Err(match available.is_empty() && name.is_none() {
            true => Fault::Missing("a manifest".into()),
            false => Fault::Name {
                name: name.map(Into::into),
                available,
            },
        });
    }
    let mut others = Vec::new();
    let Some((digest, manifest)) = find(source, &chosen, NESTING_MAX, &mut others)? else {
        others.sort();
        others.dedup();
        return Err(Fault::Platform { available: others });
    };
    let config = manifest
        .config
        .ok_or_else(|| Fault::Missing("the configuration".into()))?;
    let config: Config = parse("the configuration", &checked(source, &config.digest)?)?;
    config.check_platform()?;
    let layers = manifest.layers.iter().map(|layer| {
        Ok(Layer {
            name: blob_name(&layer.digest)?,
            expect: Expect::Stored(sha256(&layer.digest)?.into()),
        })
    });
    Ok(Image {
        key: Some(key(&digest)),
        layers: bounded(layers.collect::<Result<_, Fault>>()?)?,
        config: config.runtime(),
    })
}

/// Depth first, the first that fits. A descriptor need not name a platform (skopeo writes none);
/// then the configuration decides later.
fn find(
    source: &Source,
    descriptors: &[Descriptor],
    nesting: u32,
    others: &mut Vec<String>,
) -> Result<Option<(String, Document)>, Fault> {
    for descriptor in descriptors.iter().take(DESCRIPTORS_MAX) {
        if let Some(platform) = descriptor.platform.as_ref().filter(|p| !p.fits()) {
            if platform.is_real() {
                others.push(platform.to_string());
            }
            continue;
        }
        // An archive of a multi-platform image may hold only what was pulled.
        if !source.has(&blob_name(&descriptor.digest)?) && descriptors.len() > 1 {
            continue;
        }
        let document = checked(source, &descriptor.digest)?;
        let document: Document = parse("a manifest", &document)?;
        match &document.manifests {
            None => return Ok(Some((descriptor.digest.clone(), document))),
            Some(nested) if nesting > 0 => {
                if let Some(found) = find(source, nested, nesting - 1, others)? {
                    return Ok(Some(found));
                }
            }
            Some(_) => {
                return Err(Fault::TooMuch {
                    what: "nested indexes",
                    limit: u64::from(NESTING_MAX),
                });
            }
        }
    }
    Ok(None)
}

/// One image with several tags needs no choice.
fn one_digest(manifests: &[Descriptor]) -> bool {
    manifests
        .windows(2)
        .all(|pair| pair[0].digest == pair[1].digest)
}

/// The annotations that skopeo, podman, buildkit and containerd write names into.
fn names(descriptor: &Descriptor) -> Vec<String> {
    [
        "io.containerd.image.name",
        "org.opencontainers.image.ref.name",
    ]
    .into_iter()
    .filter_map(|key| descriptor.annotations.get(key).cloned())
    .take(1)
    .collect()
}

/// `docker.io/library/debian:12` may be asked for as `debian:12`, and `…:latest` without the tag.
fn same(name: &str, wanted: &str) -> bool {
    let short = |name: &str| {
        let name = name.strip_prefix("docker.io/").unwrap_or(name);
        name.strip_prefix("library/").unwrap_or(name).to_owned()
    };
    let (name, wanted) = (short(name), short(wanted));
    name == wanted || name == format!("{wanted}:latest")
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DockerImage {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

fn docker(source: &Source, name: Option<&str>) -> Result<Image, Fault> {
    let images: Vec<DockerImage> = parse("manifest.json", &source.document("manifest.json")?)?;
    let tags = |image: &DockerImage| image.repo_tags.clone().unwrap_or_default();
    let available: Vec<String> = images.iter().flat_map(tags).collect();
    let mut chosen = images.into_iter().filter(|image| match name {
        Some(wanted) => tags(image).iter().any(|tag| same(tag, wanted)),
        None => true,
    });
    let image = match (chosen.next(), chosen.next(), name) {
        (Some(image), None, _) | (Some(image), Some(_), Some(_)) => image,
        _ => {
            return Err(Fault::Name {
                name: name.map(Into::into),
                available,
            });
        }
    };
    let document = source.document(&image.config)?;
    let config: Config = parse("the configuration", &document)?;
    config.check_platform()?;
    let diff_ids = config.rootfs.as_ref().map(|root| root.diff_ids.clone());
    let diff_ids = diff_ids.unwrap_or_default();
    if diff_ids.len() != image.layers.len() {
        return Err(Fault::Archive(format!(
            "the image has {} layers, its configuration speaks of {}",
            image.layers.len(),
            diff_ids.len()
        )));
    }
    let layers = image.layers.into_iter().zip(&diff_ids).map(|(name, id)| {
        Ok(Layer {
            name,
            expect: Expect::Unpacked(sha256(id)?.into()),
        })
    });
    Ok(Image {
        // The configuration holds the digest of every layer.
        key: Some(key(&hex(&Sha256::digest(&document)))),
        layers: bounded(layers.collect::<Result<_, Fault>>()?)?,
        config: config.runtime(),
    })
}

pub(super) fn bounded(mut layers: Vec<Layer>) -> Result<Vec<Layer>, Fault> {
    // One that is listed twice in a row changes nothing the second time.
    layers.dedup();
    if layers.len() > LAYERS_MAX {
        return Err(Fault::TooMuch {
            what: "layers",
            limit: LAYERS_MAX as u64,
        });
    }
    Ok(layers)
}

fn parse<'a, T: Deserialize<'a>>(what: &str, bytes: &'a [u8]) -> Result<T, Fault> {
    serde_json::from_slice(bytes).map_err(|source| Fault::Json {
        what: what.into(),
        source,
    })
}

/// The hexadecimal part. It becomes part of a path, so its form is checked strictly.
fn sha256(digest: &str) -> Result<&str, Fault> {
    digest
        .strip_prefix("sha256:")
        .filter(|hex| {
            hex.len() == 64
                && hex
                    .bytes()
                    .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        })
        .ok_or_else(|| Fault::DigestForm(digest.into()))
}

fn blob_name(digest: &str) -> Result<String, Fault> {
    Ok(format!("blobs/sha256/{}", sha256(digest)?))
}

fn checked(source: &Source, digest: &str) -> Result<Vec<u8>, Fault> {
    let name = blob_name(digest)?;
    let document = source.document(&name)?;
    let found = hex(&Sha256::digest(&document));
    if Some(found.as_str()) != digest.strip_prefix("sha256:") {
        return Err(Fault::Digest {
            what: name,
            expected: digest.into(),
            found: format!("sha256:{found}"),
        });
    }
    Ok(document)
}
