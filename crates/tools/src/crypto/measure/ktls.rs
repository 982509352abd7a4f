//! A thread that sends TLS 1.2 records which the kernel, or a network device, encrypts
//! (`Documentation/networking/tls.rst` of the kernel), on a connection to this machine itself.
//!
//! Its time is also that of TCP and of the thread that receives; the implementation `tcp` sends as
//! much in clear, for comparison.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::thread::JoinHandle;

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};
use nix::libc;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{TcpTlsTx, TcpUlp, TlsCryptoInfo};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::request::Request;
use super::seat::{Rate, Seat};
use crate::crypto::Algorithm;
use crate::crypto::Implementation;
use crate::crypto::vectors::vector;

/// TLS 1.2 in a record.
const VERSION: [u8; 2] = [3, 3];
/// Type of a record of data.
const DATA: u8 = 23;
/// Bytes of a record's header.
const HEADER: usize = 5;
/// Bytes that are received at once.
const RECEIVED: usize = 1 << 20;

/// A connection to this machine itself, with a thread that receives until its end.
struct Connection {
    sender: Option<TcpStream>,
    receiver: Option<JoinHandle<()>>,
}

impl Connection {
    /// The receiver runs on any processor, also where the sender is pinned to one.
    fn new() -> Result<Self, String> {
        let (sender, mut other) = pair()?;
        let body = move || {
            let mut all = CpuSet::new();
            (0..CpuSet::MAX_CPU).for_each(|cpu| all.set(cpu));
            // The kernel leaves out those that are not there.
            let _ = sched_setaffinity(None, &all);
            let mut buffer = vec![0; RECEIVED];
            while matches!(other.read(&mut buffer), Ok(1..)) {}
        };
        let receiver = std::thread::Builder::new().spawn(body);
        Ok(Self {
            sender: Some(sender),
            receiver: Some(receiver.map_err(|error| error.to_string())?),
        })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(sender) = self.sender.take() {
            let _ = sender.shutdown(Shutdown::Both);
        }
        if let Some(receiver) = self.receiver.take() {
            let _ = receiver.join();
        }
    }
}

