//! Reasons to refuse a peer. All texts of protocol errors are here, and they are git's.

use packrace_object::{HashKind, ObjectId};

/// The kind of mistake a peer made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusalKind {
    /// The bytes break the protocol.
    Malformed,
    /// The request is well-formed, but not supported.
    Unsupported,
    /// A requested object or ref does not exist here or is hidden.
    NotOurs,
    /// A limit was exceeded.
    LimitExceeded,
    /// The peer stopped in the middle of a message.
    HungUp,
}

/// Why a session ends early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    kind: RefusalKind,
    message: String,
    /// The text for the peer, if it can still receive it.
    wire: Option<String>,
}

impl Refusal {
    fn new(kind: RefusalKind, message: String) -> Self {
        let message = printable(&message);
        let wire = Some(message.clone());
        Refusal { kind, message, wire }
    }

    /// The kind of mistake.
    pub fn kind(&self) -> RefusalKind {
        self.kind
    }

    /// The text after `fatal: ` on standard error.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The text for the peer, if it can still receive it.
    pub(crate) fn told_peer(&self) -> Option<&str> {
        self.wire.as_deref()
    }

    /// Parses the text of an `ERR` packet from its line.
    pub fn parse_wire(line: &[u8]) -> Option<&[u8]> {
        line.strip_prefix(b"ERR ")
    }

    /// Four bytes that are not a length.
    pub(crate) fn bad_length_characters(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        Refusal::new(RefusalKind::Malformed, format!("protocol error: bad line length character: {text}"))
    }

    pub(crate) fn bad_length(length: usize) -> Self {
        Refusal::new(RefusalKind::Malformed, format!("protocol error: bad line length {length}"))
    }

    pub(crate) fn hung_up() -> Self {
        let message = "the remote end hung up unexpectedly".to_owned();
        Refusal { kind: RefusalKind::HungUp, message, wire: None }
    }

    pub(crate) fn unknown_capability(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        Refusal::new(RefusalKind::Unsupported, format!("unknown capability '{text}'"))
    }

    pub(crate) fn invalid_command(name: &[u8]) -> Self {
        let name = String::from_utf8_lossy(name);
        Refusal::new(RefusalKind::Unsupported, format!("invalid command '{name}'"))
    }

    pub(crate) fn second_command(second: &str, first: &str) -> Self {
        let text = format!("command '{second}' requested after already requesting command '{first}'");
        Refusal::new(RefusalKind::Malformed, text)
    }

    pub(crate) fn no_command() -> Self {
        Refusal::new(RefusalKind::Malformed, "no command requested".to_owned())
    }

    pub(crate) fn unexpected_line(line: &[u8]) -> Self {
        let line = String::from_utf8_lossy(line);
        Refusal::new(RefusalKind::Unsupported, format!("unexpected line: '{line}'"))
    }

    pub(crate) fn expected_flush(what: &str) -> Self {
        Refusal::new(RefusalKind::Malformed, format!("expected flush after {what}"))
    }

    pub(crate) fn unknown_object_format(name: &[u8]) -> Self {
        let name = String::from_utf8_lossy(name);
        Refusal::new(RefusalKind::Malformed, format!("unknown object format '{name}'"))
    }

    pub(crate) fn object_format_without_value() -> Self {
        Refusal::new(RefusalKind::Malformed, "object-format capability requires an argument".to_owned())
    }

    pub(crate) fn mismatched_object_format(server: HashKind, client: HashKind) -> Self {
        let text = format!("mismatched object format: server {server}; client {client}");
        Refusal::new(RefusalKind::Malformed, text)
    }

    /// Version 2: a `want` without an object id.
    pub(crate) fn expected_oid(line: &[u8]) -> Self {
        let line = String::from_utf8_lossy(line);
        let text = format!("git upload-pack: protocol error, expected to get oid, not '{line}'");
        Refusal::new(RefusalKind::Malformed, text)
    }

    /// Version 0: a line that is not a `want`, or one without an object id.
    pub(crate) fn expected_object_id(line: &[u8]) -> Self {
        let line = String::from_utf8_lossy(line);
        let text = format!("git upload-pack: protocol error, expected to get object ID, not '{line}'");
        Refusal::new(RefusalKind::Malformed, text)
    }

    /// A `have` without an object id.
    pub(crate) fn expected_object(id: &[u8]) -> Self {
        let id = String::from_utf8_lossy(id);
        Refusal::new(RefusalKind::Malformed, format!("git upload-pack: expected SHA1 object, got '{id}'"))
    }

    pub(crate) fn expected_list(line: &[u8]) -> Self {
        let line = String::from_utf8_lossy(line);
        Refusal::new(RefusalKind::Malformed, format!("git upload-pack: expected SHA1 list, got '{line}'"))
    }

    pub(crate) fn invalid_shallow(line: &[u8]) -> Self {
        let line = String::from_utf8_lossy(line);
        Refusal::new(RefusalKind::Malformed, format!("invalid shallow line: {line}"))
    }

