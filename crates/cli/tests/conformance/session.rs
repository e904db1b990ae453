//! Session files: `## NAME` begins a session, lines `# KEY: VALUE` below configure its comparison, and the
//! rest is for `sh`.

use crate::masks::Mask;

/// What a user types, and how the outcome is compared.
#[derive(Debug, Default)]
pub struct Session {
    topic: String,
    name: String,
    pub script: String,
    /// Ref formats.
    refs: Vec<String>,
    /// Hashes of object names.
    hashes: Vec<String>,
    /// Expected exit codes of failing commands of git, in order; or `any`.
    pub exits: Vec<String>,
    /// Text that git alone must print, on standard output or standard error.
    pub says: Vec<String>,
    pub masks: Vec<Mask>,
    /// What `state.sh` shows in addition, or omits.
    pub state: Vec<String>,
    /// Known differences of packrace: the word that a case must contain (none: every case), and the reason.
    differs: Vec<(String, String)>,
    /// The oldest git with this feature.
    pub needs: (u32, u32),
}

/// A session with one ref format and one hash.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    pub session: &'a Session,
    pub refs: &'a str,
    pub hash: &'a str,
}

impl Session {
    pub fn cases(&self) -> impl Iterator<Item = Case<'_>> {
        let pairs = self.refs.iter().flat_map(|refs| self.hashes.iter().map(move |hash| (refs, hash)));
        pairs.map(|(refs, hash)| Case { session: self, refs, hash })
    }

    /// Whether it types `git COMMAND`.
    pub fn uses(&self, command: &str) -> bool {
        self.topic == command || self.script.contains(&format!("git {command}"))
    }

    fn take(&mut self, key: &str, value: &str) -> Result<(), String> {
        let words = || value.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        match key {
            "in" => {
                let (hashes, refs): (Vec<_>, Vec<_>) =
                    words().into_iter().partition(|word| word.starts_with("sha"));
                let is_known =
                    |word: &String| ["files", "reftable", "sha1", "sha256"].contains(&word.as_str());
                if !hashes.iter().chain(&refs).all(is_known) {
                    return Err(format!("in: {value}?"));
                }
                if !hashes.is_empty() {
                    self.hashes = hashes;
                }
                if !refs.is_empty() {
                    self.refs = refs;
                }
            }
            "exits" => self.exits = words(),
            "says" => self.says.push(value.to_owned()),
            "masks" => self.masks = words().iter().map(|word| Mask::named(word)).collect::<Result<_, _>>()?,
            "state" => self.state = words(),
            "differs" => self.differs.push((String::new(), value.to_owned())),
            "needs git" => {
                let (major, minor) = value.split_once('.').ok_or("a version has two numbers")?;
                let number = |text: &str| text.parse().map_err(|error| format!("{text}: {error}"));
                self.needs = (number(major)?, number(minor)?);
            }
            _ => match key.strip_prefix("differs in ") {
                Some(word) => self.differs.push((word.to_owned(), value.to_owned())),
                None => return Err(format!("no such key: {key}")),
            },
        }
        Ok(())
    }
}

impl<'a> Case<'a> {
    pub fn name(&self) -> String {
        let Session { topic, name, .. } = self.session;
        format!("{topic}: {name} ({}, {})", self.refs, self.hash)
    }

    /// The length of an object name in bytes.
    pub fn hash_len(&self) -> usize {
        if self.hash == "sha256" { 32 } else { 20 }
    }

    /// The reason of a known difference.
    pub fn known_difference(&self) -> Option<&'a str> {
        let counts = |word: &str| word.is_empty() || word == self.refs || word == self.hash;
        self.session.differs.iter().find(|(word, _)| counts(word)).map(|(_, reason)| reason.as_str())
    }
}

/// Parses the sessions of a file. Everything before the first session applies to all of them.
pub fn parse(topic: &str, text: &str) -> Result<Vec<Session>, String> {
    let mut common = Session { topic: topic.to_owned(), ..Session::default() };
    common.take("in", "files sha1")?;
    let mut common_lines: Vec<(&str, &str)> = Vec::new();
    let mut sessions: Vec<Session> = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("## ") {
            let mut session =
                Session { topic: topic.to_owned(), name: name.to_owned(), ..Session::default() };
            session.take("in", "files sha1")?;
            for &(key, value) in &common_lines {
                session.take(key, value)?;
            }
            sessions.push(session);
            continue;
        }
        let is_key = |(key, _): &(&str, &str)| key.starts_with(|first: char| first.is_ascii_lowercase());
        let directive = line.strip_prefix("# ").and_then(|rest| rest.split_once(": ")).filter(is_key);
        match (directive, sessions.last_mut()) {
            (Some((key, value)), None) => common_lines.push((key, value)),
            (Some((key, value)), Some(session)) if session.script.is_empty() => session.take(key, value)?,
            (_, Some(session)) => session.script.push_str(&format!("{line}\n")),
            (None, None) => {}
        }
    }
    match sessions.iter().find(|session| session.script.trim().is_empty()) {
        Some(empty) => Err(format!("{} does nothing", empty.name)),
        None => Ok(sessions),
    }
}

#[test]
fn a_file_of_sessions_is_read() {
    let text = "# in: reftable\n\n## one\n# exits: 1 128\ngit a\n# note: of sh\n\n## two\n# in: files sha256\n# differs in sha256: why\ngit b\n";
    let sessions = parse("topic", text).expect("it is well formed");
    assert_eq!(sessions.len(), 2);
    assert_eq!(sessions[0].exits, ["1", "128"]);
    assert_eq!(sessions[0].script, "git a\n# note: of sh\n\n");
    let names: Vec<String> = sessions.iter().flat_map(Session::cases).map(|case| case.name()).collect();
    assert_eq!(names, ["topic: one (reftable, sha1)", "topic: two (files, sha256)"]);
    assert_eq!(sessions[1].cases().next().and_then(|case| case.known_difference()), Some("why"));
    for (bad, problem) in [
        ("## one\n", "does nothing"),
        ("## one\n# inn: files\ngit\n", "no such key"),
        ("## one\n# masks: all\ngit\n", "mask"),
    ] {
        assert!(parse("topic", bad).expect_err(bad).contains(problem), "{bad}");
    }
}
