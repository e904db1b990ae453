use std::sync::Arc;

use packrace_pack::maintain::pack_files::{BitmapRequest, PackFiles};
use packrace_pack::maintain::repack::{RepackRequest, Scope, Unreachable, write};
use packrace_pack::{RequestObjects, Settings};
use packrace_store::publish::{PublishOptions, WritePolicy, loose_compression};
use packrace_store::{Pack, Repository, RootKinds, roots};

use super::Means;
use crate::bitmaps::{bitmap_request, islands};
use crate::error::Error;
use crate::measure::deltas;
use crate::repacking::{Finishing, MultiPackIndexMode, finish};
use crate::settings::MaintenanceSettings;

/// A repack, configured step by step.
pub(super) struct RepackTask<'a> {
    repository: &'a Repository,
    settings: &'a MaintenanceSettings,
    means: &'a Means<'a>,
    request_objects: Arc<RequestObjects>,
    request: RepackRequest,
    multi_pack_index: bool,
    bitmap: Option<BitmapRequest>,
}

impl<'a> RepackTask<'a> {
    /// A repack of everything, with nothing decided yet.
    pub(super) fn new(
        repository: &'a Repository,
        settings: &'a MaintenanceSettings,
        means: &'a Means<'a>,
    ) -> Result<Self, Error> {
        (means.past_refs)();
        let config = repository.config();
        // Read packs before refs: objects that a push stores in between are loose or in a pack that stays.
        let request_objects = Arc::new(RequestObjects::new(repository.snapshot()?));
        let found = roots(repository, RootKinds::ALL)?;
        let PublishOptions { reverse_index, index_version, .. } = PublishOptions::of(config)?;
        let packing = means.limited(Settings::of(config, means.threads)?);
        let request = RepackRequest {
            scope: Scope::Loose,
            delete: true,
            local: true,
            pack_kept: false,
            keep_packs: Vec::new(),
            soft_tips: found.soft().collect(),
            tips: found.refs,
            settings: packing,
            cruft_settings: packing,
            ofs_delta: config.boolean("repack.useDeltaBaseOffset")?.unwrap_or(true),
            bitmap: None,
            filter: None,
            filter_to: None,
            expire_to: None,
            // Replacements are durable before the old packs are removed.
            files: PackFiles {
                policy: WritePolicy::of(config)?.of_rewrites(),
                reverse_index,
                index_version,
                max_bytes: settings.max_pack_bytes,
            },
            islands: None,
            recent: means.recent.clone().unwrap_or_default(),
            max_cruft_bytes: settings.max_cruft_bytes.map(|bytes| bytes.max(1 << 20)),
            long_cruft_bytes: None,
            follows_cruft: false,
            loose_compression: loose_compression(config)?,
        };
        Ok(RepackTask {
            repository,
            settings,
            means,
            request_objects,
            request,
            multi_pack_index: false,
            bitmap: None,
        })
    }

    /// Rolls up small packs and loose objects, and covers all packs with a multi-pack-index.
    pub(super) fn geometric(mut self) -> Result<(), Error> {
        self.request.scope = Scope::Geometric(self.settings.split_factor);
        self.multi_pack_index = self.settings.multi_pack_index;
        if self.multi_pack_index {
            self.bitmap = self.possible_bitmap()?;
        }
        self.run(false).map(drop)
    }

    /// Packs loose objects and leaves all packs alone.
    pub(super) fn loose_objects(mut self) -> Result<(), Error> {
        self.request.scope = Scope::Geometric(self.settings.split_factor);
        self.request.keep_packs = self.own_packs(|_| true);
        self.run(false).map(drop)
    }

    /// Repacks everything.
    pub(super) fn everything(mut self, is_thorough: bool) -> Result<(), Error> {
        let (repository, settings, means) = (self.repository, self.settings, self.means);
        let is_told = means.recent.is_some() || !settings.has_recent_objects_hook;
        let expired = if is_told { settings.prune_before } else { i64::MIN };
        self.request.scope = Scope::All(match settings.cruft_packs {
            _ if settings.packs_alone => Unreachable::Append,
            true => Unreachable::Cruft { expired },
            false => Unreachable::Loosen { expired },
        });
        self.request.keep_packs = self.big_packs();
        let stays = |pack: &Pack| pack.has_keep() || pack.is_promisor();
        let has_more = !self.request.keep_packs.is_empty() || !self.own_packs(stays).is_empty();
        if let Some(bitmap) = self.possible_bitmap()? {
            // One pack has its own bitmap; several need a multi-pack-index.
            match has_more && settings.multi_pack_index {
                true => (self.multi_pack_index, self.bitmap) = (true, Some(bitmap)),
                false => self.request.bitmap = (!has_more).then_some(bitmap),
            }
        }
        if repository.config().boolean("repack.useDeltaIslands")?.unwrap_or(false) {
            self.request.islands = Some(islands(repository, &self.request_objects, means.progress)?);
        }
        if is_thorough {
            self.request.settings.reuse_deltas = false;
        }
        let policy = self.request.files.policy;
        let new = self.run(expired > i64::MIN)?;
        match is_thorough {
            true => deltas::note_searched(repository, &new, policy),
            false => Ok(()),
        }
    }

    /// The bitmap, if all objects are in the repository's own packs. In a partial clone some are missing.
    fn possible_bitmap(&self) -> Result<Option<BitmapRequest>, Error> {
        let snapshot = self.request_objects.snapshot();
        let is_possible = self.settings.bitmaps
            && self.repository.borrowed_object_dirs().is_empty()
            && snapshot.shallow()?.is_empty()
            && !snapshot.packs().iter().any(Pack::is_promisor)
            && !self.repository.has_grafts();
        match is_possible {
            true => bitmap_request(self.repository, &self.request.tips, self.means.threads).map(Some),
            false => Ok(None),
        }
    }

    fn own_packs(&self, is_wanted: impl Fn(&Pack) -> bool) -> Vec<String> {
        let packs = self.request_objects.snapshot().packs().iter();
        let own = packs.filter(|pack| pack.is_local() && pack.is_usable() && is_wanted(pack));
        own.map(|pack| pack.name().to_owned()).collect()
    }

    /// Packs that reach `gc.bigPackThreshold`, which are kept.
    fn big_packs(&self) -> Vec<String> {
        let Some(least) = self.settings.big_pack_bytes else { return Vec::new() };
        self.own_packs(|pack| !pack.is_cruft() && pack.bytes().len() as u64 >= least)
    }

    /// Writes packs and returns their names.
    fn run(self, drops_unreachable: bool) -> Result<Vec<String>, Error> {
        let repacked = write(&self.request_objects, &self.request, self.means.progress)?;
        let finishing = Finishing {
            policy: self.request.files.policy,
            multi_pack_index: match self.multi_pack_index {
                true => MultiPackIndexMode::Single,
                false => MultiPackIndexMode::No,
            },
            bitmap: self.bitmap,
            without_cruft: false,
            delete: true,
            dropped_beyond: drops_unreachable.then(|| self.request.roots()),
            server_info: self.settings.server_info,
        };
        finish(self.repository, &self.request_objects, &repacked, &finishing, self.means.progress)?;
        let names = repacked.new.iter().filter_map(|new| new.stem.file_name()?.to_str().map(str::to_owned));
        Ok(names.collect())
    }
}
