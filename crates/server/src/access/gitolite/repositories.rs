//! The repositories that a word of a `repo` line matches, and whether two words can match the same one.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::globs::{MatchEnd, of_regex};
use crate::access::rules::Pattern;

/// The most patterns and `@all` among the words of one kind.
const MAX_PATTERNS: usize = 100;

/// A word, with groups resolved.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum RepositoryWord {
    All,
    Literal(String),
    /// A regular expression, and patterns of ours that match the same, if there are any.
    Regex(String, Option<Vec<String>>),
    /// A group that is not defined: its members may come from elsewhere.
    Unknown(String),
}

impl RepositoryWord {
    /// Resolves the groups in a list of words; each word is returned once.
    pub(super) fn resolve(words: &[String], groups: &BTreeMap<String, Vec<String>>) -> BTreeSet<Self> {
        let resolve = |word: &String| match (word.as_str(), groups.get(word)) {
            ("@all", _) => vec![RepositoryWord::All],
            (_, Some(members)) => members.iter().map(|word| RepositoryWord::of(word)).collect(),
            (_, None) if word.starts_with('@') => vec![RepositoryWord::Unknown(word.clone())],
            (_, None) => vec![RepositoryWord::of(word)],
        };
        words.iter().flat_map(resolve).collect()
    }

    fn of(word: &str) -> Self {
        let is_literal = |c: char| c.is_ascii_alphanumeric() || "-._@/+".contains(c);
        if word.contains("CREATOR") {
            return RepositoryWord::Regex(word.to_owned(), None);
        }
        if word.chars().all(is_literal) {
            return RepositoryWord::Literal(word.strip_suffix(".git").unwrap_or(word).to_owned());
        }
        let globs = of_regex(word, MatchEnd::AtEnd);
        let are_good = |globs: &Vec<String>| globs.iter().all(|glob| Pattern::of_repositories(glob).is_ok());
        RepositoryWord::Regex(word.to_owned(), globs.filter(are_good))
    }

    /// Whether another word can match the same repository: `Some(true)` if it matches all that this one
    /// matches.
    fn meets(&self, other: &Self) -> Option<bool> {
        match (self, other) {
            (_, RepositoryWord::All) => Some(true),
            (one, other) if one == other => Some(true),
            (RepositoryWord::Literal(_), RepositoryWord::Literal(_)) => None,
            (RepositoryWord::Literal(name), RepositoryWord::Regex(_, Some(globs))) => {
                matches(globs, name).then_some(true)
            }
            (RepositoryWord::Regex(_, Some(globs)), RepositoryWord::Literal(name)) => {
                matches(globs, name).then_some(false)
            }
            _ => Some(false),
        }
    }
}

fn matches(globs: &[String], name: &str) -> bool {
    let mut patterns = globs.iter().filter_map(|glob| Pattern::of_repositories(glob).ok());
    patterns.any(|pattern| pattern.matches_repository(name.as_bytes()))
}

/// Marks on repositories, in order.
#[derive(Debug, Default)]
pub(super) struct RepositoryMarks {
    literals: HashMap<String, Vec<usize>>,
    others: Vec<(RepositoryWord, usize)>,
}

impl RepositoryMarks {
    /// Marks repositories; `number` never decreases.
    pub(super) fn add(&mut self, words: &BTreeSet<RepositoryWord>, number: usize) -> Result<(), String> {
        for word in words {
            match word {
                RepositoryWord::Literal(name) => {
                    let numbers = self.literals.entry(name.clone()).or_default();
                    if numbers.last() != Some(&number) {
                        numbers.push(number);
                    }
                }
                other if self.others.iter().any(|(known, at)| (known, *at) == (other, number)) => {}
                other => self.others.push((other.clone(), number)),
            }
        }
        match self.others.len() > MAX_PATTERNS {
            true => Err(format!("more than {MAX_PATTERNS} repository patterns with C, D, M or deny-rules")),
            false => Ok(()),
        }
    }

    /// The cost of a search for a word.
    pub(super) fn cost(&self, word: &RepositoryWord) -> usize {
        match word {
            RepositoryWord::Literal(_) => self.others.len(),
            _ => self.others.len() + self.literals.len(),
        }
    }

    /// The marks on any repository that a word can match, in order, and whether each is on all of them.
    pub(super) fn of(&self, word: &RepositoryWord) -> Vec<(usize, bool)> {
        let others = self.others.iter().filter_map(|(other, number)| Some((*number, word.meets(other)?)));
        let mut found: Vec<(usize, bool)> = others.collect();
        match word {
            RepositoryWord::Literal(name) => {
                let numbers = self.literals.get(name).into_iter().flatten();
                found.extend(numbers.map(|number| (*number, true)));
            }
            _ => {
                for (name, numbers) in &self.literals {
                    let other = RepositoryWord::Literal(name.clone());
                    if word.meets(&other).is_some() {
                        found.extend(numbers.iter().map(|number| (*number, false)));
                    }
                }
            }
        }
        found.sort_unstable();
        found
    }
}