fn pair() -> Result<(TcpStream, TcpStream), String> {
    let text = |error: std::io::Error| {
        format!("cannot connect to this machine over loopback: {error}; is lo up?")
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(text)?;
    let address = listener.local_addr().map_err(text)?;
    let sender = TcpStream::connect(address).map_err(text)?;
    let own = sender.local_addr().map_err(text)?;
    loop {
        let (other, from) = listener.accept().map_err(text)?;
        // Another program may have connected first.
        if from == own {
            sender.set_nodelay(true).map_err(text)?;
            return Ok((sender, other));
        }
    }
}

/// Has the kernel encrypt what is sent from now on, with the key of the published vector.
fn encrypt(sender: &TcpStream, algorithm: &Algorithm) -> Result<(), String> {
    let ulp = TcpUlp::<&[u8]>::default();
    setsockopt(sender, ulp, &&b"tls"[..]).map_err(|error| {
        format!("the kernel has no kTLS: {error}; load its module: modprobe tls")
    })?;
    let info = parameters(algorithm)?;
    setsockopt(sender, TcpTlsTx, &info)
        .map_err(|error| format!("kTLS takes no {}: {error}", algorithm.name))
}

fn parameters(algorithm: &Algorithm) -> Result<TlsCryptoInfo, String> {
    let info = |cipher| libc::tls_crypto_info {
        version: u16::from_be_bytes(VERSION),
        cipher_type: cipher,
    };
    let vector = vector(algorithm);
    // A nonce is 4 bytes of the key's and 8 of the record's, but for ChaCha20, which has one of 12.
    let (salt, iv) = vector.iv.split_at(4);
    let wrong = || format!("kTLS takes no {}", algorithm.name);
    Ok(match algorithm.name {
        "aes-128-gcm" => TlsCryptoInfo::Aes128Gcm(libc::tls12_crypto_info_aes_gcm_128 {
            info: info(libc::TLS_CIPHER_AES_GCM_128),
            iv: iv.try_into().map_err(|_| wrong())?,
            key: vector.key[..].try_into().map_err(|_| wrong())?,
            salt: salt.try_into().map_err(|_| wrong())?,
            rec_seq: [0; 8],
        }),
        "aes-256-gcm" => TlsCryptoInfo::Aes256Gcm(libc::tls12_crypto_info_aes_gcm_256 {
            info: info(libc::TLS_CIPHER_AES_GCM_256),
            iv: iv.try_into().map_err(|_| wrong())?,
            key: vector.key[..].try_into().map_err(|_| wrong())?,
            salt: salt.try_into().map_err(|_| wrong())?,
            rec_seq: [0; 8],
        }),
        "chacha20-poly1305" => {
            TlsCryptoInfo::Chacha20Poly1305(libc::tls12_crypto_info_chacha20_poly1305 {
                info: info(libc::TLS_CIPHER_CHACHA20_POLY1305),
                iv: vector.iv[..].try_into().map_err(|_| wrong())?,
                key: vector.key[..].try_into().map_err(|_| wrong())?,
                salt: [],
                rec_seq: [0; 8],
            })
        }
        _ => return Err(wrong()),
    })
}

/// Sends from the moment when all threads are ready until the end.
pub(super) fn run(
    implementation: &Implementation,
    algorithm: &Algorithm,
    request: &Request,
    seat: &Seat,
) -> Result<Rate, String> {
    let connection = Connection::new()?;
    let mut sender = connection.sender.as_ref().ok_or("no connection")?;
    if *implementation == Implementation::Ktls {
        encrypt(sender, algorithm)?;
    }
    let data = vec![0; request.bytes];
    let text = |error: std::io::Error| format!("cannot send: {error}");
    sender.write_all(&data).map_err(text)?;
    seat.repeat(|| sender.write_all(&data).map_err(text))
}

/// Has the kernel send a record, and decrypts it with an implementation that is not the kernel's.
///
/// # Errors
/// If the kernel does not do it, or the record has other data.
pub(in crate::crypto) fn check(algorithm: &Algorithm) -> Result<(), String> {
    let vector = vector(algorithm);
    let (mut sender, mut receiver) = pair()?;
    encrypt(&sender, algorithm)?;
    sender
        .write_all(&vector.plain)
        .map_err(|error| format!("cannot send: {error}"))?;
    sender
        .shutdown(Shutdown::Write)
        .map_err(|error| error.to_string())?;
    let mut record = Vec::new();
    match Read::by_ref(&mut receiver)
        .take(1 << 16)
        .read_to_end(&mut record)
    {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => return Err(format!("cannot receive: {error}")),
    }
    match decrypted(algorithm, &vector.key, &vector.iv, &record) {
        Some(plain) if plain == vector.plain => Ok(()),
        _ => Err(format!(
            "the kernel's TLS record of {} is wrong: do not use it",
            algorithm.name
        )),
    }
}

/// Data of the first record of a connection; none if it is not one of this key.
fn decrypted(algorithm: &Algorithm, key: &[u8], iv: &[u8], record: &[u8]) -> Option<Vec<u8>> {
    let (header, body) = record.split_at_checked(HEADER)?;
    let length = usize::from(u16::from_be_bytes(header[3..].try_into().ok()?));
    let body = body.get(..length)?;
    let is_data = header[0] == DATA && header[1..3] == VERSION;
    let (cipher, nonce, body) = match algorithm.name {
        "chacha20-poly1305" => (&CHACHA20_POLY1305, iv.to_vec(), body),
        name => {
            let (own, body) = body.split_at_checked(8)?;
            let cipher = match name {
                "aes-128-gcm" => &AES_128_GCM,
                _ => &AES_256_GCM,
            };
            (cipher, [&iv[..4], own].concat(), body)
        }
    };
    let plain = u16::try_from(body.len().checked_sub(algorithm.tag())?).ok()?;
    // RFC 5246, section 6.2.3.3: number of the record, type, version, length of the data.
    let mut associated = vec![0; 8];
    associated.extend([DATA, VERSION[0], VERSION[1]]);
    associated.extend(plain.to_be_bytes());
    let key = LessSafeKey::new(UnboundKey::new(cipher, key).ok()?);
    let nonce = Nonce::try_assume_unique_for_key(&nonce).ok()?;
    let mut data = body.to_vec();
    let opened = key
        .open_in_place(nonce, Aad::from(associated), &mut data)
        .ok()?;
    is_data.then(|| opened.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record made by hand: what the kernel is expected to send.
    #[test]
    fn a_record_is_opened_and_a_forged_one_is_not() {
        for name in ["aes-128-gcm", "aes-256-gcm", "chacha20-poly1305"] {
            let algorithm = Algorithm::find(name).unwrap();
            let vector = vector(algorithm);
            let (cipher, explicit): (_, &[u8]) = match name {
                "aes-128-gcm" => (&AES_128_GCM, &[7; 8]),
                "aes-256-gcm" => (&AES_256_GCM, &[7; 8]),
                _ => (&CHACHA20_POLY1305, &[]),
            };
            let nonce = match explicit {
                [] => vector.iv.clone(),
                own => [&vector.iv[..4], own].concat(),
            };
            let mut associated = vec![0, 0, 0, 0, 0, 0, 0, 0, 23, 3, 3];
            associated.extend((vector.plain.len() as u16).to_be_bytes());
            let key = LessSafeKey::new(UnboundKey::new(cipher, &vector.key).unwrap());
            let mut body = vector.plain.clone();
            let nonce = Nonce::try_assume_unique_for_key(&nonce).unwrap();
            key.seal_in_place_append_tag(nonce, Aad::from(associated), &mut body)
                .unwrap();
            let body = [explicit, &body].concat();
            let mut record = vec![23, 3, 3];
            record.extend((body.len() as u16).to_be_bytes());
            record.extend(&body);
            let open = |record: &[u8]| decrypted(algorithm, &vector.key, &vector.iv, record);
            assert_eq!(open(&record).as_ref(), Some(&vector.plain), "{name}");
            for place in [0, 4, record.len() - 1] {
                let mut forged = record.clone();
                forged[place] ^= 1;
                assert_eq!(open(&forged), None, "{name} {place}");
            }
            assert_eq!(open(&record[..record.len() - 1]), None);
            assert_eq!(open(b""), None);
        }
    }

    #[test]
    fn a_connection_carries_data_and_ends() {
        let connection = Connection::new().unwrap();
        let mut sender = connection.sender.as_ref().unwrap();
        sender.write_all(&[0; 100_000]).unwrap();
        drop(connection);
    }
}
