//! What a client may ask for: docs/decisions/0005-wants.md.

use packrace_object::ObjectId;
use packrace_pack::negotiate::are_reachable;
use packrace_protocol::Refusal;

use super::refs_view::{HiddenRefs, RefsView, VisibleRef};
use super::upload::{Stop, Upload, WhileThere};
use super::{Error, Mode, ProtocolVersion};

/// So many refs are looked up one by one before all refs are read at once.
const FEW_REFS: usize = 64;

impl Upload<'_> {
    /// Every want must exist; in version 0 and 1 it must also be shown, or allowed by configuration.
    pub(super) fn check_wants(&mut self, wants: &[ObjectId]) -> Result<(), Stop> {
        for want in wants {
            if !self.universe.contains(want).map_err(Error::from)? {
                return Err(Refusal::not_our_ref(want).into());
            }
        }
        // Version 2 serves any object that exists, as stock git does: docs/decisions/0005-wants.md.
        if self.call.version == ProtocolVersion::V2 || self.settings.allow_any {
            return Ok(());
        }
        let tips = self.tips(self.settings.allow_tip)?;
        let unadvertised: Vec<ObjectId> =
            wants.iter().filter(|want| tips.binary_search(want).is_err()).copied().collect();
        if unadvertised.is_empty() {
            return Ok(());
        }
        // Between two stateless requests a ref can move: what our refs reach stays allowed.
        if self.settings.allow_reachable || self.call.mode == Mode::StatelessRpc {
            return self.check_reachable(&unadvertised, &tips);
        }
        Err(Refusal::not_our_ref(&unadvertised[0]).into())
    }

    /// A client may name a million unadvertised objects: they cost one walk together, and a logarithm of walks to find
    /// the first that is refused.
    fn check_reachable(&mut self, wants: &[ObjectId], tips: &[ObjectId]) -> Result<(), Stop> {
        let watch = WhileThere::new(&mut *self.door);
        let is_allowed = |wants: &[ObjectId]| are_reachable(&self.universe, wants, tips, &watch);
        if is_allowed(wants).map_err(Error::from)? {
            return Ok(());
        }
        // All of `wants[..good]` may be asked for, not all of `wants[..bad]`.
        let (mut good, mut bad) = (0, wants.len());
        while bad - good > 1 {
            let middle = good + (bad - good) / 2;
            if is_allowed(&wants[good..middle]).map_err(Error::from)? { good = middle } else { bad = middle }
        }
        Err(Refusal::not_our_ref(&wants[good]).into())
    }

    /// The ids of all refs that are shown (and with `hidden` also of those that are not), sorted.
    pub(super) fn tips(&self, hidden: bool) -> Result<Vec<ObjectId>, Error> {
        let refs = self.call.repository.refs().snapshot(&[])?;
        let nothing = HiddenRefs::default();
        let hidden = if hidden { &nothing } else { &self.settings.hidden };
        let view = RefsView::new(&refs, self.universe.snapshot(), hidden, &self.namespace);
        let mut tips: Vec<ObjectId> = view.head()?.and_then(|head| head.id).into_iter().collect();
        view.visit(&[], false, &mut |line: VisibleRef<'_>| {
            tips.push(line.id);
            Ok(())
        })?;
        tips.sort_unstable();
        Ok(tips)
    }

    /// What `want-ref` lines stand for: full names as the client sees them, of refs that are shown.
    pub(super) fn resolve_wanted_refs(&self, names: &[Vec<u8>]) -> Result<Vec<ObjectId>, Stop> {
        let full_names: Vec<Vec<u8>> =
            names.iter().map(|name| [self.namespace.as_slice(), name].concat()).collect();
        let few: Vec<&[u8]> = match names.len() {
            0..=FEW_REFS => full_names.iter().map(Vec::as_slice).collect(),
            _ => Vec::new(),
        };
        let refs = self.call.repository.refs().snapshot(&few).map_err(Error::from)?;
        let view = RefsView::new(&refs, self.universe.snapshot(), &self.settings.hidden, &self.namespace);
        let resolve = |(name, full_name): (&Vec<u8>, &Vec<u8>)| match view.resolve(name, full_name)? {
            Some(id) => Ok(id),
            None => Err(Refusal::unknown_ref(name).into()),
        };
        names.iter().zip(&full_names).map(resolve).collect()
    }
}
