//! Turns a plan into the bytes of a pack, mostly ranges of packs on disk.

mod composed;
mod maker;
mod reuse;
mod segment;

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

use packrace_format::{pack, pack_index};
use packrace_object::TrailerHasher;
use packrace_store::{Pack, PackIx};

use crate::encode::compose;
use crate::error::{Error, Reason};
use crate::progress::{Phase, ProgressSink, Totals};
use crate::select::plan::{PackPlan, Selected};
use crate::settings::PackReuseScope;
use composed::Composed;
use maker::Maker;
use reuse::PackReuse;
pub use segment::Segment;

/// A mapped segment takes no more entries from this many bytes on, so that hashing one overlaps with sending
/// another, and disconnects are noticed. Aligning segments to side-band frames has no advantage: the outbox
/// cuts them.
const MAX_SPAN_BYTES: usize = 4 << 20;

/// The bytes of a pack, segment by segment; the trailer comes last, and only after success.
pub struct PackStream {
    plan: PackPlan,
    state: State,
    hasher: Option<TrailerHasher>,
    maker: Maker,
    ready: VecDeque<Segment>,
    /// Bytes produced so far: the offset of the next entry in the new pack.
    written: u64,
    totals: Totals,
    /// The packs whose objects count as reused from a pack, as far as they are reused.
    reusable: BTreeSet<PackIx>,
    /// Those of them that were.
    reused: BTreeSet<PackIx>,
    /// Objects reported as progress.
    done: u32,
    with_index: bool,
    entries: Vec<pack_index::Entry>,
    /// The longest pack, if several may be made.
    limit: Option<u64>,
}

enum State {
    Header,
    Pack {
        at: usize,
        reuse: Box<PackReuse>,
    },
    /// A pack whose entries are all sent as they are stored.
    WholePack(WholePack),
    /// Loose objects, after all packs.
    Loose {
        at: usize,
    },
    Composed(Box<Composed>),
    Trailer,
    /// The trailer of a stored pack that is sent unchanged.
    StoredTrailer(Segment),
    End,
}

/// A pack that is being sent as it is stored.
struct WholePack {
    /// Which one of the plan.
    at: usize,
    /// The bytes that are left.
    left: Range<usize>,
    /// The first entry of them, if entries are checked.
    position: u32,
    /// How many of all entries are deltas.
    deltas: u32,
    /// Its trailer, if it is sent with it and its header.
    trailer: Option<Segment>,
}

impl PackStream {
    /// Streams the pack of `plan`.
    pub fn new(plan: PackPlan) -> Self {
        let maker = Maker::new(&plan);
        let hasher = TrailerHasher::new(plan.request_objects.hash());
        let totals = Totals { objects: plan.objects(), ..Totals::default() };
        PackStream {
            plan,
            state: State::Header,
            hasher: Some(hasher),
            maker,
            ready: VecDeque::new(),
            written: 0,
            totals,
            reusable: BTreeSet::new(),
            reused: BTreeSet::new(),
            done: 0,
            with_index: false,
            entries: Vec::new(),
            limit: None,
        }
    }

    /// Records entries for an index, and checks stored bytes before reusing them; no delta chain exceeds the
    /// settings' limit.
    pub fn with_index(mut self) -> Self {
        self.with_index = true;
        self.plan.settings.reused_depth = self.plan.settings.depth;
        self
    }

    /// Makes several packs, none longer than `bytes` unless it holds a single object, and records their
    /// entries. The segments are the entries of a pack, without header and trailer; `None` follows each pack.
    pub fn in_parts(self, bytes: u64) -> Self {
        let trailer_bytes = self.plan.request_objects.hash().len_in_bytes() as u64;
        PackStream { limit: Some(bytes.saturating_sub(trailer_bytes)), ..self.with_index() }
    }

    /// Whether another pack follows the one that just ended.
    pub fn has_more_parts(&self) -> bool {
        matches!(self.state, State::Composed(_))
    }

    /// The entries of the pack that just ended, in pack order.
    pub fn take_entries(&mut self) -> Vec<pack_index::Entry> {
        std::mem::take(&mut self.entries)
    }

