//! Reads a `gitolite.conf` and the files that it includes.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::rc::Rc;

use super::permission::Permission;
use super::{MAX_BYTES, ReadConf};

/// How deeply files may include others, and how many files there may be.
const MAX_DEPTH: usize = 16;
const MAX_FILES: usize = 1000;

/// The most names in all groups and lines together.
const MAX_NAMES: usize = 200_000;

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConfPlace {
    file: Rc<str>,
    line: usize,
}

impl fmt::Display for ConfPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// A rule. It names groups: their members are those at the end of the file.
#[derive(Debug)]
pub(super) struct ConfRule {
    pub(super) place: ConfPlace,
    pub(super) text: String,
    pub(super) repositories: Rc<[String]>,
    pub(super) permission: Permission,
    pub(super) refexes: Vec<String>,
    pub(super) users: Vec<String>,
}

/// Whether deny rules apply to reading, too.
#[derive(Debug)]
pub(super) struct DenyRules {
    pub(super) place: ConfPlace,
    pub(super) repositories: Rc<[String]>,
    pub(super) is_on: bool,
}

/// The content of all files.
#[derive(Debug, Default)]
pub(super) struct Conf {
    pub(super) groups: BTreeMap<String, Vec<String>>,
    pub(super) rules: Vec<ConfRule>,
    pub(super) deny_rules: Vec<DenyRules>,
    /// Lines that do not concern access.
    pub(super) left_out: Vec<String>,
}

/// Reads files.
pub(super) struct Parser<'a, 'r> {
    read: &'a mut ReadConf<'r>,
    conf: Conf,
    /// The repositories of the last `repo` line.
    repositories: Option<Rc<[String]>>,
    seen: HashSet<String>,
    bytes: usize,
    names: usize,
}

impl<'a, 'r> Parser<'a, 'r> {
    pub(super) fn new(read: &'a mut ReadConf<'r>) -> Self {
        Parser { read, conf: Conf::default(), repositories: None, seen: HashSet::new(), bytes: 0, names: 0 }
    }

    /// Reads the file of this name.
    pub(super) fn parse(mut self, name: &str) -> Result<Conf, String> {
        self.files(name, 0)?;
        Ok(self.conf)
    }

