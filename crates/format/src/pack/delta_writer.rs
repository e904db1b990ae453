//! Writes the instructions of a delta.

/// The longest copy of one instruction: packs of version 2 have two bytes for it.
const MAX_COPY_BYTES: usize = 0x10000;

/// The longest insertion of one instruction.
const MAX_INSERT_BYTES: usize = 127;

/// Writes a delta from copies in the order of the target; what lies between them is inserted.
pub(super) struct DeltaWriter<'a> {
    target: &'a [u8],
    /// The start of the part of the target that no instruction makes yet.
    pending: usize,
    /// The longest that `out` may become.
    limit: usize,
    out: &'a mut Vec<u8>,
}

impl<'a> DeltaWriter<'a> {
    /// Appends the sizes to `out`; the delta may have `max_bytes`.
    pub(super) fn new(base_bytes: usize, target: &'a [u8], max_bytes: usize, out: &'a mut Vec<u8>) -> Self {
        let limit = out.len().saturating_add(max_bytes);
        push_size(base_bytes, out);
        push_size(target.len(), out);
        DeltaWriter { target, pending: 0, limit, out }
    }

    pub(super) fn target(&self) -> &'a [u8] {
        self.target
    }

    /// How much of the target the instructions make so far.
    #[inline]
    pub(super) fn made(&self) -> usize {
        self.pending
    }

    /// The last place in the target, or a later one, up to which it can be inserted without making the delta too long.
    pub(super) fn reach(&self) -> usize {
        let room = self.limit.saturating_sub(self.out.len());
        self.pending.saturating_add(room - room.div_ceil(MAX_INSERT_BYTES + 1))
    }

    /// Whether the delta is too long once everything before `at` is inserted.
    #[inline]
    pub(super) fn is_over(&self, at: usize) -> bool {
        let pending = at - self.pending;
        self.out.len() + pending + pending.div_ceil(MAX_INSERT_BYTES) > self.limit
    }

    /// Copies `length` bytes of the base, which make the target from `at` on.
    pub(super) fn copy(&mut self, offset: usize, length: usize, at: usize) {
        self.insert_up_to(at);
        let (mut offset, mut left) = (offset, length);
        while left > 0 {
            let length = left.min(MAX_COPY_BYTES);
            push_copy(offset as u32, length as u32, self.out);
            offset += length;
            left -= length;
        }
        self.pending = at + length;
    }

    /// Inserts the rest of the target; returns whether the delta is short enough, and long enough for git, which is only
    /// not so for an empty target.
    pub(super) fn finish(&mut self) -> bool {
        self.insert_up_to(self.target.len());
        !self.target.is_empty() && !self.is_over(self.target.len())
    }

    fn insert_up_to(&mut self, at: usize) {
        for piece in self.target[self.pending..at].chunks(MAX_INSERT_BYTES) {
            self.out.push(piece.len() as u8);
            self.out.extend_from_slice(piece);
        }
        self.pending = at;
    }
}

fn push_copy(offset: u32, length: u32, out: &mut Vec<u8>) {
    let at = out.len();
    out.push(0x80);
    let mut opcode = 0x80;
    for (bit, byte) in offset.to_le_bytes().into_iter().enumerate().filter(|(_, byte)| *byte != 0) {
        out.push(byte);
        opcode |= 1 << bit;
    }
    // 0x10000 is encoded by omitting the size.
    for (bit, byte) in length.to_le_bytes()[..2].iter().enumerate().filter(|(_, byte)| **byte != 0) {
        out.push(*byte);
        opcode |= 0x10 << bit;
    }
    out[at] = opcode;
}

fn push_size(size: usize, out: &mut Vec<u8>) {
    let mut left = size;
    while left >= 0x80 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}
