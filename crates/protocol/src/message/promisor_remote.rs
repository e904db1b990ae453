//! Other repositories from which a client may get missing objects (gitprotocol-v2, "promisor-remote").
//!
//! ```text
//! server   promisor-remote=name=<n>,url=<u>[,<field>=<value>]…[;name=…]
//! client   promisor-remote=<n>[;<n>]…
//! ```
//!
//! Names and values are percent-encoded, so they contain no `;` and no `,`.

use crate::wire::pkt_line::MAX_PAYLOAD;

/// A promisor remote.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PromisorRemote {
    /// The name of the remote.
    pub name: Vec<u8>,
    /// Its location.
    pub url: Vec<u8>,
    /// Further fields: `partialCloneFilter` and `token` are known.
    pub fields: Vec<(String, Vec<u8>)>,
}

/// The value of the server's capability; `None` if there is nothing to offer. Remotes that do not fit into
/// the packet are omitted.
pub fn write_offer(remotes: &[PromisorRemote]) -> Option<Vec<u8>> {
    let mut offer = Vec::new();
    for remote in remotes {
        let mut one = Vec::new();
        let fields = remote.fields.iter().map(|(name, value)| (name.as_str(), value));
        for (name, value) in [("name", &remote.name), ("url", &remote.url)].into_iter().chain(fields) {
            if !one.is_empty() {
                one.push(b',');
            }
            one.extend_from_slice(name.as_bytes());
            one.push(b'=');
            write_encoded(value, &mut one);
        }
        // The name of the capability, a separator and the newline.
        if offer.len() + one.len() + 18 > MAX_PAYLOAD {
            continue;
        }
        if !offer.is_empty() {
            offer.push(b';');
        }
        offer.extend_from_slice(&one);
    }
    (!offer.is_empty()).then_some(offer)
}

/// Parses the value of the server's capability. A remote must begin with a name and a URL.
pub fn parse_offer(value: &[u8]) -> Option<Vec<PromisorRemote>> {
    value.split(|byte| *byte == b';').map(parse_remote).collect()
}

fn parse_remote(text: &[u8]) -> Option<PromisorRemote> {
    let mut fields = text.split(|byte| *byte == b',').map(parse_field);
    let (name, url) = (fields.next()??, fields.next()??);
    if name.0 != "name" || url.0 != "url" {
        return None;
    }
    Some(PromisorRemote { name: name.1, url: url.1, fields: fields.collect::<Option<_>>()? })
}

fn parse_field(text: &[u8]) -> Option<(String, Vec<u8>)> {
    let equals = text.iter().position(|byte| *byte == b'=')?;
    Some((String::from_utf8(text[..equals].to_vec()).ok()?, decoded(&text[equals + 1..])?))
}

/// The value of the client's capability.
pub fn write_accepted(names: &[Vec<u8>]) -> Vec<u8> {
    let mut value = Vec::new();
    for name in names {
        if !value.is_empty() {
            value.push(b';');
        }
        write_encoded(name, &mut value);
    }
    value
}

/// The names that a client accepts. One that cannot be decoded is taken as it is, as by git.
pub fn parse_accepted(value: &[u8]) -> Vec<Vec<u8>> {
    value.split(|byte| *byte == b';').map(|name| decoded(name).unwrap_or_else(|| name.to_vec())).collect()
}

/// Percent-encodes what git encodes (observed): separators, `%`, spaces, control characters and what is not ASCII.
fn write_encoded(value: &[u8], out: &mut Vec<u8>) {
    for byte in value {
        match byte {
            b'!'..=b'~' if !matches!(byte, b',' | b';' | b'%') => out.push(*byte),
            _ => out.extend_from_slice(format!("%{byte:02x}").as_bytes()),
        }
    }
}

/// Decodes `%xx`; `None` if a `%` is not followed by two hex digits.
fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let mut value = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'%' {
            value.push(*byte);
            continue;
        }
        let (digits, after) = after.split_at_checked(2)?;
        let digit = |at: usize| char::from(digits[at]).to_digit(16);
        value.push((digit(0)? << 4 | digit(1)?) as u8);
        rest = after;
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(name: &str, url: &str, fields: &[(&str, &str)]) -> PromisorRemote {
        let fields = fields.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()));
        PromisorRemote { name: name.into(), url: url.into(), fields: fields.collect() }
    }

    fn check(remotes: &[PromisorRemote], expect: &str) {
        let offer = write_offer(remotes).unwrap();
        assert_eq!(String::from_utf8_lossy(&offer), expect);
        assert_eq!(parse_offer(&offer).as_deref(), Some(remotes));
    }

    #[test]
    fn offers_both_ways() {
        check(&[remote("lop", "https://a.b/c_d~e", &[])], "name=lop,url=https://a.b/c_d~e");
        let fields = [("partialCloneFilter", "blob:limit=1k"), ("token", "a;b,c=d%\u{e9}")];
        check(
            &[remote("a", "u", &fields), remote("b\u{1}", "", &[])],
            "name=a,url=u,partialCloneFilter=blob:limit=1k,token=a%3bb%2cc=d%25%c3%a9;name=b%01,url=",
        );
        assert_eq!(write_offer(&[]), None);
        for bad in [
            "",
            "name=a",
            "url=a,name=b",
            "name=a,url=%4",
            "name=a,url=%zz",
            "name=a,url=b,c",
            "name=a,url=b;",
        ] {
            assert_eq!(parse_offer(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn an_offer_fits_a_packet() {
        let long = remote("long", &"x".repeat(MAX_PAYLOAD - 60), &[]);
        let offer = write_offer(&[long.clone(), long, remote("a", "b", &[])]).unwrap();
        assert_eq!(parse_offer(&offer).unwrap().len(), 2);
        let line = [b"promisor-remote=".as_slice(), &offer, b"\n"].concat();
        assert!(line.len() <= MAX_PAYLOAD);
    }

    #[test]
    fn what_clients_accept() {
        let check = |text: &str, expect: &[&str]| {
            let expect: Vec<_> = expect.iter().map(|name| name.as_bytes().to_vec()).collect();
            assert_eq!(parse_accepted(text.as_bytes()), expect, "{text}");
            expect
        };
        for names in [check("a", &["a"]), check("a;b%3bc;%25", &["a", "b;c", "%"])] {
            assert_eq!(parse_accepted(&write_accepted(&names)), names);
        }
        check(";a;", &["", "a", ""]);
        for name in ["", "%", "a%2", "%g0", "%+1"] {
            check(name, &[name]);
        }
    }
}
