//! Values of atoms: from a ref, its object, and the peeled object.

use std::io::Write as _;
use std::rc::Rc;

use packrace_object::{Kind, MAX_TAG_DEPTH, ObjectId};
use packrace_store::refs::{Peeled, RefSnapshot};
use packrace_store::{ObjectReader, Repository, cache_bytes};
use packrace_worktree::filter::reencoded;

use super::atom::{Atom, Field, IdForm, Need, PersonPart, TrackForm, Who};
use super::describe::Describer;
use super::describe_form::DescribeForm;
use super::history::AheadBehindCounts;
use super::item::RefItem;
use super::mailmap::{Mailmap, MappedCreators};
use super::message::{self, Message};
use super::names::{self, ShortNames};
use super::objects::ListedObjects;
use super::signatures::Signatures;
use super::sort::KeyValue;
use super::trailer_rules::TrailerRules;
use super::worktrees;
use crate::call::Call;
use crate::call::fatal::Fatal;
use crate::history::LoadedHistory;
use crate::text::header_line;
use crate::tracking::Tracking;

/// The known parts of an object.
#[derive(Debug, Default)]
struct Looked {
    id: Option<ObjectId>,
    kind: Option<Kind>,
    size: Option<u64>,
    data: Option<Vec<u8>>,
}

/// Computes values of atoms. Caches the object of the last ref.
pub struct Values<'a> {
    call: &'a Call,
    repository: &'a Repository,
    pub objects: &'a ListedObjects<'a>,
    refs: &'a RefSnapshot,
    reader: Option<ObjectReader>,
    own: Looked,
    peeled: Looked,
    names: ShortNames<'a>,
    tracking: Option<Tracking<'a>>,
    /// For the counts of upstreams.
    history: Option<LoadedHistory>,
    head: Option<Vec<u8>>,
    worktrees: Option<worktrees::Heads>,
    abbreviation: Option<usize>,
    /// Ahead and behind counts of each ref, per base.
    pub counts: Vec<AheadBehindCounts>,
    /// For each commit that `%(is-base:…)` asks of, its name and the number of its ref.
    pub derived: Vec<(Vec<u8>, bool)>,
    pub bases: Vec<Option<usize>>,
    describer: Option<Describer>,
    signatures: Signatures,
    mailmap: Option<Rc<Mailmap>>,
    trailer_rules: Option<Rc<TrailerRules>>,
    pub mapped_creators: MappedCreators,
    /// Whether commits in other encodings are converted to UTF-8.
    pub is_utf8: bool,
    now: i64,
}

impl<'a> Values<'a> {
    pub fn new(call: &'a Call, objects: &'a ListedObjects<'a>, refs: &'a RefSnapshot) -> Self {
        let repository = objects.repository;
        Values {
            call,
            repository,
            objects,
            refs,
            reader: None,
            own: Looked::default(),
            peeled: Looked::default(),
            names: ShortNames::new(repository, refs),
            tracking: None,
            history: None,
            head: None,
            worktrees: None,
            abbreviation: None,
            counts: Vec::new(),
            derived: Vec::new(),
            bases: Vec::new(),
            describer: None,
            signatures: Signatures::default(),
            mailmap: None,
            trailer_rules: None,
            mapped_creators: MappedCreators::default(),
            is_utf8: false,
            now: super::now(),
        }
    }

    /// Reorders the values of all refs to match a new order of refs.
    pub fn reorder(&mut self, order: &[usize]) {
        for base in self.bases.iter_mut().flatten() {
            *base = order.iter().position(|number| number == base).unwrap_or(*base);
        }
        for counts in &mut self.counts {
            *counts = order.iter().map(|number| counts[*number]).collect();
        }
    }

    fn reader(&mut self) -> Result<&mut ObjectReader, Fatal> {
        if self.reader.is_none() {
            let snapshot = self.objects.snapshot()?;
            // What is wrong with the list of replacements is not that of an object.
            snapshot.replacement(&ObjectId::null(self.repository.hash_kind()))?;
            self.reader = Some(snapshot.reader(cache_bytes::MANY_OBJECTS));
        }
        Ok(self.reader.as_mut().expect("just set"))
    }

