//! Writes our rules for a parsed `gitolite.conf`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::path::Path;

use super::conf::{Conf, ConfRule};
use super::globs::{MatchEnd, of_regex, takes_git_suffix};
use super::permission::Permission;
use super::repositories::{RepositoryMarks, RepositoryWord};
use super::{ConvertedRules, MAX_BYTES};
use crate::access::rules::{AccessRules, Pattern};

const PUSH: &[&str] = &["write", "create", "force", "delete"];

/// The rules for a parsed file.
pub(super) fn convert(conf: &Conf) -> Result<ConvertedRules, String> {
    let mut writer = RulesWriter::new(conf)?;
    for rule in &conf.rules {
        writer.rule(rule)?;
        if writer.first.len() + writer.rules.len() > MAX_BYTES {
            return Err(format!("rules exceed {MAX_BYTES} bytes"));
        }
    }
    let mut toml = String::new();
    if !writer.groups.is_empty() {
        toml += "[groups]\n";
    }
    for group in &writer.groups {
        let members: Vec<&str> = conf.groups[*group].iter().map(String::as_str).collect();
        let _ = writeln!(toml, "{:?} = {}", &group[1..], list(&members));
    }
    toml += &writer.first;
    toml += &writer.rules;
    let left_out = conf.left_out.iter().cloned().chain(writer.left_out).collect::<Vec<_>>();
    for line in &left_out {
        let _ = write!(toml, "\n# Left out: {line}");
    }
    toml += "\n";
    // Rules that the server would refuse are not written.
    AccessRules::parse(Path::new("made rules"), &toml).map_err(|error| error.to_string())?;
    Ok(ConvertedRules { toml, left_out })
}

fn list(texts: &[&str]) -> String {
    format!("{texts:?}")
}

/// The most repository names that are searched and compared.
const MAX_STEPS: usize = 20_000_000;

/// For which repositories of a word something is true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum RepositoryExtent {
    #[default]
    None,
    /// Possibly for some of them.
    Some,
    All,
}

impl RepositoryExtent {
    fn of(marks: &RepositoryMarks, word: &RepositoryWord) -> Self {
        let marked = marks.of(word);
        match marked.iter().any(|(_, is_for_all)| *is_for_all) {
            _ if marked.is_empty() => RepositoryExtent::None,
            true => RepositoryExtent::All,
            false => RepositoryExtent::Some,
        }
    }

    fn is_any(self) -> bool {
        self != RepositoryExtent::None
    }
}

/// Traits of a repository, whichever rule sets them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct RepositoryTraits {
    /// There are rules with `C`, `D` or `M`: rules without the letter do not allow its operation.
    create: RepositoryExtent,
    delete: RepositoryExtent,
    merge: RepositoryExtent,
    /// Deny rules apply to reading, too.
    denies_reading: RepositoryExtent,
}

struct RulesWriter<'a> {
    conf: &'a Conf,
    create: RepositoryMarks,
    delete: RepositoryMarks,
    merge: RepositoryMarks,
    deny_rules: RepositoryMarks,
    known: HashMap<RepositoryWord, RepositoryTraits>,
    /// Groups of users that occur in rules.
    groups: BTreeSet<&'a str>,
    /// Rules that come before all others.
    first: String,
    rules: String,
    left_out: Vec<String>,
    steps: usize,
}

impl<'a> RulesWriter<'a> {
    fn new(conf: &'a Conf) -> Result<Self, String> {
        let mut writer = RulesWriter {
            conf,
            create: RepositoryMarks::default(),
            delete: RepositoryMarks::default(),
            merge: RepositoryMarks::default(),
            deny_rules: RepositoryMarks::default(),
            known: HashMap::new(),
            groups: BTreeSet::new(),
            first: String::new(),
            rules: String::new(),
            left_out: Vec::new(),
            steps: 0,
        };
        for (number, option) in conf.deny_rules.iter().enumerate() {
            let words = writer.words(&option.repositories)?;
            let added = writer.deny_rules.add(&words, number);
            added.map_err(|why| format!("{}: {why}", option.place))?;
        }
        for rule in &conf.rules {
            let write = rule.permission.write();
            if !(write.create || write.delete || write.merge) {
                continue;
            }
            let words = writer.words(&rule.repositories)?;
            let marks = [
                (write.create, &mut writer.create),
                (write.delete, &mut writer.delete),
                (write.merge, &mut writer.merge),
            ];
            for (_, marks) in marks.into_iter().filter(|(is_said, _)| *is_said) {
                marks.add(&words, 0).map_err(|why| format!("{}: {why}", rule.place))?;
            }
        }
        Ok(writer)
    }

