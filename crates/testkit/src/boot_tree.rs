//! Trees of systems with their boot loaders, and kernels that say how they were started.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::{TempDir, tempdir};

/// What a line of a tree begins and ends with that names a file.
const MARK: &str = "--";

/// The files of a system that boot loaders and their readers look at.
///
/// It is written after a text in `boot-trees`: a line `-- PATH --` with the text of the file behind
/// it, or one of these:
///
/// ```text
/// -- PATH: kernel RELEASE --    a kernel that says how it was started, see `kernel`
/// -- PATH: initrd --            a file with its path
/// -- PATH: link TARGET --       a symbolic link
/// -- PATH: directory --         an empty directory
/// -- PATH: uki RELEASE --       a unified kernel image; lines `SECTION TEXT` are further sections
/// -- PATH: pe --                a PE file that has these sections alone
/// -- PATH: efi --               an EFI variable with text in it
/// ```
#[derive(Debug)]
pub struct BootTree {
    dir: TempDir,
}

impl BootTree {
    /// The tree of this name in `boot-trees`.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    #[track_caller]
    pub fn named(name: &str) -> Self {
        let path = Self::directory().join(format!("{name}.txt"));
        let text = fs::read_to_string(&path);
        Self::of(&text.unwrap_or_else(|error| panic!("{}: {error}", path.display())))
    }

    /// Names of all trees, sorted.
    ///
    /// # Panics
    /// If they cannot be read.
    #[must_use]
    pub fn names() -> Vec<String> {
        let entries = fs::read_dir(Self::directory()).unwrap();
        let name = |path: PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
        let mut names: Vec<_> = entries.map(|it| name(it.unwrap().path())).collect();
        names.sort();
        names
    }

    /// The tree of a text.
    ///
    /// # Panics
    /// If it is none.
    #[must_use]
    #[track_caller]
    pub fn of(text: &str) -> Self {
        let tree = Self {
            dir: tempdir().unwrap(),
        };
        let mut parts: Vec<(&str, String)> = Vec::new();
        for line in text.lines() {
            let inside = line.strip_prefix(MARK).and_then(|it| it.strip_suffix(MARK));
            match (inside, parts.last_mut()) {
                (Some(head), _) => parts.push((head.trim(), String::new())),
                (None, Some((_, text))) => {
                    text.push_str(line);
                    text.push('\n');
                }
                // What it is of.
                (None, None) => {}
            }
        }
        for (head, text) in &parts {
            let (path, kind) = head.split_once(": ").unwrap_or((head, ""));
            tree.add(path, kind, text);
        }
        tree
    }

    /// The root of the system.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.dir.path()
    }

    /// Writes a file of text, in the place of one that was there.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn write(&self, path: &str, text: &str) {
        self.put(path, text.as_bytes());
    }

    /// Writes the environment block of GRUB with these lines, `NAME=VALUE`.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn grubenv(&self, path: &str, lines: &[&str]) {
        let mut text = "# GRUB Environment Block\n".to_owned();
        for line in lines {
            text.push_str(line);
            text.push('\n');
        }
        let filling = "#".repeat(1024 - text.len());
        self.put(path, (text + &filling).as_bytes());
    }

    /// Path of a file for this process.
    #[must_use]
    pub fn at(&self, path: &str) -> PathBuf {
        self.root().join(path.trim_start_matches('/'))
    }

    fn directory() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("boot-trees")
    }

    fn put(&self, path: &str, bytes: &[u8]) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn add(&self, path: &str, kind: &str, text: &str) {
        let (kind, value) = kind.split_once(' ').unwrap_or((kind, ""));
        match kind {
            "" => self.put(path, text.as_bytes()),
            "kernel" => self.put(path, &kernel(value, path)),
            "initrd" => self.put(path, format!("{path}\n").as_bytes()),
            "uki" => self.put(path, &uki(value, path, text)),
            "pe" => self.put(path, &pe(Vec::new(), text)),
            "efi" => {
                let mut bytes = vec![7, 0, 0, 0];
                let units = text.trim_end().encode_utf16().chain([0]);
                bytes.extend(units.flat_map(u16::to_le_bytes));
                self.put(path, &bytes);
            }
            "directory" => fs::create_dir_all(self.at(path)).unwrap(),
            "link" => {
                let path = self.at(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                symlink(value, path).unwrap();
            }
            other => panic!("{path}: {other} is no kind of file"),
        }
    }
}

