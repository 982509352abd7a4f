//! Selection of an installed kernel by a selector of the user's.

use std::path::Path;

use super::find::{describe, installed};
use super::version::image_version;
use super::{Convention, Error, Installed};

/// The kernel that `selector` names.
///
/// A selector with a `/` in it is the path of an image; its modules are those under `root` of the
/// release the image states. Any other selector is a release: the exact one, or else the only one
/// that starts with it, or else the only one that contains it.
///
/// Without a selector it is the kernel that `running` names if that one is installed, because its
/// modules and behaviour are what the user has at hand, and otherwise the newest.
///
/// # Errors
///
/// If nothing or more than one matches, or the image at a path cannot be read.
pub fn resolve(root: &Path, selector: Option<&str>, running: &str) -> Result<Installed, Error> {
    if let Some(path) = selector.filter(|s| s.contains('/')) {
        return at_path(root, Path::new(path));
    }
    let kernels = installed(root);
    let is_none = |name: &&str| matches!(choose(&kernels, name), Err(Error::NoMatch { .. }));
    if let Some(name) = selector
        .filter(|name| Path::new(name).is_file())
        .filter(is_none)
    {
        return Err(Error::IsFile { name: name.into() });
    }
    if kernels.is_empty() {
        return Err(Error::NoneInstalled {
            root: root.to_owned(),
        });
    }
    let index = match selector {
        Some(selector) => choose(&kernels, selector)?,
        None => kernels
            .iter()
            .position(|k| k.version == running)
            .unwrap_or(0),
    };
    Ok(kernels[index].clone())
}

/// The release of the running kernel, as `uname -r` shows it.
#[must_use]
pub fn running() -> String {
    rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned()
}

fn at_path(root: &Path, path: &Path) -> Result<Installed, Error> {
    let version = image_version(path)
        .map_err(|source| Error::Image {
            path: path.to_owned(),
            source,
        })?
        .unwrap_or_default();
    Ok(describe(root, version, path.to_owned(), Convention::Path))
}

/// Whether a version begins with another whose last number is whole: 6.12 does not begin with 6.1.
fn begins(version: &str, selector: &str) -> bool {
    version
        .strip_prefix(selector)
        .is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_alphanumeric()))
}

fn choose(kernels: &[Installed], selector: &str) -> Result<usize, Error> {
    let tests: [fn(&str, &str) -> bool; 4] = [
        |v, s| v == s,
        begins,
        |v, s| v.starts_with(s),
        |v, s| v.contains(s),
    ];
    for test in tests {
        let matches: Vec<_> = (0..kernels.len())
            .filter(|i| test(&kernels[*i].version, selector))
            .collect();
        match matches[..] {
            [] => {}
            [one] => return Ok(one),
            _ => {
                return Err(Error::Ambiguous {
                    selector: selector.to_owned(),
                    candidates: matches
                        .iter()
                        .map(|i| kernels[*i].version.clone())
                        .collect(),
                });
            }
        }
    }
    Err(Error::NoMatch {
        selector: selector.to_owned(),
        installed: kernels.iter().map(|k| k.version.clone()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_here_is_pointed_at_where_no_kernel_matches() {
        // Tests run in the directory of their package.
        let name = "Cargo.toml";
        let kernels = root();
        for root in [kernels.path(), Path::new("/nonexistent")] {
            let error = resolve(root, Some(name), "x").unwrap_err();
            assert!(error.hint().contains("./Cargo.toml"), "{error}");
        }
        let error = resolve(root().path(), Some("Cargo"), "x").unwrap_err();
        assert!(matches!(error, Error::NoMatch { .. }), "{error}");
    }

    fn root() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let boot = root.path().join("boot");
        fs::create_dir(&boot).unwrap();
        for version in [
            "6.1.0-56-cloud-amd64",
            "6.12.95+deb12-amd64",
            "6.12.95+deb12-cloud-amd64",
        ] {
            fs::write(boot.join(format!("vmlinuz-{version}")), b"").unwrap();
        }
        root
    }

    fn version(selector: Option<&str>, running: &str) -> Result<String, Error> {
        resolve(root().path(), selector, running).map(|k| k.version)
    }

    #[test]
    fn no_selector_takes_the_running_then_the_newest() {
        assert_eq!(
            version(None, "6.1.0-56-cloud-amd64").unwrap(),
            "6.1.0-56-cloud-amd64"
        );
        assert_eq!(
            version(None, "6.18.0").unwrap(),
            "6.12.95+deb12-cloud-amd64"
        );
    }

    #[test]
    fn exact_then_prefix_then_substring() {
        assert_eq!(
            version(Some("6.12.95+deb12-amd64"), "").unwrap(),
            "6.12.95+deb12-amd64"
        );
        assert_eq!(version(Some("6.1.0"), "").unwrap(), "6.1.0-56-cloud-amd64");
        assert_eq!(version(Some("6.1"), "").unwrap(), "6.1.0-56-cloud-amd64");
        assert_eq!(version(Some("6.1."), "").unwrap(), "6.1.0-56-cloud-amd64");
        assert_eq!(
            version(Some("deb12-cloud"), "").unwrap(),
            "6.12.95+deb12-cloud-amd64"
        );
    }

    #[test]
    fn ambiguity_lists_the_candidates() {
        let error = version(Some("6.12"), "").unwrap_err();
        assert_eq!(
            error.to_string(),
            "`6.12` matches more than one kernel: 6.12.95+deb12-cloud-amd64, 6.12.95+deb12-amd64"
        );
        assert_eq!(
            error.hint(),
            "give the whole release, such as `6.12.95+deb12-cloud-amd64`"
        );
    }

    #[test]
    fn nothing_matches() {
        let error = version(Some("5.4"), "").unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("no installed kernel matches `5.4`; installed: 6.12.95")
        );
    }

    #[test]
    fn an_empty_root_says_what_to_install() {
        let root = tempfile::tempdir().unwrap();
        let error = resolve(root.path(), None, "").unwrap_err();
        assert!(error.hint().contains("apt install"));
    }

    #[test]
    fn a_path_finds_its_modules_by_the_release_inside() {
        let root = root();
        let modules = root.path().join("lib/modules/6.6.1-test");
        fs::create_dir_all(&modules).unwrap();
        let mut image = vec![0; 0x400];
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x20e..0x210].copy_from_slice(&0x100u16.to_le_bytes());
        image[0x300..0x315].copy_from_slice(b"6.6.1-test (a@b) #1 S");
        let path = root.path().join("bzImage");
        fs::write(&path, image).unwrap();
        let kernel = resolve(root.path(), path.to_str(), "").unwrap();
        assert_eq!(kernel.version, "6.6.1-test");
        assert_eq!(kernel.modules, Some(modules));
        assert_eq!(kernel.source, Convention::Path);
    }

    #[test]
    fn a_missing_path_says_so() {
        let error = resolve(Path::new("/"), Some("/nonexistent/bzImage"), "").unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot read the kernel image /nonexistent/bzImage"
        );
    }

    #[test]
    fn the_running_release_is_a_release() {
        assert!(running().starts_with(|c: char| c.is_ascii_digit()));
    }
}