    fn leave_out(&mut self, rule: &ConfRule, why: &str) {
        self.left_out.push(format!("{}: {why}: {}", rule.place, rule.text));
    }

    fn rule(&mut self, rule: &ConfRule) -> Result<(), String> {
        let is_vref = |refex: &String| refex.starts_with("VREF/") || refex.starts_with("NAME/");
        if rule.refexes.iter().any(is_vref) {
            self.leave_out(rule, "VREF is not supported; all pushes are denied instead");
            return self.deny_pushes_first(rule);
        }
        if rule.permission == Permission::CreateRepository {
            self.leave_out(rule, "users cannot create their own repositories");
            return Ok(());
        }
        if !rule.refexes.iter().any(|refex| refex.contains("/USER/")) {
            return self.rule_for(rule, &rule.users, &rule.refexes);
        }
        // Refs contain the names of users.
        let Some(users) = self.members(&rule.users) else {
            if rule.permission == Permission::Deny {
                self.leave_out(rule, "USER without a list of users; all refs are denied instead");
                return self.rule_for(rule, &rule.users, &[]);
            }
            self.leave_out(rule, "USER without a list of users");
            return self.read_only(rule);
        };
        for user in users {
            let put = |refex: &String| refex.replace("/USER/", &format!("/{user}/"));
            let refexes: Vec<String> = rule.refexes.iter().map(put).collect();
            self.rule_for(rule, std::slice::from_ref(&user), &refexes)?;
            if self.rules.len() > MAX_BYTES {
                return Err(format!("rules exceed {MAX_BYTES} bytes"));
            }
        }
        Ok(())
    }

    /// The names of the users; `None` if they are not known.
    fn members(&self, users: &[String]) -> Option<BTreeSet<String>> {
        let mut names = BTreeSet::new();
        for user in users {
            match user.starts_with('@') {
                true => names.extend(self.conf.groups.get(user)?.iter().cloned()),
                false => drop(names.insert(user.clone())),
            }
        }
        Some(names)
    }

    fn rule_for(&mut self, rule: &ConfRule, users: &[String], refexes: &[String]) -> Result<(), String> {
        if rule.permission == Permission::Deny {
            return self.deny(rule, users, refexes);
        }
        let who = self.subjects(rule, users, true);
        let by_traits = self.repositories(rule, true)?;
        for (traits, repositories) in by_traits {
            let entry = RuleLines { rule, repositories: &repositories, who: &who };
            self.rules += &entry.written("allow", &["read"], None);
            if let Permission::Write(_) = rule.permission {
                self.allow_pushes(&entry, traits, refexes);
            }
        }
        Ok(())
    }

    fn read_only(&mut self, rule: &ConfRule) -> Result<(), String> {
        let who = self.subjects(rule, &rule.users, true);
        for repositories in self.repositories(rule, true)?.into_values() {
            let entry = RuleLines { rule, repositories: &repositories, who: &who };
            self.rules += &entry.written("allow", &["read"], None);
        }
        Ok(())
    }

    fn allow_pushes(&mut self, entry: &RuleLines<'_>, traits: RepositoryTraits, refexes: &[String]) {
        let write = entry.rule.permission.write();
        if traits.merge.is_any() && !write.merge {
            return self.leave_out(entry.rule, "rules cannot refuse merges, so this allows no pushes");
        }
        let is_partial =
            |is_said: bool, extent: RepositoryExtent| !is_said && extent == RepositoryExtent::Some;
        if is_partial(write.create, traits.create) {
            self.leave_out(
                entry.rule,
                "C in other rules may apply to other repositories; this allows no new refs",
            );
        }
        if write.rewind && is_partial(write.delete, traits.delete) {
            self.leave_out(
                entry.rule,
                "D in other rules may apply to other repositories; this allows no deletions",
            );
        }
        let mut refs = Vec::new();
        for refex in refexes {
            match ref_globs(refex) {
                Some(globs) => refs.extend(globs),
                None => self.leave_out(entry.rule, &format!("no pattern for {refex:?}")),
            }
        }
        if refexes.is_empty() {
            // Refs must be named: a rule without them also allows creating the repository.
            refs.push("refs/**".to_owned());
        }
        let mut operations = Vec::new();
        if write.rewind {
            operations.extend(["write", "force"]);
        }
        if write.create || !traits.create.is_any() {
            operations.push("create");
        }
        if write.delete || write.rewind && !traits.delete.is_any() {
            operations.push("delete");
        }
        self.rules += &entry.written("allow", &operations, Some(&refs));
        if !write.rewind {
            // Every update of a ref that is no branch counts as a rewind.
            let mut branches = Vec::new();
            for glob in refs {
                let literal = glob.split(['*', '?', '[']).next().unwrap_or_default();
                match glob.as_str() {
                    "refs/**" => branches.push("refs/heads/**".to_owned()),
                    _ if literal.starts_with("refs/heads/") => branches.push(glob),
                    _ if "refs/heads/".starts_with(literal) => {
                        self.leave_out(
                            entry.rule,
                            "may match branches and other refs; this allows no updates",
                        );
                    }
                    _ => {}
                }
            }
            self.rules += &entry.written("allow", &["write"], Some(&branches));
        }
    }

