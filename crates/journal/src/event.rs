//! Events and their lines.
//!
//! ```json
//! {"seq":7,"time":"2026-11-23T21:00:00.5Z","event":"push","repository":"team/tool.git","user":"alice","peer":"192.0.2.7:4711",
//!  "door":"https","session":"…","refs":[{"ref":"refs/heads/main","old":"<id>","new":"<id>"}],"options":["ci.skip"]}
//! ```
//!
//! A push has `refs` and, if it had any, `options`; a rename has `to`; `recovered` is set if a kill came
//! between the change and its line. A push of more than 1000 refs, or with long names, takes several lines
//! with `part` and `parts`. Bytes that are not UTF-8 are shown as U+FFFD.

use serde::{Deserialize, Serialize};

/// Maximum number of refs per line.
const REFS_A_LINE: usize = 1000;

/// Maximum bytes of ref names per line.
const NAME_BYTES_A_LINE: usize = 128 << 10;

/// Longest line.
pub const MAX_LINE_BYTES: usize = 4 << 20;

/// If a push's options are longer in total, they are left out and counted.
pub const MAX_OPTION_BYTES: usize = 4 << 10;

/// Other texts are cut off at this length.
const MAX_TEXT_BYTES: usize = 4 << 10;

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Refs changed.
    Push,
    /// A repository was created.
    Create,
    /// A repository was renamed.
    Rename,
    /// A repository was deleted.
    Delete,
}

/// A change of a repository, or one that is about to happen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalEvent {
    /// The kind of event.
    pub action: Action,
    /// The time, in RFC 3339 format.
    pub time: String,
    /// The repository's path below the served folder.
    pub repository: Vec<u8>,
    /// Its new path.
    pub to: Option<Vec<u8>>,
    /// The user, if known.
    pub user: Option<String>,
    /// The client's address.
    pub peer: String,
    /// The transport.
    pub door: String,
    /// The session id of the call; unique among events of one action.
    pub session: String,
    /// The changed refs.
    pub refs: Vec<RefEvent>,
    /// Options of the push.
    pub options: Vec<Vec<u8>>,
    /// Whether it was recovered after a kill.
    pub is_recovered: bool,
}

/// A changed ref.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefEvent {
    /// The name, as clients see it.
    #[serde(with = "exact")]
    pub name: Vec<u8>,
    /// The old value in hex; zeros if there was none.
    pub old: String,
    /// The new value.
    pub new: String,
}

#[derive(Serialize)]
struct LineOfEvent<'a> {
    seq: u64,
    time: &'a str,
    event: Action,
    repository: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    user: Option<&'a str>,
    peer: &'a str,
    door: &'a str,
    session: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    refs: Option<Vec<LineOfRef<'a>>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    options: Vec<String>,
    #[serde(skip_serializing_if = "is_zero")]
    options_left_out: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parts: Option<usize>,
    #[serde(skip_serializing_if = "is_false")]
    recovered: bool,
}

#[derive(Serialize)]
struct LineOfRef<'a> {
    r#ref: String,
    old: &'a str,
    new: &'a str,
}

// serde passes references.
fn is_zero(number: &usize) -> bool {
    *number == 0
}

fn is_false(flag: &bool) -> bool {
    !*flag
}

/// Bytes as text with one character per byte: announcements must be read back exactly.
mod exact {
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&bytes.iter().map(|byte| char::from(*byte)).collect::<String>())
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(from)?;
        text.chars().map(u8::try_from).collect::<Result<_, _>>().map_err(de::Error::custom)
    }
}

impl JournalEvent {
    /// Whether it is a push that changed no ref.
    pub fn is_nothing(&self) -> bool {
        self.action == Action::Push && self.refs.is_empty()
    }

    /// Writes the lines, numbered from `first`, and returns their number.
    pub(crate) fn write(&self, first: u64, out: &mut Vec<u8>) -> u64 {
        let chunks = chunks(&self.refs);
        let option_bytes: usize = self.options.iter().map(Vec::len).sum();
        let has_options = option_bytes <= MAX_OPTION_BYTES && self.options.len() <= MAX_OPTION_BYTES / 16;
        let options: Vec<String> =
            self.options.iter().filter(|_| has_options).map(|option| text(option)).collect();
        let parts = chunks.len();
        for (number, refs) in chunks.into_iter().enumerate() {
            let refs = refs.iter().map(|one| LineOfRef {
                r#ref: String::from_utf8_lossy(&one.name).into_owned(),
                old: &one.old,
                new: &one.new,
            });
            let line = LineOfEvent {
                seq: first.saturating_add(number as u64),
                time: &self.time,
                event: self.action,
                repository: text(&self.repository),
                to: self.to.as_deref().map(text),
                user: self.user.as_deref(),
                peer: &self.peer,
                door: &self.door,
                session: &self.session,
                refs: (self.action == Action::Push).then(|| refs.collect()),
                options: options.clone(),
                options_left_out: if has_options { 0 } else { self.options.len() },
                part: (parts > 1).then_some(number + 1),
                parts: (parts > 1).then_some(parts),
                recovered: self.is_recovered,
            };
            // Text and numbers can always be written as JSON.
            out.extend_from_slice(&serde_json::to_vec(&line).unwrap_or_default());
            out.push(b'\n');
        }
        parts as u64
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.get(..MAX_TEXT_BYTES).unwrap_or(bytes)).into_owned()
}

