//! Progress on standard error, in git's format.

use std::sync::Mutex;
use std::time::Duration;

use packrace_os::clock::{Clock, RealClock};
use packrace_pack::meter::{Meter, ProgressInterval, title, total_line};
use packrace_pack::{BitmapTotals, BitmapUse, NameHashVersion, Phase, ProgressSink, Totals};
use packrace_server::traced_phases::{PackStep, TracedPhases, bitmaps_used};

use crate::call::Call;
use crate::call::fatal::Fatal;
use crate::call::streams::ErrorOutput;

/// Ten updates per second look smooth on a terminal.
const INTERVAL: Duration = Duration::from_millis(100);

/// A command's progress: none, or lines on standard error. Also the regions of its trace.
pub struct Progress {
    shown: Option<Shown>,
    traced: Option<Mutex<TracedPhases>>,
}

struct Shown {
    to: ErrorOutput,
    clock: RealClock,
    /// Threads of the delta search; 0 to not report them.
    threads: usize,
    shows_writing: bool,
    shows_bytes: bool,
    shows_intake: bool,
    /// The title for receiving a pack, if not git's.
    intake_title: Option<String>,
    state: Mutex<ProgressState>,
}

struct ProgressState {
    meter: Meter,
    /// Whether the threads of the current pack's search were reported.
    is_search_reported: bool,
}

/// Whether to show progress: as asked, or if standard error is a terminal.
pub fn is_wanted(call: &Call, asked: Option<bool>) -> bool {
    asked.unwrap_or_else(|| call.streams.errors.is_terminal())
}

impl Shown {
    fn shows(&self, phase: Phase) -> bool {
        match phase {
            Phase::Writing => self.shows_writing,
            Phase::Receiving | Phase::Indexing => self.shows_intake,
            _ => true,
        }
    }

    fn title(&self, phase: Phase) -> String {
        match (phase, &self.intake_title) {
            (Phase::Receiving | Phase::Indexing, Some(title)) => title.clone(),
            _ => title(phase),
        }
    }

    /// Ignores errors: work goes on if standard error is closed.
    fn show(&self, text: &str) {
        let _ = self.to.say(text.as_bytes());
    }
}

impl Progress {
    /// Shows progress only if `is_shown`.
    pub fn new(is_shown: bool, call: &Call) -> Result<Self, Fatal> {
        let traced = TracedPhases::begin().map(Mutex::new);
        if !is_shown {
            return Ok(Progress { shown: None, traced });
        }
        let meter =
            Meter::new(ProgressInterval { interval: INTERVAL, delay: call.environment.progress_delay()? });
        let state = Mutex::new(ProgressState { meter, is_search_reported: false });
        let clock = RealClock::default();
        let shown = Shown {
            to: call.streams.errors.clone(),
            clock,
            threads: 0,
            shows_writing: true,
            shows_bytes: false,
            shows_intake: true,
            intake_title: None,
            state,
        };
        Ok(Progress { shown: Some(shown), traced })
    }

    /// Reports the number of delta search threads.
    pub fn with_threads(mut self, threads: usize) -> Self {
        if let Some(shown) = &mut self.shown {
            shown.threads = threads;
        }
        self
    }

    /// Hides progress of writing a pack: the pack's reader reports it.
    pub fn without_writing(mut self) -> Self {
        if let Some(shown) = &mut self.shown {
            shown.shows_writing = false;
        }
        self
    }

    /// Shows the bytes and the throughput of a pack.
    pub fn with_bytes(mut self) -> Self {
        if let Some(shown) = &mut self.shown {
            shown.shows_bytes = true;
        }
        self
    }

    /// Hides progress of receiving a pack, but not of the phases after it.
    pub fn without_intake(mut self) -> Self {
        if let Some(shown) = &mut self.shown {
            shown.shows_intake = false;
        }
        self
    }

    /// Sets the title for receiving a pack.
    pub fn with_intake_title(mut self, title: &str) -> Self {
        if let Some(shown) = &mut self.shown {
            let state = shown.state.get_mut().expect("nobody has held it yet");
            state.meter.set_intake_title(title);
            shown.intake_title = Some(title.to_owned());
        }
        self
    }

    /// Counts `bytes` more of a pack.
    pub fn sent(&self, bytes: u64) {
        if let Some(shown) = self.shown.as_ref().filter(|shown| shown.shows_bytes) {
            shown.state.lock().expect("no panic while held").meter.sent(bytes);
        }
    }

    /// Ends the current line: its phase is complete.
    pub fn finish(&self) {
        self.say(|meter, now| meter.finish(now));
    }

    /// The same, with `words` instead of `done.`
    pub fn finish_saying(&self, words: &str) {
        self.say(|meter, now| meter.finish_saying(words, now));
    }

    /// Leaves the current line: another message follows.
    pub fn stop(&self) {
        self.say(|meter, _| meter.stop().to_owned());
    }

    /// In a trace, begins a part of git's pack-objects.
    pub fn begin_step(&self, step: PackStep) {
        self.trace(|traced| traced.enter(step));
    }

    /// In a trace, begins to look for objects, if they are sorted by their paths.
    pub fn begin_path_walk(&self, order: NameHashVersion) {
        if order == NameHashVersion::ByPath {
            self.trace(TracedPhases::walk_by_path);
        }
    }

    /// In a trace, ends what is said of packs.
    pub fn end_packs(&self) {
        self.trace(TracedPhases::end);
    }

    fn trace(&self, tell: impl FnOnce(&mut TracedPhases)) {
        if let Some(traced) = &self.traced {
            tell(&mut traced.lock().expect("no panic while held"));
        }
    }

    fn say(&self, text: impl FnOnce(&mut Meter, Duration) -> String) {
        self.trace(TracedPhases::hide);
        if let Some(shown) = &self.shown {
            let mut state = shown.state.lock().expect("no panic while held");
            shown.show(&text(&mut state.meter, shown.clock.now()));
        }
    }
}

impl ProgressSink for Progress {
    fn report(&self, phase: Phase, done: u64, total: u64) {
        let shown = self.shown.as_ref().filter(|shown| shown.shows(phase));
        self.trace(|traced| {
            let title = shown.map(|shown| shown.title(phase));
            traced.report(phase, done, total, title.as_deref());
        });
        let Some(shown) = shown else { return };
        let mut state = shown.state.lock().expect("no panic while held");
        let now = shown.clock.now();
        if phase == Phase::Compressing && !state.is_search_reported && shown.threads > 1 {
            state.is_search_reported = true;
            let before = state.meter.finish(now);
            shown.show(&format!("{before}Delta compression using up to {} threads\n", shown.threads));
        }
        if let Some(text) = state.meter.update(phase, done, total, now) {
            shown.show(&text);
        }
    }

    fn cancelled(&self) -> bool {
        false
    }

    fn packed(&self, totals: &Totals) {
        self.trace(|traced| traced.packed(totals));
        let Some(shown) = &self.shown else { return };
        let mut state = shown.state.lock().expect("no panic while held");
        state.is_search_reported = false;
        let before = state.meter.finish(shown.clock.now());
        shown.show(&format!("{before}{}", total_line(totals)));
    }

    fn bitmaps_made(&self, totals: &BitmapTotals) {
        self.trace(|traced| traced.bitmaps_made(totals));
    }

    fn bitmaps_used(&self, used: &dyn Fn() -> BitmapUse) {
        bitmaps_used(used);
    }

    fn loosened(&self, objects: u64) {
        self.trace(|traced| traced.loosened(objects));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.stop();
    }
}
