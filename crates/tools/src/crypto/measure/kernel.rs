//! A thread that has the kernel encrypt, through `AF_ALG`.

use super::request::Request;
use super::seat::{Rate, Seat};
use crate::crypto::Implementation;
use crate::crypto::af_alg::{AfAlgError, Direction, Operations, Parameters, Transform};
use crate::crypto::{Algorithm, Kind, vectors};

/// Associated data of an AEAD: the header of a TLS record, as `openssl speed -aead` has it.
const ASSOCIATED: usize = 13;

/// Buffers of one thread, which every operation uses again.
struct Work {
    operations: Operations,
    direction: Direction,
    iv: Vec<u8>,
    associated: usize,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Work {
    fn new(
        transform: &Transform,
        algorithm: &Algorithm,
        request: &Request,
    ) -> Result<Self, AfAlgError> {
        let vector = vectors::vector(algorithm);
        let is_aead = algorithm.kind == Kind::Aead;
        let associated = if is_aead { ASSOCIATED } else { 0 };
        let plain = associated + request.bytes;
        let sealed = match algorithm.kind {
            Kind::Hash => vector.result.len(),
            Kind::Aead | Kind::Cipher => plain + algorithm.tag(),
        };
        let operations = transform.operations(plain.max(sealed))?;
        let mut work = Self {
            operations,
            direction: Direction::Encrypt,
            iv: vector.iv,
            associated,
            input: vec![0; plain],
            output: vec![0; sealed],
        };
        // Data to decrypt must have been encrypted: an AEAD would refuse them else.
        work.once()?;
        if request.direction == Direction::Decrypt && algorithm.kind != Kind::Hash {
            work.direction = Direction::Decrypt;
            std::mem::swap(&mut work.input, &mut work.output);
            work.once()?;
        }
        Ok(work)
    }

    fn once(&mut self) -> Result<(), AfAlgError> {
        let parameters = Parameters {
            direction: self.direction,
            iv: &self.iv,
            associated: self.associated,
        };
        self.operations
            .run(&parameters, &self.input, &mut self.output)
    }
}

/// Encrypts from the moment when all threads are ready until the end.
pub(super) fn run(
    implementation: &Implementation,
    algorithm: &Algorithm,
    request: &Request,
    seat: &Seat,
) -> Result<Rate, String> {
    let Some(driver) = implementation.bound_name(algorithm) else {
        return Err(format!("{implementation} is not reached through AF_ALG"));
    };
    let text = |error: AfAlgError| error.to_string();
    let key = vectors::vector(algorithm).key;
    let transform = Transform::new(driver, algorithm, &key).map_err(text)?;
    let mut work = Work::new(&transform, algorithm, request).map_err(text)?;
    seat.repeat(|| work.once().map_err(text))
}