/// The refs of each line; at least one line.
fn chunks(refs: &[RefEvent]) -> Vec<&[RefEvent]> {
    let mut chunks = Vec::new();
    let (mut begin, mut bytes) = (0, 0);
    for (at, one) in refs.iter().enumerate() {
        if at - begin == REFS_A_LINE || bytes + one.name.len() > NAME_BYTES_A_LINE && at > begin {
            chunks.push(&refs[begin..at]);
            (begin, bytes) = (at, 0);
        }
        bytes += one.name.len();
    }
    chunks.push(&refs[begin..]);
    chunks
}

/// The fields of a line that recovery needs.
#[derive(Debug, Deserialize)]
pub(crate) struct LineHead {
    pub(crate) seq: u64,
    pub(crate) event: Action,
    pub(crate) session: String,
    #[serde(default = "one")]
    pub(crate) part: u64,
    #[serde(default = "one")]
    pub(crate) parts: u64,
}

fn one() -> u64 {
    1
}

impl LineHead {
    /// Parses a whole line without its end; `None` if it is not a line of the journal.
    pub(crate) fn parse(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }
}

/// The number at the start of a line; `None` if the line does not start with one.
pub(crate) fn number_of(line: &[u8]) -> Option<u64> {
    let rest = line.strip_prefix(b"{\"seq\":").filter(|_| line.ends_with(b"}"))?;
    let digits = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(refs: usize) -> JournalEvent {
        let one = |number: usize| RefEvent {
            name: format!("refs/heads/{number}").into_bytes(),
            old: "0".repeat(40),
            new: "1".repeat(40),
        };
        JournalEvent {
            action: Action::Push,
            time: "2026-11-23T21:00:00Z".into(),
            repository: b"a.git".to_vec(),
            to: None,
            user: Some("alice".into()),
            peer: "192.0.2.7:1".into(),
            door: "http".into(),
            session: "s/1".into(),
            refs: (0..refs).map(one).collect(),
            options: Vec::new(),
            is_recovered: false,
        }
    }

    fn written(event: &JournalEvent) -> Vec<String> {
        let mut out = Vec::new();
        let count = event.write(7, &mut out);
        let lines: Vec<String> = String::from_utf8(out).unwrap().lines().map(str::to_owned).collect();
        assert_eq!(lines.len() as u64, count);
        for (at, line) in lines.iter().enumerate() {
            assert_eq!(number_of(line.as_bytes()), Some(7 + at as u64), "{line}");
            assert_eq!(LineHead::parse(line.as_bytes()).unwrap().seq, 7 + at as u64);
            assert!(line.len() < MAX_LINE_BYTES);
        }
        lines
    }

    #[test]
    fn a_push_is_a_line() {
        let expect = format!(
            "{{\"seq\":7,\"time\":\"2026-11-23T21:00:00Z\",\"event\":\"push\",\"repository\":\"a.git\",\"user\":\"alice\",\
             \"peer\":\"192.0.2.7:1\",\"door\":\"http\",\"session\":\"s/1\",\"refs\":[{{\"ref\":\"refs/heads/0\",\"old\":\"{}\",\
             \"new\":\"{}\"}}]}}",
            "0".repeat(40),
            "1".repeat(40)
        );
        assert_eq!(written(&push(1)), [expect]);
    }

    #[test]
    fn nobody_writes_a_line_of_his_own() {
        let mut event = push(1);
        event.refs[0].name = b"refs/heads/\n{\"seq\":1}\xff".to_vec();
        event.options = vec![b"a\nb".to_vec()];
        let lines = written(&event);
        assert_eq!(lines.len(), 1);
        assert!(
            lines[0].contains(r#""ref":"refs/heads/\n{\"seq\":1}"#)
                && lines[0].ends_with(r#""options":["a\nb"]}"#)
        );
        event.options = vec![vec![b'x'; MAX_OPTION_BYTES + 1]];
        assert!(written(&event)[0].ends_with(r#""options_left_out":1}"#));
    }

    #[test]
    fn large_pushes_are_several_lines() {
        let lines = written(&push(REFS_A_LINE * 2 + 1));
        let heads: Vec<_> = lines.iter().map(|line| LineHead::parse(line.as_bytes()).unwrap()).collect();
        let parts: Vec<_> = heads.iter().map(|head| (head.part, head.parts)).collect();
        assert_eq!(parts, [(1, 3), (2, 3), (3, 3)]);
        assert_eq!(written(&push(REFS_A_LINE)).len(), 1);
        let mut long = push(5);
        long.refs.iter_mut().for_each(|one| one.name.resize(60 << 10, b'x'));
        assert_eq!(written(&long).len(), 3);
    }

    #[test]
    fn lines_that_are_none() {
        for bad in ["", "{", "{\"seq\":}", "{\"seq\":7", "{\"seq\":99999999999999999999999}", "{\"seq\":7x}"]
        {
            assert!(LineHead::parse(bad.as_bytes()).is_none(), "{bad}");
        }
        assert_eq!(number_of(b"{\"seq\":7"), None);
        assert_eq!(number_of(b"{\"seq\":99999999999999999999999,}"), None);
    }
}
