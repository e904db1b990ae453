//! What a server says first (gitprotocol-pack, "Reference Discovery"; gitprotocol-v2, "Capability Advertisement").

use packrace_object::{HashKind, ObjectId, oid};

use super::write_hex;
use crate::session::ServiceConfig;
use crate::wire::pkt_line::{FLUSH, MAX_PAYLOAD, write_length, write_text};

/// Appends the capabilities of version 2, flush included.
pub fn write_v2(out: &mut Vec<u8>, config: &ServiceConfig) {
    write_text("version 2", out);
    write_text(&format!("agent={}", config.agent), out);
    write_text(if config.advertise_unborn { "ls-refs=unborn" } else { "ls-refs" }, out);
    write_text("fetch=shallow wait-for-done", out);
    write_text("server-option", out);
    write_text(&format!("object-format={}", config.hash), out);
    if let Some(session_id) = &config.session_id {
        write_text(&format!("session-id={session_id}"), out);
    }
    out.extend_from_slice(FLUSH);
}

/// The capabilities of version 0 and 1. `is_http` tells an advertisement over HTTP, which offers `no-done`.
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
    if let Some(session_id) = &config.session_id {
        add(format!("session-id={session_id}").as_bytes());
    }
    add(format!("object-format={}", config.hash).as_bytes());
    add(format!("agent={}", config.agent).as_bytes());
    list
}

/// Appends one ref; the first line of an advertisement carries the capabilities.
pub fn write_v0_ref(out: &mut Vec<u8>, id: &oid, name: &[u8], capabilities: Option<&[u8]>) {
    write_line(out, id, name, b"", capabilities);
}

/// Appends what an annotated tag finally tags.
pub fn write_v0_peeled(out: &mut Vec<u8>, id: &oid, name: &[u8]) {
    write_line(out, id, name, b"^{}", None);
}

/// Appends the line of a repository without refs.
pub fn write_v0_no_refs(out: &mut Vec<u8>, capabilities: &[u8], hash: HashKind) {
    write_line(out, &ObjectId::null(hash), b"capabilities", b"^{}", Some(capabilities));
}

/// Appends a commit at which the server's own history is cut.
pub fn write_v0_shallow(out: &mut Vec<u8>, id: &oid) {
    super::shallow_info::write_shallow(out, id);
}

fn write_line(out: &mut Vec<u8>, id: &oid, name: &[u8], suffix: &[u8], capabilities: Option<&[u8]>) {
    let capabilities_len = capabilities.map_or(0, |list| list.len() + 1);
    let length = id.as_bytes().len() * 2 + 1 + name.len() + suffix.len() + capabilities_len + 1;
    if length > MAX_PAYLOAD {
        return;
    }
    write_length(length, out);
    write_hex(id, out);
    out.push(b' ');
    out.extend_from_slice(name);
    out.extend_from_slice(suffix);
    if let Some(list) = capabilities {
        out.push(0);
        out.extend_from_slice(list);
    }
    out.push(b'\n');
}
