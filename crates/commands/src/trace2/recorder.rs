//! Writes events to all targets, and knows what they have in common.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use packrace_os::trace::{ChildClass, TraceStep};

use super::formats::{EventDetail, TraceEvent, TraceFormat, classic_line, command_line, commands_line};
use super::params::redacted;
use super::target::{OpenedTarget, TraceTarget, TraceWriter};
use super::{event, normal, perf, words};

/// The trace as it is written.
#[derive(Debug)]
pub(super) struct TraceRecorder {
    pub(super) sid: String,
    pub(super) began: (Timestamp, Instant),
    pub(super) outputs: Vec<TraceOutput>,
    /// When the open regions began, outermost first.
    pub(super) regions: Vec<Instant>,
    /// How many repositories events have named.
    pub(super) repositories: usize,
    /// Regions within this many others are not in `GIT_TRACE2_EVENT` (`trace2.eventNesting`).
    pub(super) nesting: i64,
    /// Whether passwords in URLs are not shown (`GIT_TRACE2_REDACT`).
    pub(super) redacts: bool,
    /// Whether failures to write are reported (`GIT_TRACE2_DST_DEBUG`, `trace2.destinationDebug`).
    pub(super) reports_failures: bool,
    pub(super) to_stderr: fn(&str),
}

/// One form of the trace, and where it goes.
#[derive(Debug, Default)]
pub(super) struct TraceOutput {
    pub(super) format: TraceFormat,
    pub(super) is_brief: bool,
    /// Whether the target is the file that stops further traces in its directory.
    pub(super) is_last: bool,
    pub(super) writer: TraceWriter,
}

impl TraceRecorder {
    /// Opens a target of which there may be `max_files` in a directory; 0: any number. A trace that cannot be written is
    /// left out.
    pub(super) fn open(&mut self, output: TraceOutput, target: &TraceTarget, max_files: usize) {
        let variable = output.format.variable();
        let opened = match output.format.is_classic() {
            true => target.open_classic().map(|writer| OpenedTarget { writer, is_last: false }),
            false => target.open(&self.sid, max_files),
        };
        let failed = match opened {
            Ok(OpenedTarget { writer, is_last }) => {
                return self.outputs.push(TraceOutput { writer, is_last, ..output });
            }
            Err(failed) => failed,
        };
        if output.format.is_classic() {
            (self.to_stderr)(&format!("warning: {}\n", failed.classic_text(variable)));
        } else if failed.is_always_told() || self.reports_failures {
            (self.to_stderr)(&format!("warning: trace2: {}\n", failed.text(variable)));
        }
    }

    /// Writes an event. Regions are entered and left with the event.
    pub(super) fn add(&mut self, detail: EventDetail<'_>) {
        let now = Instant::now();
        let after = now.saturating_duration_since(self.began.1);
        let mut inside = self.regions.last().map_or(after, |began| now.saturating_duration_since(*began));
        match detail {
            EventDetail::RegionLeave(_) => drop(self.regions.pop()),
            EventDetail::Repository(_) => self.repositories += 1,
            EventDetail::RegionEnter(_) => inside = Duration::ZERO,
            _ => {}
        }
        let event = TraceEvent {
            sid: &self.sid,
            at: self.began.0.checked_add(after).unwrap_or(self.began.0),
            after,
            inside,
            depth: self.regions.len(),
            repository: detail.concerns_repository().then_some(self.repositories),
            detail,
        };
        if matches!(detail, EventDetail::RegionEnter(_)) {
            self.regions.push(now);
        }
        let line = |output: &TraceOutput| output.line(&event, self.nesting);
        let lines: Vec<Option<String>> = self.outputs.iter().map(line).collect();
        self.write(lines);
    }

    /// Writes lines that only this older kind of trace has.
    pub(super) fn add_classic(&mut self, format: TraceFormat, lines: &[String]) {
        let after = self.began.1.elapsed();
        let at = self.began.0.checked_add(after).unwrap_or(self.began.0);
        let text = |output: &TraceOutput| {
            let line = |line: &String| classic_line(at, output.is_brief, line);
            (output.format == format).then(|| lines.iter().map(line).collect())
        };
        let lines: Vec<Option<String>> = self.outputs.iter().map(text).collect();
        self.write(lines);
    }

