//! Changes as a patch (git-diff, "Generating patch text with -p").

use packrace_object::ObjectId;
use packrace_store::{Config, Snapshot};
use packrace_worktree::difference::{Difference, content, is_binary, write_hunks};
use packrace_worktree::index::Mode;
use packrace_worktree::listing::TreeItem;
use packrace_worktree::objects::Objects;

use crate::call::fatal::Fatal;
use crate::text::quoting::PathStyle;

/// Writes patches.
pub struct PatchWriter<'a> {
    objects: &'a Objects,
    snapshot: &'a Snapshot,
    style: &'a PathStyle,
    digits: usize,
}

impl<'a> PatchWriter<'a> {
    /// Abbreviates object names as configured.
    pub fn new(
        objects: &'a Objects,
        snapshot: &'a Snapshot,
        style: &'a PathStyle,
        config: &Config,
    ) -> Result<Self, Fatal> {
        Ok(PatchWriter { objects, snapshot, style, digits: snapshot.usual_digits(config)? })
    }

    /// The patches of all changes.
    pub fn write(&self, found: &[Difference]) -> Result<Vec<u8>, Fatal> {
        let mut out = Vec::new();
        for difference in found {
            if difference.is_of_type() {
                // A change of type, such as from file to link, is shown as a deletion and a creation.
                let (old, new) = (
                    Difference { new: None, ..difference.clone() },
                    Difference { old: None, ..difference.clone() },
                );
                self.write_one(&old, &mut out)?;
                self.write_one(&new, &mut out)?;
            } else {
                self.write_one(difference, &mut out)?;
            }
        }
        Ok(out)
    }

    fn write_one(&self, difference: &Difference, out: &mut Vec<u8>) -> Result<(), Fatal> {
        let Difference { path, renamed_from, old, new, similarity } = difference;
        let from = renamed_from.as_ref().unwrap_or(path);
        let (a, b) = (self.style.show_behind(b"a/", from), self.style.show_behind(b"b/", path));
        let mut line = |parts: &[&[u8]]| {
            parts.iter().for_each(|part| out.extend_from_slice(part));
            out.push(b'\n');
        };
        line(&[b"diff --git ", &a, b" ", &b]);
        let mode = |item: &TreeItem| format!("{:06o}", item.mode.bits()).into_bytes();
        match (old, new) {
            (None, Some(new)) => line(&[b"new file mode ", &mode(new)]),
            (Some(old), None) => line(&[b"deleted file mode ", &mode(old)]),
            (Some(old), Some(new)) if old.mode != new.mode => {
                line(&[b"old mode ", &mode(old)]);
                line(&[b"new mode ", &mode(new)]);
            }
            _ => {}
        }
        if renamed_from.is_some() {
            line(&[b"similarity index ", similarity.to_string().as_bytes(), b"%"]);
            line(&[b"rename from ", &self.style.show(from)]);
            line(&[b"rename to ", &self.style.show(path)]);
        }
        if old.map(|item| item.id) == new.map(|item| item.id) {
            return Ok(());
        }
        let (old_name, new_name) = (self.name(old)?, self.name(new)?);
        match (old, new) {
            (Some(old), Some(new)) if old.mode == new.mode => {
                line(&[b"index ", &old_name, b"..", &new_name, b" ", &mode(new)]);
            }
            _ => line(&[b"index ", &old_name, b"..", &new_name]),
        }
        let (before, after) = (content(self.objects, old.as_ref())?, content(self.objects, new.as_ref())?);
        let side = |item: &Option<TreeItem>, name: &[u8]| match item {
            Some(_) => name.to_vec(),
            None => b"/dev/null".to_vec(),
        };
        let (a, b) = (side(old, &a), side(new, &b));
        if is_binary(&before) || is_binary(&after) {
            line(&[b"Binary files ", &a, b" and ", &b, b" differ"]);
            return Ok(());
        }
        if before.is_empty() && after.is_empty() {
            return Ok(());
        }
        // A tab ends a name that contains a space.
        let end = |name: &[u8]| if name.contains(&b' ') { &b"\t"[..] } else { b"" };
        line(&[b"--- ", &a, end(&a)]);
        line(&[b"+++ ", &b, end(&b)]);
        write_hunks(&before, &after, out);
        Ok(())
    }

    /// The abbreviated object name; zeros if there is none.
    fn name(&self, item: &Option<TreeItem>) -> Result<Vec<u8>, Fatal> {
        let null = ObjectId::null(self.objects.hash_kind());
        let (id, digits) = match item {
            None => (null, self.digits),
            Some(item) if item.mode == Mode::Gitlink => (item.id, self.digits),
            Some(item) => (item.id, self.snapshot.unique_digits(&item.id, self.digits)?),
        };
        let mut hex = id.to_hex().to_string().into_bytes();
        hex.truncate(digits);
        Ok(hex)
    }
}
