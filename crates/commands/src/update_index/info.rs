//! Entries given as text: `--cacheinfo` and `--index-info`.

use std::borrow::Cow;
use std::io::{BufRead as _, BufReader};

use packrace_object::ObjectId;
use packrace_store::unquote_line;
use packrace_worktree::index::{IndexEntry, Mode};

use super::Update;
use crate::call::fatal::Fatal;

/// A given entry.
struct StdinEntry<'a> {
    mode: u32,
    id: ObjectId,
    stage: u8,
    path: &'a [u8],
}

impl Update<'_> {
    /// `--cacheinfo`, with one argument or three.
    pub fn cache_info(&mut self, text: &[u8]) -> Result<(), Fatal> {
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let usage = || Fatal::refused("option 'cacheinfo' expects <mode>,<sha1>,<path>");
        let is_split = text.contains(&0);
        let parts: Vec<&[u8]> = text.splitn(3, |byte| *byte == if is_split { 0 } else { b',' }).collect();
        let &[mode, id, path] = parts.as_slice() else { return Err(usage()) };
        let bad =
            |what: &[u8]| Fatal::new(format!("git update-index: --cacheinfo cannot add {}", shown(what)));
        let (mode, id) = match (octal(mode), self.id(id)) {
            (Some(mode), Some(id)) => (mode, id),
            _ if !is_split => return Err(usage()),
            (None, _) => return Err(bad(mode)),
            (_, None) => return Err(bad(id)),
        };
        self.add_entry(&StdinEntry { mode, id, stage: 0, path }).map_err(|error| {
            if !error.is_empty() {
                self.call.report_error(&error);
            }
            bad(path)
        })
    }

    /// `--index-info`: lines of `<mode> [<type>] <object> [<stage>] TAB <path>` on standard input.
    pub fn index_info(&mut self) -> Result<(), Fatal> {
        let options = &mut self.options;
        (options.add, options.replace, options.remove) = (true, true, true);
        let is_nul = options.nul;
        for line in BufReader::new(self.call.streams.input()).split(if is_nul { 0 } else { b'\n' }) {
            let line = line.map_err(Fatal::new)?;
            let malformed = || Fatal::new(format!("malformed index info {}", String::from_utf8_lossy(&line)));
            let tab = line.iter().position(|byte| *byte == b'\t').ok_or_else(malformed)?;
            let (mode, id, stage) = self.fields(&line[..tab]).ok_or_else(malformed)?;
            let path = match is_nul {
                true => Some(Cow::Borrowed(&line[tab + 1..])),
                false => unquote_line(&line[tab + 1..]),
            };
            let path = path.ok_or_else(|| Fatal::new("git update-index: bad quoting of path name"))?;
            let path = path.as_ref();
            let shown = String::from_utf8_lossy(path).into_owned();
            if !self.rules.allow(path, mode_of(mode) == Mode::Link) {
                error_line!(self.call, "Ignoring path {shown}");
            } else if mode == 0 {
                self.unfold_for(path)?;
                self.index().remove(path);
            } else if let Err(error) = self.add_entry(&StdinEntry { mode, id, stage, path }) {
                if !error.is_empty() {
                    self.call.report_error(&error);
                }
                return Err(Fatal::new(format!("git update-index: unable to update {shown}")));
            }
        }
        Ok(())
    }

    fn fields(&self, text: &[u8]) -> Option<(u32, ObjectId, u8)> {
        let mut fields: Vec<&[u8]> = text.split(|byte| *byte == b' ').collect();
        let mode = octal(fields[0])?;
        let stage = match fields.last()? {
            [digit @ b'0'..=b'3'] if fields.len() > 2 => {
                let stage = digit - b'0';
                fields.pop();
                stage
            }
            _ => 0,
        };
        let id = self.id(fields.last().filter(|_| fields.len() > 1)?)?;
        Some((mode, id, stage))
    }

    fn add_entry(&mut self, entry: &StdinEntry<'_>) -> Result<(), String> {
        let StdinEntry { mode, id, stage, path } = *entry;
        let mode = mode_of(mode);
        if !self.rules.allow(path, mode == Mode::Link) || mode == Mode::Dir {
            return Err(format!("Invalid path '{}'", String::from_utf8_lossy(path)));
        }
        self.unfold_for(path).map_err(|error| error.message)?;
        let entry = IndexEntry { assume_valid: self.assumes_unchanged, ..IndexEntry::new(id, mode) };
        self.insert(path, stage, entry).map_err(|error| error.text().to_owned())?;
        self.report("add ", path).map_err(|error| error.message)
    }

    fn id(&self, text: &[u8]) -> Option<ObjectId> {
        ObjectId::from_hex(text).ok().filter(|id| id.kind() == self.repository.hash_kind())
    }
}

fn octal(text: &[u8]) -> Option<u32> {
    u32::from_str_radix(str::from_utf8(text).ok()?, 8).ok()
}

/// Git's reading of a mode: a regular file, unless the bits say otherwise.
fn mode_of(bits: u32) -> Mode {
    match Mode::of_bits(bits) {
        Some(mode) => mode,
        None if bits & 0o100 != 0 => Mode::Executable,
        None => Mode::File,
    }
}