    /// Writes a line to each output, if it has one for it.
    fn write(&mut self, lines: Vec<Option<String>>) {
        let (to_stderr, reports_failures) = (self.to_stderr, self.reports_failures);
        let mut lines = lines.into_iter();
        self.outputs.retain_mut(|output| {
            let Some(line) = lines.next().flatten() else { return true };
            let Err(error) = output.writer.write(&line, to_stderr) else { return true };
            let (variable, reason) = (output.format.variable(), packrace_os::reason(&error));
            if output.format.is_classic() {
                to_stderr(&format!("warning: unable to write trace for {variable}: {reason}\n"));
            } else if reports_failures {
                to_stderr(&format!("warning: unable to write trace to '{variable}': {reason}\n"));
            }
            false
        });
    }

    /// Writes what another part of the program reports.
    pub(super) fn step(&mut self, step: TraceStep<'_>) {
        if self.outputs.is_empty() {
            return;
        }
        match step {
            TraceStep::ChildStart { id, class, uses_shell, argv } => {
                let argv = self.shown(words(argv));
                let (class, hook) = match class {
                    ChildClass::Hook(name) => ("hook", Some(name)),
                    ChildClass::Subprocess => ("subprocess", None),
                    ChildClass::Other => ("?", None),
                };
                self.add(EventDetail::ChildStart { id, class, hook, uses_shell, argv: &argv });
            }
            TraceStep::ChildFile(argv) => {
                let command = command_line(&self.shown(words(argv)));
                self.add_classic(TraceFormat::Commands, &[format!("trace: start_command: {command}")]);
            }
            TraceStep::ChildExit { id, pid, code, ran } => {
                let pid = pid.map_or(-1, i64::from);
                self.add(EventDetail::ChildExit { id, pid, code, ran });
            }
            TraceStep::Enter(names) => self.add(EventDetail::RegionEnter(names)),
            TraceStep::Leave(names) => self.add(EventDetail::RegionLeave(names)),
            TraceStep::Data { of_repository, category, key, value, is_json } => {
                self.add(EventDetail::Data { of_repository, category, key, value, is_json });
            }
            TraceStep::WorkTree(path) => self.add(EventDetail::Repository(&path.to_string_lossy())),
            TraceStep::Mode(mode) => self.add(EventDetail::Mode(mode)),
            TraceStep::Detail(detail, line) => {
                let formats = TraceFormat::ALL.into_iter();
                for format in formats.filter(|format| format.detail() == Some(detail)) {
                    self.add_classic(format, &[line.to_owned()]);
                }
            }
            TraceStep::Note(text) => self.add_classic(TraceFormat::Commands, &[text.to_owned()]),
            TraceStep::Said(line) => {
                let message = ["warning: ", "error: "].iter().find_map(|word| line.strip_prefix(word));
                message.into_iter().for_each(|message| self.add(EventDetail::Error(message)));
            }
        }
    }

    /// Words without passwords.
    pub(super) fn shown(&self, words: Vec<String>) -> Vec<String> {
        if self.redacts { words.iter().map(|word| redacted(word)).collect() } else { words }
    }
}

impl TraceOutput {
    /// The line of an event, unless the form leaves it out.
    fn line(&self, event: &TraceEvent<'_>, nesting: i64) -> Option<String> {
        let is_nested = matches!(
            event.detail,
            EventDetail::RegionEnter(_) | EventDetail::RegionLeave(_) | EventDetail::Data { .. }
        );
        let is_too_deep = i64::try_from(event.depth).unwrap_or(i64::MAX) >= nesting;
        match (event.detail, self.format) {
            (EventDetail::TooManyFiles, _) if !self.is_last => None,
            (_, TraceFormat::Event) if is_nested && is_too_deep => None,
            (_, TraceFormat::Normal) => normal::line(event, self.is_brief),
            (_, TraceFormat::Perf) => perf::line(event, self.is_brief),
            (_, TraceFormat::Event) => Some(event::line(event, self.is_brief)),
            (_, TraceFormat::Commands) => commands_line(event, self.is_brief),
            // They have lines of their own.
            _ => None,
        }
    }
}
