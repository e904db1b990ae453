//! Which objects a client may want: docs/decisions/0005-wants.md.

use std::sync::Arc;

use packrace_object::ObjectId;
use packrace_pack::RequestObjects;
use packrace_pack::reach::{Reached, first_unreached};
use packrace_protocol::Refusal;
use packrace_store::refs::is_ref_name;

use super::serve::{CancelOnDisconnect, Stop, Upload};
use super::settings::pack_settings;
use crate::error::Error;
use crate::refs::view::{HiddenRefs, RefsView, VisibleRef};
use crate::subject::{CallMode, ProtocolVersion};

/// Up to this many refs are looked up one by one; for more, all refs are read at once.
const FEW_REFS: usize = 64;

impl Upload<'_> {
    /// Every want must exist. In versions 0 and 1 it must also be advertised, or allowed by the
    /// configuration; in version 2 only if the configuration says so.
    pub(super) fn check_wants(&mut self, wants: &[ObjectId]) -> Result<(), Stop> {
        let is_v2 = self.call.subject.version == ProtocolVersion::V2;
        let may_be_any = self.settings.allow_any || is_v2 && !self.settings.require_reachable;
        let mut absent = None;
        for want in wants {
            if absent.is_none() && !self.request_objects.contains_now(want).map_err(Error::from)? {
                absent = Some(*want);
            }
        }
        if may_be_any && absent.is_some() && self.fetch_absent(wants)? {
            absent = None;
        }
        // If objects may exist without being shown, the order of errors must not reveal which do.
        if let Some(want) = absent.filter(|_| may_be_any || !is_v2) {
            return Err(Refusal::not_our_ref(&want).into());
        }
        if may_be_any {
            return Ok(());
        }
        let tips = self.allowed_tips()?;
        let is_advertised = |want: &&ObjectId| tips.binary_search(want).is_ok() && absent != Some(**want);
        let unadvertised: Vec<ObjectId> = wants.iter().filter(|want| !is_advertised(want)).copied().collect();
        let Some(first) = unadvertised.first() else { return Ok(()) };
        // A ref can move between two requests: objects that our refs reach stay allowed.
        let is_later = is_v2 || self.call.subject.mode == CallMode::StatelessRpc;
        if !is_later && !self.settings.allow_reachable {
            return Err(Refusal::not_our_ref(first).into());
        }
        let threads = pack_settings(&self.call.subject.repository)?.threads;
        let watch = CancelOnDisconnect::new(&mut *self.client);
        match first_unreached(&self.request_objects, &unadvertised, &tips, threads, &watch)
            .map_err(Error::from)?
        {
            Some(want) => Err(Refusal::not_our_ref(&want).into()),
            None => Ok(()),
        }
    }

    /// Fetches wanted objects that a partial clone lacks, if it may (`GIT_NO_LAZY_FETCH=0`); returns whether all are there.
    fn fetch_absent(&mut self, wants: &[ObjectId]) -> Result<bool, Error> {
        let snapshot = self.request_objects.snapshot();
        if !snapshot.fetches_on_read() {
            return Ok(false);
        }
        let mut absent = Vec::new();
        for want in wants {
            if !self.request_objects.contains_now(want)? {
                absent.push(*want);
            }
        }
        let Ok(fetched) = snapshot.fetch_missing(&absent) else { return Ok(false) };
        self.request_objects = Arc::new(RequestObjects::new(fetched));
        Ok(true)
    }

    /// The objects that a client may ask about, if not all: answers must not reveal others.
    pub(super) fn askable(&mut self) -> Result<Option<Reached>, Error> {
        if self.settings.allow_any || !self.settings.require_reachable {
            return Ok(None);
        }
        let tips = self.allowed_tips()?;
        let threads = pack_settings(&self.call.subject.repository)?.threads;
        let watch = CancelOnDisconnect::new(&mut *self.client);
        Ok(Some(Reached::by(&self.request_objects, &tips, threads, &watch)?))
    }

    /// Wants reachable from these tips are allowed. As in git, both settings also allow hidden refs.
    fn allowed_tips(&self) -> Result<Vec<ObjectId>, Error> {
        self.tips(self.settings.allow_tip || self.settings.allow_reachable)
    }

    /// The ids of all refs that are not hidden (with `hidden`, of hidden ones too), sorted.
    pub(super) fn tips(&self, hidden: bool) -> Result<Vec<ObjectId>, Error> {
        let refs = self.call.subject.repository.refs().snapshot(&[])?;
        let nothing = HiddenRefs::default();
        let hidden = if hidden { &nothing } else { &self.settings.hidden };
        let view = RefsView::new(&refs, self.request_objects.snapshot(), hidden, &self.namespace);
        let mut tips: Vec<ObjectId> = view.head()?.and_then(|head| head.id).into_iter().collect();
        view.visit(&[], false, |line: VisibleRef<'_>| {
            tips.push(line.id.to_id());
            Ok(())
        })?;
        tips.sort_unstable();
        Ok(tips)
    }

    /// Resolves `want-ref` lines: full names as the client sees them, of refs that are not hidden. As in git, they
    /// may be refs that are never listed, such as `ORIG_HEAD` and `worktrees/ID/HEAD`.
    pub(super) fn resolve_wanted_refs(&self, names: &[Vec<u8>]) -> Result<Vec<ObjectId>, Stop> {
        let full_names: Vec<Vec<u8>> =
            names.iter().map(|name| [self.namespace.as_slice(), name].concat()).collect();
        let few: Vec<&[u8]> = match names.len() {
            0..=FEW_REFS => full_names.iter().map(Vec::as_slice).collect(),
            _ => Vec::new(),
        };
        let store = self.call.subject.repository.refs();
        let refs = store.snapshot(&few).map_err(Error::from)?;
        let resolve = |(name, full_name): (&Vec<u8>, &Vec<u8>)| {
            let is_listed = full_name == b"HEAD" || full_name.starts_with(b"refs/");
            let found = match is_listed {
                _ if !is_ref_name(full_name) || self.settings.hidden.hides_ref(Some(name), full_name) => None,
                true => refs.resolve(full_name).map_err(Error::from)?,
                false => store.resolve(full_name).map_err(Error::from)?,
            };
            found.map(|found| found.id).ok_or_else(|| Refusal::unknown_ref(name).into())
        };
        names.iter().zip(&full_names).map(resolve).collect()
    }
}