    fn deny(&mut self, rule: &ConfRule, users: &[String], refexes: &[String]) -> Result<(), String> {
        let who = self.subjects(rule, users, false);
        let globs: Option<Vec<Vec<String>>> = refexes.iter().map(|refex| ref_globs(refex)).collect();
        if globs.is_none() {
            self.leave_out(rule, "no pattern for these refs; all are denied instead");
        }
        let refs = globs.map(|globs| globs.concat()).filter(|refs| !refs.is_empty());
        for (traits, repositories) in self.repositories(rule, false)? {
            let entry = RuleLines { rule, repositories: &repositories, who: &who };
            if !traits.denies_reading.is_any() {
                self.rules += &entry.written("deny", PUSH, refs.as_deref());
                continue;
            }
            if traits.denies_reading == RepositoryExtent::Some {
                self.leave_out(
                    rule,
                    "deny-rules may be on for some of its repositories; reading all of them is denied",
                );
            }
            if refs.is_some() {
                self.leave_out(rule, "with deny-rules, all refs are denied instead");
            }
            self.rules += &entry.written("deny", &[&["read"], PUSH].concat(), None);
        }
        Ok(())
    }

    fn deny_pushes_first(&mut self, rule: &ConfRule) -> Result<(), String> {
        let who = self.subjects(rule, &rule.users, false);
        for (traits, repositories) in self.repositories(rule, false)? {
            let entry = RuleLines { rule, repositories: &repositories, who: &who };
            self.first += &entry.written("deny", PUSH, None);
            if rule.permission == Permission::Deny && traits.denies_reading.is_any() {
                self.rules += &entry.written("deny", &["read"], None);
            }
        }
        Ok(())
    }

    /// The patterns of a rule's repositories, by their traits.
    fn repositories(&mut self, rule: &ConfRule, is_allowed: bool) -> Result<ByTraits, String> {
        let mut all = ByTraits::new();
        for word in self.words(&rule.repositories)? {
            let traits = self.traits(&word)?;
            let patterns = match (&word, is_allowed) {
                (RepositoryWord::All, _) => vec!["**".to_owned()],
                (RepositoryWord::Literal(name), _) => vec![name.clone()],
                (RepositoryWord::Regex(text, Some(globs)), true) => {
                    let (unsafe_globs, globs): (Vec<String>, Vec<String>) =
                        globs.iter().cloned().partition(|glob| takes_git_suffix(glob));
                    if !unsafe_globs.is_empty() {
                        self.leave_out(
                            rule,
                            &format!("as a pattern, {text:?} could also match other names with .git"),
                        );
                    }
                    globs
                }
                (RepositoryWord::Regex(_, Some(globs)), false) => globs.clone(),
                (RepositoryWord::Regex(text, None), true) => {
                    self.leave_out(rule, &format!("no pattern for {text:?}"));
                    Vec::new()
                }
                (RepositoryWord::Unknown(name), true) => {
                    self.leave_out(rule, &format!("unknown group {name}"));
                    Vec::new()
                }
                (RepositoryWord::Regex(name, None) | RepositoryWord::Unknown(name), false) => {
                    self.leave_out(
                        rule,
                        &format!("no pattern for {name:?}; all repositories are denied instead"),
                    );
                    vec!["**".to_owned()]
                }
            };
            all.entry(traits).or_default().extend(patterns);
        }
        Ok(all)
    }

