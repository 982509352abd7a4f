//! Files and sockets.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::Duration;

use crate::batch::{Batch, Prepared, Skip};
use crate::sys::{self, Area, PAGE};

/// A file in the work directory.
const NAME: &str = "probe.data";
/// Bytes that are read and written at once.
const FEW: usize = 64;
/// Bytes of the file that faults are measured in.
const MAPPED: usize = 4096 * PAGE;
/// Bytes that Linux maps around a fault (`fault_around_bytes`).
const AROUND: usize = 16 * PAGE;
/// How long a connection may take.
const CONNECTING: Duration = Duration::from_secs(2);

/// A file that is removed when this is dropped.
struct Scratch;

impl Scratch {
    fn make() -> Result<(Self, File), Skip> {
        let failed = |error| {
            Skip(format!(
                "no file can be made in the work directory: {error}"
            ))
        };
        let mut options = File::options();
        let options = options.read(true).write(true).create(true).truncate(true);
        Ok((Self, options.open(NAME).map_err(failed)?))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The work directory is removed, too.
        let _ = fs::remove_file(NAME);
    }
}

pub(super) fn open() -> Prepared {
    let (scratch, _) = Scratch::make()?;
    let path = CString::new(NAME).map_err(|error| Skip(error.to_string()))?;
    Ok(Box::new(move |count| {
        let _kept = &scratch;
        Batch::of(count, || {
            (0..count).try_for_each(|_| sys::open_and_close(&path))
        })
    }))
}

pub(super) fn read() -> Prepared {
    let file = device("/dev/zero", File::open("/dev/zero"))?;
    Ok(Box::new(move |count| {
        let mut buffer = [0; FEW];
        Batch::of(count, || {
            (0..count).try_for_each(|_| sys::read_all(&file, &mut buffer))
        })
    }))
}

pub(super) fn write() -> Prepared {
    let file = device("/dev/null", File::options().write(true).open("/dev/null"))?;
    Ok(Box::new(move |count| {
        let buffer = [0; FEW];
        Batch::of(count, || {
            (0..count).try_for_each(|_| sys::write_all(&file, &buffer))
        })
    }))
}

fn device(path: &str, opened: std::io::Result<File>) -> Result<File, Skip> {
    opened.map_err(|error| Skip(format!("{path}: {error}")))
}

pub(super) fn fault() -> Prepared {
    let (_, mut file) = Scratch::make()?;
    let content = vec![1; 1 << 20];
    for _ in 0..MAPPED / content.len() {
        file.write_all(&content)?;
    }
    Ok(Box::new(move |_| {
        let area = Area::of_file(&file, MAPPED)?;
        Batch::of((MAPPED / AROUND) as u64, || {
            area.read_every(AROUND);
            Ok(())
        })
    }))
}

pub(super) fn sync() -> Prepared {
    let (_, file) = Scratch::make()?;
    Ok(Box::new(move |count| {
        Batch::of(count, || {
            (0..count).try_for_each(|_| {
                file.write_all_at(&[1; PAGE], 0)?;
                file.sync_data()
            })
        })
    }))
}

pub(super) fn create() -> Prepared {
    let (scratch, _) = Scratch::make()?;
    Ok(Box::new(move |count| {
        let _kept = &scratch;
        Batch::of(count, || {
            (0..count).try_for_each(|_| {
                File::create("probe.other")?;
                fs::remove_file("probe.other")
            })
        })
    }))
}

pub(super) fn loopback() -> Prepared {
    let none = |error| Skip(format!("no connection to 127.0.0.1 is possible: {error}"));
    let listener = TcpListener::bind("127.0.0.1:0").map_err(none)?;
    let address = listener.local_addr()?;
    let connect = move || TcpStream::connect_timeout(&address, CONNECTING);
    drop(connect().map_err(none)?);
    drop(listener.accept()?);
    Ok(Box::new(move |count| {
        let mut near = connect()?;
        let (mut far, _) = listener.accept()?;
        near.set_nodelay(true)?;
        far.set_nodelay(true)?;
        thread::scope(|scope| {
            let answers = move || {
                let mut byte = [0];
                // It ends with the connection.
                while far.read_exact(&mut byte).is_ok() && far.write_all(&byte).is_ok() {}
            };
            thread::Builder::new().spawn_scoped(scope, answers)?;
            let mut round_trip = || {
                near.write_all(&[1])?;
                near.read_exact(&mut [0])
            };
            // The thread is there when the time begins.
            let batch = round_trip()
                .and_then(|()| Batch::of(count, || (0..count).try_for_each(|_| round_trip())));
            drop(near);
            batch
        })
    }))
}