    pub(crate) fn invalid_deepen(line: &[u8]) -> Self {
        let line = String::from_utf8_lossy(line);
        Refusal::new(RefusalKind::Malformed, format!("Invalid deepen: {line}"))
    }

    pub(crate) fn invalid_deepen_since(line: &[u8]) -> Self {
        let line = String::from_utf8_lossy(line);
        Refusal::new(RefusalKind::Malformed, format!("Invalid deepen-since: {line}"))
    }

    pub(crate) fn deepen_both_ways() -> Self {
        let text = "git upload-pack: deepen and deepen-since (or deepen-not) cannot be used together";
        Refusal::new(RefusalKind::Malformed, text.to_owned())
    }

    pub(crate) fn filter_not_negotiated() -> Self {
        let text = "git upload-pack: filtering capability not negotiated";
        Refusal::new(RefusalKind::Unsupported, text.to_owned())
    }

    pub(crate) fn second_filter() -> Self {
        Refusal::new(RefusalKind::Malformed, "multiple filter-specs cannot be combined".to_owned())
    }

    /// A malformed filter-spec; `why` is git's reason.
    pub fn bad_filter(why: &str) -> Self {
        Refusal::new(RefusalKind::Malformed, why.to_owned())
    }

    /// A filter that the configuration does not allow, by its configured name.
    pub fn filter_not_supported(name: &str) -> Self {
        Refusal::new(RefusalKind::Unsupported, format!("filter '{name}' not supported"))
    }

    /// A `tree:` filter deeper than the configuration allows.
    pub fn tree_filter_too_deep(max: u64, depth: u64) -> Self {
        let text = format!("tree filter allows max depth {max}, but got {depth}");
        Refusal::new(RefusalKind::Unsupported, text)
    }

    /// A wanted object that does not exist here or may not be requested.
    pub fn not_our_ref(id: &ObjectId) -> Self {
        let mut refusal = Refusal::new(RefusalKind::NotOurs, format!("git upload-pack: not our ref {id}"));
        refusal.wire = Some(format!("upload-pack: not our ref {id}"));
        refusal
    }

    /// A `deepen-not` that matches no ref.
    pub fn deepen_not_is_no_ref(name: &[u8]) -> Self {
        let name = String::from_utf8_lossy(name);
        let text = format!("git upload-pack: deepen-not is not a ref: deepen-not {name}");
        Refusal::new(RefusalKind::NotOurs, text)
    }

    /// A `deepen-not` that matches several refs.
    pub fn deepen_not_is_ambiguous(name: &[u8]) -> Self {
        let name = String::from_utf8_lossy(name);
        let text = format!("git upload-pack: ambiguous deepen-not: deepen-not {name}");
        Refusal::new(RefusalKind::NotOurs, text)
    }

    /// An object that the client calls a shallow commit, and that is none.
    pub fn shallow_is_no_commit(id: &ObjectId) -> Self {
        Refusal::new(RefusalKind::Malformed, format!("invalid shallow object {id}"))
    }

    /// A pack cannot be made.
    pub fn aborting() -> Self {
        let text = "aborting due to possible repository corruption on the remote side.";
        Refusal::new(RefusalKind::Unsupported, text.to_owned())
    }

    /// `deepen-since` and `deepen-not` exclude everything.
    pub fn nothing_selected() -> Self {
        Refusal::new(RefusalKind::NotOurs, "no commits selected for shallow requests".to_owned())
    }

    /// A `want-ref` for a ref that does not exist or is hidden.
    pub fn unknown_ref(name: &[u8]) -> Self {
        let name = String::from_utf8_lossy(name);
        Refusal::new(RefusalKind::NotOurs, format!("unknown ref {name}"))
    }

    pub(crate) fn duplicate_want_ref(name: &[u8]) -> Self {
        let name = String::from_utf8_lossy(name);
        Refusal::new(RefusalKind::Malformed, format!("duplicate want-ref {name}"))
    }

    pub(crate) fn multiple_packfile_uris() -> Self {
        Refusal::new(RefusalKind::Malformed, "multiple packfile-uris lines forbidden".to_owned())
    }

    pub(crate) fn command_expected_flush(command: &str) -> Self {
        Refusal::new(RefusalKind::Malformed, format!("{command}: expected flush after arguments"))
    }

    pub(crate) fn object_info_expected_oid(id: &[u8]) -> Self {
        let id = String::from_utf8_lossy(id);
        let text = format!("object-info: protocol error, expected to get oid, not '{id}'");
        Refusal::new(RefusalKind::Malformed, text)
    }

    pub(crate) fn object_info_unexpected_line(line: &[u8]) -> Self {
        let line = String::from_utf8_lossy(line);
        Refusal::new(RefusalKind::Unsupported, format!("object-info: unexpected line: '{line}'"))
    }

