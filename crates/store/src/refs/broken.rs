//! Refs that git refuses: loose ones of bad names or values, and stored ones of bad names or without a value.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::ops::ControlFlow;

use packrace_object::StoredId;

use super::traced::TracedVisit;
use super::{Inner, NameRange, Peeled, RefError, RefRecord, RefSnapshot, StoredRef, Target, is_good_name};

/// Of a backend without files.
static NONE: BTreeSet<Vec<u8>> = BTreeSet::new();

impl RefSnapshot {
    /// As [`Self::visit_range`], but refs that git refuses are among them, with the id `null`: as git advertises them. A
    /// client that did not see them would take them for deleted.
    pub fn visit_with_broken(
        &self,
        range: &NameRange,
        null: StoredId<'_>,
        mut each: impl FnMut(StoredRef<'_>) -> ControlFlow<()>,
    ) -> Result<(), RefError> {
        let traced = TracedVisit::begin(&range.start, true);
        let Some(range) = range.within(&NameRange::of_prefix(b"refs/")) else { return Ok(()) };
        let bounds = (Included(&range.start), range.end.as_ref().map_or(Unbounded, Excluded));
        let mut files = self.broken_files().range::<Vec<u8>, _>(bounds).peekable();
        let mut flow = ControlFlow::Continue(());
        self.visit_stored(&range, |record| {
            while let Some(name) = files.next_if(|name| name.as_slice() < record.name) {
                flow = tell(name, null, &mut each);
                flow?;
            }
            traced.met(record.name);
            flow = if is_sound(&record) { each(record) } else { tell(record.name, null, &mut each) };
            flow
        })?;
        if flow.is_continue() {
            // Breaking off is no failure.
            let _ = files.try_for_each(|name| tell(name, null, &mut each));
        }
        traced.end(flow.is_continue());
        Ok(())
    }

    /// As [`Self::visit`], but refs whose value is null in `packed-refs` are among them: git does not look at it there.
    pub fn visit_with_null(
        &self,
        prefix: &[u8],
        each: &mut dyn FnMut(RefRecord<'_>) -> ControlFlow<()>,
    ) -> Result<(), RefError> {
        let is_kept = |record: &StoredRef<'_>| {
            is_sound(record) || (is_good_name(record.name) && self.is_packed(record.name))
        };
        self.visit_kept(&NameRange::of_prefix(prefix), is_kept, |record| {
            let target = match record.target.to_ids() {
                // Whether it is a tag is known when it is looked for.
                Target::Direct { id, .. } if id.is_null() => Target::Direct { id, peeled: Peeled::Unknown },
                target => target,
            };
            each(RefRecord { name: record.name, target })
        })
    }

    /// As [`Self::visit`], but a ref that git refuses is an error: nothing else may keep alive what it names.
    pub fn visit_strictly(
        &self,
        prefix: &[u8],
        each: &mut dyn FnMut(RefRecord<'_>) -> ControlFlow<()>,
    ) -> Result<(), RefError> {
        let mut broken = self.broken_files().iter().find(|name| name.starts_with(prefix)).cloned();
        if broken.is_none() {
            self.visit_stored(&NameRange::of_prefix(prefix), |record| {
                if is_sound(&record) {
                    return each(RefRecord { name: record.name, target: record.target.to_ids() });
                }
                broken = Some(record.name.to_vec());
                ControlFlow::Break(())
            })?;
        }
        broken.map_or(Ok(()), |name| Err(RefError::Bad(String::from_utf8_lossy(&name).into_owned())))
    }

    fn broken_files(&self) -> &BTreeSet<Vec<u8>> {
        match &*self.inner {
            Inner::Files(files) => &files.broken,
            Inner::Reftable(_) => &NONE,
        }
    }
}

/// A ref that git refuses, unless no line of a list can hold its name.
fn tell(
    name: &[u8],
    null: StoredId<'_>,
    each: &mut impl FnMut(StoredRef<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    if name.contains(&b'\n') {
        return ControlFlow::Continue(());
    }
    each(StoredRef { name, target: Target::Direct { id: null, peeled: Peeled::NotATag } })
}

pub(super) fn is_sound(record: &StoredRef<'_>) -> bool {
    let has_value = !matches!(record.target, Target::Direct { id, .. } if id.is_null());
    has_value && is_good_name(record.name)
}
