use std::collections::BTreeSet;
use std::fs;

use proptest::prelude::*;

use super::*;

mod fixture;

use fixture::module;

const DEP: &str = "\
kernel/fs/ext4/ext4.ko.xz: kernel/fs/jbd2/jbd2.ko.xz kernel/fs/mbcache.ko.xz
kernel/fs/jbd2/jbd2.ko.xz:
kernel/fs/mbcache.ko.xz:
kernel/fs/fuse/virtiofs.ko: kernel/fs/fuse/fuse.ko kernel/drivers/virtio/virtio.ko kernel/drivers/virtio/virtio_ring.ko
kernel/fs/fuse/fuse.ko:
kernel/drivers/virtio/virtio.ko: kernel/drivers/virtio/virtio_ring.ko
kernel/drivers/virtio/virtio_ring.ko:
kernel/crypto/crc32c-intel.ko.zst:
kernel/crypto/crc32c_generic.ko.zst:
kernel/drivers/gpu/drm/drm.ko.gz:
kernel/drivers/gpu/virtio-gpu.ko.gz: kernel/drivers/gpu/drm/drm.ko.gz
kernel/drivers/md/helper.ko:
";
const BUILTIN: &str = "kernel/drivers/virtio/virtio_mmio.ko\n";
const SOFTDEP: &str = "\
# Soft dependencies extracted from modules themselves.
softdep ext4 pre: crypto-crc32c helper nowhere post: drm
softdep cifs gcm
";
const ALIAS: &str = "\
alias crypto-crc32c crc32c_intel
alias crypto-crc32c crc32c_generic
alias pci:v00001AF4d*sv* virtio_gpu
";

fn tree() -> Tree {
    let mut tree = Tree::parse(Path::new("/m"), "6.1-test", DEP, BUILTIN, SOFTDEP).unwrap();
    tree.add_aliases(ALIAS);
    tree
}

fn request(modules: &[&str], deny: &[&str]) -> Request {
    Request {
        init: Content::Bytes(b"init".to_vec()),
        modules: modules
            .iter()
            .map(|m| Wanted {
                module: (*m).to_owned(),
                reason: format!("for {m}"),
            })
            .collect(),
        deny: deny.iter().map(|d| (*d).to_owned()).collect(),
        files: Vec::new(),
        signatures: Signatures::Drop,
    }
}

fn table(plan: &Plan) -> String {
    plan.modules
        .iter()
        .map(|m| {
            let soft = if m.soft { " (soft)" } else { "" };
            format!(
                "{} {}{soft}: {} {:?}\n",
                m.group, m.name, m.reason, m.needed_by
            )
        })
        .collect()
}

fn refusal(modules: &[&str], deny: &[&str]) -> Error {
    plan(&request(modules, deny), &tree()).unwrap_err()
}

#[test]
fn dependencies_come_first_and_say_who_needs_them() {
    let plan = plan(&request(&["virtiofs", "virtio-mmio", "fuse"], &[]), &tree()).unwrap();
    assert_eq!(
        table(&plan),
        "0 virtio_ring: needed by virtiofs [\"virtiofs\", \"virtio\"]\n\
         1 virtio: needed by virtiofs [\"virtiofs\"]\n\
         0 fuse: for fuse [\"virtiofs\"]\n\
         2 virtiofs: for virtiofs []\n"
    );
    assert_eq!(plan.builtin.len(), 1);
    assert_eq!(
        (plan.builtin[0].name.as_str(), plan.builtin[0].assumed),
        ("virtio_mmio", false)
    );
    assert_eq!(
        plan.modules[3].source,
        Path::new("/m/kernel/fs/fuse/virtiofs.ko")
    );
    assert_eq!(plan.modules[3].path, "lib/modules/virtiofs.ko");
}

#[test]
fn soft_dependencies_resolve_aliases_and_may_be_absent() {
    let plan = plan(&request(&["ext4"], &["help*"]), &tree()).unwrap();
    assert_eq!(
        table(&plan),
        "0 crc32c_intel (soft): wished by ext4 [\"ext4\"]\n\
         0 crc32c_generic (soft): wished by ext4 [\"ext4\"]\n\
         0 mbcache: needed by ext4 [\"ext4\"]\n\
         0 jbd2: needed by ext4 [\"ext4\"]\n\
         1 ext4: for ext4 []\n"
    );
    assert_eq!(plan.skipped[0].name, "helper");
    assert_eq!(plan.skipped[0].pattern, "help*");
}

