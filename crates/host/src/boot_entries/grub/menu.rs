//! Menus, and the entry of a menu that GRUB starts by itself (`grub-core/normal/menu.c`).

use super::condition::{number, number_and_rest};
use super::state::{Dialect, Flow, Interpreter, Item, Loaded, Menu, Node, Outcome};

/// Menus in menus that are followed at most.
const DEEPEST: usize = 8;

/// An entry that GRUB comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chosen {
    /// Indices, the outermost menu's first.
    pub(super) path: Vec<usize>,
    /// Whether each value of `default` names an entry; GRUB takes the first one otherwise.
    pub(super) is_named: bool,
    /// Whether it is there because one before it could not be started.
    pub(super) is_fallback: bool,
}

/// The menu of what was run, with what each of its entries does.
pub(super) fn menu(interpreter: &mut Interpreter) -> Menu {
    let shown = interpreter.context.shown.take();
    shown.unwrap_or_else(|| menu_at(interpreter, 0))
}

fn menu_at(interpreter: &mut Interpreter, depth: usize) -> Menu {
    let items = std::mem::take(&mut interpreter.context.items);
    let value = |name| interpreter.context.variables.get(name).cloned();
    let (default, fallback) = (value("default"), value("fallback"));
    let mut nodes = Vec::new();
    for item in items {
        let outcome = outcome(interpreter, &item, depth);
        nodes.push(Node {
            title: item.title,
            id: item.id,
            source: item.source,
            outcome,
        });
        if interpreter.log.is_cut {
            break;
        }
    }
    Menu {
        nodes,
        default,
        fallback,
    }
}

impl Menu {
    /// The entry that GRUB starts by itself; none in an empty menu, or if nothing can be started.
    /// Whether an entry can be started says `starts`.
    pub(super) fn chosen(
        &self,
        dialect: Dialect,
        starts: &dyn Fn(&Loaded) -> bool,
    ) -> Option<Chosen> {
        let named = self
            .default
            .as_deref()
            .and_then(|name| self.position(name, dialect));
        let named = named.filter(|index| *index < self.nodes.len());
        let first = self.started(named.unwrap_or(0), dialect, starts);
        if let Some(mut chosen) = first {
            chosen.is_named &= named.is_some() || self.default.as_deref().is_none_or(str::is_empty);
            return Some(chosen);
        }
        let mut fallback = self.fallback.as_deref().unwrap_or("");
        // Each round takes a word.
        while let Some((index, rest)) = self.first_position(fallback, dialect) {
            fallback = rest;
            if let Some(chosen) = self.started(index, dialect, starts) {
                return Some(Chosen {
                    is_fallback: true,
                    ..chosen
                });
            }
        }
        None
    }

    /// The entry whatever becomes of it: the default, with those of menus in menus.
    pub(super) fn default(&self, dialect: Dialect) -> Option<Chosen> {
        self.chosen(dialect, &|_| true)
    }

    fn started(
        &self,
        index: usize,
        dialect: Dialect,
        starts: &dyn Fn(&Loaded) -> bool,
    ) -> Option<Chosen> {
        match &self.nodes.get(index)?.outcome {
            Outcome::Nothing => None,
            Outcome::Loaded(loaded) => starts(loaded).then(|| Chosen {
                path: vec![index],
                is_named: true,
                is_fallback: false,
            }),
            Outcome::Menu(menu) => {
                let mut chosen = menu.chosen(dialect, starts)?;
                chosen.path.insert(0, index);
                Some(chosen)
            }
        }
    }

