//! Names and addresses of people as a mailmap gives them (gitmailmap; git-config, `mailmap.file`, `mailmap.blob`).
//!
//! A mailmap is read once, when the first atom asks for it. Lines that are no entries mean nothing. Addresses are not trimmed, names are.
//! `gix-mailmap` trims both, and writes an address as the mailmap has it where only its case differs: git does neither.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use packrace_object::{Kind, ObjectId};
use packrace_os::count::Role;
use packrace_store::Repository;

use super::atom::{Atom, Field, PersonPart, Who};
use super::message;
use super::objects::ListedObjects;
use crate::call::Call;
use crate::call::discovery::in_directory;
use crate::call::fatal::Fatal;
use crate::work_tree::WorkTree;

/// Longest mailmap that is read.
const MAX_MAILMAP_BYTES: u64 = 64 << 20;

/// The file in the root of the work tree.
const FILE_NAME: &str = ".mailmap";

/// The entries of all mailmaps, by address and name in lower case.
#[derive(Debug, Default)]
pub struct Mailmap {
    people: HashMap<Vec<u8>, Address>,
    /// Why mailmaps could not be read.
    failures: Vec<String>,
}

/// What an address stands for.
#[derive(Debug, Default)]
struct Address {
    whoever: Proper,
    by_name: HashMap<Vec<u8>, Proper>,
}

/// The name and the address to show; `None` leaves what a commit says.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Proper {
    name: Option<Vec<u8>>,
    mail: Option<Vec<u8>>,
}

impl Mailmap {
    /// Reads the mailmaps that count: that of the work tree, then `mailmap.blob`, then `mailmap.file`. In a bare
    /// repository the blob is `HEAD:.mailmap` unless configured.
    pub fn load(call: &Call, objects: &ListedObjects<'_>) -> Result<Self, Fatal> {
        let mut mailmap = Mailmap::default();
        let config = objects.repository.config();
        config.need_values(&["mailmap.file", "mailmap.blob"])?;
        let (base, is_bare) = place(call, objects.repository)?;
        if !is_bare {
            mailmap.add_file(&base, Path::new(FILE_NAME), false);
        }
        let default = is_bare.then(|| format!("HEAD:{FILE_NAME}").into_bytes());
        if let Some(name) = config.string("mailmap.blob").or(default) {
            mailmap.add_blob(objects, &name)?;
        }
        if let Some(path) = config.path("mailmap.file").filter(|path| !path.as_os_str().is_empty()) {
            mailmap.add_file(&base, &path, true);
        }
        Ok(mailmap)
    }

    /// Why mailmaps could not be read. Git reports this once, and without any entry at each value.
    pub fn failures(&self, is_first: bool) -> &[String] {
        if is_first || self.people.is_empty() { &self.failures } else { &[] }
    }

    /// The line of somebody in a commit or tag as the mailmap changes it; `None` if it does not.
    pub fn map_person(&self, data: &[u8], who: Who) -> Option<Vec<u8>> {
        self.map(message::person_line(data, who))
    }

    /// A line as the mailmap changes it.
    fn map(&self, line: &[u8]) -> Option<Vec<u8>> {
        let start = line.iter().position(|byte| *byte == b'<')?;
        let end = start + line[start..].iter().position(|byte| *byte == b'>')?;
        let name = trimmed_end(&line[..start]);
        let mail = &line[start + 1..end];
        let address = self.people.get(&mail.to_ascii_lowercase())?;
        let named = address.by_name.get(&name.to_ascii_lowercase());
        let proper = named.unwrap_or(&address.whoever);
        if proper.name.is_none() && proper.mail.is_none() {
            return None;
        }
        let (name, mail) = (proper.name.as_deref().unwrap_or(name), proper.mail.as_deref().unwrap_or(mail));
        Some([name, b" <", mail, &line[end..]].concat())
    }