#[test]
fn a_builtin_alias_meets_a_soft_dependency() {
    let mut tree = tree();
    tree.add_builtin_aliases("crc32c_generic.alias=crypto-crc32c\0crc32c_generic.license=GPL\0");
    let plan = plan(&request(&["ext4"], &[]), &tree).unwrap();
    assert!(plan.modules.iter().all(|m| !m.name.starts_with("crc32c")));
}

#[test]
fn missing_and_denied_modules_are_errors() {
    let error = refusal(&["btrfs"], &[]);
    assert_eq!(
        error.to_string(),
        "kernel 6.1-test has no module `btrfs` (for btrfs), nor is it built in"
    );
    assert!(
        error
            .hint()
            .unwrap()
            .contains("linux-modules-extra-6.1-test")
    );
    assert_eq!(
        refusal(&["virtio_gpu"], &["drm*"]).to_string(),
        "module `drm` (needed by virtio_gpu) is denied by `drm*`"
    );
    assert_eq!(
        refusal(&["virtio_gpu"], &["virtio-g?u"]).to_string(),
        "module `virtio_gpu` (for virtio_gpu) is denied by `virtio-g?u`"
    );
}

#[test]
fn circles_and_missing_dependencies_are_errors() {
    let dep = "a.ko: b.ko\nb.ko: a.ko\nc.ko: d.ko\n";
    let tree = Tree::parse(Path::new("/m"), "v", dep, "", "").unwrap();
    let error = |module| {
        plan(&request(&[module], &[]), &tree)
            .unwrap_err()
            .to_string()
    };
    assert!(error("a").contains("in a circle, through `a`"));
    assert!(error("c").contains("no module `d` (needed by c)"));
}

#[test]
fn a_long_chain_does_not_overflow_the_stack() {
    let dep: String = (0..100_000)
        .map(|i| format!("m{i}.ko: m{}.ko\n", i + 1))
        .collect();
    let tree = Tree::parse(Path::new("/m"), "v", &dep, "m100000.ko", "").unwrap();
    let plan = plan(&request(&["m0"], &[]), &tree).unwrap();
    assert_eq!(
        (plan.modules.len(), plan.modules[99_999].name.as_str()),
        (100_000, "m0")
    );
}

#[test]
fn paths_that_leave_the_tree_are_refused() {
    for path in [
        "../../etc/x.ko",
        "/etc/x.ko",
        "a/../../x.ko",
        "./x.ko",
        "x",
        ".ko",
        "x.ko.exe",
    ] {
        for dep in [format!("{path}:"), format!("a.ko: {path}")] {
            let error = Tree::parse(Path::new("/m"), "v", &dep, "", "").unwrap_err();
            assert!(
                matches!(error, Error::BadDependency { .. }),
                "{dep}: {error}"
            );
        }
    }
}

#[test]
fn without_a_tree_everything_is_assumed_built_in() {
    let plan = plan(&request(&["ext4"], &[]), &Tree::assume_builtin("v")).unwrap();
    assert!(plan.modules.is_empty() && plan.builtin[0].assumed);
}

fn sections(elf: &[u8]) -> Vec<(String, Vec<u8>)> {
    use object::{Object, ObjectSection};
    let file = object::read::elf::ElfFile64::<object::LittleEndian>::parse(elf).unwrap();
    file.sections()
        .map(|s| (s.name().unwrap().to_owned(), s.data().unwrap().to_vec()))
        .collect()
}

fn offsets(elf: &[u8]) -> Vec<u64> {
    use object::{Object, ObjectSection};
    let file = object::read::elf::ElfFile64::<object::LittleEndian>::parse(elf).unwrap();
    file.sections()
        .filter_map(|s| s.file_range())
        .filter(|(_, size)| *size > 0)
        .map(|(at, _)| at)
        .collect()
}

#[test]
fn stripping_keeps_the_section_indexes_and_contents() {
    let module = module(5001);
    let stripped = strip(&module).unwrap();
    assert!(super::strip::is_signed(&module) && !super::strip::is_signed(&stripped));
    assert!(stripped.len() + 1000 < module.len());
    let (before, after) = (sections(&module), sections(&stripped));
    assert_eq!(before[0].0, ".text");
    assert_eq!(before[0], after[0]);
    assert_eq!(before[2], *after.last().unwrap());
    assert!(after.iter().all(|(name, _)| name != ".BTF"));
    assert_eq!(stripped[60], 4);
    assert!(offsets(&stripped).iter().all(|at| at % 16 == 0));
    assert_eq!(strip(&stripped).unwrap(), stripped);
}

