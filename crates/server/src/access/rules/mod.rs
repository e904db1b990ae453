//! Access rules: which principals may do what, with which repositories and refs. The first rule that matches decides.

mod file;
mod index;
mod pattern;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use super::secret_file::{self, LoadError};
use super::{Ask, ChangeKind, Principal, RefChange};
use file::{RuleEntry, RulesFile};
use index::Candidates;
pub(crate) use pattern::Pattern;

/// What a rule allows or denies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Clone, fetch, list refs.
    Read,
    /// Update refs to descendants of their values.
    Write,
    /// Create refs; without a ref pattern also the repository, by pushing to it.
    Create,
    /// Update refs to any value.
    Force,
    /// Delete refs.
    Delete,
}

impl Operation {
    /// All operations, in the order of their documentation.
    pub const ALL: [Operation; 5] =
        [Operation::Read, Operation::Write, Operation::Create, Operation::Force, Operation::Delete];

    /// The name in rules.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Create => "create",
            Operation::Force => "force",
            Operation::Delete => "delete",
        }
    }
}

impl std::str::FromStr for Operation {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Operation::ALL
            .into_iter()
            .find(|operation| operation.name() == name)
            .ok_or_else(|| format!("'{name}' is not read, write, create, force or delete"))
    }
}

/// A set of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Operations(u8);

impl Operations {
    const PUSH: Operations = Operations(0b11110);

    fn of(operations: &[Operation]) -> Self {
        Operations(operations.iter().fold(0, |all, one| all | 1 << *one as u8))
    }

    fn contains(self, operation: Operation) -> bool {
        self.0 & 1 << operation as u8 != 0
    }

    fn without(self, others: Operations) -> Self {
        Operations(self.0 & !others.0)
    }

    fn overlaps(self, others: Operations) -> bool {
        self.0 & others.0 != 0
    }
}

/// A subject of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum RuleSubject {
    /// Clients with and without a name.
    Anyone,
    /// Clients with a name.
    Users,
    User(Arc<str>),
    Group(Arc<str>),
}

/// One rule.
#[derive(Debug)]
struct Rule {
    /// The line of the file that it begins on.
    line: usize,
    repositories: Vec<Pattern>,
    operations: Operations,
    is_allowed: bool,
    /// Only these refs; `None` for all.
    refs: Option<Vec<Pattern>>,
}

impl Rule {
    fn is_about(&self, path: &[u8]) -> bool {
        self.repositories.iter().any(|pattern| pattern.matches_repository(path))
    }

    /// Without a ref name, only rules for all refs match.
    fn takes_ref(&self, name: Option<&[u8]>) -> bool {
        match (&self.refs, name) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(patterns), Some(name)) => patterns.iter().any(|pattern| pattern.matches(name)),
        }
    }
}

/// The decision of the rules, and the line that decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) is_allowed: bool,
    /// The line of the rule that decided; `None` if none matched.
    pub(super) line: Option<usize>,
}

impl Verdict {
    const NO_RULE: Verdict = Verdict { is_allowed: false, line: None };

    fn of(rule: &Rule) -> Self {
        Verdict { is_allowed: rule.is_allowed, line: Some(rule.line) }
    }
}

/// The rules of a file.
#[derive(Debug)]
pub(super) struct AccessRules {
    path: PathBuf,
    rules: Vec<Rule>,
    /// Finds the rules for a subject and a path.
    candidates: Candidates,
    admins: HashSet<RuleSubject>,
    /// The groups of each user.
    groups: HashMap<Arc<str>, Vec<Arc<str>>>,
}

impl AccessRules {
    /// Reads a file of rules.
    pub(super) fn load(path: &Path) -> Result<Self, LoadError> {
        AccessRules::parse(path, &secret_file::read(path)?)
    }

