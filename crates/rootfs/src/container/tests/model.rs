//! Layers of random changes against the simplest model of them: a map from path to file. The
//! whiteouts of a layer act on what was below, then its members replace each other in order.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::images::oci;
use super::*;

#[derive(Clone, Debug, PartialEq)]
enum Node {
    File(Vec<u8>),
    Directory,
    Symlink(String),
}

type Model = BTreeMap<String, Node>;

fn below(path: &str, other: &str) -> bool {
    other
        .strip_prefix(path)
        .is_some_and(|rest| rest.starts_with('/'))
}

fn remove(model: &mut Model, path: &str) {
    model.retain(|other, _| other != path && !below(path, other));
}

fn insert(model: &mut Model, path: &str, node: Node) {
    for (slash, _) in path.match_indices('/') {
        let parent = &path[..slash];
        if !matches!(model.get(parent), Some(Node::Directory)) {
            remove(model, parent);
            model.insert(parent.into(), Node::Directory);
        }
    }
    if !(node == Node::Directory && model.get(path) == Some(&Node::Directory)) {
        remove(model, path);
    }
    model.insert(path.into(), node);
}

fn apply(model: &mut Model, members: &[Member]) {
    for member in members {
        if let Member::Whiteout(path) = member {
            let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
            let prefix = if parent.is_empty() {
                String::new()
            } else {
                format!("{parent}/")
            };
            match name {
                ".wh..wh..opq" => {
                    model.retain(|other, _| !(prefix.is_empty() || below(parent, other)))
                }
                _ => remove(model, &format!("{prefix}{}", &name[4..])),
            }
        }
    }
    for member in members {
        match member {
            Member::File(path, content) => insert(model, path, Node::File(content.clone())),
            Member::Directory(path) => insert(model, path, Node::Directory),
            Member::Symlink(path, link) => insert(model, path, Node::Symlink(link.clone())),
            Member::HardLink(path, target) => {
                let node = model[target].clone();
                insert(model, path, node);
            }
            Member::Whiteout(_) => {}
        }
    }
}

fn path() -> impl Strategy<Value = String> {
    vec(prop::sample::select(vec!["a", "b", "c", "long-name"]), 1..4).prop_map(|p| p.join("/"))
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    let size = prop_oneof![
        Just(0),
        1_usize..100,
        3000_usize..13000,
        Just(4096),
        Just(8192)
    ];
    (size, any::<u8>())
        .prop_map(|(size, seed)| (0..size).map(|at| (at % 251) as u8 ^ seed).collect())
}

/// Symbolic links have names of their own and are no one's parents here: following them is
/// another test's matter.
fn member() -> impl Strategy<Value = Member> {
    prop_oneof![
        4 => (path(), content()).prop_map(|(path, content)| Member::File(path, content)),
        2 => path().prop_map(Member::Directory),
        1 => path().prop_map(|path| Member::Symlink(format!("{path}/s"), "a/b".into())),
        2 => (path(), path()).prop_map(|(path, target)| Member::HardLink(path, target)),
        2 => path().prop_map(|path| {
            let (parent, name) = path.rsplit_once('/').unwrap_or((".", &path));
            Member::Whiteout(format!("{parent}/.wh.{name}").replacen("./", "", 1))
        }),
        1 => path().prop_map(|path| Member::Whiteout(format!("{path}/.wh..wh..opq"))),
    ]
}

/// Puts whiteouts first, as writers do, and drops hard links to what is no file at that time.
fn sensible(layers: Vec<Vec<Member>>) -> (Vec<Vec<Member>>, Model) {
    let mut model = Model::new();
    let mut kept = Vec::new();
    for mut members in layers {
        members.sort_by_key(|member| !matches!(member, Member::Whiteout(_)));
        let mut layer = Vec::new();
        let whiteouts = members.iter().filter(|m| matches!(m, Member::Whiteout(_)));
        layer.extend(whiteouts.cloned());
        apply(&mut model, &layer);
        for member in members {
            let possible = match &member {
                Member::Whiteout(_) => false,
                Member::HardLink(path, target) => {
                    matches!(model.get(target), Some(Node::File(_)))
                        && path != target
                        && !below(target, path)
                }
                _ => true,
            };
            if possible {
                apply(&mut model, std::slice::from_ref(&member));
                layer.push(member);
            }
        }
        kept.push(layer);
    }
    (kept, model)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn layers_add_up_like_a_map(layers in vec(vec(member(), 0..12), 1..4)) {
        let (layers, model) = sensible(layers);
        let home = tempfile::tempdir().unwrap();
        let tars: Vec<_> = layers.iter().map(|members| layer(members)).collect();
        let found = oci(home.path(), &tars);
        let root = take(&found, &home.path().join("cache")).unwrap();
        let seen: Model = reading::read(&fs::read(root.image).unwrap())
            .into_iter()
            .filter(|(path, _)| !path.is_empty())
            .map(|(path, file)| {
                let node = match file.mode & 0o170_000 {
                    0o040_000 => Node::Directory,
                    0o120_000 => Node::Symlink(String::from_utf8(file.data).unwrap()),
                    _ => Node::File(file.data),
                };
                (path[1..].to_owned(), node)
            })
            .collect();
        prop_assert_eq!(seen, model);
    }

    #[test]
    fn a_damaged_archive_is_an_error_or_an_image(
        at in 0_usize..10_000, byte in any::<u8>(), cut in 0_usize..10_000,
    ) {
        let mut archive = layer(&[
            Member::Directory("etc".into()),
            file("etc/hostname", "guest"),
            Member::Symlink("bin".into(), "usr/bin".into()),
            Member::HardLink("etc/name".into(), "etc/hostname".into()),
        ]);
        let length = archive.len();
        archive[at % length] = byte;
        archive.truncate(length - cut % length);
        let _ = files_of(&archive);
    }
}
