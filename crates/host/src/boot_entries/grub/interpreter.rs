//! Runs scripts of GRUB, as `grub-core/script/execute.c` does: nothing is loaded, it is noted what
//! would be.

use super::commands::quiet;
use super::expand::expand;
use super::parser::parse;
use super::script::{Block, Command, Word};
use super::state::{BYTES, FAILED, FALSE, Flow, Interpreter, OK};

/// Commands in commands that are followed at most: functions, conditions, files.
const DEEPEST: usize = 150;
/// Commands whose answer is not known here.
const UNANSWERED: [&str; 5] = ["regexp", "rdmsr", "file", "smbios", "cmostest"];
/// Commands of GRUB that may succeed or fail, and are not run here.
const OF_GRUB: [&str; 14] = [
    "cmp",
    "crc",
    "getenv",
    "gptsync",
    "hashsum",
    "inb",
    "inl",
    "inw",
    "md5sum",
    "setpci",
    "sha1sum",
    "sha256sum",
    "sha512sum",
    "testload",
];
/// Commands of GRUB that add menus of other loaders, which are not read here.
const MENUS: [&str; 6] = [
    "extract_syslinux_entries_configfile",
    "extract_syslinux_entries_source",
    "legacy_configfile",
    "legacy_source",
    "syslinux_configfile",
    "syslinux_source",
];
/// Names of files with `*` or `?`, which GRUB replaces by those that are there if its module regexp is
/// loaded.
const PATTERNS: &str = "patterns of file names";

