//! The LZO1X block decoder, from the format in `Documentation/staging/lzo.rst` of the kernel.
//!
//! It is ours because the crates that decode LZO are GPL-only or panic on hostile input.

use std::io;

use super::corrupt;

/// Appends one block of exactly `size` bytes.
pub(super) fn decompress(block: &[u8], out: &mut Vec<u8>, size: usize) -> io::Result<()> {
    let mut decoder = Decoder {
        input: block,
        start: out.len(),
        end: out.len() + size,
        out,
    };
    decoder.run()?;
    if decoder.out.len() == decoder.end {
        Ok(())
    } else {
        Err(corrupt("a block is too short"))
    }
}

/// What preceded an instruction decides what its codes below 16 mean.
#[derive(Clone, Copy, PartialEq)]
enum After {
    /// A match without literals.
    Match,
    /// A match with one to three literals.
    Few,
    /// A run of literals.
    Run,
}

struct Decoder<'a, 'b> {
    input: &'a [u8],
    out: &'b mut Vec<u8>,
    start: usize,
    end: usize,
}

impl Decoder<'_, '_> {
    fn run(&mut self) -> io::Result<()> {
        let mut after = After::Match;
        if let Some(&first @ 18..) = self.input.first() {
            self.byte()?;
            let count = usize::from(first) - 17;
            self.literals(count)?;
            after = if count < 4 { After::Few } else { After::Run };
        }
        loop {
            let code = usize::from(self.byte()?);
            let (length, distance, trailing) = match code {
                128.. => (5 + (code >> 5 & 3), self.near(code)?, code),
                64.. => (3 + (code >> 5 & 1), self.near(code)?, code),
                32.. => {
                    let length = 2 + self.length(code & 31, 31)?;
                    let word = self.word()?;
                    (length, 1 + (word >> 2), word)
                }
                16.. => {
                    let length = 2 + self.length(code & 7, 7)?;
                    let word = self.word()?;
                    let distance = 16384 + ((code & 8) << 11) + (word >> 2);
                    if distance == 16384 {
                        return Ok(());
                    }
                    (length, distance, word)
                }
                _ if after == After::Match => {
                    let count = 3 + self.length(code, 15)?;
                    self.literals(count)?;
                    after = After::Run;
                    continue;
                }
                _ => {
                    let distance = 1 + (usize::from(self.byte()?) << 2) + (code >> 2);
                    if after == After::Run {
                        (3, 2048 + distance, code)
                    } else {
                        (2, distance, code)
                    }
                }
            };
            self.copy(distance, length)?;
            let count = trailing & 3;
            self.literals(count)?;
            after = if count == 0 { After::Match } else { After::Few };
        }
    }

    fn byte(&mut self) -> io::Result<u8> {
        let (first, rest) = self
            .input
            .split_first()
            .ok_or_else(|| corrupt("a block is cut off"))?;
        self.input = rest;
        Ok(*first)
    }

    fn word(&mut self) -> io::Result<usize> {
        Ok(usize::from(u16::from_le_bytes([
            self.byte()?,
            self.byte()?,
        ])))
    }

    fn near(&mut self, code: usize) -> io::Result<usize> {
        Ok(1 + (usize::from(self.byte()?) << 3) + (code >> 2 & 7))
    }

    /// A length in the code itself, or if that is 0 in the bytes that follow, on top of `most`.
    fn length(&mut self, in_code: usize, most: usize) -> io::Result<usize> {
        if in_code != 0 {
            return Ok(in_code);
        }
        let mut length = most;
        loop {
            match self.byte()? {
                0 => length += 255,
                last => return Ok(length + usize::from(last)),
            }
        }
    }

    fn room(&self, count: usize) -> io::Result<()> {
        if count > self.end - self.out.len() {
            Err(corrupt("a block is too long"))
        } else {
            Ok(())
        }
    }

    fn literals(&mut self, count: usize) -> io::Result<()> {
        self.room(count)?;
        let (taken, rest) = self
            .input
            .split_at_checked(count)
            .ok_or_else(|| corrupt("a block is cut off"))?;
        self.out.extend_from_slice(taken);
        self.input = rest;
        Ok(())
    }

    fn copy(&mut self, distance: usize, length: usize) -> io::Result<()> {
        self.room(length)?;
        let from = self
            .out
            .len()
            .checked_sub(distance)
            .filter(|from| *from >= self.start)
            .ok_or_else(|| corrupt("a match lies before the block"))?;
        // The source may overlap what is being written: that is how runs are encoded.
        for at in from..from + length {
            self.out.push(self.out[at]);
        }
        Ok(())
    }
}
