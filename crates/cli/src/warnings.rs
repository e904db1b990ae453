//! Prints warnings of libraries in git's format.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::Mutex;

use packrace_commands::harmless;
use tracing::field::{Field, Visit};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Prints events as lines of `warning: …` and `error: …` on standard error.
pub fn to_stderr() {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_max_level(tracing::Level::WARN)
        .event_format(AsGit::default())
        .init();
}

/// Prints equal lines once: refs are read more than once.
#[derive(Default)]
struct AsGit(Mutex<HashSet<String>>);

impl<S, N> FormatEvent<S, N> for AsGit
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &tracing::Event<'_>,
    ) -> std::fmt::Result {
        let mut message = WarningText(String::new());
        event.record(&mut message);
        let word = if *event.metadata().level() == tracing::Level::ERROR { "error" } else { "warning" };
        let line = format!("{word}: {}\n", harmless(&message.0));
        let is_new = self.0.lock().map_or(true, |mut reported| reported.insert(line.clone()));
        if is_new { writer.write_str(&line) } else { Ok(()) }
    }
}

struct WarningText(String);

impl Visit for WarningText {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            let _ = write!(self.0, "{value:?}");
        }
    }
}