    /// The sort key for an atom.
    pub fn key(&mut self, item: &RefItem<'_>, atom: &Atom) -> Result<KeyValue, Fatal> {
        let mut text = Vec::new();
        if let Field::Person(who, PersonPart::Date(format)) = &atom.field
            && format.is_default()
        {
            let Some(data) = self.content(item, atom)? else { return Ok(KeyValue::Number(0)) };
            let moment = message::moment(message::person_line(data, *who));
            return Ok(KeyValue::Number(moment.map_or(0, |moment| moment.seconds)));
        }
        self.write(item, atom, &mut text)?;
        match atom.field.is_number() {
            true => {
                let number = std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok());
                Ok(KeyValue::Number(number.unwrap_or(0)))
            }
            false => Ok(KeyValue::Bytes(text)),
        }
    }

    /// Appends the value of an atom.
    pub fn write(&mut self, item: &RefItem<'_>, atom: &Atom, out: &mut Vec<u8>) -> Result<(), Fatal> {
        match &atom.field {
            Field::RefName(form) | Field::Symref(form) => {
                let is_own = matches!(atom.field, Field::RefName(_));
                if let Some(name) = if is_own { Some(item.name) } else { item.symref } {
                    self.names.write(name, *form, out)?;
                }
                if atom.is_deref {
                    // As in git, whose tag must be a good one.
                    self.object_of(item, true)?;
                    out.extend_from_slice(b"^{}");
                }
                Ok(())
            }
            Field::Head => {
                let is_head = self.head()? == item.name;
                out.push(if is_head { b'*' } else { b' ' });
                Ok(())
            }
            Field::Flags => {
                let is_packed = self.refs.is_packed(item.symref.unwrap_or(item.name));
                let flags = [(item.symref.is_some(), "symref"), (is_packed, "packed")];
                let flags = flags.into_iter().filter_map(|(is_set, flag)| is_set.then_some(flag));
                out.extend_from_slice(flags.collect::<Vec<_>>().join(",").as_bytes());
                Ok(())
            }
            Field::WorktreePath => self.write_worktree(item, out),
            Field::Tracking { is_push, form } => self.write_tracking(item, *is_push, *form, out),
            Field::AheadBehind(base) => {
                let counts = self.counts.get(*base).and_then(|counts| counts.get(item.number));
                if let Some(Some((ahead, behind))) = counts {
                    write!(out, "{ahead} {behind}").expect("memory takes all");
                }
                Ok(())
            }
            Field::IsBase(number) => {
                if self.bases.get(*number) == Some(&Some(item.number)) {
                    out.extend([b"(", self.derived[*number].0.as_slice(), b")"].concat());
                }
                Ok(())
            }
            Field::Nothing => Ok(()),
            _ => self.write_of_object(item, atom, out),
        }
    }

    fn write_of_object(&mut self, item: &RefItem<'_>, atom: &Atom, out: &mut Vec<u8>) -> Result<(), Fatal> {
        if let (Field::ObjectName(form), Peeled::To(id), true) = (&atom.field, item.peeled, atom.is_deref) {
            // An id is worth no look at the object: what the store says of a tag is believed.
            return self.write_id(&id, *form, out);
        }
        let Some(id) = self.object_of(item, atom.is_deref)? else { return Ok(()) };
        if let Field::ObjectName(form) = atom.field {
            return self.write_id(&id, form, out);
        }
        let now = self.now;
        if let Field::Person(who, part) = &atom.field
            && let Some(mailmap) = self.mailmap_of(*who, part, item, id, atom.is_deref)?
        {
            let data = self.content(item, atom)?.unwrap_or_default();
            let mapped = mailmap.map_person(data, *who);
            write_person(mapped.as_deref().unwrap_or(message::person_line(data, *who)), part, now, out)?;
            return Ok(());
        }
        if let Field::Trailers(form) = &atom.field {
            let rules = self.trailer_rules()?;
            if let Some(data) = self.content(item, atom)? {
                form.write(&rules, Message::of(data).without_signature(), out);
            }
            return Ok(());
        }
        let looked = self.look(item, id, atom.is_deref, atom.field.need())?;
        let (kind, size) = (looked.kind.expect("was looked at"), looked.size.unwrap_or_default());
        match &atom.field {
            Field::ObjectType => out.extend_from_slice(kind.name().as_bytes()),
            Field::ObjectSize | Field::RawSize => put(out, size),
            Field::Describe(form) if matches!(kind, Kind::Commit | Kind::Tag) => {
                self.write_described(id, form, out)?
            }
            Field::CommitSignature(part) if kind == Kind::Commit => {
                let data = self.reader()?.read(&id)?.data;
                self.signatures.write(self.call, self.repository, (id, &data), *part, out);
            }
            Field::DiskSize => {
                put(out, self.objects.snapshot()?.stored(&id)?.map_or(0, |stored| stored.bytes))
            }
            Field::DeltaBase => {
                let base = self.objects.snapshot()?.stored(&id)?.and_then(|stored| stored.base);
                let base = base.unwrap_or_else(|| ObjectId::null(self.repository.hash_kind()));
                put(out, base);
            }
            Field::Tree(form) | Field::Parent(form) if kind == Kind::Commit => {
                let data = looked.data.as_deref().unwrap_or_default();
                let ids: Vec<ObjectId> = match atom.field {
                    Field::Tree(_) => message::tree(data).collect(),
                    _ => message::parents(data).collect(),
                };
                for (number, id) in ids.iter().enumerate() {
                    if number > 0 {
                        out.push(b' ');
                    }
                    self.write_id(id, *form, out)?;
                }
            }
            field => write_of_content(field, kind, looked.data.as_deref().unwrap_or_default(), now, out)?,
        }
        Ok(())
    }

    fn trailer_rules(&mut self) -> Result<Rc<TrailerRules>, Fatal> {
        if self.trailer_rules.is_none() {
            let (rules, warnings) = TrailerRules::of(self.repository.config())?;
            for warning in warnings {
                error_line!(self.objects.call, "warning: {warning}");
            }
            self.trailer_rules = Some(Rc::new(rules));
        }
        Ok(self.trailer_rules.clone().expect("just set"))
    }

    /// The mailmap, where it changes the part of a person.
    fn mailmap_of(
        &mut self,
        who: Who,
        part: &PersonPart,
        item: &RefItem<'_>,
        id: ObjectId,
        is_deref: bool,
    ) -> Result<Option<Rc<Mailmap>>, Fatal> {
        let looked = self.look(item, id, is_deref, Need::Content)?;
        let kind = looked.kind.filter(|kind| matches!(kind, Kind::Commit | Kind::Tag));
        let Some(kind) = kind else { return Ok(None) };
        let has_line = !message::person_line(looked.data.as_deref().unwrap_or_default(), who).is_empty();
        let is_mapped = match part {
            PersonPart::Name { is_mapped } | PersonPart::Email { is_mapped, .. } => *is_mapped,
            PersonPart::Whole if who == Who::Creator => self.mapped_creators.is_mapped(kind, is_deref),
            PersonPart::Whole | PersonPart::Date(_) | PersonPart::BadDate(_) => false,
        };
        if !has_line || !is_mapped {
            return Ok(None);
        }
        let is_first = self.mailmap.is_none();
        if is_first {
            self.mailmap = Some(Rc::new(Mailmap::load(self.call, self.objects)?));
        }
        let mailmap = self.mailmap.clone().expect("just set");
        for failure in mailmap.failures(is_first).iter().filter(|_| *part != PersonPart::Whole) {
            error_line!(self.objects.call, "error: {failure}");
        }
        Ok(Some(mailmap))
    }

    /// The content of the atom's object.
    fn content(&mut self, item: &RefItem<'_>, atom: &Atom) -> Result<Option<&[u8]>, Fatal> {
        let Some(id) = self.object_of(item, atom.is_deref)? else { return Ok(None) };
        let looked = self.look(item, id, atom.is_deref, Need::Content)?;
        Ok(looked.data.as_deref().filter(|_| matches!(looked.kind, Some(Kind::Commit | Kind::Tag))))
    }

    /// The object of an atom: the ref's object, or for `*` what its tag finally points at.
    fn object_of(&mut self, item: &RefItem<'_>, is_deref: bool) -> Result<Option<ObjectId>, Fatal> {
        if !is_deref {
            return Ok(Some(item.id));
        }
        match item.peeled {
            Peeled::NotATag => Ok(None),
            _ if self.look(item, item.id, false, Need::Kind)?.kind != Some(Kind::Tag) => Ok(None),
            Peeled::To(id) => Ok(Some(id)),
            Peeled::Unknown => self.peel(item).map(Some),
        }
    }

    /// The object that a ref's tag finally points at.
    fn peel(&mut self, item: &RefItem<'_>) -> Result<ObjectId, Fatal> {
        let hash = self.repository.hash_kind();
        let mut id = item.id;
        let mut told = Kind::Tag;
        for depth in 0..MAX_TAG_DEPTH {
            // Other atoms need the first object again, but not the tags in between.
            let looked = self.look(item, id, depth > 0, Need::Kind);
            let kind = looked.map_err(|_| bad_tag())?.kind;
            if let Some(kind) = kind.filter(|kind| *kind != told) {
                error_line!(self.objects.call, "error: object {id} is a {told}, not a {kind}");
                return Err(bad_tag());
            }
            if kind != Some(Kind::Tag) {
                return Ok(id);
            }
            let looked = self.look(item, id, depth > 0, Need::Content)?;
            let data = looked.data.as_deref().unwrap_or_default();
            let tag = packrace_object::parse_tag(data, hash);
            let tag = tag.map_err(|_| Fatal::new(format!("bad tag pointer to {id} in {id}")))?;
            (told, id) = (tag.target_kind, tag.target);
        }
        Err(Fatal::new(format!("too many nested tags in {}", item.id)))
    }

    /// Reads as much of an object as needed.
    fn look(
        &mut self,
        item: &RefItem<'_>,
        id: ObjectId,
        is_deref: bool,
        need: Need,
    ) -> Result<&mut Looked, Fatal> {
        let slot = if is_deref { &mut self.peeled } else { &mut self.own };
        let mut looked = std::mem::take(slot);
        if looked.id != Some(id) {
            looked = Looked { id: Some(id), ..Looked::default() };
        }
        let missing = || {
            let name = String::from_utf8_lossy(item.name);
            Fatal::new(format!("missing object {id} for {name}"))
        };
        if need == Need::Content && looked.data.is_none() {
            let object = match self.reader()?.read(&id) {
                Ok(object) => object,
                Err(error) => {
                    // Report an object that exists but cannot be read.
                    if !matches!(self.reader()?.kind_and_size(&id), Ok(None)) {
                        tell(self.objects.call, &error);
                    }
                    return Err(missing());
                }
            };
            looked.kind = Some(object.kind);
            looked.size = Some(object.data.len() as u64);
            looked.data = Some(match self.is_utf8 && object.kind == Kind::Commit {
                true => reencoded(&object.data, header_line(&object.data, "encoding"), None),
                false => object.data,
            });
        } else if looked.kind.is_none() && need == Need::Kind {
            let found = self.reader()?.kind(&id).map_err(|error| {
                tell(self.objects.call, &error);
                missing()
            })?;
            looked.kind = Some(found.ok_or_else(missing)?);
        } else if looked.size.is_none() && need != Need::Kind {
            let found = self.reader()?.kind_and_size(&id).map_err(|error| {
                tell(self.objects.call, &error);
                missing()
            })?;
            let (kind, size) = found.ok_or_else(missing)?;
            looked.kind = Some(kind);
            looked.size = Some(size);
        }
        let slot = if is_deref { &mut self.peeled } else { &mut self.own };
        *slot = looked;
        Ok(slot)
    }

    fn write_id(&mut self, id: &ObjectId, form: IdForm, out: &mut Vec<u8>) -> Result<(), Fatal> {
        let hex = match form {
            IdForm::Full => {
                put_id(id, out);
                return Ok(());
            }
            IdForm::Short(length) => {
                let shortest = match length {
                    Some(length) => length,
                    None => self.abbreviation()?,
                };
                self.objects.snapshot()?.unique_digits(id, shortest)?
            }
        };
        out.extend_from_slice(&id.to_hex().to_string().as_bytes()[..hex]);
        Ok(())
    }

    /// Minimum length of abbreviated names.
    fn abbreviation(&mut self) -> Result<usize, Fatal> {
        if let Some(length) = self.abbreviation {
            return Ok(length);
        }
        let length = self.objects.snapshot()?.usual_digits(self.repository.config())?;
        self.abbreviation = Some(length);
        Ok(length)
    }

    /// The current branch, or `HEAD` if detached.
    fn head(&mut self) -> Result<&[u8], Fatal> {
        if self.head.is_none() {
            let branch = names::symbolic_end(self.refs, b"HEAD")?;
            self.head = Some(branch.unwrap_or_else(|| b"HEAD".to_vec()));
        }
        Ok(self.head.as_deref().expect("just set"))
    }

    fn write_described(&mut self, id: ObjectId, form: &DescribeForm, out: &mut Vec<u8>) -> Result<(), Fatal> {
        if self.describer.is_none() {
            self.describer = Some(Describer::new(self.objects)?);
        }
        let describer = self.describer.as_mut().expect("just set");
        describer.write(self.objects, self.refs, id, form, out)
    }

    fn write_worktree(&mut self, item: &RefItem<'_>, out: &mut Vec<u8>) -> Result<(), Fatal> {
        if self.worktrees.is_none() {
            self.worktrees = Some(worktrees::heads(self.repository)?);
        }
        let path = self.worktrees.as_ref().and_then(|heads| heads.get(item.name));
        out.extend_from_slice(path.map(Vec::as_slice).unwrap_or_default());
        Ok(())
    }

    fn write_tracking(
        &mut self,
        item: &RefItem<'_>,
        is_push: bool,
        form: TrackForm,
        out: &mut Vec<u8>,
    ) -> Result<(), Fatal> {
        let Some(branch) = item.name.strip_prefix(b"refs/heads/") else { return Ok(()) };
        if self.tracking.is_none() {
            self.tracking = Some(Tracking::new(self.repository)?);
        }
        let tracking = self.tracking.as_ref().expect("just set");
        let target = match form {
            // What tracks nothing has neither.
            TrackForm::RemoteName | TrackForm::RemoteRef
                if !is_push && tracking.target(branch, false)?.is_err() =>
            {
                return Ok(());
            }
            TrackForm::RemoteName => {
                out.extend_from_slice(&tracking.remote_name(branch, is_push).unwrap_or_default());
                return Ok(());
            }
            TrackForm::RemoteRef => {
                out.extend_from_slice(&tracking.remote_ref(branch, is_push).unwrap_or_default());
                return Ok(());
            }
            _ => match tracking.target(branch, is_push)? {
                Ok(target) => target,
                Err(_) => return Ok(()),
            },
        };
        if let TrackForm::Name(form) = form {
            return self.names.write(&target, form, out);
        }
        let Some(other) = self.refs.resolve(&target).map_err(Fatal::new)? else {
            if let TrackForm::Track { has_brackets } = form {
                out.extend_from_slice(if has_brackets { b"[gone]" } else { b"gone" });
            }
            return Ok(());
        };
        let snapshot = self.objects.snapshot()?.clone();
        let history = self.history.get_or_insert_with(|| LoadedHistory::new(snapshot));
        let Some(counts) = history.ahead_behind(&item.id, &other.id)? else { return Ok(()) };
        write_counts(counts, form, out);
        Ok(())
    }
}