    fn add_file(&mut self, base: &Path, path: &Path, follows: bool) {
        let read = if follows { packrace_os::read_file } else { packrace_os::read_file_without_following };
        match read(&base.join(path), Role::Config, MAX_MAILMAP_BYTES) {
            Ok(text) => self.add(&text),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::IsADirectory) => {}
            Err(error) => {
                let reason = packrace_os::reason(&error);
                self.failures.push(format!("unable to open mailmap at {}: {reason}", path.display()));
            }
        }
    }

    fn add_blob(&mut self, objects: &ListedObjects<'_>, name: &[u8]) -> Result<(), Fatal> {
        let Some(id) = objects.resolve(name)? else { return Ok(()) };
        let text = String::from_utf8_lossy(name);
        match read_blob(objects, id)? {
            Ok(bytes) => self.add(&bytes),
            Err(what) => self.failures.push(format!("{what}{text}")),
        }
        Ok(())
    }

    /// Adds the entries of a mailmap, which go before those that are there.
    fn add(&mut self, text: &[u8]) {
        text.split(|byte| *byte == b'\n').for_each(|line| self.add_line(line));
    }

    fn add_line(&mut self, line: &[u8]) {
        let line = line.split(|byte| *byte == 0).next().unwrap_or_default();
        if line.starts_with(b"#") {
            return;
        }
        let Some((name, mail, rest)) = name_and_mail(line).filter(|(_, mail, _)| !mail.is_empty()) else {
            return;
        };
        let owned = |text: &[u8]| Some(text.to_vec()).filter(|text| !text.is_empty());
        match name_and_mail(rest) {
            None if name.is_empty() => {}
            None => self.address(mail).whoever.name = owned(name),
            Some((old_name, old_mail, _)) => {
                let proper = Proper { name: owned(name), mail: owned(mail) };
                let address = self.address(old_mail);
                if !old_name.is_empty() {
                    address.by_name.insert(old_name.to_ascii_lowercase(), proper);
                    return;
                }
                address.whoever.mail = proper.mail;
                address.whoever.name = proper.name.or(address.whoever.name.take());
            }
        }
    }

    fn address(&mut self, mail: &[u8]) -> &mut Address {
        self.people.entry(mail.to_ascii_lowercase()).or_default()
    }
}

/// Where relative paths start, and whether there is no work tree.
fn place(call: &Call, repository: &Repository) -> Result<(PathBuf, bool), Fatal> {
    let current = in_directory(call, Path::new("."))?;
    let work_tree = WorkTree::find(repository, call)?;
    let is_bare = work_tree.is_none() && repository.is_bare()?;
    Ok((work_tree.map_or(current, |work_tree| work_tree.base), is_bare))
}