    fn traits(&mut self, word: &RepositoryWord) -> Result<RepositoryTraits, String> {
        if let Some(known) = self.known.get(word) {
            return Ok(*known);
        }
        let all = [&self.create, &self.delete, &self.merge, &self.deny_rules];
        self.steps += all.map(|marks| marks.cost(word)).iter().sum::<usize>();
        self.check_steps()?;
        let mut denies_reading = RepositoryExtent::None;
        for (number, is_for_all) in self.deny_rules.of(word) {
            denies_reading = match (self.conf.deny_rules[number].is_on, is_for_all, denies_reading) {
                (true, true, _) => RepositoryExtent::All,
                (false, true, _) | (false, false, RepositoryExtent::None) => RepositoryExtent::None,
                (true, false, RepositoryExtent::All) => RepositoryExtent::All,
                (true | false, false, _) => RepositoryExtent::Some,
            };
        }
        let traits = RepositoryTraits {
            create: RepositoryExtent::of(&self.create, word),
            delete: RepositoryExtent::of(&self.delete, word),
            merge: RepositoryExtent::of(&self.merge, word),
            denies_reading,
        };
        self.known.insert(word.clone(), traits);
        Ok(traits)
    }

    fn check_steps(&self) -> Result<(), String> {
        match self.steps > MAX_STEPS {
            true => Err("too many repositories in too many rules".to_owned()),
            false => Ok(()),
        }
    }

    /// The repositories of a line.
    fn words(&mut self, repositories: &[String]) -> Result<BTreeSet<RepositoryWord>, String> {
        let words = RepositoryWord::resolve(repositories, &self.conf.groups);
        self.steps += words.len();
        self.check_steps()?;
        Ok(words)
    }

    /// The subjects of a rule: unknown ones are left out of an allow rule, and become all users in a deny
    /// rule.
    fn subjects(&mut self, rule: &ConfRule, users: &[String], is_allowed: bool) -> Vec<String> {
        let mut who = BTreeSet::new();
        for user in users {
            let is_program = matches!(user.as_str(), "daemon" | "gitweb");
            let group = self.conf.groups.get_key_value(user);
            let group = group.filter(|(_, members)| !members.iter().any(|member| is_role(member)));
            match (user.as_str(), group, is_allowed) {
                ("@all", _, _) => drop(who.insert("users".to_owned())),
                (_, Some((name, _)), _) => {
                    self.groups.insert(name);
                    who.insert(user.clone());
                }
                (_, None, true) if is_role(user) || is_program || user.starts_with('@') => {
                    self.leave_out(rule, &format!("{user} cannot be resolved to users"));
                }
                (_, None, false) if is_role(user) || user.starts_with('@') => {
                    self.leave_out(
                        rule,
                        &format!("{user} cannot be resolved to users; all users are denied instead"),
                    );
                    who.insert("users".to_owned());
                }
                (_, None, _) => drop(who.insert(user.clone())),
            }
        }
        who.into_iter().collect()
    }
}

/// Names with a special meaning, in gitolite or here.
fn is_role(user: &str) -> bool {
    matches!(user, "CREATOR" | "READERS" | "WRITERS" | "anyone" | "users")
}

type ByTraits = BTreeMap<RepositoryTraits, Vec<String>>;

/// The patterns for the refs that `refex` matches; it begins in refs/heads/ unless it begins with refs/.
fn ref_globs(refex: &str) -> Option<Vec<String>> {
    let whole = match refex.starts_with("refs/") {
        true => refex.to_owned(),
        false => format!("refs/heads/{refex}"),
    };
    let globs = of_regex(&whole, MatchEnd::Anywhere)?;
    globs.iter().all(|glob| Pattern::of_refs(glob).is_ok()).then_some(globs)
}

/// What the rules for one line have in common.
struct RuleLines<'a> {
    rule: &'a ConfRule,
    repositories: &'a [String],
    who: &'a [String],
}

impl RuleLines<'_> {
    /// One rule; empty if it would apply to no user or no repository.
    fn written(&self, verb: &str, operations: &[&str], refs: Option<&[String]>) -> String {
        let is_empty = refs.is_some_and(<[String]>::is_empty) || operations.is_empty();
        if is_empty || self.repositories.is_empty() || self.who.is_empty() {
            return String::new();
        }
        let ConfRule { place, text, .. } = self.rule;
        let mut lines = format!("\n# {place}: {text}\n[[rule]]\n");
        let _ = writeln!(lines, "repository = {:?}\nwho = {:?}", self.repositories, self.who);
        let _ = writeln!(lines, "{verb} = {}", list(operations));
        if let Some(refs) = refs {
            let _ = writeln!(lines, "refs = {refs:?}");
        }
        lines
    }
}
