use std::os::unix::fs::FileExt;

use brisk_image::{Description, Keys, Options, Outline, Recipient, Secret, Source, Writer};

use super::*;
use crate::vm::StateDirs;

const SIZE: u64 = 2 << 20;

/// A VM whose memory is in an area.
struct Scene {
    root: tempfile::TempDir,
    paths: VmPaths,
    area: Area,
    memory: File,
    boot: Boot,
}

impl Scene {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        let dirs = StateDirs {
            config: path("config/vm"),
            state: path("state"),
            runtime: path("run"),
            key: path("key"),
        };
        let paths = dirs.vm("a").unwrap();
        fs::create_dir(path("area")).unwrap();
        let area = Area {
            directory: path("area"),
            range: 4 << 30..6 << 30,
        };
        let memory = make(&area.directory.join(paths.memory_name()), SIZE).unwrap();
        memory.write_all_at(b"what the guest had", 4096).unwrap();
        Self {
            boot: Boot::read(Path::new("/")),
            root,
            paths,
            area,
            memory,
        }
    }

    /// Names in the area.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.area.directory).unwrap();
        let name = |entry: io::Result<fs::DirEntry>| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            name.replace(&self.paths.memory_name(), "M")
        };
        let mut names: Vec<_> = entries.map(name).collect();
        names.sort();
        names
    }

    /// An image of the memory that is kept.
    fn suspend(&self, in_image: bool) -> Image {
        let secret = || Secret::new("words of a test");
        let path = self.root.path().join("a.brisk");
        let outline = Outline {
            vm: [0; 16],
            memory: SIZE,
            base: None,
        };
        let options = Options::default();
        let recipients = [Recipient::Passphrase(secret())];
        let control = Control::none();
        let writer = Writer::begin(&path, outline, &recipients, &options, control).unwrap();
        let (paths, area) = (&self.paths, &self.area);
        let keeping = Keeping::begin(paths, area, &self.memory, &writer.id(), control).unwrap();
        let source = Source {
            memory: &self.memory,
            size: SIZE,
            leave_out: None,
            state: b"devices",
            description: &Description::default(),
            base: None,
            kept: Some(brisk_image::KeptMemory {
                kept: &keeping.kept,
                in_image,
            }),
            working_set: &[],
        };
        writer.finish(&source).unwrap();
        keeping.stay(paths);
        Image::open(&path, &Keys::new().with_passphrase(secret())).unwrap()
    }

    fn find_on(&self, image: &Image, now: &Boot, area: &Area) -> Result<Option<Found>, Loss> {
        let open = |directory: &Path| match directory == area.directory {
            true => Ok(area.clone()),
            false => Err("it is no area".to_owned()),
        };
        find_in(&open, now, &self.paths, image, Control::none())
    }

    fn find(&self, image: &Image) -> Result<Option<Found>, Loss> {
        self.find_on(image, &self.boot, &self.area)
    }

    fn kept_file(&self) -> PathBuf {
        let name = self.names().into_iter().find(|name| name.starts_with("M."));
        let name = name.unwrap().replace('M', &self.paths.memory_name());
        self.area.directory.join(name)
    }
}