/// The content of a blob, or the beginning of a message that says why there is none.
fn read_blob(objects: &ListedObjects<'_>, id: ObjectId) -> Result<Result<Vec<u8>, &'static str>, Fatal> {
    let mut reader = objects.snapshot()?.reader(0);
    Ok(match reader.kind_and_size(&id)? {
        None => Err("unable to read mailmap object at "),
        Some((kind, _)) if kind != Kind::Blob => Err("mailmap is not a blob: "),
        Some((_, bytes)) if bytes > MAX_MAILMAP_BYTES => Err("mailmap is too large: "),
        Some(_) => Ok(reader.read(&id)?.data),
    })
}

/// The next name, without blanks around it, the next address, and what follows.
fn name_and_mail(text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let start = text.iter().position(|byte| *byte == b'<')?;
    let end = start + text[start..].iter().position(|byte| *byte == b'>')?;
    let name = trimmed_end(&text[..start]);
    let first = name.iter().position(|byte| !is_blank(*byte)).unwrap_or(name.len());
    Some((&name[first..], &text[start + 1..end], &text[end + 1..]))
}

fn trimmed_end(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| !is_blank(*byte)).map_or(0, |last| last + 1);
    &text[..end]
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// Of which objects `%(creator)` shows what the mailmap says: as in git, of those whose committer or tagger other atoms map.
#[derive(Debug, Default)]
pub struct MappedCreators {
    /// Commits, and tags; of each the ref's own, and what a tag tags.
    asked: [[bool; 2]; 2],
}

impl MappedCreators {
    /// Looks through all atoms of a listing.
    pub fn of<'a>(atoms: impl Iterator<Item = &'a Atom>) -> Self {
        let mut found = MappedCreators::default();
        for atom in atoms {
            let Field::Person(
                who,
                PersonPart::Name { is_mapped: true } | PersonPart::Email { is_mapped: true, .. },
            ) = atom.field
            else {
                continue;
            };
            match who {
                Who::Committer => found.asked[0][usize::from(atom.is_deref)] = true,
                Who::Tagger => found.asked[1][usize::from(atom.is_deref)] = true,
                Who::Author | Who::Creator => {}
            }
        }
        found
    }

    /// Whether that is so for an object.
    pub fn is_mapped(&self, kind: Kind, is_deref: bool) -> bool {
        self.asked[usize::from(kind == Kind::Tag)][usize::from(is_deref)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(map: &str, line: &str, expect: &str) {
        let mut mailmap = Mailmap::default();
        mailmap.add(map.as_bytes());
        let found = mailmap.map(line.as_bytes()).unwrap_or_else(|| line.as_bytes().to_vec());
        assert_eq!(String::from_utf8_lossy(&found), expect, "{map:?}");
    }

    #[test]
    fn entries() {
        check("New <old@x>\n", "Old <OLD@x> 1 +0000", "New <OLD@x> 1 +0000");
        check("<new@x> <old@x>", "Old <old@X>", "Old <new@x>");
        check("New <new@x> Old <old@x>\n", "OLD <OLD@X>", "New <new@x>");
        check("New <new@x> Old <old@x>\n", "Other <old@x>", "Other <old@x>");
        check("New <new@x> <old@x>\nNewer <old@x>\n", "Old <old@x>", "Newer <new@x>");
        check("New <new@x> <old@x>\n<e@x> <old@x>\n", "Old <old@x>", "New <e@x>");
        check("N1 <n1@x> Old <old@x>\n<n2@x> Old <old@x>\n", "Old <old@x>", "Old <n2@x>");
        check("Any <any@x> <old@x>\n<n2@x> Old <old@x>\n", "Old <old@x>", "Old <n2@x>");
        check("Any <any@x> <old@x>\n<n2@x> Old <old@x>\n", "Q <old@x>", "Any <any@x>");
        check("Ü <ÄÖ@x>\n", "o <äö@x>", "o <äö@x>");
        check("Ü <ÄÖ@x>\n", "o <ÄÖ@X>", "Ü <ÄÖ@X>");
    }

    #[test]
    fn odd_lines() {
        check("# New <old@x>\nNew3 <old@x> # comment\r\n", "Old <old@x>", "New3 <old@x>");
        check("  # New <old@x>\r\n", "Old <old@x>", "# New <old@x>");
        check(" New   N  < new@x > \t Old   N <old@x > \r\n", "Old   N <old@x >", "New   N < new@x >");
        check(" New   N  < new@x > \t Old   N <old@x > \n", "Old   N <old@x>", "Old   N <old@x>");
        check("New <> <old@x>\n", "Old <old@x>", "Old <old@x>");
        check("New <new@x> <>\n", "Old <>", "New <new@x>");
        check("New <>\n<old@x>\nnothing\nN <broken\n", "Old <old@x>", "Old <old@x>");
        check("A <a@x> B <b@x> C <c@x>\n", "B <b@x>", "A <a@x>");
        check("A <b<c@x> <d@x>\n", "q <d@x>", "A <b<c@x>");
        check("New <old@x>\0junk\nN2 <old2@x>", "O <old2@x>", "N2 <old2@x>");
    }

    #[test]
    fn odd_people() {
        let map = "New <new@x> N M <a@x>\n<n@x> <a@x>\n";
        check(map, "N M  <a@x> 1 +0000", "New <new@x> 1 +0000");
        check(map, "N M<a@x>", "New <new@x>");
        check(map, "  N M <a@x>", "  N M <n@x>");
        check(map, "<a@x>> 1", " <n@x>> 1");
        check(map, "X <z> <a@x>", "X <z> <a@x>");
        check(map, "X <z <a@x>", "X <z <a@x>");
        check(map, "X a@x>", "X a@x>");
        check(map, "X <a@x", "X <a@x");
        check(map, "", "");
    }
}
