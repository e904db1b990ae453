//! What a fuzzer does not guess: the footer of a reftable, which repeats the header and has a checksum.

/// Puts both right.
pub fn put_footer_right(file: &mut [u8]) {
    let header_bytes = if file.get(4) == Some(&2) { 28 } else { 24 };
    let Some(footer) = file.len().checked_sub(header_bytes + 44).filter(|at| *at >= header_bytes) else {
        return;
    };
    file.copy_within(..header_bytes, footer);
    let checksum_at = file.len() - 4;
    let checksum = crc32(&file[footer..checksum_at]).to_be_bytes();
    file[checksum_at..].copy_from_slice(&checksum);
}

/// Bit by bit: a footer has 72 bytes.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}
