//! Formats of `git log` (git-log, "PRETTY FORMATS") for entries of reflogs. Placeholders of commits are fields of
//! refs under another name.

use packrace_object::ObjectId;
use packrace_store::Config;
use packrace_store::refs::Peeled;

use super::atom::{Atom, Field, PersonPart};
use super::color;
use super::context::ParseContext;
use super::fields::Values;
use super::item::RefItem;
use super::message;
use crate::call::fatal::Fatal;

/// What a format's placeholders leave to options and configuration.
#[derive(Debug)]
pub struct LogStyle {
    /// The format of dates that have none of their own; empty for the default.
    pub date: Vec<u8>,
    /// The argument of shortened object names: `short`, `short=N`, or nothing for full ones.
    pub short: &'static str,
    /// The least digits of a shortened object name.
    pub digits: Option<usize>,
    pub has_color: bool,
    pub is_terminal: bool,
}

/// An entry of a reflog.
#[derive(Debug)]
pub struct ShownEntry<'a> {
    pub id: ObjectId,
    /// Its name, `refs/heads/main@{0}`, and that with a short name of the ref.
    pub selector: &'a [u8],
    pub short_selector: &'a [u8],
    /// `Name <mail> seconds zone`.
    pub who: &'a [u8],
    pub message: &'a [u8],
}

/// A format.
#[derive(Debug)]
pub struct LogFormat {
    parts: Vec<FormatPart>,
    /// Whether the format has no text at all: git writes nothing then, not even newlines.
    pub is_empty: bool,
    /// Whether each entry ends with a newline, not only all but the last.
    pub is_terminated: bool,
    /// Whether git has it as text, which is converted to the encoding of the output.
    pub is_reencoded: bool,
}

#[derive(Debug)]
struct FormatPart {
    value: PartValue,
    /// `%+…`, `%-…` and `% …`: what an empty value, or another, does to the text before it.
    spacing: Option<u8>,
}

#[derive(Debug, PartialEq, Eq)]
enum PartValue {
    Text(Vec<u8>),
    Field(Atom),
    Selector,
    ShortSelector,
    Name,
    Email,
    Message,
}

/// Placeholders, and the fields that say the same.
const FIELDS: [(&[u8], &str); 14] = [
    (b"H", "objectname"),
    (b"T", "tree"),
    (b"P", "parent"),
    (b"s", "subject"),
    (b"f", "subject:sanitize"),
    (b"b", "body"),
    (b"B", "contents"),
    (b"GG", "signature"),
    (b"G?", "signature:grade"),
    (b"GS", "signature:signer"),
    (b"GK", "signature:key"),
    (b"GF", "signature:fingerprint"),
    (b"GP", "signature:primarykeyfingerprint"),
    (b"GT", "signature:trustlevel"),
];

/// The same for object names that are shortened.
const SHORTENED: [(&[u8], &str); 3] = [(b"h", "objectname"), (b"t", "tree"), (b"p", "parent")];

/// The same behind `%a` and `%c`.
const OF_PEOPLE: [(u8, &str); 13] = [
    (b'n', "name"),
    (b'N', "name:mailmap"),
    (b'e', "email:trim"),
    (b'E', "email:mailmap,trim"),
    (b'l', "email:localpart"),
    (b'L', "email:mailmap,localpart"),
    (b'D', "date:rfc"),
    (b'r', "date:relative"),
    (b't', "date:unix"),
    (b'i', "date:iso"),
    (b'I', "date:iso-strict"),
    (b's', "date:short"),
    (b'h', "date:human"),
];

/// Placeholders that git has and packrace has not.
const MISSING: [&[u8]; 12] =
    [b"d", b"D", b"N", b"e", b"gN", b"gE", b"w(", b"<", b">", b"(describe", b"(decorate", b"(count"];

/// Names of formats that git has and packrace has not.
const MISSING_NAMES: [&[u8]; 8] =
    [b"short", b"medium", b"full", b"fuller", b"reference", b"email", b"mboxrd", b"raw"];

impl LogFormat {
    /// The format that `--format` names; `None` is `oneline`.
    pub fn named(text: &[u8], config: &Config, style: &LogStyle) -> Result<Option<Self>, Fatal> {
        let shown = String::from_utf8_lossy(text).into_owned();
        let own = config.string(&format!("pretty.{shown}"));
        let text = own.as_deref().unwrap_or(text);
        if let Some(format) = text.strip_prefix(b"format:") {
            return Ok(Some(LogFormat { is_terminated: false, ..LogFormat::parse(format, style)? }));
        }
        match text.strip_prefix(b"tformat:") {
            Some(format) => LogFormat::parse(format, style).map(Some),
            None if text.is_empty() || text.contains(&b'%') => LogFormat::parse(text, style).map(Some),
            None if text == b"oneline" => Ok(None),
            None if MISSING_NAMES.contains(&text) => {
                Err(Fatal::usage(format!("format `{shown}' is not supported")).unless_git())
            }
            // Git also knows the beginnings of names.
            None => Err(Fatal::new(format!("invalid --pretty format: {shown}")).unless_git()),
        }
    }

