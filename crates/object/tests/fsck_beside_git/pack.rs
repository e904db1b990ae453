//! A pack of whole objects, deflated as stored blocks (RFC 1950 and 1951), written without any code of
//! packrace.

use packrace_object::{HashKind, TrailerHasher};

use crate::Object;

/// The pack with these objects.
pub fn of(objects: &[Object], hash: HashKind) -> Vec<u8> {
    let mut pack = b"PACK\0\0\0\x02".to_vec();
    pack.extend((objects.len() as u32).to_be_bytes());
    for object in objects {
        let (mut byte, mut rest) =
            ((object.kind as u8) << 4 | (object.content.len() & 15) as u8, object.content.len() >> 4);
        while rest > 0 {
            pack.push(byte | 0x80);
            (byte, rest) = ((rest & 0x7f) as u8, rest >> 7);
        }
        pack.push(byte);
        deflate(&object.content, &mut pack);
    }
    let mut hasher = TrailerHasher::new(hash);
    hasher.update(&pack);
    pack.extend_from_slice(hasher.finish().as_slice());
    pack
}

fn deflate(content: &[u8], out: &mut Vec<u8>) {
    out.extend([0x78, 0x01]);
    for block in content.chunks(0xffff) {
        out.push(0);
        out.extend((block.len() as u16).to_le_bytes());
        out.extend((!(block.len() as u16)).to_le_bytes());
        out.extend_from_slice(block);
    }
    out.extend([1, 0, 0, 0xff, 0xff]);
    let (mut low, mut high) = (1u32, 0u32);
    for byte in content {
        low = (low + u32::from(*byte)) % 65521;
        high = (high + low) % 65521;
    }
    out.extend((high << 16 | low).to_be_bytes());
}
