//! Checks that everything reachable from the new tips of a push exists.

use std::sync::Arc;

use packrace_object::ObjectId;
use packrace_os::trace;
use packrace_pack::RequestObjects;
use packrace_pack::connectivity::{self, Gap, Question};
use packrace_store::refs::RefSnapshot;
use packrace_store::{Quarantine, Snapshot};

use super::advertise::{tips_of_alternate, visit};
use super::commands::{Push, Shallow};
use super::shallow::NewShallow;
use crate::error::Error;

/// What git starts for it, in a trace.
const GIT_CHECK: [&str; 9] = [
    "git",
    "rev-list",
    "--objects",
    "--stdin",
    "--not",
    "--exclude-hidden=receive",
    "--all",
    "--quiet",
    "--alternate-refs",
];

impl Push<'_> {
    /// Rejects commands whose tips reach missing objects. If the client's history is cut, and the
    /// repository's would be cut there too, returns where.
    pub(super) fn check_connected(
        &mut self,
        quarantine: Option<&Quarantine>,
        snapshot: &Arc<Snapshot>,
        refs: &RefSnapshot,
    ) -> Result<Shallow, Error> {
        let packed = quarantine.map(|_| snapshot);
        NewShallow::trace(&self.request.shallow, packed, self.settings.shallow_update)?;
        if quarantine.is_none() || self.call.skip_connectivity_check {
            return Ok(None);
        }
        let is_asked = |at: &usize| self.commands[*at].error.is_none() && !self.commands[*at].is_delete();
        let numbers: Vec<usize> = (0..self.commands.len()).filter(is_asked).collect();
        let tips: Vec<ObjectId> = numbers.iter().map(|at| self.commands[*at].new).collect();
        let trusted = self.trusted(refs)?;
        let request_objects = Arc::new(RequestObjects::new(snapshot.clone()));
        let traced = trace::child_inside(&GIT_CHECK);
        let broken = gaps(self, &request_objects, &tips, &[], &trusted)?;
        traced.into_iter().for_each(|child| child.ended_inside(broken.is_empty()));
        if broken.is_empty() {
            return Ok(None);
        }
        let cut = NewShallow::find(&self.request.shallow, snapshot)?;
        let broken_tips: Vec<usize> = broken.iter().map(|gap| gap.tip).collect();
        let still_broken = match cut.ids.is_empty() {
            true => broken,
            false => gaps(self, &request_objects, &tips, &cut.ids, &trusted)?,
        };
        still_broken.iter().for_each(|gap| self.tell(gap));
        for tip in broken_tips {
            let command = &mut self.commands[numbers[tip]];
            if still_broken.iter().any(|gap| gap.tip == tip) {
                command.reject("missing necessary objects");
            } else if self.settings.shallow_update {
                command.needs_shallow = true;
            } else {
                command.reject("shallow update not allowed");
            }
        }
        Ok(Some(cut))
    }

    fn tell(&self, gap: &Gap) {
        let why = gap.why.to_string();
        self.client.error(&why);
        self.call.faults.iter().for_each(|operator| operator.say(format!("fatal: {why}\n").as_bytes()));
    }

    /// Tips that reach no missing objects: refs of the repository, except those that are hidden from the
    /// client, which may be broken unnoticed; and refs of alternates.
    fn trusted(&self, refs: &RefSnapshot) -> Result<Vec<ObjectId>, Error> {
        let mut trusted = Vec::new();
        visit(refs, |name, id| {
            if !self.settings.hidden.hides_ref(name.strip_prefix(self.namespace.as_slice()), name) {
                trusted.push(id);
            }
            Ok(())
        })?;
        for dir in self.call.subject.repository.borrowed_object_dirs() {
            trusted.extend(tips_of_alternate(&self.call.subject, &dir));
        }
        trusted.sort_unstable();
        trusted.dedup();
        Ok(trusted)
    }
}

/// The tips that reach missing objects, if history may also end at `cut`.
fn gaps(
    push: &Push<'_>,
    request_objects: &Arc<RequestObjects>,
    tips: &[ObjectId],
    cut: &[ObjectId],
    trusted: &[ObjectId],
) -> Result<Vec<Gap>, Error> {
    let max_tree_depth = packrace_pack::Settings::max_tree_depth(push.call.subject.repository.config())?;
    let question = Question { tips, trusted, shallow: cut, max_tree_depth, threads: push.threads()? };
    Ok(connectivity::gaps(request_objects, &question, &push.client)?)
}
