//! Command lines with `openssl speed`, behind any prompt. Pure.

use super::lines::name_of;

/// Most words of a line that are looked at.
const WORDS: usize = 100;
/// Programs that start another one.
const STARTERS: [&str; 11] = [
    "time", "sudo", "doas", "env", "exec", "nice", "stdbuf", "timeout", "chrt", "taskset",
    "numactl",
];
/// Those that say where it runs: cores and memory may differ in speed.
const PLACES: [&str; 2] = ["numactl", "taskset"];
/// Options that have a value, of OpenSSL 0.9.8 to 4.0 and LibreSSL.
const VALUED: [&str; 17] = [
    "async_jobs",
    "bytes",
    "cmac",
    "config",
    "elliptic",
    "engine",
    "evp",
    "hmac",
    "misalign",
    "multi",
    "primes",
    "propquery",
    "provider",
    "provider-path",
    "rand",
    "seconds",
    "writerand",
];
/// Algorithms without a number in their names.
const LETTERS: [&str; 22] = [
    "aes",
    "aria",
    "bf",
    "blowfish",
    "camellia",
    "cast",
    "cbc",
    "cmac",
    "des",
    "dsa",
    "ecdh",
    "ecdsa",
    "eddsa",
    "ffdh",
    "ghash",
    "hmac",
    "idea",
    "rand",
    "rsa",
    "seed",
    "sha",
    "whirlpool",
];

/// What a command line says of the results below it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Command {
    /// Whether times are of the wall clock.
    pub(super) is_elapsed: bool,
    /// The engine that it asks for.
    pub(super) engine: Option<String>,
    /// Whether openssl said of one of its runs what became of the engine.
    pub(super) is_engine_told: bool,
    /// The algorithm of `-evp`.
    pub(super) evp: Option<String>,
    /// Processes of `-multi`.
    pub(super) processes: usize,
    /// `OPENSSL_ia32cap`.
    pub(super) processor: Option<String>,
    /// What else tells the implementation from others, for people.
    pub(super) manner: Vec<String>,
}

/// Reads a line, which is no output of openssl. Sentences about `openssl speed` are no commands.
pub(super) fn read(line: &str) -> Option<Command> {
    let words: Vec<&str> = line.split_whitespace().take(WORDS).collect();
    let is_it = |pair: &[&str]| program(pair[0]).is_some() && pair[1] == "speed";
    let at = words.windows(2).position(is_it)?;
    let mut start = at;
    while start > 0 && (is_starter(words[start - 1]) || is_of_starter(words[start - 1])) {
        start -= 1;
    }
    // What looks like an option of a starter may be the end of a prompt.
    while start < at && !is_starter(words[start]) {
        start += 1;
    }
    let mut command = Command::default();
    let has_options = command.add_arguments(&words[at + 2..])?;
    command.add_start(&words[start..at]);
    let program = program(words[at]).filter(|path| *path != "openssl");
    command.manner.extend(program.and_then(name_of));
    is_prompt(&words[..start], words[start], has_options).then_some(command)
}

impl Command {
    /// Adds what the arguments say; whether there are options. None if there is a word that is no
    /// argument, as in a sentence.
    fn add_arguments(&mut self, words: &[&str]) -> Option<bool> {
        let mut has_options = false;
        let mut words = words.iter().take_while(|word| !is_of_shell(word));
        let mut is_ended = false;
        while let Some(word) = words.next().filter(|_| !is_ended) {
            is_ended = word.ends_with(';');
            let word = without_marks(word);
            // Some programs for text make long dashes of short ones.
            let option = word.trim_start_matches(['-', '–', '—']);
            if option.len() == word.len() {
                let is_known = LETTERS.contains(&option);
                if !is_known && !option.contains(|one: char| one.is_ascii_digit()) {
                    return None;
                }
                continue;
            }
            has_options = true;
            let value = match VALUED.contains(&option) {
                true => Some(without_marks(words.next()?)),
                false => None,
            };
            self.add_option(option, value.unwrap_or_default());
        }
        Some(has_options)
    }

    fn add_option(&mut self, option: &str, value: &str) {
        let part = match option {
            "elapsed" => {
                self.is_elapsed = true;
                return;
            }
            "engine" => {
                self.engine = name_of(value);
                return;
            }
            "evp" => {
                self.evp = name_of(value);
                return;
            }
            "multi" => {
                self.processes = value.parse().unwrap_or_default();
                return;
            }
            // How long, of which size, and in which form: a curve may have several of each.
            "bytes" | "mr" | "seconds" => return,
            "provider" => format!("provider {value}"),
            "propquery" => format!("properties {value}"),
            "decrypt" => "decryption".to_owned(),
            _ => format!("-{option} {value}"),
        };
        self.manner.extend(name_of(&part));
    }

