//! Sets of commits (gitrevisions, "Specifying ranges").

use packrace_object::{Kind, ObjectId};
use packrace_pack::NoProgress;

use super::{Revisions, Selection};
use crate::call::fatal::Fatal;
use crate::history::LoadedHistory;

impl Selection {
    fn push(&mut self, id: ObjectId, is_excluded: bool) {
        match is_excluded {
            true => self.haves.push(id),
            false => self.wants.push(id),
        }
    }
}

impl Revisions<'_> {
    /// Adds what a line names; after `--not` (`is_not`), the other way round.
    pub(super) fn add(&mut self, line: &[u8], is_not: bool, selection: &mut Selection) -> Result<(), Fatal> {
        if let Some((from, to, is_symmetric)) = self.range(line)? {
            if is_symmetric {
                return self.add_symmetric_difference(line, [from, to], is_not, selection);
            }
            for end in [from, to] {
                if self.reader.kind_and_size(&end)?.is_none() {
                    let text = String::from_utf8_lossy(line);
                    return Err(Fatal::new(format!("Invalid revision range {text}")));
                }
            }
            selection.push(to, is_not);
            selection.push(from, !is_not);
            return Ok(());
        }
        let (name, is_excluded) = match line.strip_prefix(b"^") {
            Some(name) => (name, !is_not),
            None => (line, is_not),
        };
        if let Some(name) = name.strip_suffix(b"^@")
            && let Some(parents) = self.parents_of(name)?
        {
            parents.into_iter().for_each(|parent| selection.push(parent, is_excluded));
            return Ok(());
        }
        let (name, without) = self.without_parents(name)?;
        without.into_iter().for_each(|parent| selection.push(parent, !is_excluded));
        let id = self.resolve(name)?.ok_or_else(|| bad_revision(line))?;
        if self.reader.kind_and_size(&id)?.is_none() {
            if let Some(objects) = &self.promised
                && objects.is_promised(&id, &NoProgress)?
            {
                return Err(bad_revision(line));
            }
            return Err(Fatal::new(format!("bad object {}", String::from_utf8_lossy(name))));
        }
        selection.push(id, is_excluded);
        Ok(())
    }

    /// The ends of `<rev>..<rev>` or, and it is true then, `<rev>...<rev>`. Without a name, an end is `HEAD`. A path may have two dots
    /// in it, so it is no range if an end names nothing.
    fn range(&mut self, line: &[u8]) -> Result<Option<(ObjectId, ObjectId, bool)>, Fatal> {
        let Some(at) = line.windows(2).position(|pair| pair == b"..") else { return Ok(None) };
        let (from, to) = (&line[..at], &line[at + 2..]);
        let (to, is_symmetric) = to.strip_prefix(b".").map_or((to, false), |to| (to, true));
        let mut end = |name: &[u8]| self.resolve(if name.is_empty() { b"HEAD" } else { name });
        let (Some(from), Some(to)) = (end(from)?, end(to)?) else { return Ok(None) };
        Ok(Some((from, to, is_symmetric)))
    }

    /// What either commit reaches, without what both do.
    fn add_symmetric_difference(
        &mut self,
        line: &[u8],
        named: [ObjectId; 2],
        is_not: bool,
        selection: &mut Selection,
    ) -> Result<(), Fatal> {
        let mut history = LoadedHistory::new(self.snapshot.clone());
        let mut ends = Vec::new();
        for id in named {
            if let Some((kind, _)) = self.reader.kind_and_size(&id)?
                && !matches!(kind, Kind::Commit | Kind::Tag)
            {
                error_line!(self.call, "error: object {id} is a {kind}, not a commit");
            }
            ends.push(history.commit(id)?.ok_or_else(|| {
                let text = String::from_utf8_lossy(line);
                Fatal::new(format!("Invalid symmetric difference expression {text}"))
            })?);
        }
        for base in history.merge_bases(ends[0], ends[1])? {
            selection.push(base, !is_not);
        }
        named.into_iter().for_each(|end| selection.push(end, is_not));
        Ok(())
    }

    /// The parents of the commit that a name leads to, if it is one.
    fn parents_of(&mut self, name: &[u8]) -> Result<Option<Vec<ObjectId>>, Fatal> {
        match self.resolve(name)? {
            Some(id) => self.parents(id),
            None => Ok(None),
        }
    }

    /// The commit of `<rev>^!` or `<rev>^-<n>`, and which of its parents these leave out. Of any other name, the name.
    fn without_parents<'n>(&mut self, name: &'n [u8]) -> Result<(&'n [u8], Vec<ObjectId>), Fatal> {
        let Some(at) = name.iter().rposition(|byte| *byte == b'^') else { return Ok((name, Vec::new())) };
        let (commit, suffix) = name.split_at(at);
        let number = match suffix {
            b"^!" => None,
            b"^-" => Some(1),
            [b'^', b'-', digits @ ..] => match super::number(digits).filter(|number| *number > 0) {
                Some(number) => Some(number),
                None => return Ok((name, Vec::new())),
            },
            _ => return Ok((name, Vec::new())),
        };
        let Some(parents) = self.parents_of(commit)? else { return Ok((name, Vec::new())) };
        Ok(match number {
            None => (commit, parents),
            Some(number) => match parents.get(number - 1) {
                Some(parent) => (commit, vec![*parent]),
                None => (name, Vec::new()),
            },
        })
    }
}

fn bad_revision(line: &[u8]) -> Fatal {
    Fatal::new(format!("bad revision '{}'", String::from_utf8_lossy(line)))
}
