//! The TOML format of the rules file.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::{Operation, Operations, Pattern, Rule, RuleSubject};

/// How deeply groups may be nested.
const MAX_GROUP_DEPTH: usize = 8;

/// A whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RulesFile {
    #[serde(default)]
    pub(super) admins: Vec<String>,
    #[serde(default)]
    pub(super) groups: BTreeMap<String, Vec<String>>,
    #[serde(default, rename = "rule")]
    pub(super) rules: Vec<Spanned<RuleEntry>>,
}

/// One `[[rule]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RuleEntry {
    #[serde(deserialize_with = "one_or_many")]
    repository: Vec<String>,
    #[serde(deserialize_with = "one_or_many")]
    pub(super) who: Vec<String>,
    allow: Option<Vec<Operation>>,
    deny: Option<Vec<Operation>>,
    #[serde(default, deserialize_with = "some_or_many")]
    refs: Option<Vec<String>>,
}

impl RuleEntry {
    pub(super) fn into_rule(self, line: usize) -> Result<Rule, String> {
        let (operations, is_allowed) = match (&self.allow, &self.deny) {
            (Some(allow), None) => (Operations::of(allow), true),
            (None, Some(deny)) => (Operations::of(deny), false),
            _ => return Err("a rule needs either allow or deny, not both".to_owned()),
        };
        if operations == Operations::default() || self.repository.is_empty() {
            return Err("a rule needs an operation and a repository".to_owned());
        }
        if self.refs.is_some() && operations.contains(Operation::Read) {
            return Err("read applies to whole repositories: a rule with refs cannot have it".to_owned());
        }
        let repositories =
            self.repository.iter().map(|text| Pattern::of_repositories(text)).collect::<Result<_, _>>()?;
        let refs =
            self.refs.map(|refs| refs.iter().map(|text| Pattern::of_refs(text)).collect::<Result<_, _>>());
        Ok(Rule { line, repositories, operations, is_allowed, refs: refs.transpose()? })
    }
}

/// The subject that a word of a rule names.
pub(super) fn subject(word: &str, groups: &BTreeMap<String, Vec<String>>) -> Result<RuleSubject, String> {
    match (word, word.strip_prefix('@')) {
        ("anyone", _) => Ok(RuleSubject::Anyone),
        ("users", _) => Ok(RuleSubject::Users),
        (_, Some(group)) if groups.contains_key(group) => Ok(RuleSubject::Group(group.into())),
        (_, Some(group)) => Err(format!("unknown group {group}")),
        ("", _) => Err("user name is empty".to_owned()),
        (name, None) => Ok(RuleSubject::User(name.into())),
    }
}

/// The groups that each user is in, including those through other groups.
pub(super) fn members(
    groups: &BTreeMap<String, Vec<String>>,
) -> Result<HashMap<Arc<str>, Vec<Arc<str>>>, String> {
    let mut members: HashMap<Arc<str>, Vec<Arc<str>>> = HashMap::new();
    for group in groups.keys() {
        let name: Arc<str> = group.as_str().into();
        let mut users = HashSet::new();
        collect(group, groups, 0, &mut HashSet::new(), &mut users)?;
        for user in users {
            members.entry(user.into()).or_default().push(name.clone());
        }
    }
    Ok(members)
}

fn collect<'a>(
    group: &'a str,
    groups: &'a BTreeMap<String, Vec<String>>,
    depth: usize,
    seen: &mut HashSet<&'a str>,
    users: &mut HashSet<&'a str>,
) -> Result<(), String> {
    if depth > MAX_GROUP_DEPTH {
        return Err(format!("groups: {group} is nested more than {MAX_GROUP_DEPTH} levels deep"));
    }
    if !seen.insert(group) {
        return Ok(());
    }
    let listed = groups.get(group).ok_or_else(|| format!("groups: unknown group {group}"))?;
    for member in listed {
        match (member.strip_prefix('@'), member.as_str()) {
            (Some(inner), _) => collect(inner, groups, depth + 1, seen, users)?,
            (None, "anyone" | "users" | "") => {
                return Err(format!("groups: {group}: '{member}' is not a valid user name"));
            }
            (None, user) => {
                users.insert(user);
            }
        }
    }
    Ok(())
}

/// A text, or a list of texts.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a string or a list of strings")]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(match OneOrMany::deserialize(deserializer)? {
        OneOrMany::One(text) => vec![text],
        OneOrMany::Many(texts) => texts,
    })
}

fn some_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    one_or_many(deserializer).map(Some)
}