    /// Adds what is before the program: variables of the environment, and other programs with their
    /// options, such as `taskset -c 3`.
    fn add_start(&mut self, words: &[&str]) {
        let mut words = words.iter().peekable();
        while let Some(word) = words.next() {
            match assignment(word) {
                Some(("OPENSSL_ia32cap", value)) => self.processor = name_of(value),
                // How messages and numbers are written.
                Some((name, _)) if name.starts_with("LC_") || name == "LANG" => {}
                Some((name, value)) => self.manner.extend(name_of(&format!("{name} {value}"))),
                None => {
                    let is_option = |word: &&&str| !is_starter(word);
                    let options = std::iter::from_fn(|| words.next_if(is_option)).copied();
                    let name = starter(word);
                    let all: Vec<_> = std::iter::once(name).chain(options).collect();
                    if PLACES.contains(&name) {
                        self.manner.extend(name_of(&all.join(" ")));
                    }
                }
            }
        }
    }
}

/// The path of openssl's program, if a word ends with it; a prompt may be right before it.
fn program(word: &str) -> Option<&str> {
    let is_of_path = |one: char| one.is_alphanumeric() || "._-+/\\~".contains(one);
    let path = &word[word.trim_end_matches(is_of_path).len()..];
    let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
    let name = name.strip_suffix(".exe").unwrap_or(name);
    let version = name.strip_prefix("openssl")?;
    let is_version = |one: char| one.is_ascii_digit() || ".-".contains(one);
    version.chars().all(is_version).then_some(path)
}

/// Name and value of `NAME=VALUE`; a prompt may be right before it.
fn assignment(word: &str) -> Option<(&str, &str)> {
    let (before, value) = word.split_once('=')?;
    let is_of_name = |one: char| one.is_ascii_alphanumeric() || one == '_';
    let name = &before[before.trim_end_matches(is_of_name).len()..];
    let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    // Not so a prompt that has the character.
    let is_value = !value.ends_with(['$', '#', '>', ':', ')', ']']);
    (is_name && is_value).then(|| (name, value.trim_matches(['"', '\''])))
}

fn is_starter(word: &str) -> bool {
    STARTERS.contains(&starter(word)) || assignment(word).is_some()
}

/// A word without a prompt right before it.
fn starter(word: &str) -> &str {
    let ends = ['$', '#', '>', '%', ')', ']', '`', '\\'];
    word.rsplit(ends).next().unwrap_or_default()
}

/// Whether it may be an option of a starter or its value, such as `-c 0-3`.
fn is_of_starter(word: &str) -> bool {
    let is_number = |one: char| one.is_ascii_hexdigit() || "x,-".contains(one);
    word.starts_with('-')
        || (word.starts_with(|first: char| first.is_ascii_digit()) && word.chars().all(is_number))
}

/// Whether the command ends here for a shell.
fn is_of_shell(word: &str) -> bool {
    let word = word.trim_start_matches(['1', '2']);
    word.starts_with(['|', '>', '<', '&', ';', '#', '\\'])
}

fn without_marks(word: &str) -> &str {
    word.trim_matches(['`', '"', '\''])
        .trim_end_matches([')', ',', '.', ':', ';', '`'])
}

/// Whether what is before a command is a prompt, or nothing. `first` is the command's first word,
/// and may begin with the prompt's end.
fn is_prompt(before: &[&str], first: &str, has_options: bool) -> bool {
    let Some(last) = before.last() else {
        return true;
    };
    let is_of_word = |one: char| one.is_alphanumeric() || "`,.;'\"(".contains(one);
    let is_symbol = last.chars().all(|one| !one.is_ascii()) && last.chars().count() == 1;
    if is_symbol || !last.ends_with(is_of_word) || first.starts_with(['$', '#', '>', '%']) {
        return true;
    }
    let is_plain = |word: &&&str| word.chars().all(char::is_alphabetic);
    has_options && before.iter().filter(is_plain).count() < 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_behind_any_prompt() {
        for before in [
            "",
            "$ ",
            "root@board:~# ",
            "[admin@gate]/root(6): ",
            "[me@host ~]$ time ",
            "board login> sudo taskset -c 0-3 ",
            "me in ~ λ ",
            "PS C:\\> .\\",
            "$",
            "host% OPENSSL_CONF=/ nice -n -5 ",
            "host% cd /tmp && ./",
            "me@host ~ 12:30 /usr/local/bin/",
        ] {
            for program in ["openssl", "openssl-1.1", "openssl3"] {
                let line =
                    format!("{before}{program} speed -evp aes-128-cbc -elapsed 2>&1 | tee log");
                assert!(read(&line).is_some_and(|one| one.is_elapsed), "{line}");
            }
        }
        for line in [
            "$ openssl speed",
            "openssl speed aes-128-cbc sha",
            "(6): openssl speed -seconds 1 -evp sha1 -mr; echo",
            "`openssl speed -evp aes-128-cbc`:",
        ] {
            let found = read(line);
            assert!(found.is_some_and(|one| !one.is_elapsed), "{line}");
        }
    }

    #[test]
    fn sentences_are_no_commands() {
        for line in [
            "I ran openssl speed on it",
            "openssl speedy",
            "openssl speed results of two boards",
            "Use the option -elapsed of openssl speed",
            "Please give the output of openssl speed -evp aes-128-cbc -elapsed",
            "You can use `openssl speed` command to measure. Make sure to use -elapsed",
            "openssl speed -evp aes-128-cbc with -elapsed would be better",
            "libopenssl speed -elapsed",
            "openssl speed -evp",
        ] {
            assert_eq!(read(line), None, "{line}");
        }
    }
}
