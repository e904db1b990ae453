//! Inflate and deflate for the whole workspace: every zlib stream (RFC 1950) passes through here.
//!
//! Packs and loose objects state the length of their content, so libdeflate's one-shot inflater does nearly
//! all the work; it measured 1.6 times as fast as streaming. Streaming remains for the two cases in which a
//! length cannot be trusted before bytes confirm it: the first bytes of a loose object, and contents above
//! [`ONE_SHOT_LIMIT`].

use flate2::{Compress, Compression, Decompress, DecompressError, FlushCompress, FlushDecompress, Status};
use libdeflater::{CompressionLvl, Compressor, DecompressionError, Decompressor};

pub use packrace_os::inflate::StreamInflater;

use crate::Error;

/// Longer contents are inflated piecewise, so that memory grows with the stream's real content and not with
/// the claim of a damaged header.
pub const ONE_SHOT_LIMIT: usize = 32 << 20;

/// Deflate codes at most 258 bytes in two bits, which bounds the expansion of a stream.
const MAX_EXPANSION: usize = 1032;

const FORMAT: &str = "zlib";

/// Inflates zlib streams; keeps its tables between calls, so reuse one per thread.
pub struct Inflater {
    one_shot: Decompressor,
    /// Created on first use: most callers never stream.
    streaming: Option<Decompress>,
    /// Created on first use.
    measuring: Option<StreamInflater>,
}

impl Inflater {
    /// An inflater ready for its first stream.
    pub fn new() -> Self {
        Inflater { one_shot: Decompressor::new(), streaming: None, measuring: None }
    }

    /// Replaces `out` with the content of the stream at the start of `input`, which must be exactly `size`
    /// bytes long and have the right checksum. Bytes after the stream are ignored. After an error, `out` is
    /// empty.
    pub fn inflate_exact(&mut self, input: &[u8], size: usize, out: &mut Vec<u8>) -> Result<(), Error> {
        let result = if size > ONE_SHOT_LIMIT {
            self.inflate_piecewise(input, size, out)
        } else {
            self.inflate_at_once(input, size, out)
        };
        if result.is_err() {
            out.clear();
        }
        result
    }

    /// Replaces `out` with at most the first `limit` bytes of the content of the stream at the start of
    /// `input`, which may be truncated. For headers; says nothing about the rest of the stream.
    pub fn inflate_prefix(&mut self, input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), Error> {
        out.clear();
        out.resize(limit.min(input.len().saturating_mul(MAX_EXPANSION)), 0);
        let stream = self.restarted();
        let result = stream.decompress(input, out, FlushDecompress::None);
        let (consumed, produced) = (stream.total_in(), stream.total_out() as usize);
        out.truncate(if result.is_ok() { produced } else { 0 });
        match result {
            Ok(_) => Ok(()),
            Err(error) => Err(Error::new(FORMAT, data_error(&error), consumed)),
        }
    }

    /// Like [`Self::inflate_exact`], and returns how many bytes of `input` the stream took; for consecutive
    /// streams of unknown length.
    pub fn inflate_measured(&mut self, input: &[u8], size: usize, out: &mut Vec<u8>) -> Result<usize, Error> {
        if size / MAX_EXPANSION > input.len() {
            out.clear();
            return Err(Error::new(FORMAT, "stream is too short for its content", input.len() as u64));
        }
        if size <= ONE_SHOT_LIMIT {
            out.resize(size, 0);
            if let Some(consumed) = self.measuring.get_or_insert_default().inflate(input, out) {
                return Ok(consumed);
            }
        }
        // For long contents, and to find out what is wrong with damaged ones.
        let result = self.inflate_piecewise(input, size, out);
        if result.is_err() {
            out.clear();
        }
        result.map(|()| self.restartable().total_in() as usize)
    }

