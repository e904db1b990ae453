//! Deltas (gitformat-pack, "Deltified representation").
//!
//! ```text
//! size of the base | size of the result                    seven bits a byte, least significant first
//! 1 s3 s2 s1 o4 o3 o2 o1 | the offset and size bytes whose bit is set, little-endian    copy from the base
//! 0 n(7) | n bytes                                                                      insert
//! ```

use std::ops::Range;

use crate::Error;

const FORMAT: &str = "delta";

/// The bytes that a copy instruction without a size copies.
const DEFAULT_COPY_BYTES: u32 = 0x10000;

/// Results up to this size are allocated before the instructions are known to produce them.
const TRUSTED_RESULT_BYTES: u64 = 16 << 20;

/// git refuses shorter deltas; all that it makes are longer.
const LEAST_BYTES: usize = 4;

/// The sizes at the start of a delta.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// The length that the base must have.
    pub base: u64,
    /// The length of the result.
    pub result: u64,
    /// The offset of the first instruction.
    pub length: usize,
}

/// Reads the two sizes at the start of `delta`, which may be truncated after them and after its fourth byte. A shorter delta
/// is an error: git cannot read it.
#[inline]
pub fn sizes(delta: &[u8]) -> Result<Sizes, Error> {
    if delta.len() < LEAST_BYTES {
        return Err(Error::new(FORMAT, "delta is too short", 0));
    }
    let mut length = 0;
    let base = parse_size(delta, &mut length)?;
    let result = parse_size(delta, &mut length)?;
    Ok(Sizes { base, result, length })
}

/// One instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Instruction {
    /// Appends a range of the base.
    Copy {
        /// The offset in the base, not checked against it.
        offset: u32,
        /// The number of bytes: 1 to 0xff_ffff.
        length: u32,
    },
    /// Appends a range of the delta, within it and not empty.
    Insert(Range<usize>),
}

/// Iterates over the instructions of a delta; stops after the first malformed one.
#[derive(Debug, Clone)]
pub struct Instructions<'a> {
    delta: &'a [u8],
    at: usize,
}

impl<'a> Instructions<'a> {
    /// The instructions of `delta`, which begin at [`Sizes::length`].
    #[inline]
    pub fn new(delta: &'a [u8], start: usize) -> Self {
        Instructions { delta, at: start }
    }

    #[inline]
    fn copy(&mut self, opcode: u8) -> Option<Instruction> {
        let operands = self.delta.get(self.at..)?;
        let (offset, length, taken) = if let Some(eight) = operands.first_chunk::<8>() {
            copy_operands(opcode, eight)
        } else {
            let mut padded = [0; 8];
            padded[..operands.len()].copy_from_slice(operands);
            copy_operands(opcode, &padded)
        };
        if taken > operands.len() {
            return None;
        }
        self.at += taken;
        Some(Instruction::Copy { offset, length: if length == 0 { DEFAULT_COPY_BYTES } else { length } })
    }
}

impl Iterator for Instructions<'_> {
    type Item = Result<Instruction, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let start = self.at;
        let opcode = *self.delta.get(start)?;
        self.at += 1;
        let instruction = if opcode & 0x80 != 0 {
            self.copy(opcode)
        } else {
            let end = self.at + usize::from(opcode);
            let insert =
                (opcode != 0 && end <= self.delta.len()).then_some(Instruction::Insert(self.at..end));
            self.at = end;
            insert
        };
        if instruction.is_none() {
            self.at = self.delta.len();
        }
        Some(instruction.ok_or_else(|| Error::new(FORMAT, "malformed instruction", start as u64)))
    }
}

/// Replaces `out` with the result of `delta` on `base`; after an error, `out` is empty.
///
/// A delta of n bytes can ask for 4 × 10⁶ × n bytes of result. Callers with a limit compare it with
/// [`Sizes::result`] first; the allocation never exceeds what the instructions produce.
pub fn apply(base: &[u8], delta: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    out.clear();
    let result = apply_into(base, delta, out);
    if result.is_err() {
        out.clear();
    }
    result
}

fn apply_into(base: &[u8], delta: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    let sizes = sizes(delta)?;
    if sizes.base != base.len() as u64 {
        return Err(Error::new(FORMAT, "delta was made for another base", 0));
    }
    if sizes.result > TRUSTED_RESULT_BYTES {
        check_result_size(delta, &sizes)?;
    }
    let wrong_result = || Error::new(FORMAT, "instructions do not add up to the result", delta.len() as u64);
    let size = usize::try_from(sizes.result).map_err(|_| wrong_result())?;
    out.try_reserve_exact(size).map_err(|_| Error::new(FORMAT, "result is too large for memory", 0))?;
    for instruction in Instructions::new(delta, sizes.length) {
        let piece = match instruction? {
            Instruction::Copy { offset, length } => {
                let start = offset as usize;
                base.get(start..start.saturating_add(length as usize))
                    .ok_or_else(|| Error::new(FORMAT, "copy reaches beyond the base", delta.len() as u64))?
            }
            Instruction::Insert(range) => &delta[range],
        };
        if piece.len() > size - out.len() {
            return Err(wrong_result());
        }
        out.extend_from_slice(piece);
    }
    if out.len() == size { Ok(()) } else { Err(wrong_result()) }
}

fn check_result_size(delta: &[u8], sizes: &Sizes) -> Result<(), Error> {
    let mut total = 0u64;
    for instruction in Instructions::new(delta, sizes.length) {
        total += match instruction? {
            Instruction::Copy { length, .. } => u64::from(length),
            Instruction::Insert(range) => range.len() as u64,
        };
    }
    if total == sizes.result {
        Ok(())
    } else {
        Err(Error::new(FORMAT, "instructions do not add up to the result", delta.len() as u64))
    }
}

/// The offset, the size and the number of operand bytes.
#[inline]
fn copy_operands(opcode: u8, operands: &[u8; 8]) -> (u32, u32, usize) {
    let mut taken = 0;
    let mut operand = |bit: u8| {
        let present = usize::from(opcode >> bit & 1);
        let byte = u32::from(operands[taken]) * present as u32;
        taken += present;
        byte
    };
    let offset = operand(0) | operand(1) << 8 | operand(2) << 16 | operand(3) << 24;
    let length = operand(4) | operand(5) << 8 | operand(6) << 16;
    (offset, length, taken)
}

#[inline]
fn parse_size(bytes: &[u8], at: &mut usize) -> Result<u64, Error> {
    let mut size = 0u64;
    let mut shift = 0;
    loop {
        let byte = *bytes.get(*at).ok_or_else(|| Error::new(FORMAT, "size is cut off", *at as u64))?;
        let bits = u64::from(byte & 0x7f);
        if shift >= 64 || bits << shift >> shift != bits {
            return Err(Error::new(FORMAT, "size exceeds 64 bits", *at as u64));
        }
        size |= bits << shift;
        *at += 1;
        if byte & 0x80 == 0 {
            return Ok(size);
        }
        shift += 7;
    }
}