    /// The index that a value of `default` is of; it may be beyond the menu.
    fn position(&self, value: &str, dialect: Dialect) -> Option<usize> {
        let is_same = |text: &str| is_named(text, value);
        match dialect {
            Dialect::Upstream => match number(value) {
                Some(number) => usize::try_from(number).ok(),
                None if starts_with_digit(value) => None,
                None => self
                    .nodes
                    .iter()
                    .position(|it| is_same(&it.title) || is_same(&it.id)),
            },
            Dialect::RedHat => {
                let has_space = |text: &str| text.contains(|c: char| c.is_ascii_whitespace());
                let by_id = |it: &&Node| is_same(&it.id) && !has_space(&it.id);
                if self.nodes.iter().any(|it| by_id(&it)) && has_space(value) {
                    // A word behind white space is taken for another name, of which there is none.
                    return None;
                }
                let by_id = self.nodes.iter().position(|it| by_id(&it));
                by_id
                    .or_else(|| self.nodes.iter().position(|it| is_same(&it.title)))
                    .or_else(|| match number_and_rest(value)? {
                        (number, "") => usize::try_from(number).ok(),
                        _ => None,
                    })
            }
        }
    }

    /// The index that a value of `fallback` begins with, and what follows it.
    fn first_position<'a>(&self, value: &'a str, dialect: Dialect) -> Option<(usize, &'a str)> {
        if dialect == Dialect::RedHat {
            let word = value.split_ascii_whitespace().next()?;
            if let Some(index) = self.nodes.iter().position(|it| is_named(&it.id, word)) {
                return Some((index, &value.trim_start()[word.len()..]));
            }
        }
        let (number, rest) = number_and_rest(value)?;
        Some((usize::try_from(number).ok()?, rest))
    }
}

fn starts_with_digit(value: &str) -> bool {
    value.trim_start().starts_with(|c: char| c.is_ascii_digit())
}

/// Runs an entry.
fn outcome(interpreter: &mut Interpreter, item: &Item, depth: usize) -> Outcome {
    if depth >= DEEPEST {
        interpreter.cut();
        return Outcome::Nothing;
    }
    let context = match item.is_submenu {
        true => interpreter.menu_context(),
        false => interpreter.entry_context(),
    };
    let default = interpreter.get("default").to_owned();
    let outer = interpreter.get("chosen").to_owned();
    let before = std::mem::replace(&mut interpreter.context, context);
    let flow = std::mem::replace(&mut interpreter.flow, Flow::Next);
    let chosen = item.id.replace('>', ">>");
    let chosen = match &*outer {
        "" => chosen,
        outer => format!("{outer}>{chosen}"),
    };
    interpreter.set_exported("chosen", &chosen);
    match inner(&default) {
        Some(inner) => interpreter.set("default", inner),
        None if interpreter.dialect == Dialect::Upstream => interpreter.unset("default"),
        None => {}
    }
    if item.is_submenu {
        interpreter.set("timeout", "0");
    }
    interpreter.call_block(&item.body, item.parameters.clone());
    interpreter.flow = flow;
    let outcome = if let Some(menu) = interpreter.context.shown.take() {
        Outcome::Menu(Box::new(menu))
    } else if let Some(loaded) = interpreter.context.loaded.take() {
        Outcome::Loaded(Box::new(loaded))
    } else if item.is_submenu && !interpreter.context.items.is_empty() {
        Outcome::Menu(Box::new(menu_at(interpreter, depth + 1)))
    } else {
        Outcome::Nothing
    };
    interpreter.context = before;
    if interpreter.log.is_cut {
        interpreter.flow = Flow::Stop;
    }
    outcome
}

/// What a value of `default` has for the menu in the menu: what is behind the first `>` that is not
/// `>>`.
fn inner(value: &str) -> Option<&str> {
    let at = separator(value)?;
    Some(&value[at + 1..]).filter(|rest| !rest.is_empty())
}

fn separator(value: &str) -> Option<usize> {
    let bytes = value.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match (bytes[at], bytes.get(at + 1)) {
            (b'>', Some(b'>')) => at += 2,
            (b'>', _) => return Some(at),
            _ => at += 1,
        }
    }
    None
}

