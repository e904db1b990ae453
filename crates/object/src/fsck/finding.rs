use std::borrow::Cow;

use super::message::{MessageId, Severity};
use crate::ObjectId;

/// Something that is wrong with an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The object.
    pub object: ObjectId,
    /// What is wrong.
    pub message: MessageId,
    /// How bad that is, as settings have it; never [`Severity::Ignore`].
    pub severity: Severity,
    /// It in words. Parts may come from the object, which nobody checked.
    pub text: Cow<'static, [u8]>,
    /// What git says about a tree before it says that it cannot be parsed.
    pub before: Option<&'static str>,
}

impl Finding {
    /// Appends `error: object <id>: <message>: <text>`, or `warning: …`, as a line. Control characters become question
    /// marks, as in whatever git writes on standard error.
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