    fn files(&mut self, name: &str, depth: usize) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Err(format!("files include each other more than {MAX_DEPTH} deep"));
        }
        for (name, text) in (self.read)(name)? {
            // Like gitolite, reads a file only once.
            if !self.seen.insert(name.clone()) {
                continue;
            }
            self.bytes = self.bytes.saturating_add(text.len());
            if self.bytes > MAX_BYTES || self.seen.len() > MAX_FILES {
                return Err(format!("more than {MAX_BYTES} bytes, or {MAX_FILES} files"));
            }
            self.file(&name, &text, depth)?;
        }
        Ok(())
    }

    fn file(&mut self, name: &str, text: &str, depth: usize) -> Result<(), String> {
        let file: Rc<str> = name.escape_debug().to_string().into();
        let mut lines = text.lines().enumerate();
        let mut is_test = false;
        while let Some((number, line)) = lines.next() {
            let place = ConfPlace { file: file.clone(), line: number + 1 };
            let mut whole = line.to_owned();
            while whole.ends_with('\\') {
                whole.pop();
                whole.push(' ');
                whole.push_str(lines.next().map_or("", |(_, line)| line));
            }
            let said = |why: String| format!("{place}: {why}");
            match whole.trim() {
                "=begin testconf" => is_test = true,
                "=end" if is_test => is_test = false,
                _ if is_test => {}
                line => self.line(&place, line, depth).map_err(said)?,
            }
        }
        match is_test {
            true => Err(format!("{file}: =begin without =end")),
            false => Ok(()),
        }
    }

    fn line(&mut self, place: &ConfPlace, line: &str, depth: usize) -> Result<(), String> {
        let word = line.split([' ', '\t', '=']).next().unwrap_or_default();
        if matches!(word, "config" | "option" | "desc" | "owner" | "category") {
            return self.option(place, word, line);
        }
        let line = without_comment(line)?;
        if line.is_empty() {
            return Ok(());
        }
        if line.chars().any(|c| c.is_control() && c != '\t') {
            return Err("control character in a line".to_owned());
        }
        match (word, line.split_once('=')) {
            ("include", _) => {
                let name = line["include".len()..].trim();
                let name = name.strip_prefix('"').and_then(|name| name.strip_suffix('"')).unwrap_or(name);
                self.files(name, depth + 1)
            }
            ("repo", _) => {
                let words = self.words(&line["repo".len()..])?;
                let bad = words.iter().find(|word| is_bad(word));
                if words.is_empty() || bad.is_some() {
                    return Err(format!("'{}' is not a repository name", bad.map_or("repo", String::as_str)));
                }
                self.repositories = Some(words.into());
                Ok(())
            }
            (_, Some((group, members))) if line.starts_with('@') => self.group(group.trim(), members),
            (_, Some((rule, users))) => self.rule(place, line, rule, users),
            _ => Err(format!("'{word}' is not supported, and could deny something")),
        }
    }

    fn words(&mut self, text: &str) -> Result<Vec<String>, String> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        self.count(words.len())?;
        Ok(words)
    }

    fn count(&mut self, names: usize) -> Result<(), String> {
        self.names = self.names.saturating_add(names);
        match self.names > MAX_NAMES {
            true => Err(format!("more than {MAX_NAMES} names")),
            false => Ok(()),
        }
    }

    /// Groups among the members are expanded at once, with the members that they have now.
    fn group(&mut self, name: &str, members: &str) -> Result<(), String> {
        let is_name = |name: &str| name.len() > 1 && name[1..].chars().all(is_name_character);
        if !is_name(name) || name == "@all" {
            return Err(format!("'{name}' is not a group name"));
        }
        for word in self.words(members)? {
            let members = match word.starts_with('@') {
                false if is_bad(&word) => return Err(format!("'{word}' is not a name")),
                false => vec![word],
                true if word == "@all" => return Err("@all in a group is not supported".to_owned()),
                true => match self.conf.groups.get(&word) {
                    Some(members) => members.clone(),
                    None => return Err(format!("group {word} is used before it is defined")),
                },
            };
            self.count(members.len())?;
            self.conf.groups.entry(name.to_owned()).or_default().extend(members);
        }
        Ok(())
    }

    fn rule(&mut self, place: &ConfPlace, text: &str, rule: &str, users: &str) -> Result<(), String> {
        let Some(repositories) = self.repositories.clone() else {
            return Err("rule before any repo line".to_owned());
        };
        let mut words = self.words(rule)?.into_iter();
        let word = words.next().unwrap_or_default();
        let permission = Permission::parse(&word).ok_or_else(|| format!("'{word}' is not a permission"))?;
        let users = self.words(users)?;
        let is_no_name = |user: &&String| user.starts_with("@@") || !user.chars().all(is_name_character);
        if let Some(bad) = users.iter().find(is_no_name) {
            return Err(format!("'{bad}' is not a user name"));
        }
        if users.is_empty() {
            return Err("rule without users".to_owned());
        }
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let refexes = words.collect();
        self.conf.rules.push(ConfRule {
            place: place.clone(),
            text,
            repositories,
            permission,
            refexes,
            users,
        });
        Ok(())
    }

    fn option(&mut self, place: &ConfPlace, word: &str, line: &str) -> Result<(), String> {
        let (key, value) = line[word.len()..].split_once('=').unwrap_or_default();
        let key = key.trim();
        let is_deny_rules = match word {
            "option" => key == "deny-rules",
            _ => word == "config" && key == "gitolite-options.deny-rules",
        };
        if !is_deny_rules {
            let shown: String = line.chars().take(100).filter(|c| !c.is_control()).collect();
            self.conf.left_out.push(format!("{place}: not a rule: {shown}"));
            return Ok(());
        }
        let Some(repositories) = self.repositories.clone() else {
            return Err("option before any repo line".to_owned());
        };
        let value = value.split('#').next().unwrap_or_default().trim().trim_matches(['"', '\'']);
        let is_on = !matches!(value, "" | "0");
        self.conf.deny_rules.push(DenyRules { place: place.clone(), repositories, is_on });
        Ok(())
    }
}

fn is_name_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_.@+".contains(c)
}

/// Whether a word cannot be the name of a repository, or a pattern of names.
fn is_bad(word: &str) -> bool {
    word.contains(['"', ',', ';', '=', '\''])
}

/// As in a shell, a comment begins where a word could begin.
fn without_comment(line: &str) -> Result<&str, String> {
    let Some(at) = line.find('#') else { return Ok(line) };
    match line[..at].ends_with([' ', '\t']) || at == 0 {
        true => Ok(line[..at].trim()),
        false => Err("cannot tell whether # starts a comment".to_owned()),
    }
}
