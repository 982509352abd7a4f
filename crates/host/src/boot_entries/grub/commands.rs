//! Commands of GRUB that decide which entries there are, and what they load.

use super::super::mounts::Located;
use super::blscfg::blscfg;
use super::condition::evaluate;
use super::menu::menu;
use super::script::Block;
use super::state::{FAILED, FALSE, Flow, Interpreter, Item, Loaded, MOST_ITEMS, OK, SEARCHED};

/// Commands that change nothing that is looked at here, and succeed.
const QUIET: [&str; 53] = [
    "authenticate",
    "background_color",
    "background_image",
    "badram",
    "boot",
    "clear",
    "cls",
    "cpuid",
    "cryptomount",
    "cutmem",
    "devicetree",
    "drivemap",
    "echo",
    "gettext",
    "halt",
    "hdparm",
    "hexdump",
    "insmod",
    "keymap",
    "list_env",
    "loadfont",
    "ls",
    "lsefi",
    "module",
    "module2",
    "nativedisk",
    "parttool",
    "password",
    "password_pbkdf2",
    "play",
    "read",
    "reboot",
    "rmmod",
    "serial",
    "slaunch",
    "slaunch_module",
    "sleep",
    "smbios",
    "terminal_input",
    "terminal_output",
    "terminfo",
    "time",
    "trust",
    "videoinfo",
    "videotest",
    "vbeinfo",
    "verify_detached",
    "xen_module",
    "zfskey",
    "acpi",
    "lsmod",
    "lspci",
    "usb",
];
/// Commands that fail here: nobody presses a key, and patterns are not matched.
const FAILING: [&str; 7] = [
    "false",
    // The button that it asks for is not pressed.
    "cmostest",
    "keystatus",
    "regexp",
    "rdmsr",
    "legacy_check_password",
    "file",
];
/// Commands that start something else than Linux.
const OTHERS: [&str; 11] = [
    "multiboot",
    "multiboot2",
    "xen_hypervisor",
    "ntldr",
    "linux_xnu",
    "freedos",
    "kfreebsd",
    "knetbsd",
    "kopenbsd",
    "fwsetup",
    "exit",
];