fn bad_tag() -> Fatal {
    Fatal::new("bad tag")
}

fn write_counts((ahead, behind): (usize, usize), form: TrackForm, out: &mut Vec<u8>) {
    if form == TrackForm::TrackShort {
        let text: &[u8] = match (ahead, behind) {
            (0, 0) => b"=",
            (_, 0) => b">",
            (0, _) => b"<",
            _ => b"<>",
        };
        return out.extend_from_slice(text);
    }
    let has_brackets = form == TrackForm::Track { has_brackets: true };
    let text = match (ahead, behind) {
        (0, 0) => return,
        (ahead, 0) => format!("ahead {ahead}"),
        (0, behind) => format!("behind {behind}"),
        (ahead, behind) => format!("ahead {ahead}, behind {behind}"),
    };
    let text = if has_brackets { format!("[{text}]") } else { text };
    out.extend_from_slice(text.as_bytes());
}

fn write_of_content(
    field: &Field,
    kind: Kind,
    data: &[u8],
    now: i64,
    out: &mut Vec<u8>,
) -> Result<(), Fatal> {
    if *field == Field::Raw {
        out.extend_from_slice(data);
        return Ok(());
    }
    let is_tag = match kind {
        Kind::Commit => false,
        Kind::Tag => true,
        _ => return Ok(()),
    };
    let of_tag = |key| header_line(data, key).filter(|_| is_tag).unwrap_or_default();
    match field {
        Field::TagObject => out.extend_from_slice(of_tag("object")),
        Field::TagType => out.extend_from_slice(of_tag("type")),
        Field::TagName => out.extend_from_slice(of_tag("tag")),
        Field::ParentCount if !is_tag => put(out, message::parents(data).count()),
        Field::Person(who, part) => {
            write_person(message::person_line(data, *who), part, now, out)?;
        }
        field => write_of_message(field, &Message::of(data), out),
    }
    Ok(())
}