    pub(crate) fn bundle_uri_unexpected_argument(line: &[u8]) -> Self {
        let line = String::from_utf8_lossy(line);
        Refusal::new(RefusalKind::Unsupported, format!("bundle-uri: unexpected argument: '{line}'"))
    }

    /// Git has no text for this: it dereferences a null pointer.
    pub(crate) fn promisor_remote_without_value() -> Self {
        Refusal::new(RefusalKind::Malformed, "promisor-remote capability requires an argument".to_owned())
    }

    /// A push: a line that is not a command.
    pub(crate) fn expected_command(line: &[u8]) -> Self {
        let line = String::from_utf8_lossy(line);
        Refusal::new(RefusalKind::Malformed, format!("protocol error: expected old/new/ref, got '{line}'"))
    }

    pub(crate) fn expected_shallow(id: &[u8]) -> Self {
        let id = String::from_utf8_lossy(id);
        Refusal::new(RefusalKind::Malformed, format!("protocol error: expected shallow sha, got '{id}'"))
    }

    /// In git's words, including the repetition.
    pub(crate) fn unsupported_object_format(name: &[u8]) -> Self {
        let name = String::from_utf8_lossy(name);
        Refusal::new(RefusalKind::Malformed, format!("error: unsupported object format '{name}'"))
    }

    /// Git has no text for this: it uses the option up to the NUL.
    pub(crate) fn option_with_nul(option: &[u8]) -> Self {
        let option = String::from_utf8_lossy(option);
        Refusal::new(RefusalKind::Malformed, format!("protocol error: push option with a NUL: '{option}'"))
    }

    pub(crate) fn malformed_certificate(certificate: &[u8]) -> Self {
        let shown = String::from_utf8_lossy(&certificate[..certificate.len().min(100)]);
        Refusal::new(RefusalKind::Malformed, format!("malformed push certificate {shown}"))
    }

    pub(crate) fn unexpected_packet() -> Self {
        Refusal::new(RefusalKind::Malformed, "protocol error: got an unexpected packet".to_owned())
    }

    /// The client gave up and sent this reason.
    pub(crate) fn remote_error(text: &[u8]) -> Self {
        let message = printable(&format!("remote error: {}", String::from_utf8_lossy(text)));
        Refusal { kind: RefusalKind::HungUp, message, wire: None }
    }

    /// A packet of an unknown band.
    pub(crate) fn bad_band(payload: &[u8]) -> Self {
        let text = match payload.first() {
            None => "protocol error: no band designator".to_owned(),
            Some(band) => format!("protocol error: bad band #{band}"),
        };
        Refusal::new(RefusalKind::Malformed, text)
    }

    pub(crate) fn too_many(what: &str, limit: usize) -> Self {
        Refusal::new(RefusalKind::LimitExceeded, format!("more than {limit} {what} in one request"))
    }

    /// The caller answered a question that was not asked.
    pub(crate) fn out_of_order(what: &str) -> Self {
        let message = format!("internal error: {what} at the wrong time");
        Refusal { kind: RefusalKind::Unsupported, message, wire: None }
    }
}

/// The most bytes of a message that are shown, as in git. Peers control parts of it.
const MAX_MESSAGE: usize = 4096;

/// The message, made safe for a terminal or a log: short, on one line, without control characters.
fn printable(message: &str) -> String {
    let mut end = message.len().min(MAX_MESSAGE);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    message[..end].chars().map(|c| if c.is_control() && c != '\t' { '?' } else { c }).collect()
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &[u8], expect: &str) {
        let refusal = Refusal::unexpected_line(text);
        assert_eq!(refusal.message(), expect);
        let packet = refusal.wire().expect("the peer is told");
        let line = Refusal::parse_wire(&packet[4..]).expect("an ERR packet");
        assert_eq!(line, expect.as_bytes());
    }

    #[test]
    fn what_a_peer_sent_is_shown_without_harm() {
        check(b"foo", "unexpected line: 'foo'");
        check(b"a\x1b[1m\n\r\x00\x7f\tb", "unexpected line: 'a?[1m????\tb'");
        check(b"\xff", "unexpected line: '\u{fffd}'");
        let long = Refusal::unexpected_line(&[0xff; 65_516]);
        assert_eq!(long.message().len(), 4096 - (4096 - "unexpected line: '".len()) % 3);
        assert!(long.wire().is_some());
    }

    #[test]
    fn nobody_is_told_after_hanging_up() {
        assert_eq!(Refusal::hung_up().wire(), None);
        assert_eq!(Refusal::hung_up().kind(), RefusalKind::HungUp);
        assert_eq!(Refusal::parse_wire(b"ERROR"), None);
    }

    #[test]
    fn a_want_that_is_not_ours_has_other_words_on_the_wire() {
        let refusal = Refusal::not_our_ref(&ObjectId::null(HashKind::Sha1));
        assert!(refusal.message().starts_with("git upload-pack: not our ref 0000"));
        assert!(refusal.wire().unwrap().starts_with(b"0049ERR upload-pack: not our ref 0000"));
    }
}
