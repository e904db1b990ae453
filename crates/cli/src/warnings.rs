//! Prints warnings of libraries in git's format.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::Mutex;

use packrace_commands::harmless;
use tracing::field::{Field, Visit};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Prints events as lines of `warning: …`, `error: …` and `hint: …` on standard error.
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
        let mut text = WarningText::default();
        event.record(&mut text);
        let word = if *event.metadata().level() == tracing::Level::ERROR { "error" } else { "warning" };
        let message = harmless(&text.message);
        let line = match text.advice.as_str() {
            "" => format!("{word}: {message}\n"),
            name => format!(
                "hint: {message}\nhint: You can disable this warning with `git config set advice.{name} false`.\n"
            ),
        };
        let is_new = self.0.lock().map_or(true, |mut reported| reported.insert(line.clone()));
        if is_new { writer.write_str(&line) } else { Ok(()) }
    }
}

#[derive(Default)]
struct WarningText {
    message: String,
    advice: String,
}

impl Visit for WarningText {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            "advice" => write!(self.advice, "{value:?}"),
            _ => Ok(()),
        };
    }
}
