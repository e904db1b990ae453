//! The first message of a server (gitprotocol-pack, "Reference Discovery"; gitprotocol-v2, "Capability
//! Advertisement").

use packrace_object::{HashKind, ObjectId, StoredId, oid};

use super::service::ServiceConfig;
use crate::wire::pkt_line::{FLUSH, MAX_PAYLOAD, write_data, write_length, write_text};

/// Appends the capabilities of version 2, flush included.
pub fn write_v2(out: &mut Vec<u8>, config: &ServiceConfig) {
    write_text("version 2", out);
    write_text(&format!("agent={}", config.agent), out);
    write_text(if config.advertise_unborn { "ls-refs=unborn" } else { "ls-refs" }, out);
    let mut fetch = "fetch=shallow wait-for-done".to_owned();
    let features = &config.features;
    for (name, is_on) in [
        (" filter", config.allow_filter),
        (" ref-in-want", features.ref_in_want),
        (" sideband-all", features.sideband_all),
        (" packfile-uris", features.packfile_uris),
    ] {
        fetch.push_str(if is_on { name } else { "" });
    }
    write_text(&fetch, out);
    write_text("server-option", out);
    write_text(&format!("object-format={}", config.hash), out);
    if let Some(session_id) = &config.session_id {
        write_text(&format!("session-id={session_id}"), out);
    }
    if features.object_info {
        write_text("object-info=size", out);
    }
    if features.bundle_uri {
        write_text("bundle-uri", out);
    }
    if let Some(offer) = &features.promisor_remote {
        write_data(&[b"promisor-remote=", offer.as_slice(), b"\n"].concat(), out);
    }
    out.extend_from_slice(FLUSH);
}

/// The capabilities of versions 0 and 1. `is_http` adds `no-done`, which only HTTP offers.
pub fn v0_capabilities(config: &ServiceConfig, head_target: Option<&[u8]>, is_http: bool) -> Vec<u8> {
    let mut list = b"multi_ack thin-pack side-band side-band-64k ofs-delta shallow deepen-since deepen-not \
        deepen-relative no-progress include-tag multi_ack_detailed"
        .to_vec();
    let mut add = |word: &[u8]| {
        list.push(b' ');
        list.extend_from_slice(word);
    };
    if config.allow_tip {
        add(b"allow-tip-sha1-in-want");
    }
    if config.allow_reachable {
        add(b"allow-reachable-sha1-in-want");
    }
    if is_http {
        add(b"no-done");
    }
    if let Some(target) = head_target {
        add(&[b"symref=HEAD:", target].concat());
    }
    if config.allow_filter {
        add(b"filter");
    }
    if let Some(session_id) = &config.session_id {
        add(format!("session-id={session_id}").as_bytes());
    }
    add(format!("object-format={}", config.hash).as_bytes());
    add(format!("agent={}", config.agent).as_bytes());
    list
}

/// Appends one ref; the first line of an advertisement carries the capabilities.
pub fn write_v0_ref(out: &mut Vec<u8>, id: StoredId<'_>, name: &[u8], capabilities: Option<&[u8]>) {
    write_line(out, id, name, b"", capabilities);
}

/// Appends the object that an annotated tag peels to.
pub fn write_v0_peeled(out: &mut Vec<u8>, id: StoredId<'_>, name: &[u8]) {
    write_line(out, id, name, b"^{}", None);
}

/// Appends the line of a repository without refs.
pub fn write_v0_no_refs(out: &mut Vec<u8>, capabilities: &[u8], hash: HashKind) {
    write_line(out, StoredId::from(&ObjectId::null(hash)), b"capabilities", b"^{}", Some(capabilities));
}

/// Appends a commit of the server's own shallow boundary. Git ends this line with a newline, unlike those of a fetch.
pub fn write_v0_shallow(out: &mut Vec<u8>, id: &oid) {
    write_text(&format!("shallow {id}"), out);
}

/// One line of an advertisement in version 0 or 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum V0Line<'a> {
    /// `version 1`: lines of version 0 follow.
    Version(&'a [u8]),
    /// A ref; the first line carries capabilities.
    Ref {
        /// The object.
        id: ObjectId,
        /// The full name.
        name: &'a [u8],
        /// Unparsed; see [`words`](crate::wire::capabilities::words).
        capabilities: Option<&'a [u8]>,
    },
    /// The object that the tag of the previous line peels to.
    Peeled {
        /// The object.
        id: ObjectId,
        /// The full name, without `^{}`.
        name: &'a [u8],
    },
    /// The repository has no refs.
    NoRefs {
        /// The unparsed list.
        capabilities: &'a [u8],
    },
    /// A commit of the server's own shallow boundary.
    Shallow(ObjectId),
}

