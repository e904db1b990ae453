use std::borrow::Cow;

use super::message::{MessageId, Severity};
use crate::ObjectId;

/// A problem of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The object.
    pub object: ObjectId,
    /// The kind of problem.
    pub message: MessageId,
    /// Its severity according to the settings; never [`Severity::Ignore`].
    pub severity: Severity,
    /// The text; parts may come from the unchecked object.
    pub text: Cow<'static, [u8]>,
    /// Git's line about a tree before the error that it cannot be parsed.
    pub before: Option<&'static str>,
}

impl Finding {
    /// Appends the line `error: object <id>: <message>: <text>`, or `warning: …`. Control characters become
    /// question marks, as in everything that git writes to standard error.
    pub fn write_line(&self, out: &mut Vec<u8>) {
        if let Some(before) = self.before {
            out.extend_from_slice(format!("error: {before}\n").as_bytes());
        }
        let (word, name) = (self.severity.word(), self.message.name());
        out.extend_from_slice(format!("{word}: object {}: {name}: ", self.object).as_bytes());
        out.extend(self.text.iter().map(|byte| match byte {
            b'\t' | b'\n' => *byte,
            byte if byte.is_ascii_control() => b'?',
            byte => *byte,
        }));
        out.push(b'\n');
    }
}