impl Interpreter<'_> {
    /// Runs a script of text; the status is that of its last command.
    pub(super) fn run_text(&mut self, text: &str) -> u32 {
        self.charge(text.len() / BYTES);
        let (block, wrong) = parse(text);
        self.log.wrong_lines += wrong;
        self.run(&block)
    }

    /// Runs a block with parameters of its own.
    pub(super) fn call_block(&mut self, block: &Block, parameters: Vec<String>) -> u32 {
        let before = std::mem::replace(&mut self.context.parameters, parameters);
        let loops = std::mem::take(&mut self.loops);
        let status = self.run(block);
        if self.flow == Flow::Return {
            self.flow = Flow::Next;
        }
        self.loops = loops;
        self.context.parameters = before;
        status
    }

    pub(super) fn run(&mut self, block: &Block) -> u32 {
        let mut status = OK;
        for command in block.iter() {
            status = self.run_command(command);
            if self.flow != Flow::Next {
                break;
            }
        }
        status
    }

    fn run_command(&mut self, command: &Command) -> u32 {
        self.charge(1);
        if self.is_exhausted() || self.depth > DEEPEST {
            self.cut();
            return FAILED;
        }
        self.depth += 1;
        let status = match command {
            Command::Simple { words, block } => {
                let words = self.expanded(words);
                self.run_simple(&words, block.as_ref())
            }
            Command::If {
                condition,
                then,
                otherwise,
            } => {
                let holds = self.condition(condition) == OK;
                match self.flow {
                    Flow::Next => self.run(if holds { then } else { otherwise }),
                    _ => OK,
                }
            }
            Command::For { name, words, body } => {
                let values = self.expanded(words);
                self.run_for(name, &values, body)
            }
            Command::While {
                condition,
                body,
                is_until,
            } => self.run_while(condition, body, *is_until),
            Command::Function { name, body } => {
                self.functions.insert(name.clone(), body.clone());
                OK
            }
        };
        self.depth -= 1;
        self.set("?", &status.to_string());
        status
    }

    fn condition(&mut self, condition: &Block) -> u32 {
        self.conditions += 1;
        let status = self.run(condition);
        self.conditions -= 1;
        status
    }

    fn expanded(&self, words: &[Word]) -> Vec<String> {
        let words = expand(words, &self.context);
        let length: usize = words.iter().map(String::len).sum();
        self.charge(length / BYTES);
        words
    }

    fn run_simple(&mut self, words: &[String], block: Option<&Block>) -> u32 {
        let Some((name, arguments)) = words.split_first() else {
            return OK;
        };
        if name == "!" {
            return match self.run_simple(arguments, block) {
                OK => FALSE,
                _ => OK,
            };
        }
        if let Some(status) = self.command(name, arguments, block) {
            return status;
        }
        if let Some(function) = self.functions.get(name).cloned() {
            return self.call_block(&function, arguments.to_vec());
        }
        if let Some(status) = quiet(name) {
            let unanswered = UNANSWERED.iter().find(|it| *it == name);
            self.log.unanswered.extend(unanswered);
            return status;
        }
        match name.split_once('=') {
            Some((name, value)) => self.set(name, value),
            None => {
                let decides = self.conditions > 0 && OF_GRUB.contains(&name.as_str());
                self.log.is_unsure |= decides || MENUS.contains(&name.as_str());
                self.log.unknown.insert(name.chars().take(64).collect());
            }
        }
        // GRUB says that it cannot find the command, and goes on as if it had succeeded.
        OK
    }

    /// Notes that a path is a pattern.
    pub(super) fn note_pattern(&mut self, path: &str) {
        if path.contains('/') && path.contains(['*', '?', '[']) {
            self.log.unanswered.insert(PATTERNS);
        }
    }

    fn run_for(&mut self, name: &str, values: &[String], body: &Block) -> u32 {
        let mut status = OK;
        values.iter().for_each(|it| self.note_pattern(it));
        self.loops += 1;
        for value in values {
            self.set(name, value);
            status = self.run(body);
            if self.ends_loop() {
                break;
            }
        }
        self.loops -= 1;
        status
    }

    fn run_while(&mut self, condition: &Block, body: &Block, is_until: bool) -> u32 {
        let mut status = OK;
        self.loops += 1;
        // Ends at the latest when too many commands were run.
        while self.flow == Flow::Next {
            status = self.condition(condition);
            if self.flow != Flow::Next || (status == OK) == is_until {
                break;
            }
            status = self.run(body);
            if self.ends_loop() {
                break;
            }
        }
        self.loops -= 1;
        status
    }

    /// Whether a loop is at its end after its body was run.
    fn ends_loop(&mut self) -> bool {
        let Flow::Break {
            loops,
            is_continued,
        } = self.flow
        else {
            return self.flow != Flow::Next;
        };
        self.flow = match loops {
            0 | 1 => Flow::Next,
            more => Flow::Break {
                loops: more - 1,
                is_continued,
            },
        };
        loops > 1 || !is_continued
    }

    /// `break` and `continue`.
    pub(super) fn leave_loops(&mut self, arguments: &[String], is_continued: bool) -> u32 {
        let loops = match arguments {
            [] => Some(1),
            [number] => number.parse().ok().filter(|number| *number > 0),
            _ => None,
        };
        let Some(loops) = loops else {
            return FAILED;
        };
        let loops = self.loops.min(loops);
        if loops > 0 {
            self.flow = Flow::Break {
                loops,
                is_continued,
            };
        }
        OK
    }

    /// Runs what the file has; false if it cannot be read.
    pub(super) fn source(&mut self, path: &str) -> bool {
        let Some(text) = self.read(path) else {
            return false;
        };
        self.run_file(path, &text);
        true
    }

    /// Runs a file's text, with the variables that say which file it is.
    pub(super) fn run_file(&mut self, path: &str, text: &str) {
        let names = ["config_file", "config_directory"];
        let before = names.map(|name| self.context.variables.get(name).cloned());
        let path = match path.starts_with('(') {
            true => path.to_owned(),
            false => format!("({}){path}", self.get("root")),
        };
        let directory = path.rfind('/').map_or("", |at| &path[..at]);
        self.set_exported(names[0], &path);
        self.set_exported(names[1], directory);
        self.run_text(text);
        for (name, value) in names.into_iter().zip(before) {
            match value {
                Some(value) => self.set(name, &value),
                None => self.unset(name),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::mounts::Mounts;
    use super::*;
    use crate::tree::Tree;

    /// Variables x and y after a script.
    fn run(script: &str) -> (String, String) {
        let root = tempfile::tempdir().unwrap();
        let tree = Tree::new(root.path());
        let mounts = Mounts::read(&tree);
        let mut interpreter = Interpreter::new(&tree, &mounts);
        interpreter.run_text(script);
        let value = |name| interpreter.get(name).to_owned();
        (value("x"), value("y"))
    }

    #[test]
    fn scripts_do_what_they_do_in_grub() {
        for (script, x, y) in [
            ("set x=1; y=2", "1", "2"),
            (
                "if false; then set x=1; elif true; then set x=2; else set x=3; fi",
                "2",
                "",
            ),
            (
                "if [ a = b ]; then x=1; else x=2; fi\nif ! [ a = b ]; then y=1; fi",
                "2",
                "1",
            ),
            ("for i in 1 2 3; do x=$x$i; done", "123", ""),
            (
                "for i in 1 2 3; do if [ $i = 2 ]; then continue; fi; x=$x$i; done",
                "13",
                "",
            ),
            (
                "for i in 1 2; do for j in a b; do if [ $j = b ]; then break 2; fi; x=$x$i$j; done; done; y=z",
                "1a",
                "z",
            ),
            (
                "for i in 1 2; do for j in a b; do if [ $j = b ]; then continue 2; fi; x=$x$i$j; done; y=z; done",
                "1a2a",
                "",
            ),
            ("while [ \"$x\" != aaa ]; do x=a$x; done", "aaa", ""),
            ("until [ \"$x\" = aa ]; do x=a$x; done", "aa", ""),
            ("function f {\n x=$1\n y=$#\n}\nf one two", "one", "2"),
            ("function f {\n return\n x=1\n}\nf; y=2", "", "2"),
            (
                "function f {\n false\n}\nif f; then x=1; else x=2; fi",
                "2",
                "",
            ),
            ("false; x=$?; true; y=$?", "1", "0"),
            // An unknown command is no failure.
            ("if no_such_command; then x=1; fi; y=$?", "1", "0"),
            ("set x=1; unset x; y=\"a b\"", "", "a b"),
            (
                "z='a b'; for i in $z; do x=$x-$i; done; for i in \"$z\"; do y=\"$y-$i\"; done",
                "-a-b",
                "-a b",
            ),
            ("setx=1\nset x=a=b", "a=b", ""),
            ("eval 'set x=1; set y=2'", "1", "2"),
            ("x=1; increment x; increment x; y=1; decrement y", "3", "0"),
        ] {
            assert_eq!(run(script), (x.to_owned(), y.to_owned()), "{script}");
        }
    }

    #[test]
    fn files_that_name_themselves_end() {
        for command in ["source", "configfile"] {
            let root = tempfile::tempdir().unwrap();
            let script = format!("menuentry a {{\n true\n}}\nif true; then {command} /a; fi\n");
            std::fs::write(root.path().join("a"), script).unwrap();
            let tree = Tree::new(root.path());
            let mounts = Mounts::read(&tree);
            let mut interpreter = Interpreter::new(&tree, &mounts);
            interpreter.run_text(&format!("{command} /a"));
            assert!(interpreter.log.is_cut, "{command}");
        }
    }

    #[test]
    fn hostile_scripts_end() {
        for script in [
            "while true; do x=1; done",
            "function f {\n f\n f\n}\nf",
            "x=aaaaaaaaaa; while true; do x=$x$x; done",
            "x=aaaaaaaaaa; while true; do x=$x$x; eval \"y$x=$x\"; done",
            "while true; do menuentry a {\n true\n}\ndone",
        ] {
            run(script);
        }
    }
}