    fn inflate_at_once(&mut self, input: &[u8], size: usize, out: &mut Vec<u8>) -> Result<(), Error> {
        if size / MAX_EXPANSION > input.len() {
            return Err(Error::new(FORMAT, "stream is too short for its content", input.len() as u64));
        }
        // Not cleared first: its bytes are overwritten and need not be zeroed again.
        out.resize(size, 0);
        match self.one_shot.zlib_decompress(input, out) {
            Ok(produced) if produced == size => Ok(()),
            Ok(produced) => Err(Error::new(FORMAT, "content is shorter than announced", produced as u64)),
            Err(DecompressionError::InsufficientSpace) => {
                Err(Error::new(FORMAT, "content is longer than announced", size as u64))
            }
            // To find out what is wrong.
            Err(DecompressionError::BadData) => self.inflate_piecewise(input, size, out),
        }
    }

    fn inflate_piecewise(&mut self, input: &[u8], size: usize, out: &mut Vec<u8>) -> Result<(), Error> {
        out.clear();
        let stream = self.restarted();
        loop {
            let produced = stream.total_out() as usize;
            let consumed = stream.total_in();
            if produced == out.len() {
                // At least one byte of room, so that a stream that ends exactly at `size` can report its end;
                // doubling keeps the room within a constant factor of the output.
                let room = out.len().max(ONE_SHOT_LIMIT).min(size - produced) + 1;
                out.resize(produced + room, 0);
            }
            let input = &input[consumed as usize..];
            let status = stream
                .decompress(input, &mut out[produced..], FlushDecompress::None)
                .map_err(|error| Error::new(FORMAT, data_error(&error), consumed))?;
            let produced_now = stream.total_out() as usize;
            if produced_now > size {
                return Err(Error::new(FORMAT, "content is longer than announced", size as u64));
            }
            if status == Status::StreamEnd {
                if produced_now != size {
                    return Err(Error::new(FORMAT, "content is shorter than announced", produced_now as u64));
                }
                out.truncate(size);
                return Ok(());
            }
            if stream.total_in() == consumed && produced_now == produced {
                return Err(Error::new(FORMAT, "stream is cut off", consumed));
            }
        }
    }

    fn restarted(&mut self) -> &mut Decompress {
        let stream = self.restartable();
        stream.reset(true);
        stream
    }

    fn restartable(&mut self) -> &mut Decompress {
        self.streaming.get_or_insert_with(|| Decompress::new(true))
    }
}

/// What is wrong with a stream, in git's words around those of zlib.
fn data_error(error: &DecompressError) -> &'static str {
    let end = format!(" ({})", error.message().unwrap_or_default());
    DATA_ERRORS.into_iter().find(|words| words.ends_with(&end)).unwrap_or("damaged stream")
}

/// With the messages of zlib.
const DATA_ERRORS: [&str; 15] = [
    "inflate: data stream error (incorrect header check)",
    "inflate: data stream error (unknown compression method)",
    "inflate: data stream error (invalid window size)",
    "inflate: data stream error (invalid block type)",
    "inflate: data stream error (invalid stored block lengths)",
    "inflate: data stream error (too many length or distance symbols)",
    "inflate: data stream error (invalid code lengths set)",
    "inflate: data stream error (invalid bit length repeat)",
    "inflate: data stream error (invalid code -- missing end-of-block)",
    "inflate: data stream error (invalid literal/lengths set)",
    "inflate: data stream error (invalid distances set)",
    "inflate: data stream error (invalid literal/length code)",
    "inflate: data stream error (invalid distance code)",
    "inflate: data stream error (invalid distance too far back)",
    "inflate: data stream error (incorrect data check)",
];

impl Default for Inflater {
    fn default() -> Self {
        Inflater::new()
    }
}

/// Inflates a stream that arrives in pieces, with an unknown end.
pub struct PieceInflater(Decompress);

/// The result of inflating a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inflated {
    /// The bytes of the input that belong to the stream.
    pub consumed: usize,
    /// The bytes written to the output.
    pub produced: usize,
    /// Whether the stream has ended, with the right checksum.
    pub is_over: bool,
}

impl PieceInflater {
    /// An inflater at the start of a stream.
    pub fn new() -> Self {
        PieceInflater(Decompress::new(true))
    }

    /// Prepares for the start of the next stream.
    pub fn restart(&mut self) {
        self.0.reset(true);
    }