    pub(super) fn parse(path: &Path, text: &str) -> Result<Self, LoadError> {
        let parsed: RulesFile = toml::from_str(text).map_err(|error| {
            LoadError::at_byte(path, text, error.span().unwrap_or_default().start, error.message())
        })?;
        let groups = file::members(&parsed.groups).map_err(|why| LoadError::of(path, why))?;
        let subject = |name: &str| file::subject(name, &parsed.groups);
        let admins = parsed.admins.iter().map(|name| subject(name)).collect::<Result<_, _>>();
        let admins = admins.map_err(|why| LoadError::of(path, format!("admins: {why}")))?;
        let mut rules = Vec::new();
        let mut candidates = Candidates::default();
        let line_ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
        for entry in parsed.rules {
            let start = entry.span().start;
            let RuleEntry { who, .. } = entry.get_ref();
            let subjects: Result<Vec<RuleSubject>, String> = who.iter().map(|name| subject(name)).collect();
            let subjects = subjects.and_then(|all| match all.is_empty() {
                true => Err("who: is empty".to_owned()),
                false => Ok(all),
            });
            let rule = subjects.and_then(|subjects| {
                let line = line_ends.partition_point(|end| *end < start) + 1;
                Ok((subjects, entry.into_inner().into_rule(line)?))
            });
            let (subjects, rule) = rule.map_err(|why| LoadError::at_byte(path, text, start, why))?;
            candidates.add(rules.len(), &subjects, &rule.repositories);
            rules.push(rule);
        }
        Ok(AccessRules { path: path.to_owned(), rules, candidates, admins, groups })
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a principal is an administrator.
    pub(super) fn is_admin(&self, principal: &Principal) -> bool {
        self.subjects(principal).iter().any(|subject| self.admins.contains(subject))
    }

    /// The decision of the first rule that matches.
    pub(super) fn decide(&self, principal: &Principal, path: &[u8], ask: Ask<'_>) -> Verdict {
        let first = |operation, name| self.first(principal, path, operation, name);
        match ask {
            Ask::Read => first(Operation::Read, None),
            Ask::Create => first(Operation::Create, None),
            Ask::Push => self.may_push(principal, path),
            Ask::Ref(RefChange { name, kind }) => match kind {
                ChangeKind::Create => first(Operation::Create, Some(name)),
                ChangeKind::Delete => first(Operation::Delete, Some(name)),
                ChangeKind::Force => first(Operation::Force, Some(name)),
                // Permission to force a ref includes updating it.
                ChangeKind::FastForward => {
                    let verdict = first(Operation::Write, Some(name));
                    let forced = (!verdict.is_allowed).then(|| first(Operation::Force, Some(name)));
                    forced.filter(|forced| forced.is_allowed).unwrap_or(verdict)
                }
            },
            Ask::Delete | Ask::Look => Verdict { is_allowed: self.is_admin(principal), line: None },
        }
    }

    /// The verdict of the first rule about this operation and this ref. Without a ref name, that is a rule
    /// about all refs.
    pub(super) fn first(
        &self,
        principal: &Principal,
        path: &[u8],
        operation: Operation,
        name: Option<&[u8]>,
    ) -> Verdict {
        self.about(principal, path)
            .find(|rule| rule.operations.contains(operation) && rule.takes_ref(name))
            .map_or(Verdict::NO_RULE, Verdict::of)
    }

    /// Whether any ref change may be allowed.
    fn may_push(&self, principal: &Principal, path: &[u8]) -> Verdict {
        let mut open = Operations::PUSH;
        let decides = self.about(principal, path).find(|rule| {
            let is_allowed = rule.is_allowed && rule.operations.overlaps(open);
            if !rule.is_allowed && rule.refs.is_none() {
                open = open.without(rule.operations);
            }
            is_allowed || open == Operations::default()
        });
        decides.map_or(Verdict::NO_RULE, Verdict::of)
    }

    /// The rules about a principal and a repository, in the order of the file.
    fn about(&self, principal: &Principal, path: &[u8]) -> impl Iterator<Item = &Rule> {
        let numbers = self.candidates.of(&self.subjects(principal), path);
        numbers.into_iter().map(|number| &self.rules[number]).filter(move |rule| rule.is_about(path))
    }

    /// The subjects that match this principal.
    fn subjects(&self, principal: &Principal) -> Vec<RuleSubject> {
        let Some(name) = &principal.name else { return vec![RuleSubject::Anyone] };
        let own = self.groups.get(name).into_iter().flatten().cloned().map(RuleSubject::Group);
        let given = principal.groups.iter().map(|group| RuleSubject::Group(group.as_str().into()));
        [RuleSubject::Anyone, RuleSubject::Users, RuleSubject::User(name.clone())]
            .into_iter()
            .chain(own)
            .chain(given)
            .collect()
    }
}

#[cfg(test)]
mod tests;