    /// The totals so far; complete after the last segment.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// The next bytes, or `None` after the trailer.
    pub fn next_segment(&mut self, progress: &dyn ProgressSink) -> Result<Option<Segment>, Error> {
        loop {
            if progress.cancelled() {
                return Err(Reason::Cancelled.into());
            }
            if let Some(segment) = self.ready.pop_front() {
                return Ok(Some(segment));
            }
            match std::mem::replace(&mut self.state, State::End) {
                State::Header => {
                    self.reusable = self.reusable_packs();
                    let is_composed = self.with_index || compose::is_needed(&self.plan)?;
                    if !is_composed && let Some(whole) = self.whole_pack() {
                        self.hasher = None;
                        self.state = State::WholePack(whole);
                        continue;
                    }
                    self.state = if is_composed {
                        let composition = compose::compose(&self.plan, progress)?;
                        State::Composed(Box::new(Composed::new(composition, self.with_index, self.limit)))
                    } else {
                        self.pack_state(0)
                    };
                    if self.limit.is_some() {
                        self.written = pack::HEADER_BYTES as u64;
                        continue;
                    }
                    let mut header = Vec::with_capacity(pack::HEADER_BYTES);
                    pack::write_header(self.plan.objects(), &mut header);
                    self.push_owned(header);
                }
                State::Pack { at, mut reuse } => {
                    let more = self.advance_pack(&mut reuse)?;
                    self.state = if more { State::Pack { at, reuse } } else { self.pack_state(at + 1) };
                }
                State::WholePack(whole) => self.state = self.advance_whole_pack(whole),
                State::Loose { at } => self.state = self.advance_loose(at)?,
                State::Composed(mut composed) => {
                    if self.advance_composed(&mut composed)? {
                        self.state = State::Composed(composed);
                    } else if self.end_part(composed)? {
                        return Ok(None);
                    }
                }
                State::StoredTrailer(trailer) => {
                    self.check_files()?;
                    self.ready.push_back(trailer);
                    continue;
                }
                State::Trailer => {
                    self.check_files()?;
                    if let Some(hasher) = self.hasher.take() {
                        self.ready.push_back(Segment::Owned(hasher.finish().as_slice().to_vec()));
                    }
                }
                State::End => return Ok(None),
            }
            progress.report(Phase::Writing, u64::from(self.done), u64::from(self.totals.objects));
        }
    }

    /// Ends a pack; returns whether another one follows.
    fn end_part(&mut self, mut composed: Box<Composed>) -> Result<bool, Error> {
        self.entries = composed.take_written();
        let is_last = composed.is_at_end();
        if self.limit.is_some() || !is_last {
            self.check_files()?;
        }
        if is_last {
            self.state = if self.limit.is_some() { State::End } else { State::Trailer };
        } else {
            composed.begin_part();
            self.written = pack::HEADER_BYTES as u64;
            self.state = State::Composed(composed);
        }
        Ok(!is_last)
    }

    /// Fails if the files may have changed since they were opened; called before a pack is complete, and
    /// before its entries are used.
    fn check_files(&self) -> Result<(), Error> {
        Ok(self.plan.request_objects.snapshot().check_files(self.plan.packs.iter().map(|(pack, _)| *pack))?)
    }

    fn pack_state(&self, at: usize) -> State {
        let Some((pack, selected)) = self.plan.packs.get(at) else { return State::Loose { at: 0 } };
        let entries = if *selected == Selected::All { self.whole_entries(at) } else { None };
        match entries.and_then(|entries| Some((entries, self.deltas_with_own_bases(at)?))) {
            Some((left, deltas)) => {
                State::WholePack(WholePack { at, left, position: 0, deltas, trailer: None })
            }
            None => State::Pack { at, reuse: Box::new(PackReuse::new(*pack)) },
        }
    }

    /// A stored pack of the plan.
    fn stored(&self, at: usize) -> &Pack {
        let (pack, _) = self.plan.packs[at];
        &self.plan.request_objects.snapshot().packs()[pack.0 as usize]
    }

