//! Filters refs by what they point at, what they reach, and what reaches them (git-for-each-ref,
//! `--points-at`, `--contains`, `--merged` and similar).

use packrace_object::{Kind, ObjectId, parse_tag};
use packrace_store::refs::Peeled;

use super::Collected;
use super::history::tips;
use super::item::RefItem;
use super::objects::ListedObjects;
use crate::call::fatal::Fatal;
use crate::history::{CommitNo, LoadedHistory};

/// The objects that options name, as they were typed.
#[derive(Debug, Default)]
pub struct CommitFilterOptions {
    pub points_at: Vec<Vec<u8>>,
    pub merged: Vec<Vec<u8>>,
    pub not_merged: Vec<Vec<u8>>,
    pub contains: Vec<Vec<u8>>,
    pub not_contains: Vec<Vec<u8>>,
}

/// The resolved filters.
#[derive(Debug, Default)]
pub struct CommitFilter {
    points_at: Vec<ObjectId>,
    merged: Vec<ObjectId>,
    not_merged: Vec<ObjectId>,
    contains: Vec<ObjectId>,
    not_contains: Vec<ObjectId>,
}

impl CommitFilter {
    /// Resolves the objects that the options name.
    pub fn parse(objects: &ListedObjects<'_>, options: &CommitFilterOptions) -> Result<Self, Fatal> {
        let points_at = options.points_at.iter().map(|name| {
            let found = objects.resolve(name)?;
            found.ok_or_else(|| Fatal::refused(format!("malformed object name '{}'", text(name))))
        });
        Ok(CommitFilter {
            points_at: points_at.collect::<Result<_, _>>()?,
            contains: containing(objects, &options.contains)?,
            not_contains: containing(objects, &options.not_contains)?,
            merged: merging(objects, &options.merged, "merged")?,
            not_merged: merging(objects, &options.not_merged, "no-merged")?,
        })
    }

    pub fn is_empty(&self) -> bool {
        self.points_at.is_empty() && !self.needs_commits()
    }

    fn needs_commits(&self) -> bool {
        let lists = [&self.merged, &self.not_merged, &self.contains, &self.not_contains];
        lists.iter().any(|list| !list.is_empty())
    }

    /// Removes the refs that the filters exclude.
    pub fn apply(&self, objects: &ListedObjects<'_>, found: &mut Collected) -> Result<(), Fatal> {
        if !self.points_at.is_empty() {
            let kept: Vec<bool> =
                found.items().map(|item| self.points_at(objects, &item)).collect::<Result<_, _>>()?;
            found.retain(&kept);
        }
        if !self.needs_commits() {
            return Ok(());
        }
        let mut history = LoadedHistory::new(objects.snapshot()?.clone());
        let mut tips = tips(&mut history, found)?;
        for tip in &mut tips {
            if let Some(why) = tip.and_then(|tip| history.unreadable(tip)) {
                error_line!(objects.call, "error: {why}");
                *tip = None;
            }
        }
        let mut kept: Vec<bool> = tips.iter().map(Option::is_some).collect();
        let mut load = |ids: &[ObjectId]| -> Result<Vec<CommitNo>, Fatal> {
            ids.iter().map(|id| history.load(*id)).collect()
        };
        let (contains, not_contains) = (load(&self.contains)?, load(&self.not_contains)?);
        let (merged, not_merged) = (load(&self.merged)?, load(&self.not_merged)?);
        let known: Vec<CommitNo> = tips.iter().flatten().copied().collect();
        let mut keep_if = |answers: Vec<bool>, expect: bool| {
            let mut answers = answers.into_iter();
            for (kept, tip) in kept.iter_mut().zip(&tips) {
                if tip.is_some() {
                    *kept &= answers.next() == Some(expect);
                }
            }
        };
        if !contains.is_empty() {
            keep_if(history.reaching(&known, &contains)?, true);
        }
        if !not_contains.is_empty() {
            keep_if(history.reaching(&known, &not_contains)?, false);
        }
        if !merged.is_empty() {
            keep_if(history.reached(&known, &merged)?, true);
        }
        if !not_merged.is_empty() {
            keep_if(history.reached(&known, &not_merged)?, false);
        }
        found.retain(&kept);
        Ok(())
    }

    /// Whether a ref points at one of the objects, directly or through a tag.
    fn points_at(&self, objects: &ListedObjects<'_>, item: &RefItem<'_>) -> Result<bool, Fatal> {
        if self.points_at.contains(&item.id) {
            return Ok(true);
        }
        if item.peeled == Peeled::NotATag {
            return Ok(false);
        }
        let mut reader = objects.snapshot()?.reader(0);
        let malformed = || Fatal::new(format!("malformed object at '{}'", text(item.name)));
        let mut id = item.id;
        let mut told = reader.kind(&id)?.ok_or_else(malformed)?;
        // As in git, which believes a tag: what it names need not be there.
        while told == Kind::Tag {
            let object = reader.read(&id).map_err(|_| malformed())?;
            if object.kind != Kind::Tag {
                error_line!(objects.call, "error: Object {id} not a tag");
                return Err(malformed());
            }
            let tag = parse_tag(&object.data, objects.repository.hash_kind()).map_err(|_| malformed())?;
            (id, told) = (tag.target, tag.target_kind);
            if self.points_at.contains(&id) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn containing(objects: &ListedObjects<'_>, names: &[Vec<u8>]) -> Result<Vec<ObjectId>, Fatal> {
    let commits = names.iter().map(|name| {
        let found = objects.resolve(name)?;
        let id = found.ok_or_else(|| Fatal::refused(format!("malformed object name {}", text(name))))?;
        objects.commit(id)?.ok_or_else(|| Fatal::refused(format!("no such commit {}", text(name))))
    });
    commits.collect()
}

fn merging(objects: &ListedObjects<'_>, names: &[Vec<u8>], option: &str) -> Result<Vec<ObjectId>, Fatal> {
    let commits = names.iter().map(|name| {
        let found = objects.resolve(name)?;
        let id = found.ok_or_else(|| Fatal::new(format!("malformed object name {}", text(name))))?;
        objects.commit(id)?.ok_or_else(|| Fatal::refused(format!("option `{option}' must point to a commit")))
    });
    commits.collect()
}

fn text(name: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(name)
}