    /// The bytes of the stream read so far, even if it turned out to be damaged.
    pub fn consumed(&self) -> u64 {
        self.0.total_in()
    }

    /// The bytes produced so far.
    pub fn produced(&self) -> u64 {
        self.0.total_out()
    }

    /// Inflates as much as input and room allow. If the stream has not ended, it has consumed all input or
    /// filled `out`.
    #[inline]
    pub fn inflate(&mut self, input: &[u8], out: &mut [u8]) -> Result<Inflated, Error> {
        let (consumed, produced) = (self.0.total_in(), self.0.total_out());
        let damaged = |_| Error::new(FORMAT, "damaged stream", consumed);
        let status = self.0.decompress(input, out, FlushDecompress::None).map_err(damaged)?;
        Ok(Inflated {
            consumed: (self.0.total_in() - consumed) as usize,
            produced: (self.0.total_out() - produced) as usize,
            is_over: status == Status::StreamEnd,
        })
    }
}

impl Default for PieceInflater {
    fn default() -> Self {
        PieceInflater::new()
    }
}

/// Deflates contents into zlib streams; keeps its tables (about 100 KB) between calls, so reuse one per
/// thread.
pub struct Deflater(Compressor);

impl Deflater {
    /// A deflater for `core.compression` and `pack.compression`: 0 (store) to 9 (smallest); any other level,
    /// such as git's -1, is the default 6.
    pub fn new(level: i32) -> Self {
        let level = if (0..=9).contains(&level) { level } else { 6 };
        Deflater(Compressor::new(CompressionLvl::new(level).unwrap_or_default()))
    }

    /// Appends the zlib stream of `content` to `out`.
    pub fn deflate(&mut self, content: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        let bound = self.0.zlib_compress_bound(content.len());
        out.resize(start + bound, 0);
        let written = self.0.zlib_compress(content, &mut out[start..]).expect("the bound holds any content");
        out.truncate(start + written);
    }
}

/// Deflates a content that arrives in pieces and is never completely in memory; slower than a [`Deflater`].
pub struct PieceDeflater(Compress);

impl PieceDeflater {
    /// A deflater at the start of a stream; levels are those of [`Deflater::new`].
    pub fn new(level: i32) -> Self {
        let level = if (0..=9).contains(&level) { level as u32 } else { 6 };
        PieceDeflater(Compress::new(Compression::new(level), true))
    }

    /// Deflates a piece, and appends the available output to `out`.
    pub fn deflate(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        let end = self.0.total_in() + piece.len() as u64;
        while self.0.total_in() < end {
            let rest = &piece[piece.len() - (end - self.0.total_in()) as usize..];
            self.step(rest, FlushCompress::None, out);
        }
    }

    /// Appends the end of the stream.
    pub fn finish(mut self, out: &mut Vec<u8>) {
        while self.step(&[], FlushCompress::Finish, out) != Status::StreamEnd {}
    }

    fn step(&mut self, input: &[u8], flush: FlushCompress, out: &mut Vec<u8>) -> Status {
        out.reserve(PIECE_ROOM_BYTES);
        self.0.compress_vec(input, out, flush).expect("any content can be deflated")
    }
}

/// The least room for a step of a [`PieceDeflater`].
const PIECE_ROOM_BYTES: usize = 16 << 10;

