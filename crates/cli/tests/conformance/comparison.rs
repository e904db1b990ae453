//! Compares two outcomes of one session: the same, different as expected, or a failure with a description.

use packrace_testkit::in_newest_words;

use crate::run::Outcome;
use crate::session::Case;

/// The result of a comparison.
#[derive(Debug)]
pub enum Verdict {
    Same,
    DiffersAsMarked,
    /// A description for people.
    Failed(String),
}

impl Verdict {
    pub fn problem(&self) -> Option<&String> {
        match self {
            Verdict::Failed(problem) => Some(problem),
            Verdict::Same | Verdict::DiffersAsMarked => None,
        }
    }
}

/// Git alone must do what the session says, and packrace must do the same unless it is known to differ.
pub fn judge(case: &Case, alone: &Outcome, ours: &Outcome) -> Verdict {
    let failed = |what: &str| Verdict::Failed(format!("== {}\n{what}", case.name()));
    if let Some(problem) = unexpected(case, alone) {
        return failed(&format!("git alone: {problem}\n{}{}", alone.stdout, alone.stderr));
    }
    let differences = differences(case, alone, ours);
    match (differences.is_empty(), case.known_difference()) {
        (true, None) => Verdict::Same,
        (false, Some(_)) => Verdict::DiffersAsMarked,
        (true, Some(reason)) => failed(&format!("it no longer differs, and is marked to: {reason}")),
        (false, None) => failed(differences.trim_end()),
    }
}

/// How git alone deviates from the session.
fn unexpected(case: &Case, alone: &Outcome) -> Option<String> {
    let session = case.session;
    let (end, failures) = alone.failures.split_last()?;
    if end.starts_with("124 ") {
        return Some("it takes too long, and was ended".to_owned());
    }
    // A failure of the shell itself would compare two runs of nothing.
    if let Some(line) = alone.stderr.lines().find(|line| is_of_the_shell(line)) {
        return Some(format!("the shell itself fails: {line}"));
    }
    let code = |failure: &String| failure.split(' ').next().unwrap_or_default().to_owned();
    let codes: Vec<String> = failures.iter().map(code).collect();
    if session.exits != ["any"] && codes != session.exits {
        return Some(format!(
            "exits: {} is what the session says, but it was {}\n{failures:#?}",
            session.exits.join(" "),
            codes.join(" ")
        ));
    }
    let is_said =
        |text: &&String| alone.stdout.contains(text.as_str()) || alone.stderr.contains(text.as_str());
    let silence = session.says.iter().find(|text| !is_said(text))?;
    Some(format!("does not say: {silence}"))
}

/// `sh: 4: cannot create …`, or in other shells `sh: line 4: …`.
fn is_of_the_shell(line: &str) -> bool {
    let rest = line.strip_prefix("sh: ").map(|rest| rest.strip_prefix("line ").unwrap_or(rest));
    rest.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

/// How packrace's outcome differs, in lines; empty if it does not.
fn differences(case: &Case, alone: &Outcome, ours: &Outcome) -> String {
    let masked = |text: &str, is_stderr| {
        case.session.masks.iter().fold(text.to_owned(), |text, mask| mask.apply(&text, is_stderr))
    };
    let mut told = String::new();
    let mut compare = |what: &str, alone: &str, ours: &str| {
        if alone != ours {
            told.push_str(&format!("{what}:\n{}", changed_lines(alone, ours)));
        }
    };
    compare("standard output", &masked(&alone.stdout, false), &masked(&ours.stdout, false));
    compare("standard error", &masked(&in_newest_words(&alone.stderr), true), &masked(&ours.stderr, true));
    compare("failures", &alone.failures.join("\n"), &ours.failures.join("\n"));
    compare("what is left", &masked(&alone.state, false), &masked(&ours.state, false));
    told
}

/// The lines between the first and the last difference: of git alone with `-`, of packrace with `+`.
fn changed_lines(alone: &str, ours: &str) -> String {
    let mut alone: Vec<&str> = alone.split('\n').collect();
    let mut ours: Vec<&str> = ours.split('\n').collect();
    let same = alone.iter().zip(&ours).take_while(|(one, other)| one == other).count();
    alone.drain(..same);
    ours.drain(..same);
    while alone.last().is_some_and(|line| ours.last() == Some(line)) {
        alone.pop();
        ours.pop();
    }
    let marked = |mark: char, lines: Vec<&str>| {
        lines.iter().take(60).map(|line| format!("  {mark} {line}\n")).collect::<String>()
    };
    marked('-', alone) + &marked('+', ours)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{Session, parse};

    fn session(head: &str) -> Session {
        parse("t", &format!("## s\n{head}git x\n")).expect("a session").remove(0)
    }

    fn outcome(stderr: &str, failures: &[&str]) -> Outcome {
        let failures = failures.iter().map(|text| (*text).to_owned()).collect();
        Outcome { stderr: stderr.to_owned(), failures, ..Outcome::default() }
    }

    /// Whether a session with this head passes, given both outcomes.
    fn passes(head: &str, alone: &Outcome, ours: &Outcome) -> bool {
        let session = session(head);
        let case = session.cases().next().expect("one");
        judge(&case, alone, ours).problem().is_none()
    }

    #[test]
    fn only_what_is_the_same_or_marked_passes() {
        let fine = || outcome("a\n", &["0 the session"]);
        let other = || outcome("b\n", &["0 the session"]);
        let failing = || outcome("a\n", &["1 git x", "0 the session"]);
        assert!(passes("", &fine(), &fine()));
        assert!(!passes("", &fine(), &other()));
        assert!(!passes("", &fine(), &failing()));
        assert!(!passes("", &failing(), &failing()), "a failure that the session does not name");
        assert!(passes("# exits: 1\n", &failing(), &failing()));
        assert!(!passes("# exits: 1\n", &failing(), &fine()));
        assert!(passes("# exits: any\n", &failing(), &failing()));
        assert!(!passes("# exits: any\n", &failing(), &fine()));
        assert!(passes("# differs: because\n", &fine(), &other()));
        assert!(!passes("# differs: because\n", &fine(), &fine()), "no longer different");
        assert!(passes("# masks: words\n", &fine(), &other()));
        assert!(!passes("# says: c\n", &fine(), &fine()));
        let stuck = outcome("a\n", &["124 the session"]);
        assert!(!passes("", &stuck, &stuck), "both were ended");
        let broken = outcome("sh: 4: cannot create a\n", &["0 the session"]);
        assert!(!passes("", &broken, &broken), "nothing was done");
    }
}