fn directory() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (path, packed) in [
        (
            "kernel/fs/jbd2/jbd2.ko.xz",
            liblzma::encode_all(&module(3000)[..], 0).unwrap(),
        ),
        (
            "kernel/fs/mbcache.ko.xz",
            liblzma::encode_all(&module(100)[..], 0).unwrap(),
        ),
        ("kernel/fs/ext4/ext4.ko.xz", module(9000)),
        (
            "kernel/crypto/crc32c-intel.ko.zst",
            zstd::encode_all(&module(7)[..], 1).unwrap(),
        ),
        (
            "kernel/crypto/crc32c_generic.ko.zst",
            zstd::encode_all(&module(8)[..], 1).unwrap(),
        ),
        ("kernel/drivers/md/helper.ko", module(9)),
    ] {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, packed).unwrap();
    }
    for (name, text) in [
        ("modules.dep", DEP),
        ("modules.builtin", BUILTIN),
        ("modules.softdep", SOFTDEP),
        ("modules.alias", ALIAS),
    ] {
        fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

#[test]
fn the_archive_has_what_was_asked_for() {
    let dir = directory();
    let tree = Tree::read(dir.path(), "6.1-test").unwrap();
    let mut request = request(&["ext4"], &["crc32c*", "helper"]);
    request.files = vec![
        Extra::Symlink {
            path: "/bin/sh".into(),
            target: "busybox".into(),
        },
        Extra::File {
            path: "/bin/busybox".into(),
            content: Content::Bytes(vec![1; 5]),
            mode: 0o755,
        },
        Extra::Dir {
            path: "/tmp".into(),
            mode: 0o1777,
        },
    ];
    let plan = plan(&request, &tree).unwrap();
    let (archive, contents) = build(&plan).unwrap();
    assert_eq!(contents.total, archive.len() as u64);
    let read = cpio::read(&archive).unwrap();
    let find = |path: &str| read.entries.iter().find(|e| e.path == path).unwrap();
    let paths: Vec<_> = read.entries.iter().map(|e| e.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "bin",
            "bin/busybox",
            "bin/sh",
            "dev",
            "dev/console",
            "dev/null",
            "init",
            "lib",
            "lib/modules",
            "modules",
            "tmp",
            "lib/modules/ext4.ko",
            "lib/modules/jbd2.ko",
            "lib/modules/mbcache.ko",
        ]
    );
    assert_eq!(
        find("modules").data,
        b"/lib/modules/mbcache.ko\n/lib/modules/jbd2.ko\n/lib/modules/ext4.ko\n"
    );
    assert_eq!(
        find("lib/modules/jbd2.ko").data,
        strip(&module(3000)).unwrap()
    );
    assert_eq!(
        (find("bin/sh").kind(), find("bin/sh").data),
        (cpio::SYMLINK, &b"busybox"[..])
    );
    assert_eq!(
        (find("dev/console").device, find("dev/console").kind()),
        ((5, 1), cpio::CHARACTER)
    );
    assert_eq!(
        (find("tmp").mode, find("init").mode),
        (cpio::DIR | 0o1777, cpio::FILE | 0o755)
    );
    let inodes: BTreeSet<_> = read.entries.iter().map(|e| e.inode).collect();
    assert_eq!(inodes.len(), read.entries.len());
    assert!(
        read.entries
            .iter()
            .all(|e| (e.uid, e.gid, e.mtime) == (0, 0, 0))
    );
    assert_eq!(build(&plan).unwrap().0, archive);
    request.signatures = Signatures::Keep;
    let (kept, _) = build(&super::plan(&request, &tree).unwrap()).unwrap();
    let kept = cpio::read(&kept).unwrap();
    assert!(kept.entries.iter().any(|e| e.data == module(3000)));
}

#[test]
fn bad_paths_of_a_request_are_refused() {
    let with = |path: &str| {
        let file = Extra::File {
            path: path.into(),
            content: Content::Bytes(vec![]),
            mode: 0o644,
        };
        plan(
            &Request {
                files: vec![file],
                ..request(&["ext4"], &[])
            },
            &tree(),
        )
        .map(|_| ())
    };
    for path in ["", "/", "a/../b", "a//b", "./a", "a\0b", "TRAILER!!!"] {
        assert!(matches!(with(path), Err(Error::Path { .. })), "{path:?}");
    }
    for path in ["init", "/modules", "init/x", "dev", "lib/modules/ext4.ko"] {
        assert!(
            matches!(with(path), Err(Error::Duplicate { .. })),
            "{path:?}"
        );
    }
    with("/etc/passwd").unwrap();
}