impl Interpreter<'_> {
    /// Runs a command; none if it is none of GRUB's.
    pub(super) fn command(
        &mut self,
        name: &str,
        arguments: &[String],
        block: Option<&Block>,
    ) -> Option<u32> {
        Some(match name {
            "set" => self.set_command(arguments),
            "unset" => {
                for name in arguments {
                    self.unset(name);
                }
                OK
            }
            "export" => {
                self.context
                    .exported
                    .extend(arguments.iter().take(MOST_ITEMS).cloned());
                OK
            }
            "[" | "test" => {
                let words = match arguments.split_last() {
                    Some((last, words)) if last == "]" => words,
                    _ => arguments,
                };
                truth(evaluate(words, self))
            }
            "true" => OK,
            "load_env" => self.load_env(arguments),
            "save_env" => self.save_env(arguments),
            "menuentry" | "submenu" => self.menuentry(name == "submenu", arguments, block),
            "linux" | "linux16" | "linuxefi" => self.load(name, arguments),
            "chainloader" => self.chainload(name, arguments),
            "loopback" => self.loopback(arguments),
            "btrfs-mount-subvol" => match arguments {
                [_, directory, _, ..] => {
                    self.mount_subvolume(directory);
                    OK
                }
                _ => FAILED,
            },
            "hwmatch" => {
                // No hardware is in Ubuntu's list of what has no graphics.
                self.set("match", "0");
                OK
            }
            "initrd" | "initrd16" | "initrdefi" => self.initrd(arguments),
            "source" | "." | "extract_entries_source" => match arguments {
                [path, ..] => truth(self.source(path)),
                [] => FAILED,
            },
            "configfile" | "normal" | "extract_entries_configfile" => self.configfile(arguments),
            "blscfg" | "bls_import" => blscfg(self, arguments),
            "increment" | "decrement" => self.step(arguments, name == "increment"),
            "eval" => self.run_text(&arguments.join(" ")),
            "search" => self.search(arguments),
            "search.fs_uuid" | "search_fs_uuid" => {
                let variable = arguments.get(1).map_or("root", String::as_str);
                self.search_uuid(arguments.first(), variable)
            }
            "search.fs_label" | "search_fs_label" => {
                let variable = arguments.get(1).map_or("root", String::as_str);
                self.search_label(arguments.first().map(String::as_str), variable)
            }
            "search.file" | "search_fs_file" => OK,
            "probe" => self.probe(arguments),
            "break" => self.leave_loops(arguments, false),
            "continue" => self.leave_loops(arguments, true),
            "return" => {
                self.flow = Flow::Return;
                arguments
                    .first()
                    .map_or_else(|| self.get("?"), String::as_str)
                    .parse()
                    .unwrap_or(OK)
            }
            "shift" => {
                let number = arguments
                    .first()
                    .map_or(Ok(1), |it| it.parse())
                    .unwrap_or(0);
                let parameters = &mut self.context.parameters;
                parameters.drain(..parameters.len().min(number));
                OK
            }
            "setparams" => {
                self.context.parameters = arguments.to_vec();
                OK
            }
            // With an option it is asked whether the firmware can.
            "fwsetup" if !arguments.is_empty() => truth(self.get("grub_platform") == "efi"),
            _ if OTHERS.contains(&name) => self.load_other(name, arguments),
            _ => return None,
        })
    }

    fn set_command(&mut self, arguments: &[String]) -> u32 {
        let Some(assignment) = arguments.first() else {
            return OK;
        };
        match assignment.split_once('=') {
            Some((name, value)) => {
                self.set(name, value);
                OK
            }
            None => FAILED,
        }
    }

    fn menuentry(&mut self, is_submenu: bool, arguments: &[String], block: Option<&Block>) -> u32 {
        let (mut id, mut source) = (None, None);
        let mut parameters = Vec::new();
        let mut words = arguments.iter().peekable();
        while let Some(word) = words.next() {
            let Some(option) = word.strip_prefix("--").filter(|it| !it.is_empty()) else {
                parameters.push(word.clone());
                continue;
            };
            let (name, value) = match option.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (option, None),
            };
            if !matches!(name, "class" | "users" | "hotkey" | "id" | "source") {
                if name != "unrestricted" {
                    parameters.push(word.clone());
                }
                continue;
            }
            let value = value.or_else(|| words.next_if(|next| !next.starts_with('-')).cloned());
            match name {
                "id" => id = value,
                "source" => source = value,
                _ => {}
            }
        }
        let body = match (block, source) {
            (Some(block), None) => block.clone(),
            (None, Some(source)) => super::parser::parse(&source).0,
            _ => return FAILED,
        };
        let Some(title) = parameters.first().cloned() else {
            return FAILED;
        };
        self.add(Item {
            id: id.unwrap_or_else(|| title.clone()),
            title,
            parameters,
            body,
            is_submenu,
            source: None,
        })
    }

    fn load(&mut self, command: &str, arguments: &[String]) -> u32 {
        let Some((path, words)) = arguments.split_first() else {
            return FAILED;
        };
        let Some(file) = self.locate(path) else {
            return FAILED;
        };
        self.note_device(path);
        self.note_pattern(path);
        let is_there = self.tree.is_file(&file.path);
        let options: Vec<_> = words.iter().map(|word| quoted(word)).collect();
        self.context.loaded = Some(Loaded {
            command: command.to_owned(),
            file,
            options: options.join(" "),
            initrds: Vec::new(),
        });
        truth(is_there)
    }

    /// `chainloader`: a program, or sectors such as `+1`.
    fn chainload(&mut self, command: &str, arguments: &[String]) -> u32 {
        let first = arguments.iter().position(|word| !word.starts_with('-'));
        let arguments = &arguments[first.unwrap_or(arguments.len())..];
        match arguments.first().and_then(|path| self.locate(path)) {
            Some(_) => self.load(command, arguments),
            None if arguments.is_empty() => FAILED,
            None => self.load_other(command, &[]),
        }
    }

    /// `loopback NAME FILE`: what is in the file is not looked at here.
    fn loopback(&mut self, arguments: &[String]) -> u32 {
        if let Some(name) = arguments.iter().find(|word| !word.starts_with('-')) {
            self.images.insert(name.clone());
        }
        OK
    }

    fn load_other(&mut self, command: &str, arguments: &[String]) -> u32 {
        let path = arguments.iter().find(|word| !word.starts_with('-'));
        let file = path.and_then(|path| self.locate(path));
        self.context.loaded = Some(Loaded {
            command: command.to_owned(),
            file: file.unwrap_or_else(|| Located {
                path: "/".into(),
                is_foreign: false,
            }),
            options: String::new(),
            initrds: Vec::new(),
        });
        OK
    }

    fn initrd(&mut self, arguments: &[String]) -> u32 {
        let files: Vec<_> = arguments
            .iter()
            .map(|path| {
                // A file that is to be put into one, `newc:NAME:FILE`, is none by itself.
                let unknown = || Located {
                    path: path.into(),
                    is_foreign: false,
                };
                self.locate(path).unwrap_or_else(unknown)
            })
            .collect();
        let Some(loaded) = &mut self.context.loaded else {
            return FAILED;
        };
        // A second command replaces what the first one has loaded.
        loaded.initrds = files;
        OK
    }

    fn configfile(&mut self, arguments: &[String]) -> u32 {
        let path = arguments.first().cloned();
        let path = path.unwrap_or_else(|| format!("{}/grub.cfg", self.get("prefix")));
        if let Some(file) = self.locate(&path).filter(|it| it.is_foreign) {
            // Another system's menu.
            self.context.loaded = Some(Loaded {
                command: "configfile".to_owned(),
                file,
                options: String::new(),
                initrds: Vec::new(),
            });
            return OK;
        }
        let Some(text) = self.read(&path) else {
            return FAILED;
        };
        let context = self.menu_context();
        let before = std::mem::replace(&mut self.context, context);
        self.run_file(&path, &text);
        let menu = match self.log.is_cut {
            true => None,
            false => Some(menu(self)).filter(|menu| !menu.nodes.is_empty()),
        };
        self.context = before;
        if menu.is_some() {
            self.context.shown = menu;
            self.flow = Flow::Stop;
        }
        OK
    }

    fn step(&mut self, arguments: &[String], is_up: bool) -> u32 {
        let Some(name) = arguments.first() else {
            return FAILED;
        };
        let value: i64 = self.get(name).trim().parse().unwrap_or(0);
        let next = value.saturating_add(if is_up { 1 } else { -1 });
        self.set(name, &next.to_string());
        OK
    }

    /// `search`; what is searched by a file, or by a label that the system does not know, cannot be told
    /// from here.
    fn search(&mut self, arguments: &[String]) -> u32 {
        let (mut is_uuid, mut is_label) = (false, false);
        let (mut variable, mut name) = (None, None);
        let mut words = arguments.iter().peekable();
        while let Some(word) = words.next() {
            match &**word {
                "--fs-uuid" | "-u" => is_uuid = true,
                "--label" | "-l" => is_label = true,
                "--set" | "-s" => {
                    variable = Some(words.next_if(|next| !next.starts_with('-')).cloned())
                }
                _ if word.starts_with("--set=") => {
                    variable = Some(Some(word["--set=".len()..].to_owned()))
                }
                _ if word.starts_with("--hint") && !word.contains('=') => {
                    words.next_if(|next| !next.starts_with('-'));
                }
                _ if word.starts_with('-') => {}
                _ => name = name.or(Some(word)),
            }
        }
        // `--set UUID` has no variable: the word is what is searched.
        let (variable, name) = match (variable, name) {
            (Some(variable), Some(name)) => (variable, Some(name.clone())),
            (Some(only), None) => (None, only),
            (None, _) => return OK,
        };
        let variable = variable.unwrap_or_else(|| "root".to_owned());
        match is_uuid {
            true => self.search_uuid(name.as_ref(), &variable),
            false => self.search_label(name.filter(|_| is_label).as_deref(), &variable),
        }
    }

    /// Sets a variable to the file system with a label, or to one that is searched otherwise.
    fn search_label(&mut self, label: Option<&str>, variable: &str) -> u32 {
        let uuid = label.and_then(|label| self.mounts.uuid_of_label(label));
        let device = uuid.map_or_else(|| SEARCHED.to_owned(), |uuid| Self::device(&uuid));
        self.set(variable, &device);
        OK
    }

    fn search_uuid(&mut self, uuid: Option<&String>, variable: &str) -> u32 {
        let Some(uuid) = uuid else {
            return FAILED;
        };
        self.set(variable, &Self::device(uuid));
        OK
    }

    /// `probe --set=VARIABLE --fs-uuid DEVICE`.
    fn probe(&mut self, arguments: &[String]) -> u32 {
        let (mut variable, mut is_uuid, mut device) = (None, false, None);
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            match &**word {
                "--set" | "-s" => variable = words.next().cloned(),
                "--fs-uuid" | "-u" => is_uuid = true,
                _ if word.starts_with("--set=") => {
                    variable = Some(word["--set=".len()..].to_owned())
                }
                _ => device = Some(word.trim_start_matches('(').trim_end_matches(')')),
            }
        }
        let uuid = device.and_then(|device| self.known_uuid(device));
        match (variable, uuid.filter(|_| is_uuid)) {
            (Some(variable), Some(uuid)) => {
                self.set(&variable, &uuid);
                OK
            }
            (Some(_), None) => {
                self.log.unanswered.insert("probe");
                FAILED
            }
            (None, _) => FAILED,
        }
    }
}

/// The status of a command that changes nothing that is looked at here; none if it is none of
/// GRUB's.
pub(super) fn quiet(name: &str) -> Option<u32> {
    if QUIET.contains(&name) {
        return Some(OK);
    }
    FAILING.contains(&name).then_some(FALSE)
}

fn truth(is: bool) -> u32 {
    if is { OK } else { FALSE }
}

/// A word of a kernel's command line, as `grub_create_loader_cmdline` writes it.
fn quoted(word: &str) -> String {
    let mut text = String::new();
    for next in word.chars() {
        if matches!(next, '\\' | '\'' | '"') {
            text.push('\\');
        }
        text.push(next);
    }
    match word.contains(' ') {
        true => format!("\"{text}\""),
        false => text,
    }
}
