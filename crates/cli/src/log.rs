//! The log of `serve`. It contains paths, errors, hook output and client requests, so all of it is escaped
//! here, not at each call.

use std::io::{self, IsTerminal as _, Write};

use packrace_commands::one_line;
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::{DefaultFields, FmtSpan, FormatFields, Writer};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Registry, fmt, reload};

use packrace_server::serve_config::{Format, Level, Log};

/// The log level; it can be changed.
pub type LogLevel = reload::Handle<LevelFilter, Registry>;

/// Starts logging to standard error.
pub fn start(log: &Log) -> LogLevel {
    let (filter, handle) = reload::Layer::new(filter(log.level));
    let registry = tracing_subscriber::registry().with(filter);
    let lines = fmt::layer().with_target(false).with_span_events(FmtSpan::CLOSE);
    match log.format {
        Format::Text => {
            let lines = lines.with_writer(io::stderr).with_ansi(io::stderr().is_terminal());
            registry.with(lines.fmt_fields(OneLine(DefaultFields::new()))).init();
        }
        Format::Json => {
            let lines = lines.json().flatten_event(true);
            registry.with(lines.with_writer(|| Ascii(io::stderr()))).init();
        }
    }
    handle
}

/// The filter of a log level.
pub fn filter(level: Level) -> LevelFilter {
    match level {
        Level::Off => LevelFilter::OFF,
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
    }
}

/// Fields and messages of events and spans, on one line.
struct OneLine(DefaultFields);

impl<'writer> FormatFields<'writer> for OneLine {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'writer>, fields: R) -> std::fmt::Result {
        let mut plain = String::new();
        self.0.format_fields(Writer::new(&mut plain), fields)?;
        writer.write_str(&one_line(&plain))
    }
}

/// Writes lines of JSON as ASCII: other characters, and DEL, become `\u` escapes. JSON itself requires
/// escapes only up to U+001F.
struct Ascii<W>(W);

impl<W: Write> Write for Ascii<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut out = String::with_capacity(line.len());
        for letter in String::from_utf8_lossy(line).chars() {
            match letter {
                '\n' | ' '..='~' => out.push(letter),
                _ => letter
                    .encode_utf16(&mut [0; 2])
                    .iter()
                    .for_each(|unit| out.push_str(&format!("\\u{unit:04x}"))),
            }
        }
        self.0.write_all(out.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_ascii() {
        let mut out = Vec::new();
        Ascii(&mut out).write_all("{\"a\":\"ä\u{9b}\u{7f}\u{202e}𝄞\"}\n".as_bytes()).unwrap();
        let line = String::from_utf8(out).unwrap();
        assert_eq!(line, "{\"a\":\"\\u00e4\\u009b\\u007f\\u202e\\ud834\\udd1e\"}\n");
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["a"], "ä\u{9b}\u{7f}\u{202e}𝄞");
    }
}
