//! The older kinds of trace that parts of a command write as they work (git(1)).

use std::ffi::OsString;

use jiff::Timestamp;

use super::formats::classic_line;
use super::target::{TraceTarget, TraceWriter};
use crate::call::Call;
use crate::call::streams::ErrorOutput;

/// Where a trace goes.
pub(crate) struct ClassicLog {
    variable: &'static str,
    is_bare: bool,
    /// Until it cannot be written.
    writer: Option<TraceWriter>,
    errors: ErrorOutput,
}

impl ClassicLog {
    /// Opens the target that a variable names, if it names one.
    pub(crate) fn open(call: &Call, variable: &'static str, target: &OsString) -> Option<Self> {
        let errors = call.streams.errors.clone();
        match TraceTarget::parse(target)?.open_classic() {
            Ok(writer) => {
                let is_bare = call.environment.classic_traces.is_bare;
                Some(ClassicLog { variable, is_bare, writer: Some(writer), errors })
            }
            Err(failure) => {
                errors.error_line(format_args!("warning: {}", failure.classic_text(variable)));
                None
            }
        }
    }

    /// Writes a line, with the time before it.
    pub(super) fn line(&mut self, text: &str) {
        let line = classic_line(Timestamp::now(), self.is_bare, text);
        self.bytes(line.as_bytes());
    }

    /// Writes bytes as they are. A trace that cannot be written must not end the command.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        let written = match &mut self.writer {
            None => Ok(()),
            Some(TraceWriter::StandardError) => self.errors.say(bytes),
            Some(writer) => writer.write_elsewhere(bytes),
        };
        if let Err(error) = written {
            self.writer = None;
            let (name, reason) = (self.variable, packrace_os::reason(&error));
            self.errors.error_line(format_args!("warning: unable to write trace for {name}: {reason}"));
        }
    }

    #[cfg(test)]
    pub(super) fn to(errors: ErrorOutput) -> Self {
        ClassicLog { variable: "", is_bare: true, writer: Some(TraceWriter::StandardError), errors }
    }
}