    /// An object name, the entry's name and its message.
    pub fn one_line(style: &LogStyle) -> Result<Self, Fatal> {
        Ok(LogFormat { is_reencoded: false, ..LogFormat::parse(b"%h %gD: %gs", style)? })
    }

    /// Reads placeholders. As in git, unknown ones are text.
    pub fn parse(text: &[u8], style: &LogStyle) -> Result<Self, Fatal> {
        let mut parts = Vec::new();
        let mut plain = Vec::new();
        let mut rest = text;
        while let [byte, after @ ..] = rest {
            let (spacing, placeholder) = match (byte, after) {
                (b'%', [sign @ (b'+' | b'-' | b' '), after @ ..]) => (Some(*sign), Some(after)),
                (b'%', after) => (None, Some(after)),
                _ => (None, None),
            };
            let found = match placeholder {
                Some(after) => {
                    placeholder_value(after, style)?.map(|(value, length)| (value, &after[length..]))
                }
                None => None,
            };
            let Some((value, after)) = found else {
                plain.push(*byte);
                rest = after;
                continue;
            };
            rest = after;
            match value {
                PartValue::Text(text) if spacing.is_none() => plain.extend_from_slice(&text),
                value => {
                    let before = PartValue::Text(std::mem::take(&mut plain));
                    parts.push(FormatPart { value: before, spacing: None });
                    parts.push(FormatPart { value, spacing });
                }
            }
        }
        parts.push(FormatPart { value: PartValue::Text(plain), spacing: None });
        Ok(LogFormat { parts, is_empty: text.is_empty(), is_terminated: true, is_reencoded: true })
    }

    /// Whether entries are named by short names of refs.
    pub fn has_short_selector(&self) -> bool {
        self.parts.iter().any(|part| part.value == PartValue::ShortSelector)
    }