/// Entered in 32-bit mode with `boot_params` at ESI (`Documentation/arch/x86/boot.rst`): writes the
/// name behind it, the command line, and the initial RAM disk to port 0xe9, and ends QEMU by port
/// 0xf4 (`isa-debug-exit`). Names end with NUL.
const PROGRAM: [u8; 63] = [
    0xfc, // cld
    0x89, 0xf5, // mov ebp, esi
    0xe8, 0, 0, 0, 0,    // call next
    0x5b, // next: pop ebx
    0x66, 0xba, 0xe9, 0x00, // mov dx, 0xe9
    0x8d, 0x73, 0x37, // lea esi, [ebx + name - next]
    0xe8, 0x23, 0, 0, 0, // call puts
    0x8b, 0xb5, 0x28, 0x02, 0, 0, // mov esi, [ebp + 0x228]: cmd_line_ptr
    0xe8, 0x18, 0, 0, 0, // call puts
    0x8b, 0xb5, 0x18, 0x02, 0, 0, // mov esi, [ebp + 0x218]: ramdisk_image
    0x8b, 0x8d, 0x1c, 0x02, 0, 0, // mov ecx, [ebp + 0x21c]: ramdisk_size
    0xe3, 0x02, // jecxz end
    0xf3, 0x6e, // rep outsb
    0x66, 0xba, 0xf4, 0x00, // end: mov dx, 0xf4
    0xee, // out dx, al
    0xf4, // hlt
    0xeb, 0xfd, // jmp hlt
    0xac, // puts: lodsb
    0xee, // out dx, al
    0x84, 0xc0, // test al, al
    0x75, 0xfa, // jnz puts
    0xc3, // ret
];

/// A bzImage of this release that says its name, its command line and its initial RAM disks.
fn kernel(release: &str, name: &str) -> Vec<u8> {
    // One sector of setup behind the boot sector.
    let mut image = vec![0; 0x400];
    let mut put = |at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
    put(0x1f1, &[1]);
    put(0x1fe, &[0x55, 0xaa, 0xeb, 0x66]);
    put(0x202, b"HdrS");
    put(0x206, &0x020c_u16.to_le_bytes());
    // kernel_version, from 0x200.
    put(0x20e, &0x100_u16.to_le_bytes());
    // LOADED_HIGH
    put(0x211, &[1]);
    put(0x214, &0x10_0000_u32.to_le_bytes());
    put(0x22c, &0x7fff_ffff_u32.to_le_bytes());
    put(0x230, &0x20_0000_u32.to_le_bytes());
    // Relocatable, to 2 MiB.
    put(0x234, &[1, 21]);
    put(0x238, &2047_u32.to_le_bytes());
    put(0x258, &0x100_0000_u64.to_le_bytes());
    put(0x260, &0x1_0000_u32.to_le_bytes());
    put(0x300, format!("{release} (brisk@test) #1 SMP\0").as_bytes());
    let mut program = PROGRAM.to_vec();
    program.extend(format!("@kernel {name}").bytes());
    program.push(0);
    program.resize(program.len().next_multiple_of(16).max(0x200), 0);
    let paragraphs = program.len() as u32 / 16;
    image[0x1f4..0x1f8].copy_from_slice(&paragraphs.to_le_bytes());
    image.extend(program);
    image
}

/// A unified kernel image: a PE file with sections `.linux`, `.initrd`, `.uname` and those of the
/// text.
fn uki(release: &str, name: &str, text: &str) -> Vec<u8> {
    let sections = vec![
        (".linux".into(), kernel(release, name)),
        (".initrd".into(), name.as_bytes().to_vec()),
        (".uname".into(), release.as_bytes().to_vec()),
    ];
    pe(sections, text)
}

/// A PE file with sections, and those of a text.
fn pe(mut sections: Vec<(String, Vec<u8>)>, text: &str) -> Vec<u8> {
    for line in text.lines() {
        let (section, value) = line.split_once(' ').unwrap();
        match sections.iter_mut().find(|(name, _)| name == section) {
            Some((_, bytes)) => bytes.extend(format!("\n{value}").bytes()),
            None => sections.push((section.into(), value.as_bytes().to_vec())),
        }
    }
    let headers = 0x40 + 4 + 20 + 112 + 40 * sections.len();
    let mut image = vec![0; headers.next_multiple_of(0x200)];
    image[..2].copy_from_slice(b"MZ");
    image[0x3c] = 0x40;
    image[0x40..0x44].copy_from_slice(b"PE\0\0");
    // IMAGE_FILE_MACHINE_AMD64, and the size of the optional header.
    image[0x44..0x46].copy_from_slice(&0x8664_u16.to_le_bytes());
    image[0x46..0x48].copy_from_slice(&(sections.len() as u16).to_le_bytes());
    image[0x54..0x56].copy_from_slice(&112_u16.to_le_bytes());
    // PE32+, and its alignments.
    image[0x58..0x5a].copy_from_slice(&0x20b_u16.to_le_bytes());
    image[0x78..0x7c].copy_from_slice(&0x1000_u32.to_le_bytes());
    image[0x7c..0x80].copy_from_slice(&0x200_u32.to_le_bytes());
    for (index, (name, bytes)) in sections.iter().enumerate() {
        let at = 0x40 + 4 + 20 + 112 + 40 * index;
        let (offset, size) = (image.len() as u32, bytes.len() as u32);
        let header = &mut image[at..at + 40];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[8..12].copy_from_slice(&size.to_le_bytes());
        header[12..16].copy_from_slice(&(0x1000 * (index as u32 + 1)).to_le_bytes());
        header[16..20].copy_from_slice(&size.next_multiple_of(0x200).to_le_bytes());
        header[20..24].copy_from_slice(&offset.to_le_bytes());
        image.extend(bytes);
        image.resize(image.len().next_multiple_of(0x200), 0);
    }
    image
}
