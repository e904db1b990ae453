//! One `%(atom)`: its name, its argument, and their errors (git-for-each-ref, "FIELD NAMES").

use super::argument::{fatal, number, split_argument, unrecognized};
use super::context::ParseContext;
use super::dates::DateFormat;
use super::describe_form::DescribeForm;
use super::trailers::TrailerForm;
use crate::call::fatal::Fatal;

/// A field of a ref or of an object, as named in a format or a sort key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Atom {
    pub field: Field,
    /// `*`: the field of the peeled tag.
    pub is_deref: bool,
}

/// The fields that atoms name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Field {
    RefName(NameForm),
    Symref(NameForm),
    Head,
    /// Whether the ref is symbolic, and whether its value comes from `packed-refs`.
    Flags,
    WorktreePath,
    /// `upstream`, or `push`.
    Tracking {
        is_push: bool,
        form: TrackForm,
    },
    /// The commit to count against, as an index into the format's bases.
    AheadBehind(usize),
    /// The commit that was started from the ref, by its number among those that are asked of.
    IsBase(usize),
    Describe(DescribeForm),
    ObjectType,
    ObjectSize,
    DiskSize,
    ObjectName(IdForm),
    DeltaBase,
    Raw,
    RawSize,
    Tree(IdForm),
    Parent(IdForm),
    ParentCount,
    TagObject,
    TagType,
    TagName,
    Person(Who, PersonPart),
    Contents,
    ContentsSize,
    Subject,
    SanitizedSubject,
    /// The text after the subject, with or without the signature.
    Body {
        has_signature: bool,
    },
    Signature,
    /// What is known of the signature of a commit.
    CommitSignature(SignaturePart),
    Trailers(TrailerForm),
    Lines(usize),
    /// A field that git accepts but leaves empty for every ref.
    Nothing,
}

/// A part of what is known of a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignaturePart {
    Report,
    Grade,
    Signer,
    Key,
    Fingerprint,
    PrimaryFingerprint,
    Trust,
}

/// The form of a ref name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameForm {
    Full,
    Short,
    StripLeft(i64),
    StripRight(i64),
}

/// What to print about a branch's upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrackForm {
    Name(NameForm),
    Track { has_brackets: bool },
    TrackShort,
    RemoteName,
    RemoteRef,
}

/// The form of an object name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdForm {
    Full,
    /// Abbreviated to the configured length, or to at least this length.
    Short(Option<usize>),
}

/// The person line of a commit or tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    Author,
    Committer,
    Tagger,
    Creator,
}

/// A part of a person line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PersonPart {
    Whole,
    /// `is_mapped`: as a mailmap has it.
    Name {
        is_mapped: bool,
    },
    Email {
        is_mapped: bool,
        is_trimmed: bool,
        is_local_part: bool,
    },
    Date(DateFormat),
    /// A date in no form that git knows, with what it says when there is a date to write.
    BadDate(String),
}

impl Field {
    /// How much of the object must be read.
    pub fn need(&self) -> Need {
        match self {
            Field::RefName(_)
            | Field::Symref(_)
            | Field::Head
            | Field::Flags
            | Field::WorktreePath
            | Field::Tracking { .. }
            | Field::AheadBehind(_)
            | Field::IsBase(_)
            | Field::ObjectName(_)
            | Field::Nothing => Need::Nothing,
            Field::ObjectType | Field::Describe(_) => Need::Kind,
            Field::ObjectSize | Field::DiskSize | Field::DeltaBase | Field::RawSize => Need::Header,
            _ => Need::Content,
        }
    }

    /// Whether values are sorted as numbers.
    pub fn is_number(&self) -> bool {
        match self {
            Field::ObjectSize
            | Field::DiskSize
            | Field::RawSize
            | Field::ContentsSize
            | Field::ParentCount => true,
            Field::Person(_, PersonPart::Date(format)) => format.is_default(),
            _ => false,
        }
    }
}

/// How much of an object a field needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    Nothing,
    Kind,
    /// Its kind and size.
    Header,
    Content,
}

impl Atom {
    /// Parses the text inside the parentheses. Commits that it names are added to `context`.
    pub fn parse(text: &[u8], context: &mut ParseContext) -> Result<Self, Fatal> {
        let is_deref = text.first() == Some(&b'*');
        let rest = &text[usize::from(is_deref)..];
        if rest.is_empty() {
            return Err(fatal("malformed field name: ", text));
        }
        let (name, argument) = split_argument(rest);
        let unknown = || fatal("unknown field name: ", text);
        let name = std::str::from_utf8(name).map_err(|_| unknown())?;
        if name.ends_with("date") && rest.ends_with(b"date:") {
            return Err(Fatal::new("unknown date format "));
        }
        // With an argument, even an empty one, git finds no such line.
        if matches!(rest, b"author:" | b"committer:" | b"tagger:" | b"signature:" | b"body:") {
            return Ok(Atom { field: Field::Nothing, is_deref });
        }
        let field = field(name, argument, is_deref, context)?.ok_or_else(unknown)?;
        Ok(Atom { field, is_deref })
    }
}

