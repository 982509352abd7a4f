//! Commands of GRUB's scripts for the environment block (`grub-core/commands/loadenv.c`).

use super::super::environment::variables;
use super::lasting::ONCE;
use super::state::{FAILED, Interpreter, OK};

impl Interpreter<'_> {
    pub(super) fn load_env(&mut self, arguments: &[String]) -> u32 {
        let (path, wanted) = self.block_and_names(arguments);
        let Some(text) = self.read(&path) else {
            return FAILED;
        };
        for (name, value) in variables(&text) {
            let change = self.changes.iter().find(|it| it.name == name);
            let value = change.map_or(value, |it| it.after.clone());
            if wanted.is_empty() || wanted.contains(&&name) {
                self.set(&name, &value);
            }
        }
        OK
    }

    /// Notes what GRUB would write to its own environment block; nothing is written.
    pub(super) fn save_env(&mut self, arguments: &[String]) -> u32 {
        let (path, names) = self.block_and_names(arguments);
        if path == self.own_block() {
            for name in names.into_iter().filter(|it| ONCE.contains(&&***it)) {
                let value = self.get(name).to_owned();
                self.saved.insert(name.clone(), value);
            }
        }
        OK
    }

    fn own_block(&self) -> String {
        format!("{}/grubenv", self.get("prefix"))
    }

    /// The environment block that arguments of a command name, and the names of its variables.
    fn block_and_names<'w>(&self, arguments: &'w [String]) -> (String, Vec<&'w String>) {
        let (mut path, mut names) = (None, Vec::new());
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            match word.strip_prefix("--file=") {
                Some(value) => path = Some(value.to_owned()),
                None if word == "-f" || word == "--file" => path = words.next().cloned(),
                None if word == "--skip-sig" || word == "-s" => {}
                None => names.push(word),
            }
        }
        (path.unwrap_or_else(|| self.own_block()), names)
    }
}
