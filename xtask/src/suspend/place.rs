//! A directory that images are written to.

use std::path::Path;

use anyhow::Context;

/// Whether files can be made there: the first one is made after minutes.
pub(super) fn check(place: &Path) -> anyhow::Result<()> {
    tempfile::Builder::new()
        .prefix("brisk-bench-")
        .tempfile_in(place)
        .map(drop)
        .with_context(|| {
            format!(
                "cannot write images to {}: make that directory, or give another one with --place",
                place.display()
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_is_not_there_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        check(dir.path()).unwrap();
        assert_eq!(dir.path().read_dir().unwrap().count(), 0);
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        for (place, why) in [
            (dir.path().join("gone"), "No such file"),
            (file, "Not a directory"),
        ] {
            let error = format!("{:#}", check(&place).unwrap_err());
            let place = place.display().to_string();
            assert!(error.contains(&place) && error.contains(why), "{error}");
            assert!(error.contains("--place"), "{error}");
        }
    }
}