    /// Appends an entry.
    pub fn write(
        &self,
        values: &mut Values<'_>,
        entry: &ShownEntry<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Fatal> {
        let name = PersonPart::Name { is_mapped: false };
        let email = PersonPart::Email { is_mapped: false, is_trimmed: true, is_local_part: false };
        let (peeled, symref, number) = (Peeled::NotATag, None, 0);
        let item = RefItem { name: entry.selector, id: entry.id, peeled, symref, number };
        let begin = out.len();
        for part in &self.parts {
            let start = out.len();
            match &part.value {
                PartValue::Text(text) => out.extend_from_slice(text),
                PartValue::Field(atom) => values.write(&item, atom, out)?,
                PartValue::Selector => out.extend_from_slice(entry.selector),
                PartValue::ShortSelector => out.extend_from_slice(entry.short_selector),
                PartValue::Name => out.extend_from_slice(message::person_part(entry.who, &name)),
                PartValue::Email => out.extend_from_slice(message::person_part(entry.who, &email)),
                PartValue::Message => out.extend_from_slice(entry.message),
            }
            match part.spacing {
                Some(b'-') if out.len() == start => {
                    while out.len() > begin && out.ends_with(b"\n") {
                        out.pop();
                    }
                }
                Some(sign @ (b'+' | b' ')) if out.len() > start => {
                    out.insert(start, if sign == b'+' { b'\n' } else { b' ' });
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The value of the placeholder at the beginning of `text`, behind its `%`, and its length.
fn placeholder_value(text: &[u8], style: &LogStyle) -> Result<Option<(PartValue, usize)>, Fatal> {
    let own = |value| Ok(Some((value, 2)));
    let plain = |byte: u8, length| Ok(Some((PartValue::Text(vec![byte]), length)));
    match text {
        [b'n', ..] => return plain(b'\n', 1),
        [b'%', ..] => return plain(b'%', 1),
        [b'm', ..] => return plain(b'>', 1),
        [b'x', high, low, ..] => {
            let digits = [*high, *low].map(|digit| char::from(digit).to_digit(16));
            let [Some(high), Some(low)] = digits else { return Ok(None) };
            return plain((high * 16 + low) as u8, 3);
        }
        [b'g', b'D', ..] => return own(PartValue::Selector),
        [b'g', b'd', ..] => return own(PartValue::ShortSelector),
        [b'g', b'n', ..] => return own(PartValue::Name),
        [b'g', b'e', ..] => return own(PartValue::Email),
        [b'g', b's', ..] => return own(PartValue::Message),
        [b'C', ..] => return color_value(text, style),
        _ => {}
    }
    if let Some(missing) = MISSING.iter().find(|missing| text.starts_with(missing)) {
        let missing = String::from_utf8_lossy(missing);
        return Err(Fatal::usage(format!("placeholder `%{missing}' is not supported")).unless_git());
    }
    let Some((field, length)) = field_of(text, style) else { return Ok(None) };
    let mut context = ParseContext { is_terminal: style.is_terminal, ..ParseContext::default() };
    let atom = Atom::parse(&field, &mut context)?;
    // Unlike in a format for refs, it is refused whether or not there is a date.
    if let Field::Person(_, PersonPart::BadDate(words)) = &atom.field {
        return Err(Fatal::new(words));
    }
    Ok(Some((PartValue::Field(atom), length)))
}

/// The field that a placeholder stands for, and the placeholder's length.
fn field_of(text: &[u8], style: &LogStyle) -> Option<(Vec<u8>, usize)> {
    if text.starts_with(b"(trailers)") || text.starts_with(b"(trailers:") {
        let end = text.iter().position(|byte| *byte == b')')?;
        return Some((text[1..end].to_vec(), end + 1));
    }
    if let [who @ (b'a' | b'c'), part, ..] = text {
        let who: &[u8] = if *who == b'a' { b"author" } else { b"committer" };
        if *part == b'd' {
            let separator: &[u8] = if style.date.is_empty() { b"" } else { b":" };
            return Some(([who, b"date", separator, &style.date].concat(), 2));
        }
        let (_, field) = OF_PEOPLE.iter().find(|(letter, _)| letter == part)?;
        return Some(([who, field.as_bytes()].concat(), 2));
    }
    let begins = |(name, _): &&(&[u8], &str)| text.starts_with(name);
    if let Some((name, field)) = FIELDS.iter().find(begins) {
        return Some((field.as_bytes().to_vec(), name.len()));
    }
    let (name, field) = SHORTENED.iter().find(begins)?;
    let argument = match (style.short, style.digits) {
        ("", _) => String::new(),
        (short, None) => format!(":{short}"),
        (short, Some(digits)) => format!(":{short}={digits}"),
    };
    Some(([field.as_bytes(), argument.as_bytes()].concat(), name.len()))
}

/// `%Cred` and the like, and `%C(…)`; nothing where the output has no colours.
fn color_value(text: &[u8], style: &LogStyle) -> Result<Option<(PartValue, usize)>, Fatal> {
    let named = [&b"red"[..], b"green", b"blue", b"reset"];
    let (spec, length) = match text[1..].strip_prefix(b"(") {
        Some(spec) => match spec.iter().position(|byte| *byte == b')') {
            Some(end) => (&spec[..end], end + 3),
            None => return Ok(None),
        },
        None => match named.into_iter().find(|name| text[1..].starts_with(name)) {
            Some(name) => (name, name.len() + 1),
            None => return Ok(None),
        },
    };
    let (spec, is_asked) = match (spec.strip_prefix(b"always,"), spec.strip_prefix(b"auto,")) {
        (Some(spec), _) => (spec, true),
        (None, spec_auto) => (spec_auto.unwrap_or(spec), style.has_color),
    };
    // Colours of git's own choice are those of each placeholder; packrace has none.
    if !is_asked || spec == b"auto" {
        return Ok(Some((PartValue::Text(Vec::new()), length)));
    }
    let invalid = || Fatal::new("unable to parse --pretty format");
    let sequence = std::str::from_utf8(spec).ok().and_then(color::parse).ok_or_else(invalid)?;
    Ok(Some((PartValue::Text(sequence), length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn style() -> LogStyle {
        LogStyle { date: Vec::new(), short: "short", digits: Some(4), has_color: false, is_terminal: false }
    }

    #[test]
    fn what_is_missing_is_refused_by_name() {
        for missing in ["%d", "% D", "%+N", "a%w(3)", "%<(3)%s", "%>(3)%s", "%(describe)", "%gN"] {
            let error = LogFormat::parse(missing.as_bytes(), &style()).unwrap_err();
            assert!(error.code == 129 && error.message.ends_with("is not supported"), "{missing}");
        }
        let bad_date = LogStyle { date: b"x".to_vec(), ..style() };
        assert_eq!(LogFormat::parse(b"%ad", &bad_date).unwrap_err().message, "unknown date format x");
        let colored = LogStyle { has_color: true, ..style() };
        assert!(LogFormat::parse(b"%C(nonsense)", &colored).is_err());
        assert!(LogFormat::parse(b"%C(nonsense)", &style()).is_ok());
    }

    /// Beginnings of placeholders, and bytes that are no text, are text.
    #[test]
    fn any_bytes_are_read() {
        let whole = b"%+b%-%x4g%(trailers:key=a)%C(red)%Cred%\xff%x\xff1%(tr%a%c%g%";
        for start in 0..whole.len() {
            for end in start..=whole.len() {
                assert!(LogFormat::parse(&whole[start..end], &style()).is_ok(), "{start} {end}");
            }
        }
    }
}
