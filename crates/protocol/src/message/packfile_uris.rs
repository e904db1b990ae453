//! Packs that a client fetches from elsewhere (gitprotocol-v2, "packfile-uris section"): lines `<pack hash> <uri>`,
//! and the list of URI protocols that a client supports.

use crate::wire::pkt_line::{MAX_PAYLOAD, write_length};

/// A pack stored elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PackfileUri {
    /// The hash of the pack as `git index-pack` prints it, in hex.
    pub pack_hash: Vec<u8>,
    /// The location of the pack.
    pub uri: Vec<u8>,
}

impl PackfileUri {
    /// Whether the line fits into a packet, even with a band byte.
    pub fn fits(&self) -> bool {
        self.pack_hash.len() + 1 + self.uri.len() + 1 < MAX_PAYLOAD
    }

    /// Whether the URI has one of the protocols in a client's comma-separated list, such as `https` for
    /// `https://…`.
    pub fn is_of(&self, protocols: &[u8]) -> bool {
        protocols.split(|byte| *byte == b',').any(|protocol| {
            let rest = self.uri.strip_prefix(protocol).filter(|_| !protocol.is_empty());
            rest.is_some_and(|rest| rest.starts_with(b"://"))
        })
    }

    /// Appends the line, which must [fit](Self::fits).
    pub fn write(&self, out: &mut Vec<u8>) {
        write_length(self.pack_hash.len() + 1 + self.uri.len() + 1, out);
        out.extend_from_slice(&self.pack_hash);
        out.push(b' ');
        out.extend_from_slice(&self.uri);
        out.push(b'\n');
    }

    /// Parses a line.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let space = line.iter().position(|byte| *byte == b' ')?;
        let (pack_hash, uri) = (&line[..space], &line[space + 1..]);
        let is_hash = matches!(pack_hash.len(), 40 | 64) && pack_hash.iter().all(u8::is_ascii_hexdigit);
        (is_hash && !uri.is_empty()).then(|| PackfileUri { pack_hash: pack_hash.to_vec(), uri: uri.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_both_ways() {
        for (length, is_good) in [(40, true), (64, true), (39, false), (0, false)] {
            let uri = PackfileUri { pack_hash: vec![b'a'; length], uri: b"https://a/b c".to_vec() };
            let mut out = Vec::new();
            uri.write(&mut out);
            assert_eq!(PackfileUri::parse(&out[4..out.len() - 1]), is_good.then_some(uri));
        }
        let hash = "a".repeat(40);
        for bad in ["", &hash, &format!("{hash} "), &format!("g{} a", &hash[1..])] {
            assert_eq!(PackfileUri::parse(bad.as_bytes()), None, "{bad}");
        }
        let mut long = PackfileUri { pack_hash: hash.into(), uri: vec![b'x'; MAX_PAYLOAD - 43] };
        assert!(long.fits());
        long.uri.push(b'x');
        assert!(!long.fits());
    }

    #[test]
    fn protocols() {
        let check = |uri: &str, protocols: &str, expect| {
            let uri = PackfileUri { pack_hash: Vec::new(), uri: uri.into() };
            assert_eq!(uri.is_of(protocols.as_bytes()), expect, "{uri:?} {protocols}");
        };
        check("https://a", "https", true);
        check("https://a", "http", false);
        check("http://a", "http,https", true);
        check("https://a", "http,https", true);
        check("https://a", ",,https,", true);
        check("https://a", "HTTPS", false);
        check("https://a", " https", false);
        check("https:a", "https", false);
        check("://a", "", false);
        check("://a", ",", false);
    }
}