#[test]
fn a_damaged_module_is_named() {
    let dir = directory();
    let bad = dir.path().join("kernel/fs/mbcache.ko.xz");
    let tree = Tree::read(dir.path(), "6.1-test").unwrap();
    let plan = plan(&request(&["mbcache"], &[]), &tree).unwrap();
    fs::write(
        &bad,
        &liblzma::encode_all(&module(100)[..], 0).unwrap()[..100],
    )
    .unwrap();
    let error = build(&plan).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("cannot unpack the module {}", bad.display())
    );
    fs::write(&bad, b"no module").unwrap();
    assert!(matches!(build(&plan).unwrap_err(), Error::NotModule { .. }));
}

#[test]
fn the_cache_follows_request_modules_and_files() {
    let (dir, cache_dir) = (directory(), tempfile::tempdir().unwrap());
    let cache = Cache::new(cache_dir.path());
    let host_file = dir.path().join("tool");
    fs::write(&host_file, b"one").unwrap();
    let file = Extra::File {
        path: "tool".into(),
        content: Content::File(host_file.clone()),
        mode: 0o755,
    };
    let mut request = Request {
        files: vec![file],
        ..request(&["mbcache"], &[])
    };
    let make =
        |request: &Request| initramfs(request, "6.1-test", Some(dir.path()), &cache).unwrap();
    let first = make(&request);
    let again = make(&request);
    assert!(first.fresh && !again.fresh);
    assert_eq!(
        (&again.contents, &again.path, again.size),
        (&first.contents, &first.path, first.contents.total)
    );
    fs::write(&host_file, b"other").unwrap();
    assert!(make(&request).fresh);
    fs::write(dir.path().join("kernel/fs/mbcache.ko.xz"), module(50)).unwrap();
    let changed = make(&request);
    assert!(changed.fresh && changed.contents.modules[0].size != first.contents.modules[0].size);
    fs::write(dir.path().join("modules.builtin"), "").unwrap();
    assert!(make(&request).fresh && !make(&request).fresh);
    request.init = Content::Bytes(b"another".to_vec());
    assert!(make(&request).fresh);
    request.modules[0].reason = "another".to_owned();
    assert_eq!(make(&request).contents.modules[0].reason, "another");
}

proptest! {
    #[test]
    fn any_index_gives_an_order_or_an_error(
        edges in proptest::collection::vec((0..12_u8, 0..12_u8), 0..30),
        soft in proptest::collection::vec((0..12_u8, 0..12_u8), 0..10),
        wanted in proptest::collection::vec(0..12_u8, 1..5),
    ) {
        let mut dep = String::new();
        for i in 0..12 {
            let needs = edges.iter().filter(|e| e.0 == i).map(|e| format!(" m{}.ko", e.1));
            dep += &format!("m{i}.ko:{}\n", needs.collect::<String>());
        }
        let softdep: String = soft.iter().map(|(a, b)| format!("softdep m{a} pre: m{b}\n")).collect();
        let tree = Tree::parse(Path::new("/m"), "v", &dep, "", &softdep).unwrap();
        let wanted: Vec<_> = wanted.iter().map(|i| format!("m{i}")).collect();
        let wanted: Vec<_> = wanted.iter().map(String::as_str).collect();
        if let Ok(plan) = plan(&request(&wanted, &[]), &tree) {
            let mut loaded = BTreeSet::new();
            for module in &plan.modules {
                for need in &tree.modules[&module.name].needs {
                    prop_assert!(loaded.contains(need), "{} before {}", module.name, need);
                }
                prop_assert!(loaded.insert(module.name.clone()));
            }
            prop_assert!(wanted.iter().all(|name| loaded.contains(*name)));
        }
    }

    #[test]
    fn hostile_indexes_do_not_panic(dep in "(\\PC|[\n:./ ]){0,200}", rest in "(\\PC|[\n\0= ]){0,200}") {
        if let Ok(mut tree) = Tree::parse(Path::new("/m"), "v", &dep, &rest, &rest) {
            tree.add_aliases(&rest);
            tree.add_builtin_aliases(&rest);
            prop_assert!(tree.modules.values().all(|m| m.path.starts_with("/m/")));
        }
    }

    #[test]
    fn damaged_modules_do_not_panic(cut in 0..1400_usize, damage in proptest::collection::vec((0..1400_usize, any::<u8>()), 0..8)) {
        let mut bytes = module(60);
        for (at, byte) in damage {
            if let Some(target) = bytes.get_mut(at) {
                *target = byte;
            }
        }
        let _ = strip(&bytes);
        bytes.truncate(cut);
        let _ = strip(&bytes);
    }
}