    /// How many deltas a stored pack has, if all name their bases by distance, so that they are in the pack: a damaged
    /// repository may have packs whose bases are in each other.
    fn deltas_with_own_bases(&self, at: usize) -> Option<u32> {
        let stored = self.stored(at);
        let mut deltas = 0;
        for position in 0..stored.len() {
            let first = *stored.bytes().get(usize::try_from(stored.entry_range(position).0).ok()?)?;
            if pack::names_its_base(first) {
                return None;
            }
            deltas += u32::from(pack::is_delta(first));
        }
        Some(deltas)
    }

    /// The packs that bitmaps let be reused as packs; without bitmaps, those that are sent as a whole are.
    fn reusable_packs(&self) -> BTreeSet<PackIx> {
        let has_bitmap = self.plan.counts_by_bitmap && !self.with_index;
        let covered = || self.plan.request_objects.snapshot().bitmapped_packs();
        match self.plan.settings.pack_reuse {
            PackReuseScope::Single if has_bitmap => covered().take(1).collect(),
            PackReuseScope::Multi if has_bitmap => covered().collect(),
            _ => BTreeSet::new(),
        }
    }

    /// Counts objects of a pack whose stored entries were sent.
    fn count(&mut self, pack: PackIx, objects: u32, deltas: u32) {
        if objects > 0 && self.reusable.contains(&pack) {
            self.totals.pack_reused += objects;
            self.totals.packs_reused += u32::from(self.reused.insert(pack));
        } else {
            self.totals.reused += objects;
            self.totals.deltas += deltas;
            self.totals.reused_deltas += deltas;
        }
    }

    /// Counts the objects of a pack that was sent as a whole.
    fn count_whole(&mut self, at: usize, deltas: u32) {
        let (pack, _) = self.plan.packs[at];
        if !self.plan.counts_by_bitmap {
            self.reusable.insert(pack);
        }
        self.count(pack, self.stored(at).len(), deltas);
    }

    /// The bytes of all entries of a stored pack, if the client accepts its deltas unchanged.
    fn whole_entries(&self, at: usize) -> Option<Range<usize>> {
        if self.plan.settings.pack_reuse == PackReuseScope::Off {
            return None;
        }
        let stored = self.stored(at);
        let bytes = stored.bytes();
        let header = pack::Header::parse(bytes).ok()?;
        let is_ours = header.version == 2 && header.objects == stored.len() && self.plan.ofs_delta;
        let trailer_at = bytes.len().checked_sub(self.plan.request_objects.hash().len_in_bytes())?;
        // The index has the checksum of the pack that it was made for.
        (is_ours && trailer_at >= pack::HEADER_BYTES && bytes[trailer_at..] == *stored.checksum().as_bytes())
            .then_some(pack::HEADER_BYTES..trailer_at)
    }

    /// Sends a stored pack as a whole, if the plan holds exactly its objects and the client accepts its
    /// deltas unchanged.
    fn whole_pack(&self) -> Option<WholePack> {
        let [(pack, Selected::All)] = self.plan.packs.as_slice() else { return None };
        let entries = self.whole_entries(0).filter(|_| self.plan.loose.is_empty())?;
        // Deltas that are reused as a part of a pack are not counted.
        let is_reusable = !self.plan.counts_by_bitmap || self.reusable.contains(pack);
        let deltas = if is_reusable { 0 } else { self.deltas_with_own_bases(0)? };
        let (stored, trailer_at) = (self.stored(0), entries.end);
        let trailer = Segment::Mapped(stored.map().clone(), trailer_at..stored.bytes().len());
        Some(WholePack { at: 0, left: 0..trailer_at, position: 0, deltas, trailer: Some(trailer) })
    }

    /// Emits at most one span, or one entry that changes; false at the end of the pack.
    fn advance_pack(&mut self, reuse: &mut PackReuse) -> Result<bool, Error> {
        let step = reuse.next(&self.plan, self.written)?;
        let Some(step) = step else { return Ok(false) };
        self.done += step.objects;
        self.count(reuse.pack(), step.objects, step.deltas);
        match step.bytes {
            reuse::StepBytes::Span(range) => {
                let map = self.plan.request_objects.snapshot().packs()[reuse.pack().0 as usize].map().clone();
                self.push(Segment::Mapped(map, range));
            }
            reuse::StepBytes::NewHeader(header, range) => {
                let map = self.plan.request_objects.snapshot().packs()[reuse.pack().0 as usize].map().clone();
                self.push(Segment::EntryHeader(header));
                self.push(Segment::Mapped(map, range));
            }
            reuse::StepBytes::Recompress(ix) => {
                let entry = self.maker.whole(&self.plan, ix)?;
                self.done += 1;
                self.push_owned(entry);
            }
        }
        Ok(true)
    }

