//! Inflates zlib streams (RFC 1950) of unknown length in one call.
//!
//! The safe binding of libdeflate does not return how many bytes a stream took; the library itself does. This
//! is packrace's only direct call of the library, and it is here because it is `unsafe`.

use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};

use libdeflate_sys::{
    libdeflate_alloc_decompressor, libdeflate_decompressor, libdeflate_free_decompressor,
    libdeflate_result_LIBDEFLATE_SUCCESS, libdeflate_zlib_decompress_ex,
};

/// Inflates streams of unknown length; keeps its tables between calls, so reuse one per thread.
pub struct StreamInflater(NonNull<libdeflate_decompressor>);

// SAFETY: the pointee belongs to this value alone, and libdeflate keeps nothing that belongs to a thread.
#[allow(unsafe_code)]
unsafe impl Send for StreamInflater {}

impl StreamInflater {
    /// An inflater ready for its first stream.
    pub fn new() -> Self {
        // SAFETY: takes no arguments; null means out of memory.
        #[allow(unsafe_code)]
        let inner = unsafe { libdeflate_alloc_decompressor() };
        StreamInflater(NonNull::new(inner).expect("there is memory for the tables of an inflater"))
    }

    /// Fills `out` with the content of the stream at the start of `input`, and returns how many bytes the
    /// stream took. `None` if the stream is damaged or truncated, or its content is shorter or longer; `out`
    /// is then undefined.
    pub fn inflate(&mut self, input: &[u8], out: &mut [u8]) -> Option<usize> {
        let mut consumed = 0;
        // SAFETY: both slices are valid for the lengths passed with them, `consumed` is written to and nothing is
        // kept. A null pointer as the last argument demands that `out` is filled exactly.
        #[allow(unsafe_code)]
        let result = unsafe {
            libdeflate_zlib_decompress_ex(
                self.0.as_ptr(),
                input.as_ptr().cast::<c_void>(),
                input.len(),
                out.as_mut_ptr().cast::<c_void>(),
                out.len(),
                &mut consumed,
                null_mut(),
            )
        };
        (result == libdeflate_result_LIBDEFLATE_SUCCESS).then_some(consumed)
    }
}

impl Default for StreamInflater {
    fn default() -> Self {
        StreamInflater::new()
    }
}

impl Drop for StreamInflater {
    fn drop(&mut self) {
        // SAFETY: created by the matching call, and not used again.
        #[allow(unsafe_code)]
        unsafe {
            libdeflate_free_decompressor(self.0.as_ptr());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "hello hello hello".
    const STREAM: &[u8] =
        &[0x78, 0x9c, 0xcb, 0x48, 0xcd, 0xc9, 0xc9, 0x57, 0xc8, 0x40, 0x90, 0x00, 0x3a, 0x2e, 0x06, 0x7d];

    #[test]
    fn tells_where_a_stream_ends() {
        let content = b"hello hello hello";
        let mut inflater = StreamInflater::new();
        let mut out = vec![0; content.len()];
        let behind = [STREAM, b"what follows"].concat();
        for input in [STREAM, &behind] {
            out.fill(0);
            assert_eq!(inflater.inflate(input, &mut out), Some(STREAM.len()));
            assert_eq!(out, content);
        }
        for end in 0..STREAM.len() {
            assert_eq!(inflater.inflate(&STREAM[..end], &mut out), None, "cut at {end}");
        }
        for length in [0, content.len() - 1, content.len() + 1] {
            assert_eq!(inflater.inflate(STREAM, &mut vec![0; length]), None, "{length} bytes");
        }
    }
}