/// Parses a line. The first line states the hash: `object-format=` in its capabilities, SHA-1 without it. Ids have
/// the length of their hash, so the line can be parsed before the hash is known.
pub fn parse_v0_line(line: &[u8]) -> Option<V0Line<'_>> {
    if let Some(version) = line.strip_prefix(b"version ") {
        return Some(V0Line::Version(version));
    }
    if let Some(id) = line.strip_prefix(b"shallow ") {
        return ObjectId::from_hex(id).ok().map(V0Line::Shallow);
    }
    let (line, capabilities) = match line.iter().position(|byte| *byte == 0) {
        Some(nul) => (&line[..nul], Some(&line[nul + 1..])),
        None => (line, None),
    };
    let space = line.iter().position(|byte| *byte == b' ')?;
    let (id, name) = (ObjectId::from_hex(&line[..space]).ok()?, &line[space + 1..]);
    match (name.strip_suffix(b"^{}"), capabilities) {
        (Some(b"capabilities"), Some(capabilities)) if id.is_null() => Some(V0Line::NoRefs { capabilities }),
        (Some(name), None) => Some(V0Line::Peeled { id, name }),
        (Some(_), Some(_)) => None,
        (None, capabilities) => Some(V0Line::Ref { id, name, capabilities }),
    }
}

/// Parses a line that a server of version 2 sends after `version 2`: a key and an optional value.
pub fn parse_v2_capability(line: &[u8]) -> (&[u8], Option<&[u8]>) {
    match line.iter().position(|byte| *byte == b'=') {
        Some(at) => (&line[..at], Some(&line[at + 1..])),
        None => (line, None),
    }
}