/// Appends the zlib stream of `content` to `out`; for many contents, keep a [`Deflater`] instead.
pub fn deflate(content: &[u8], level: i32, out: &mut Vec<u8>) {
    Deflater::new(level).deflate(content, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &[u8], size: usize, expect: Result<&[u8], &'static str>) {
        let mut inflater = Inflater::new();
        let mut out = b"leftover".to_vec();
        let got = inflater.inflate_exact(input, size, &mut out).map(|()| out.as_slice());
        assert_eq!(got.map_err(|error| error.what), expect);
        inflater
            .inflate_piecewise(input, size, &mut out)
            .map_or_else(|_| assert!(expect.is_err()), |()| assert_eq!(Ok(out.as_slice()), expect));
    }

    #[test]
    fn pieces_make_one_stream() {
        let content: Vec<u8> =
            (0..200_000u32).flat_map(|number| number.wrapping_mul(77).to_le_bytes()).collect();
        for level in [-1, 0, 1, 9] {
            for piece_bytes in [1, 999, 65_536, content.len()] {
                let content = &content[..content.len().min(piece_bytes * 5_000)];
                let (mut deflater, mut stream) = (PieceDeflater::new(level), Vec::new());
                content.chunks(piece_bytes).for_each(|piece| deflater.deflate(piece, &mut stream));
                deflater.finish(&mut stream);
                check(&stream, content.len(), Ok(content));
            }
            let mut stream = Vec::new();
            PieceDeflater::new(level).finish(&mut stream);
            check(&stream, 0, Ok(b""));
        }
    }

    #[test]
    fn exact_sizes_and_trailing_bytes() {
        for level in [-1, 0, 1, 6, 9, 77] {
            for content in [&b""[..], b"a", &[7; 100_000], b"hello hello hello"] {
                let mut stream = Vec::new();
                deflate(content, level, &mut stream);
                check(&stream, content.len(), Ok(content));
                check(&stream, content.len() + 1, Err("content is shorter than announced"));
                if let Some(short) = content.len().checked_sub(1) {
                    check(&stream, short, Err("content is longer than announced"));
                }
                stream.extend(b"next entry");
                check(&stream, content.len(), Ok(content));
            }
        }
    }

    #[test]
    fn lengths_that_nothing_backs() {
        check(b"", 0, Err("stream is cut off"));
        check(b"x\x9c\xff", 0, Err("inflate: data stream error (invalid block type)"));
        check(b"junk", 0, Err("inflate: data stream error (incorrect header check)"));
        check(b"x\x9c", 1 << 20, Err("stream is too short for its content"));
        let mut out = Vec::new();
        assert!(Inflater::new().inflate_exact(b"x\x9c", usize::MAX, &mut out).is_err());
        assert!(out.capacity() < 2 * ONE_SHOT_LIMIT);
    }

    #[test]
    fn truncation_and_flips_are_errors() {
        let content: Vec<u8> = (0..3000u32).flat_map(|n| (n * n).to_le_bytes()).collect();
        let mut stream = Vec::new();
        deflate(&content, 6, &mut stream);
        let (mut inflater, mut out) = (Inflater::new(), Vec::new());
        for end in 0..stream.len() {
            assert!(inflater.inflate_exact(&stream[..end], content.len(), &mut out).is_err(), "cut at {end}");
            assert!(out.is_empty());
        }
        for at in 0..stream.len() {
            stream[at] ^= 0x10;
            let result = inflater.inflate_exact(&stream, content.len(), &mut out);
            assert!(result.is_err() || out == content, "flip at {at}");
            stream[at] ^= 0x10;
        }
    }

    #[test]
    fn contents_above_the_one_shot_limit() {
        let content = vec![3; ONE_SHOT_LIMIT * 3 + 5];
        let mut stream = Vec::new();
        deflate(&content, 1, &mut stream);
        check(&stream, content.len(), Ok(&content));
        check(&stream, content.len() + 1, Err("content is shorter than announced"));
        check(&stream, content.len() - 1, Err("content is longer than announced"));
        let mut out = Vec::new();
        assert!(Inflater::new().inflate_exact(&stream[..stream.len() - 5], content.len(), &mut out).is_err());
    }

    #[test]
    fn prefixes() {
        let mut stream = Vec::new();
        deflate(b"blob 12\0hello world!", 6, &mut stream);
        let (mut inflater, mut out) = (Inflater::new(), Vec::new());
        for (limit, expect) in [(0, &b""[..]), (7, b"blob 12"), (64, b"blob 12\0hello world!")] {
            assert_eq!(inflater.inflate_prefix(&stream, limit, &mut out), Ok(()));
            assert_eq!(out, expect);
        }
        for end in 0..stream.len() {
            inflater.inflate_prefix(&stream[..end], 64, &mut out).unwrap();
            assert!(b"blob 12\0hello world!".starts_with(&out));
        }
        assert!(inflater.inflate_prefix(b"no zlib here", 64, &mut out).is_err());
    }
}
