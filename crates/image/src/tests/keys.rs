//! Keys and recipients of images.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use age::x25519;

use super::fixture::{Fixture, content, small};
use crate::{
    Control, Error, Header, Image, Keys, Recipient, Secret, SlotKind, host_key, host_key_path,
    rekey, write,
};

#[test]
fn each_recipient_opens_it_and_no_one_else() {
    let fixture = Fixture::new(30);
    let other = x25519::Identity::generate();
    let recipients = [
        Recipient::Host(fixture.identity.to_public()),
        Recipient::parse(&other.to_public().to_string()).unwrap(),
        Recipient::Passphrase(Secret::new("open sesame")),
    ];
    let path = fixture.path("a.brisk");
    write(
        &path,
        &fixture.source(),
        &recipients,
        &small(),
        Control::none(),
    )
    .unwrap();
    let passphrase = |text| Keys::new().with_passphrase(Secret::new(text));
    let good = [
        fixture.keys(),
        Keys::new().with_identity(other),
        passphrase("open sesame"),
        passphrase("wrong").with_passphrase(Secret::new("open sesame")),
    ];
    for keys in good {
        let image = Image::open(&path, &keys).unwrap();
        assert!(content(&image).unwrap() == fixture.bytes);
    }
    for keys in [
        passphrase("open sesam"),
        Keys::new().with_identity(x25519::Identity::generate()),
    ] {
        let error = Image::open(&path, &keys).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("a host key, a recipient, a passphrase"),
            "{text}"
        );
    }
}

#[test]
fn rekey_changes_who_opens_it_and_nothing_else() {
    let fixture = Fixture::new(60);
    let path = fixture.image("a.brisk");
    let before = fs::read(&path).unwrap();
    let id = Header::read(&path).unwrap().id;
    // So many that the header gets longer.
    let others: Vec<_> = (0..30).map(|_| x25519::Identity::generate()).collect();
    let recipients: Vec<_> = others
        .iter()
        .map(|key| Recipient::Age(key.to_public()))
        .collect();
    rekey(&path, &fixture.keys(), &recipients, Control::none()).unwrap();
    assert!(matches!(fixture.open(&path), Err(Error::NoKey { .. })));
    let image = Image::open(&path, &Keys::new().with_identity(others[29].clone())).unwrap();
    assert!(content(&image).unwrap() == fixture.bytes);
    assert_eq!(image.header().id, id);
    let after = fs::read(&path).unwrap();
    let data = image.header().data_len as usize;
    let moved = image.header().len() as usize;
    assert!(moved > 4096);
    assert!(
        after[moved..moved + data] == before[4096..4096 + data],
        "chunks are shared"
    );
    // Head and list are the same under another key: with the same nonce they must not be.
    let head = image.header().head_len as usize;
    assert!(after[moved + data..][..head] != before[4096 + data..][..head]);
    assert_eq!(fixture.left(), ["a.brisk"]);
}

#[test]
fn rekey_keeps_owner_and_mode_and_counts_hard_links() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
    let fixture = Fixture::new(60);
    let path = fixture.image("a.brisk");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    // Only root gives files away.
    let given = chown(&path, Some(12345), Some(54321)).is_ok();
    fs::hard_link(&path, path.with_extension("link")).unwrap();
    let old = fs::metadata(&path).unwrap();
    let rekeyed = || {
        rekey(
            &path,
            &fixture.keys(),
            &fixture.recipients(),
            Control::none(),
        )
    };
    assert_eq!(rekeyed().unwrap(), 1);
    let new = fs::metadata(&path).unwrap();
    assert_ne!(new.ino(), old.ino());
    assert_eq!(new.mode(), old.mode());
    assert_eq!((new.uid(), new.gid()), (old.uid(), old.gid()));
    assert_eq!(new.uid() == 12345, given);
    assert_eq!(rekeyed().unwrap(), 0);
}

#[test]
fn rekey_that_fails_leaves_the_image_as_it_was() {
    let fixture = Fixture::new(60);
    let path = fixture.image("a.brisk");
    let before = fs::read(&path).unwrap();
    let stranger = Keys::new().with_identity(x25519::Identity::generate());
    for (keys, recipients) in [(stranger, fixture.recipients()), (fixture.keys(), vec![])] {
        rekey(&path, &keys, &recipients, Control::none()).unwrap_err();
        assert!(fs::read(&path).unwrap() == before);
        assert_eq!(fixture.left(), ["a.brisk"]);
    }
}

#[test]
fn the_hosts_key_is_made_once_and_kept_from_others() {
    let dir = tempfile::tempdir().unwrap();
    let path = host_key_path(&dir.path().join("state"));
    assert!(host_key(&path, false).is_err());
    let keys: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| host_key(&path, true)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap().unwrap().to_public().to_string())
            .collect()
    });
    assert!(keys.iter().all(|key| *key == keys[0]));
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    let identities = Keys::new().with_identity_file(&path).unwrap();
    assert!(!identities.is_empty());
    fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
    let error = host_key(&path, true).map(drop).unwrap_err().to_string();
    assert!(error.contains("chmod 600"), "{error}");
}

#[test]
fn passphrases_and_keys_are_read_from_files() {
    let dir = tempfile::tempdir().unwrap();
    let file = |text: &str| {
        let path = dir.path().join("file");
        fs::write(&path, text).unwrap();
        path
    };
    let fixture = Fixture::new(4);
    let path = fixture.path("a");
    let secret = Secret::read(&file("two words\nnot this\n")).unwrap();
    assert_eq!(format!("{secret:?}"), "Secret");
    let recipients = [Recipient::Passphrase(secret)];
    write(
        &path,
        &fixture.source(),
        &recipients,
        &small(),
        Control::none(),
    )
    .unwrap();
    let keys = Keys::new().with_passphrase(Secret::new("two words"));
    Image::open(&path, &keys).unwrap();
    assert!(Secret::read(&file("\nsecond")).is_err());
    for text in [
        "",
        "# only a comment\n",
        "AGE-SECRET-KEY-1NO\n",
        "age1public\n",
    ] {
        let error = Keys::new().with_identity_file(&file(text)).unwrap_err();
        assert!(error.to_string().contains("AGE-SECRET-KEY-1"), "{error}");
        assert!(
            !error.to_string().contains("1NO"),
            "keys are not shown: {error}"
        );
    }
    for text in ["", "age1", "ssh-ed25519 AAAA"] {
        assert!(Recipient::parse(text).is_err());
    }
}

#[test]
fn slots_say_for_whom_they_are_and_nothing_more() {
    let fixture = Fixture::new(4);
    let path = fixture.path("a");
    let recipients = [
        Recipient::Passphrase(Secret::new("p")),
        Recipient::Age(fixture.identity.to_public()),
    ];
    write(
        &path,
        &fixture.source(),
        &recipients,
        &small(),
        Control::none(),
    )
    .unwrap();
    let header = Header::read(&path).unwrap();
    let kinds: Vec<_> = header.slots.iter().map(|slot| slot.kind()).collect();
    assert_eq!(kinds, [SlotKind::Passphrase, SlotKind::Recipient]);
    let public = fixture.identity.to_public().to_string();
    let file = fs::read(&path).unwrap();
    assert_eq!(memchr::memmem::find(&file, public.as_bytes()), None);
}