fn write_person(line: &[u8], part: &PersonPart, now: i64, out: &mut Vec<u8>) -> Result<(), Fatal> {
    match part {
        PersonPart::Date(format) => {
            if let Some(moment) = message::moment(line) {
                format.write(moment, now, out)?;
            }
        }
        PersonPart::BadDate(words) if !line.is_empty() => return Err(Fatal::new(words)),
        PersonPart::BadDate(_) => {}
        part => out.extend_from_slice(message::person_part(line, part)),
    }
    Ok(())
}

fn write_of_message(field: &Field, message: &Message<'_>, out: &mut Vec<u8>) {
    match field {
        Field::Contents => out.extend_from_slice(message.whole),
        Field::ContentsSize => put(out, message.whole.len()),
        Field::Subject => message.write_subject(out),
        Field::SanitizedSubject => message.write_sanitized(out),
        Field::Body { has_signature: true } => out.extend_from_slice(message.body),
        Field::Body { has_signature: false } => out.extend_from_slice(message.plain_body()),
        Field::Signature => out.extend_from_slice(message.signature()),
        Field::Lines(count) => message.write_lines(*count, out),
        _ => {}
    }
}

fn put(out: &mut Vec<u8>, value: impl std::fmt::Display) {
    write!(out, "{value}").expect("memory takes all");
}

fn put_id(id: &ObjectId, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + id.kind().len_in_hex(), 0);
    let _ = id.hex_to_buf(&mut out[start..]);
}

/// Says what is wrong with an object.
fn tell(call: &Call, error: &packrace_store::Error) {
    match error.in_git_words() {
        Some((lines, _)) => lines.lines().for_each(|line| error_line!(call, "{line}")),
        None => error_line!(call, "error: {error}"),
    }
}