fn field(
    name: &str,
    argument: Option<&[u8]>,
    is_deref: bool,
    context: &mut ParseContext,
) -> Result<Option<Field>, Fatal> {
    // As git calls some of them in what it says.
    let typed = format!("{}{name}", if is_deref { "*" } else { "" });
    Ok(Some(match name {
        "refname" => Field::RefName(name_form(&typed, argument)?),
        "symref" => Field::Symref(name_form(&typed, argument)?),
        "HEAD" => bare(name, argument, Field::Head)?,
        "worktreepath" => Field::WorktreePath,
        "upstream" | "push" => {
            Field::Tracking { is_push: name == "push", form: track_form(&typed, argument)? }
        }
        "ahead-behind" => {
            let base = argument.ok_or_else(|| Fatal::new("expected format: %(ahead-behind:<committish>)"))?;
            Field::AheadBehind(context.count_against(base))
        }
        "is-base" => {
            let name = argument.ok_or_else(|| Fatal::new("expected format: %(is-base:<committish>)"))?;
            Field::IsBase(context.derive_from(name, is_deref))
        }
        "describe" => Field::Describe(DescribeForm::parse(argument.unwrap_or_default())?),
        "objecttype" => bare(name, argument, Field::ObjectType)?,
        "objectsize" => match argument {
            None => Field::ObjectSize,
            Some(b"disk") => Field::DiskSize,
            Some(other) => return Err(unrecognized(name, other)),
        },
        "objectname" => Field::ObjectName(id_form(&typed, argument)?),
        "deltabase" => bare(name, argument, Field::DeltaBase)?,
        "raw" => match argument {
            None => Field::Raw,
            Some(b"size") => Field::RawSize,
            Some(other) => return Err(unrecognized(name, other)),
        },
        "tree" => Field::Tree(id_form(&typed, argument)?),
        "parent" => Field::Parent(id_form(&typed, argument)?),
        "numparent" => Field::ParentCount,
        "object" => Field::TagObject,
        "type" => Field::TagType,
        "tag" => Field::TagName,
        "subject" => subject(name, argument)?,
        "body" => bare(name, argument, Field::Body { has_signature: true })?,
        "contents" => contents(argument)?,
        "trailers" => Field::Trailers(TrailerForm::parse(argument.unwrap_or_default())?),
        "signature" => signature(argument)?,
        "flag" => Field::Flags,
        "rest" => {
            bare(name, argument, Field::Nothing)?;
            return Err(Fatal::new("this command reject atom %(rest)"));
        }
        _ => return person(name, &typed, argument, context.is_terminal),
    }))
}

fn person(
    name: &str,
    typed: &str,
    argument: Option<&[u8]>,
    is_terminal: bool,
) -> Result<Option<Field>, Fatal> {
    let people = [
        ("author", Who::Author),
        ("committer", Who::Committer),
        ("tagger", Who::Tagger),
        ("creator", Who::Creator),
    ];
    let found = people.iter().find_map(|(word, who)| Some((*who, name.strip_prefix(word)?)));
    let Some((who, part)) = found else { return Ok(None) };
    let part = match part {
        "" if argument.is_some() && who != Who::Creator => return Ok(Some(Field::Nothing)),
        "" => PersonPart::Whole,
        // An empty format was refused earlier.
        "date" => match DateFormat::parse(argument.unwrap_or_default(), is_terminal) {
            Ok(format) => PersonPart::Date(format),
            Err(bad) => PersonPart::BadDate(bad.message),
        },
        _ if who == Who::Creator => return Ok(None),
        "name" => match argument {
            None => PersonPart::Name { is_mapped: false },
            Some(b"mailmap") => PersonPart::Name { is_mapped: true },
            Some(other) => return Err(unrecognized(typed, other)),
        },
        "email" => email(typed, argument)?,
        _ => return Ok(None),
    };
    Ok(Some(Field::Person(who, part)))
}

fn email(name: &str, argument: Option<&[u8]>) -> Result<PersonPart, Fatal> {
    let (mut is_mapped, mut is_trimmed, mut is_local_part) = (false, false, false);
    let mut rest = argument;
    while let Some(text) = rest {
        let words = [
            (&b"mailmap"[..], &mut is_mapped),
            (b"trim", &mut is_trimmed),
            (b"localpart", &mut is_local_part),
        ];
        let found = words.into_iter().find_map(|(word, is_asked)| Some((text.strip_prefix(word)?, is_asked)));
        let (after, is_asked) = found.ok_or_else(|| unrecognized(name, text))?;
        *is_asked = true;
        rest = match after {
            [] => None,
            [b',', more @ ..] => Some(more),
            // Of a longer word only the end is said, as git does.
            _ => return Err(unrecognized(name, after)),
        };
    }
    Ok(PersonPart::Email { is_mapped, is_trimmed, is_local_part })
}

