//! Findings about an object, filtered by severities and skip lists.

use std::borrow::Cow;

use super::finding::Finding;
use super::message::{MessageId, Severity};
use super::severities::Severities;
use super::skip_list::SkipList;
use crate::oid;

/// The severities, and objects without findings.
#[derive(Debug, Clone)]
pub struct Rules {
    /// The severity of each message.
    pub severities: Severities,
    /// Objects without findings.
    pub skip: SkipList,
}

/// An error has ended the check of an object.
pub(super) struct Stop;

/// Collects the findings about one object.
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

    /// Reports a problem, unless settings suppress it; `Err` if it is an error.
    pub(super) fn add(
        &mut self,
        message: MessageId,
        text: impl Into<Cow<'static, [u8]>>,
    ) -> Result<(), Stop> {
        self.add_after(None, message, text)
    }

    pub(super) fn add_after(
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

    /// Like [`Report::add`], if the checks continue in any case.
    pub(super) fn note(&mut self, message: MessageId, text: impl Into<Cow<'static, [u8]>>) {
        let _goes_on = self.add(message, text);
    }
}