#[track_caller]
fn lost(found: Result<Option<Found>, Loss>, why: &str) {
    match found {
        Err(Loss::Lost(reason)) => assert!(reason.contains(why), "{reason}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn memory_is_found_once_and_has_another_name_then() {
    for in_image in [false, true] {
        let scene = Scene::new();
        let image = scene.suspend(in_image);
        assert_eq!(image.header().kept, !in_image);
        assert!(scene.names()[0].starts_with("M.") && scene.names().len() == 1);
        let found = scene.find(&image).unwrap().unwrap();
        let mut text = [0; 18];
        let memory = found.memory().unwrap();
        memory.file.read_exact_at(&mut text, 4096).unwrap();
        assert_eq!(&text, b"what the guest had");
        // A resume that is refused leaves it there.
        drop(found);
        scene
            .find(&image)
            .unwrap()
            .unwrap()
            .runs(&scene.paths)
            .unwrap();
        assert_eq!(scene.names(), ["M"]);
        lost(scene.find(&image), "No such file");
    }
}

#[test]
fn a_kexec_keeps_memory_and_the_firmware_does_not() {
    let scene = Scene::new();
    let image = scene.suspend(false);
    let boot = |is_kexec| Boot {
        id: "another".to_owned(),
        release: String::new(),
        is_kexec,
    };
    let on = |is_kexec| scene.find_on(&image, &boot(is_kexec), &scene.area);
    lost(on(Some(false)), "firmware");
    lost(on(None), "firmware");
    assert!(matches!(on(Some(true)), Ok(Some(_))));
}

#[test]
fn memory_that_is_not_what_it_was_is_not_used() {
    let scene = Scene::new();
    let image = scene.suspend(true);
    let path = scene.kept_file();
    for at in [0, 4096, SIZE - 1] {
        let mut byte = [0];
        scene.memory.read_exact_at(&mut byte, at).unwrap();
        scene.memory.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
        lost(scene.find(&image), "not what it was");
        scene.memory.write_all_at(&byte, at).unwrap();
    }
    assert!(scene.find(&image).is_ok());
    scene.memory.set_len(SIZE - 4096).unwrap();
    lost(scene.find(&image), "no file of 2097152 bytes");
    scene.memory.set_len(SIZE).unwrap();
    let other = scene.root.path().join("other");
    fs::rename(&path, &other).unwrap();
    std::os::unix::fs::symlink(&other, &path).unwrap();
    lost(scene.find(&image), "symbolic link");
    fs::remove_file(&path).unwrap();
    lost(scene.find(&image), "No such file");
    fs::rename(&other, &path).unwrap();
    // The memory in the image is for that.
    let loaded = tempfile::tempfile().unwrap();
    let into = Path::new("memory");
    image.load(&loaded, into, 1, Control::none()).unwrap();
    let mut text = [0; 18];
    loaded.read_exact_at(&mut text, 4096).unwrap();
    assert_eq!(&text, b"what the guest had");
}

#[test]
fn memory_that_loading_has_changed_is_known_again() {
    let scene = Scene::new();
    let image = scene.suspend(false);
    let found = scene.find(&image).unwrap().unwrap();
    // The kernel writes the time into it, before the guest runs.
    let clock = found.memory().unwrap().file;
    clock.write_all_at(b"12:00:00", 8192).unwrap();
    lost(scene.find(&image), "not what it was");
    fs::create_dir_all(scene.paths.state()).unwrap();
    found.note_again(&scene.paths, &image);
    assert!(matches!(scene.find(&image), Ok(Some(_))));
    clock.write_all_at(b"12:00:01", 8192).unwrap();
    lost(scene.find(&image), "not what it was");
    // It says nothing of another image.
    found.note_again(&scene.paths, &image);
    let id = image.header().id;
    let digest = again::digest_of(&scene.paths, &id).unwrap();
    again::note(&scene.paths, &[7; 16], digest).unwrap();
    lost(scene.find(&image), "not what it was");
}

#[test]
fn an_area_that_has_moved_is_another_one() {
    let scene = Scene::new();
    let image = scene.suspend(false);
    for range in [5 << 30..7 << 30, 4 << 30..7 << 30] {
        let moved = Area {
            range,
            ..scene.area.clone()
        };
        lost(scene.find_on(&image, &scene.boot, &moved), "another place");
    }
    let elsewhere = Area {
        directory: scene.root.path().join("state"),
        ..scene.area.clone()
    };
    lost(scene.find_on(&image, &scene.boot, &elsewhere), "no area");
    // Without memory an image is of no use, and says so.
    let into = tempfile::tempfile().unwrap();
    let error = image.load(&into, Path::new("memory"), 1, Control::none());
    assert!(error.unwrap_err().to_string().contains("has no memory"));
}

#[test]
fn memory_of_a_suspend_that_fails_gets_its_name_back() {
    let scene = Scene::new();
    let begin = || {
        let (paths, area) = (&scene.paths, &scene.area);
        Keeping::begin(paths, area, &scene.memory, &[7; 16], Control::none())
    };
    let keeping = begin().unwrap();
    assert_eq!(scene.names(), [format!("M.{}", "07".repeat(16))]);
    drop(keeping);
    assert_eq!(scene.names(), ["M"]);
    // One that was killed leaves the other name, which will do.
    std::mem::forget(begin().unwrap());
    begin().unwrap().stay(&scene.paths);
    assert_eq!(scene.names(), [format!("M.{}", "07".repeat(16))]);
    let elsewhere = tempfile::tempfile().unwrap();
    let (paths, area) = (&scene.paths, &scene.area);
    assert!(area.has(&elsewhere).unwrap_err().contains("next start"));
    assert!(Keeping::begin(paths, area, &elsewhere, &[7; 16], Control::none()).is_err());
}

#[test]
fn only_files_of_the_vm_are_removed() {
    let scene = Scene::new();
    let name = scene.paths.memory_name();
    let digits = "0123456789abcdef0123456789abcdef";
    let others = [
        format!("{name}.{}", &digits[1..]),
        format!("{name}.{digits}0"),
        format!("{name}x"),
        format!("{}.{digits}", name.replace("vm-a-", "vm-aa-")),
    ];
    for other in others.iter().chain([&format!("{name}.{digits}")]) {
        fs::write(scene.area.directory.join(other), "").unwrap();
    }
    fs::create_dir_all(scene.root.path().join("config")).unwrap();
    let line = format!("[vms]\nkeep = {:?}\n", scene.area.directory);
    fs::write(scene.root.path().join("config/reboot.toml"), line).unwrap();
    scene.paths.forget_running_memory();
    assert_eq!(scene.names().len(), 5);
    scene.paths.forget_memory();
    let mut left: Vec<_> = others
        .iter()
        .map(|other| other.replace(&name, "M"))
        .collect();
    left.sort();
    assert_eq!(scene.names(), left);
}
