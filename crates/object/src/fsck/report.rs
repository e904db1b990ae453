//! Findings about one object, as severities and skip lists let them through.

use std::borrow::Cow;

use super::finding::Finding;
use super::message::{MessageId, Severity};
use super::severities::Severities;
use super::skip_list::SkipList;
use crate::oid;

/// How bad each thing is, and of which objects nothing is told.
#[derive(Debug, Clone)]
pub struct Rules {
    /// How bad each thing is.
    pub severities: Severities,
    /// Of which objects nothing is told.
    pub skip: SkipList,
}

/// An error was found, after which the rest of an object is not looked at.
pub(super) struct Stop;

/// Takes findings about one object.
pub(super) struct Report<'a> {
    rules: &'a Rules,
    object: &'a oid,
    findings: &'a mut Vec<Finding>,
}

impl<'a> Report<'a> {
    pub(super) fn new(rules: &'a Rules, object: &'a oid, findings: &'a mut Vec<Finding>) -> Self {
        Report { rules, object, findings }
    }

    pub(super) fn severities(&self) -> &Severities {
        &self.rules.severities
    }

    /// Tells of something, unless settings say otherwise; `Err` if it is an error.
    pub(super) fn tell(
        &mut self,
        message: MessageId,
        text: impl Into<Cow<'static, [u8]>>,
    ) -> Result<(), Stop> {
        self.tell_after(None, message, text)
    }

    pub(super) fn tell_after(
        &mut self,
        before: Option<&'static str>,
        message: MessageId,
        text: impl Into<Cow<'static, [u8]>>,
    ) -> Result<(), Stop> {
        let severity = self.rules.severities.of(message);
        if severity == Severity::Ignore || self.rules.skip.contains(self.object) {
            return Ok(());
        }
        let object = self.object.to_owned();
        self.findings.push(Finding { object, message, severity, text: text.into(), before });
        if severity.is_error() { Err(Stop) } else { Ok(()) }
    }

    /// As [`Report::tell`] where the checks go on in any case.
    pub(super) fn note(&mut self, message: MessageId, text: impl Into<Cow<'static, [u8]>>) {
        let _goes_on = self.tell(message, text);
    }
}