fn write_line(out: &mut Vec<u8>, id: StoredId<'_>, name: &[u8], suffix: &[u8], capabilities: Option<&[u8]>) {
    let capabilities_len = capabilities.map_or(0, |list| list.len() + 1);
    let length = id.hex_len() + 1 + name.len() + suffix.len() + capabilities_len + 1;
    if length > MAX_PAYLOAD {
        return;
    }
    write_length(length, out);
    id.write_hex(out);
    out.push(b' ');
    out.extend_from_slice(name);
    out.extend_from_slice(suffix);
    if let Some(list) = capabilities {
        out.push(0);
        out.extend_from_slice(list);
    }
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::service::Features;
    use crate::wire::pkt_line::{Decoder, PktLine, text};

    fn config() -> ServiceConfig {
        ServiceConfig::new("packrace/0", HashKind::Sha1)
    }

    /// Compares the lines of packets with what `git upload-pack` 2.47.3 sends.
    fn check(packets: &[u8], expect: &[&str]) {
        let mut decoder = Decoder::default();
        decoder.push(packets);
        let mut lines = Vec::new();
        while let Some(packet) = decoder.next().unwrap() {
            lines.push(match packet {
                PktLine::Data(data) => String::from_utf8_lossy(text(data)).replace('\0', "|"),
                other => format!("{other:?}"),
            });
        }
        assert!(decoder.is_empty());
        assert_eq!(lines, expect);
    }

    #[test]
    fn version_2() {
        let mut out = Vec::new();
        write_v2(&mut out, &config());
        let features =
            ["ls-refs=unborn", "fetch=shallow wait-for-done", "server-option", "object-format=sha1"];
        let mut expect = vec!["version 2", "agent=packrace/0"];
        expect.extend(features);
        check(&out, &[expect.as_slice(), &["Flush"]].concat());
        out.clear();
        let session_id = Some("id".to_owned());
        write_v2(&mut out, &ServiceConfig { session_id, advertise_unborn: false, ..config() });
        expect[2] = "ls-refs";
        check(&out, &[expect.as_slice(), &["session-id=id", "Flush"]].concat());
        out.clear();
        let features = Features {
            ref_in_want: true,
            sideband_all: true,
            packfile_uris: true,
            object_info: true,
            bundle_uri: true,
            promisor_remote: Some(b"name=a,url=b".to_vec()),
        };
        write_v2(&mut out, &ServiceConfig { features, allow_filter: true, ..config() });
        expect = vec!["version 2", "agent=packrace/0", "ls-refs=unborn"];
        expect.push("fetch=shallow wait-for-done filter ref-in-want sideband-all packfile-uris");
        expect.extend(["server-option", "object-format=sha1", "object-info=size", "bundle-uri"]);
        check(&out, &[expect.as_slice(), &["promisor-remote=name=a,url=b", "Flush"]].concat());
        assert_eq!(parse_v2_capability(b"ls-refs"), (&b"ls-refs"[..], None));
        assert_eq!(parse_v2_capability(b"a=b=c"), (&b"a"[..], Some(&b"b=c"[..])));
    }

    #[test]
    fn version_0() {
        let words = "multi_ack thin-pack side-band side-band-64k ofs-delta shallow deepen-since deepen-not \
            deepen-relative no-progress include-tag multi_ack_detailed";
        let check = |config: &ServiceConfig, target: Option<&str>, is_http, rest: &str| {
            let list = v0_capabilities(config, target.map(str::as_bytes), is_http);
            assert_eq!(
                String::from_utf8(list).unwrap(),
                format!("{words} {rest}object-format=sha1 agent=packrace/0")
            );
        };
        check(&config(), None, false, "");
        check(&config(), Some("refs/heads/main"), false, "symref=HEAD:refs/heads/main ");
        check(&config(), Some("refs/heads/main"), true, "no-done symref=HEAD:refs/heads/main ");
        let open = ServiceConfig {
            allow_tip: true,
            allow_reachable: true,
            allow_filter: true,
            session_id: Some("id".into()),
            ..config()
        };
        check(
            &open,
            None,
            true,
            "allow-tip-sha1-in-want allow-reachable-sha1-in-want no-done filter session-id=id ",
        );
    }

    #[test]
    fn lines_both_ways() {
        let id = ObjectId::from_hex(b"0123456789abcdef0123456789abcdef01234567").unwrap();
        let mut out = Vec::new();
        write_v0_ref(&mut out, StoredId::from(&id), b"HEAD", Some(b"multi_ack agent=me"));
        write_v0_ref(&mut out, StoredId::from(&id), b"refs/tags/v1", None);
        write_v0_peeled(&mut out, StoredId::from(&id), b"refs/tags/v1");
        write_v0_no_refs(&mut out, b"multi_ack", HashKind::Sha1);
        write_v0_shallow(&mut out, &id);
        let zero = "0".repeat(40);
        check(
            &out,
            &[
                &format!("{id} HEAD|multi_ack agent=me"),
                &format!("{id} refs/tags/v1"),
                &format!("{id} refs/tags/v1^{{}}"),
                &format!("{zero} capabilities^{{}}|multi_ack"),
                &format!("shallow {id}"),
            ],
        );
        let mut decoder = Decoder::default();
        decoder.push(&out);
        let mut read = || match decoder.next().unwrap() {
            Some(PktLine::Data(data)) => parse_v0_line(text(data)).map(|line| format!("{line:?}")),
            _ => None,
        };
        let (name, caps) = (b"refs/tags/v1".as_slice(), b"multi_ack agent=me".as_slice());
        for expect in [
            V0Line::Ref { id, name: b"HEAD", capabilities: Some(caps) },
            V0Line::Ref { id, name, capabilities: None },
            V0Line::Peeled { id, name },
            V0Line::NoRefs { capabilities: b"multi_ack" },
            V0Line::Shallow(id),
        ] {
            assert_eq!(read(), Some(format!("{expect:?}")));
        }
        assert_eq!(parse_v0_line(b"version 1"), Some(V0Line::Version(b"1")));
        for line in ["", "zz HEAD", "0123 HEAD", &id.to_string(), "shallow ", &format!("{id} a^{{}}\0caps")] {
            assert_eq!(parse_v0_line(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn a_name_that_fits_no_packet_is_left_out() {
        let mut out = Vec::new();
        let id = ObjectId::null(HashKind::Sha1);
        write_v0_ref(&mut out, StoredId::from(&id), &[b'x'; MAX_PAYLOAD], None);
        assert!(out.is_empty());
    }
}