    /// Emits a part of a pack that is sent as it is. From a damaged entry on, entries are sent one by one.
    fn advance_whole_pack(&mut self, mut whole: WholePack) -> State {
        let stored = self.stored(whole.at);
        let mut end = whole.left.end.min(whole.left.start + MAX_SPAN_BYTES);
        let mut is_damaged = false;
        if self.plan.checks_entries() {
            let start_of = |position| stored.entry_range(position).0 as usize;
            while whole.position < stored.len() && start_of(whole.position) < end && !is_damaged {
                is_damaged = !stored.is_intact(whole.position);
                whole.position += u32::from(!is_damaged);
            }
            // A damaged index may say that entries begin inside of the header, which is sent in any case.
            let begun = whole.left.start.max(pack::HEADER_BYTES);
            let is_at_end = whole.position == stored.len();
            end = if is_at_end { whole.left.end } else { start_of(whole.position).max(begun) };
        }
        let map = stored.map().clone();
        self.push(Segment::Mapped(map, whole.left.start..end));
        whole.left.start = end;
        if is_damaged {
            return self.after_damage(&whole);
        }
        if !whole.left.is_empty() {
            return State::WholePack(whole);
        }
        self.count_whole(whole.at, whole.deltas);
        self.done += self.stored(whole.at).len();
        match whole.trailer {
            Some(trailer) => State::StoredTrailer(trailer),
            None => self.pack_state(whole.at + 1),
        }
    }

    /// Goes on with the entries of a pack that are left, of which the first one is damaged.
    fn after_damage(&mut self, whole: &WholePack) -> State {
        let (pack, _) = self.plan.packs[whole.at];
        if whole.trailer.is_some() {
            // It is no longer the trailer of what is sent.
            let mut hasher = TrailerHasher::new(self.plan.request_objects.hash());
            hasher.update(&self.stored(whole.at).bytes()[..whole.left.start]);
            self.hasher = Some(hasher);
        }
        self.count(pack, whole.position, 0);
        self.done += whole.position;
        let reuse = PackReuse::after(pack, whole.position, whole.left.start as u64, self.written);
        State::Pack { at: whole.at, reuse: Box::new(reuse) }
    }

    /// Emits a loose object.
    fn advance_loose(&mut self, at: usize) -> Result<State, Error> {
        let Some(&ix) = self.plan.loose.get(at) else { return Ok(State::Trailer) };
        let entry = self.maker.whole(&self.plan, ix)?;
        self.done += 1;
        self.push_owned(entry);
        Ok(State::Loose { at: at + 1 })
    }

    fn advance_composed(&mut self, composed: &mut Composed) -> Result<bool, Error> {
        let Some(piece) = composed.next(&self.plan, &mut self.maker, self.written)? else { return Ok(false) };
        self.done += piece.objects;
        self.totals.deltas += piece.deltas - piece.reused_deltas;
        if let Some((pack, _)) = &piece.mapped {
            self.count(*pack, piece.reused, piece.reused_deltas);
        }
        if !piece.owned.is_empty() {
            self.push_owned(piece.owned);
        }
        if let Some(header) = piece.header {
            self.push(Segment::EntryHeader(header));
        }
        if let Some((pack, range)) = piece.mapped {
            let map = self.plan.request_objects.snapshot().packs()[pack.0 as usize].map().clone();
            self.push(Segment::Mapped(map, range));
        }
        Ok(true)
    }

    fn push_owned(&mut self, bytes: Vec<u8>) {
        self.push(Segment::Owned(bytes));
    }

    fn push(&mut self, segment: Segment) {
        let bytes = segment.bytes();
        self.written += bytes.len() as u64;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(bytes);
        }
        self.ready.push_back(segment);
    }
}
