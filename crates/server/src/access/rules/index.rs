//! Finds the few rules that can apply to a request among very many.

use std::collections::HashMap;

use super::{Pattern, RuleSubject};

/// Numbers of rules by subject, and then by the literal prefix of their repository patterns.
#[derive(Debug, Default)]
pub(super) struct Candidates(HashMap<RuleSubject, ByPrefix>);

#[derive(Debug, Default)]
struct ByPrefix {
    /// Lengths of the keys, ascending.
    lengths: Vec<usize>,
    numbers: HashMap<Box<[u8]>, Vec<usize>>,
}

impl Candidates {
    /// Adds rule `number`.
    pub(super) fn add(&mut self, number: usize, subjects: &[RuleSubject], repositories: &[Pattern]) {
        for subject in subjects {
            let ByPrefix { lengths, numbers } = self.0.entry(subject.clone()).or_default();
            for pattern in repositories {
                let prefix = pattern.literal();
                if let Err(at) = lengths.binary_search(&prefix.len()) {
                    lengths.insert(at, prefix.len());
                }
                numbers.entry(prefix.into()).or_default().push(number);
            }
        }
    }

    /// The rules that can apply to these subjects and this path, in the order of the file. Patterns are not
    /// matched here.
    pub(super) fn of(&self, subjects: &[RuleSubject], path: &[u8]) -> Vec<usize> {
        let mut found = Vec::new();
        for ByPrefix { lengths, numbers } in subjects.iter().filter_map(|subject| self.0.get(subject)) {
            for length in lengths.iter().take_while(|length| **length <= path.len()) {
                found.extend(numbers.get(&path[..*length]).into_iter().flatten());
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}
