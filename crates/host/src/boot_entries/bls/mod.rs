//! Files of entries of the Boot Loader Specification (uapi-group.org, "Type #1"), and the orders of
//! their names and versions.

mod rpm;
mod version;

pub(super) use rpm::compare_names;
pub(super) use version::compare_versions;

/// Bytes of a file that are read at most.
pub(super) const LONGEST: u64 = 16 << 10;

/// Keys of a file at most; entries have some ten.
const MOST_KEYS: usize = 500;

/// Keys of a file with their values, in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Keys(Vec<(String, String)>);

impl Keys {
    /// All of a text, as systemd-boot reads it: without quotes around a value
    /// (`line_get_key_value`). Lines without a value, and comments, are left out.
    pub(super) fn read(text: &str) -> Self {
        let unquoted = |line| {
            let (key, value) = key(line, at_gap)?.ok()?;
            let inside = value.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
            let value = inside.map(str::to_owned).unwrap_or(value);
            Some((key, value))
        };
        Self(text.lines().filter_map(unquoted).take(MOST_KEYS).collect())
    }

    /// Those before the first line that has no value, as Red Hat's GRUB reads them: a tab ends the key
    /// only in a line without a space (`read_entry`).
    pub(super) fn up_to_gap(text: &str) -> Self {
        let lines = text.lines().filter_map(|line| key(line, at_space));
        Self(lines.map_while(Result::ok).take(MOST_KEYS).collect())
    }

    pub(super) fn first(&self, key: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| &**value)
    }

    pub(super) fn last(&self, key: &str) -> Option<&str> {
        let mut found = self.0.iter().rev();
        found
            .find(|(name, _)| name == key)
            .map(|(_, value)| &**value)
    }

    pub(super) fn all(&self, key: &str) -> impl Iterator<Item = &str> {
        let found = self.0.iter().filter(move |(name, _)| name == key);
        found.map(|(_, value)| &**value)
    }
}

/// A line has no value.
struct NoValue;

fn at_gap(line: &str) -> Option<(&str, &str)> {
    line.split_once([' ', '\t'])
}

fn at_space(line: &str) -> Option<(&str, &str)> {
    line.split_once(' ').or_else(|| line.split_once('\t'))
}

/// Key and value; none of a comment.
fn key(
    line: &str,
    split: fn(&str) -> Option<(&str, &str)>,
) -> Option<Result<(String, String), NoValue>> {
    let line = line.trim();
    if line.starts_with('#') {
        return None;
    }
    let Some((key, value)) = split(line) else {
        return Some(Err(NoValue));
    };
    Some(Ok((key.to_owned(), value.trim_start().to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_may_come_more_than_once() {
        let text =
            "# made by hand\ntitle  A title \nlinux /v\ninitrd /a\n  initrd\t/b\n\noptions x=1\n";
        let keys = Keys::read(text);
        assert_eq!(keys.first("title"), Some("A title"));
        assert_eq!(keys.all("initrd").collect::<Vec<_>>(), ["/a", "/b"]);
        assert_eq!(keys.first("options"), Some("x=1"));
        let tabs = Keys::up_to_gap("linux\t/v\noptions\t$kernelopts ro\n");
        assert_eq!(
            (tabs.first("linux"), tabs.first("options")),
            (Some("/v"), None)
        );
        let keys = Keys::up_to_gap(text);
        assert_eq!(
            (keys.first("linux"), keys.first("options")),
            (Some("/v"), None)
        );
    }
}