fn subject(name: &str, argument: Option<&[u8]>) -> Result<Field, Fatal> {
    match argument {
        None => Ok(Field::Subject),
        Some(b"sanitize") => Ok(Field::SanitizedSubject),
        Some(other) => Err(unrecognized(name, other)),
    }
}

fn signature(argument: Option<&[u8]>) -> Result<Field, Fatal> {
    let part = match argument {
        None => SignaturePart::Report,
        Some(b"grade") => SignaturePart::Grade,
        Some(b"signer") => SignaturePart::Signer,
        Some(b"key") => SignaturePart::Key,
        Some(b"fingerprint") => SignaturePart::Fingerprint,
        Some(b"primarykeyfingerprint") => SignaturePart::PrimaryFingerprint,
        Some(b"trustlevel") => SignaturePart::Trust,
        Some(other) => return Err(unrecognized("signature", other)),
    };
    Ok(Field::CommitSignature(part))
}

fn contents(argument: Option<&[u8]>) -> Result<Field, Fatal> {
    let Some(argument) = argument else { return Ok(Field::Contents) };
    Ok(match argument {
        b"body" => Field::Body { has_signature: false },
        b"size" => Field::ContentsSize,
        b"signature" => Field::Signature,
        b"subject" => Field::Subject,
        b"trailers" => Field::Trailers(TrailerForm::default()),
        _ if argument.starts_with(b"trailers:") => {
            Field::Trailers(TrailerForm::parse(&argument[b"trailers:".len()..])?)
        }
        _ => match argument.strip_prefix(b"lines=") {
            Some(count) => {
                let positive = fatal("positive value expected contents:lines=", count);
                Field::Lines(number(count).and_then(|count| usize::try_from(count).ok()).ok_or(positive)?)
            }
            None => return Err(unrecognized("contents", argument)),
        },
    })
}

fn name_form(name: &str, argument: Option<&[u8]>) -> Result<NameForm, Fatal> {
    let argument = argument.unwrap_or_default();
    maybe_name_form(argument)?.ok_or_else(|| unrecognized(name, argument))
}

fn maybe_name_form(argument: &[u8]) -> Result<Option<NameForm>, Fatal> {
    let strip = |prefix: &str, form: fn(i64) -> NameForm, shown: &str| match argument
        .strip_prefix(prefix.as_bytes())
    {
        Some(count) => match number(count) {
            Some(number) => Ok(Some(form(number))),
            None => Err(fatal(&format!("Integer value expected refname:{shown}="), count)),
        },
        None => Ok(None),
    };
    Ok(match argument {
        b"" => Some(NameForm::Full),
        b"short" => Some(NameForm::Short),
        _ => strip("lstrip=", NameForm::StripLeft, "lstrip")?
            .or(strip("strip=", NameForm::StripLeft, "lstrip")?)
            .or(strip("rstrip=", NameForm::StripRight, "rstrip")?),
    })
}

fn track_form(name: &str, argument: Option<&[u8]>) -> Result<TrackForm, Fatal> {
    let Some(argument) = argument else { return Ok(TrackForm::Name(NameForm::Full)) };
    let (mut form, mut has_brackets) = (TrackForm::Name(NameForm::Full), true);
    for word in argument.split(|byte| *byte == b',') {
        match word {
            b"track" => form = TrackForm::Track { has_brackets },
            b"trackshort" => form = TrackForm::TrackShort,
            b"nobracket" => has_brackets = false,
            b"remotename" => form = TrackForm::RemoteName,
            b"remoteref" => form = TrackForm::RemoteRef,
            // A name form must be the whole argument.
            _ => {
                let found = maybe_name_form(argument)?;
                return found.map(TrackForm::Name).ok_or_else(|| unrecognized(name, argument));
            }
        }
    }
    Ok(match form {
        TrackForm::Track { .. } => TrackForm::Track { has_brackets },
        form => form,
    })
}

fn id_form(name: &str, argument: Option<&[u8]>) -> Result<IdForm, Fatal> {
    let Some(argument) = argument else { return Ok(IdForm::Full) };
    if argument == b"short" {
        return Ok(IdForm::Short(None));
    }
    let Some(length) = argument.strip_prefix(b"short=") else { return Err(unrecognized(name, argument)) };
    let positive =
        number(length).and_then(|length| usize::try_from(length).ok()).filter(|length| *length > 0);
    let text = String::from_utf8_lossy(length);
    let error = || Fatal::new(format!("positive value expected '{text}' in %({name}:short={text})"));
    Ok(IdForm::Short(Some(positive.ok_or_else(error)?)))
}

fn bare(name: &str, argument: Option<&[u8]>, field: Field) -> Result<Field, Fatal> {
    match argument {
        None => Ok(field),
        Some(_) => Err(Fatal::new(format!("%({name}) does not take arguments"))),
    }
}
