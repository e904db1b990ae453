//! A list of bundles that a client can start from (gitprotocol-v2, "bundle-uri"): one `key=value` per packet,
//! then a flush.

use crate::wire::pkt_line::{FLUSH, MAX_PAYLOAD, write_data};

/// Keys of the form `bundle.*` and their values, in order.
pub type Bundles = Vec<(Vec<u8>, Vec<u8>)>;

/// Appends the list and a flush. Entries that do not fit into a packet are omitted.
pub fn write_list(out: &mut Vec<u8>, bundles: &Bundles) {
    for (key, value) in bundles.iter().filter(|(key, value)| key.len() + 1 + value.len() <= MAX_PAYLOAD) {
        write_data(&[key.as_slice(), b"=", value].concat(), out);
    }
    out.extend_from_slice(FLUSH);
}

/// Parses a line. The value starts after the first `=`, so keys with a `=` in their subsection
/// do not survive.
pub fn parse(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let equals = line.iter().position(|byte| *byte == b'=')?;
    let (key, value) = (&line[..equals], &line[equals + 1..]);
    (!key.is_empty() && !value.is_empty()).then_some((key, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_both_ways() {
        let mut out = Vec::new();
        let long = vec![b'x'; MAX_PAYLOAD - 2];
        let list = [("bundle.version", "1"), ("bundle.a.uri", "https://x=y")];
        let mut bundles: Bundles =
            list.iter().map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec())).collect();
        bundles.push((b"bb".to_vec(), long.clone()));
        write_list(&mut out, &bundles);
        assert_eq!(out, b"0014bundle.version=1001cbundle.a.uri=https://x=y0000");
        assert_eq!(parse(b"bundle.a.uri=https://x=y"), Some((&b"bundle.a.uri"[..], &b"https://x=y"[..])));
        for bad in ["", "=", "a=", "=b", "ab"] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad}");
        }
        bundles[2].0.pop();
        out.clear();
        write_list(&mut out, &bundles);
        assert!(out.len() > MAX_PAYLOAD);
    }
}