/// Whether a name is what a value of `default` has for this menu.
fn is_named(name: &str, value: &str) -> bool {
    let own = &value[..separator(value).unwrap_or(value.len())];
    !name.is_empty() && own.replace(">>", ">") == name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(title: &str, id: &str, outcome: Outcome) -> Node {
        Node {
            title: title.into(),
            id: id.into(),
            source: None,
            outcome,
        }
    }

    fn loads(name: &str) -> Outcome {
        let located = super::super::super::mounts::Located {
            path: name.into(),
            is_foreign: false,
        };
        Outcome::Loaded(Box::new(Loaded {
            command: "linux".into(),
            file: located,
            options: String::new(),
            initrds: Vec::new(),
        }))
    }

    /// Two entries around a menu of three.
    fn menu(default: &str, fallback: &str, dialect: Dialect) -> Menu {
        let kept = Some(default).filter(|_| dialect == Dialect::RedHat);
        let inside = Menu {
            nodes: vec![
                node("6.1", "six", loads("a")),
                node("with > in it", "greater>id", loads("b")),
                node("5.10 rescue", "6a1b-5.10", loads("gone")),
            ],
            default: inner(default).or(kept).map(str::to_owned),
            fallback: None,
        };
        Menu {
            nodes: vec![
                node("Linux", "simple", loads("c")),
                node(
                    "Advanced options",
                    "advanced",
                    Outcome::Menu(Box::new(inside)),
                ),
                node("2024 edition", "7edition", loads("gone")),
                node("Empty", "empty", Outcome::Nothing),
            ],
            default: Some(default.to_owned()).filter(|it| !it.is_empty()),
            fallback: Some(fallback.to_owned()),
        }
    }

    fn path(default: &str, fallback: &str, dialect: Dialect) -> Option<Vec<usize>> {
        let is_there = |loaded: &Loaded| loaded.file.path.to_str() != Some("gone");
        menu(default, fallback, dialect)
            .chosen(dialect, &is_there)
            .map(|chosen| chosen.path)
    }

    #[test]
    fn defaults_by_number_title_and_id() {
        use Dialect::{RedHat, Upstream};
        let both = [Upstream, RedHat];
        for (dialects, default, expected) in [
            (&both[..], "", &[0][..]),
            (&both, "0", &[0]),
            (&both, "simple", &[0]),
            (&both, "Linux", &[0]),
            (&both, "advanced>six", &[1, 0]),
            (&both, "Advanced options>6.1", &[1, 0]),
            (&both, "advanced>greater>>id", &[1, 1]),
            (&[Upstream], "advanced>with >> in it", &[1, 1]),
            (&[RedHat], "advanced>with >> in it", &[0]),
            (&both, "no such", &[0]),
            (&both, "9", &[0]),
            (&both, "advanced", &[1, 0]),
            (&[Upstream], "1>1", &[1, 1]),
            (&[Upstream], "1", &[1, 0]),
            // Red Hat's GRUB wants the whole to be a number.
            (&[RedHat], "1>1", &[0]),
            // Without a second number the menu inside has the first one, too.
            (&[RedHat], "1", &[1, 1]),
        ] {
            for dialect in dialects {
                let expected = (*expected).to_vec();
                assert_eq!(
                    path(default, "", *dialect),
                    Some(expected),
                    "{dialect:?} {default}"
                );
            }
        }
    }

    #[test]
    fn names_that_begin_with_digits() {
        let named = |default, dialect| menu(default, "", dialect).position(default, dialect);
        assert_eq!(named("2024 edition", Dialect::Upstream), Some(2024));
        assert_eq!(named("2024 edition", Dialect::RedHat), Some(2));
        assert_eq!(named("7edition", Dialect::Upstream), Some(7));
        assert_eq!(named("7edition", Dialect::RedHat), Some(2));
    }

    #[test]
    fn what_does_not_start_falls_back() {
        assert_eq!(path("2", "", Dialect::Upstream), None);
        assert_eq!(path("2", "3 0", Dialect::Upstream), Some(vec![0]));
        assert_eq!(path("3", "x", Dialect::Upstream), None);
        assert_eq!(path("3", "advanced", Dialect::RedHat), Some(vec![1, 0]));
    }

    #[test]
    fn a_name_that_no_entry_has_is_told() {
        for (default, is) in [
            ("simple", true),
            ("advanced>six", true),
            ("advanced>no", false),
            ("no", false),
        ] {
            let chosen = menu(default, "", Dialect::Upstream)
                .default(Dialect::Upstream)
                .unwrap();
            assert_eq!(chosen.is_named, is, "{default}");
        }
    }
}
