//! What a trace says of a process's surroundings: settings, variables, and the names of its parents.

use std::ffi::OsString;
use std::path::Path;

use gix_glob::wildmatch;
use packrace_store::Config;

/// The most parents that are named.
const MAX_ANCESTORS: usize = 256;

/// The beginnings of URLs in which git looks for passwords.
const URLS: [&str; 2] = ["https://", "http://"];

/// The settings and variables that are traced.
#[derive(Debug, Clone, Default)]
pub(super) struct TraceParams {
    /// Patterns of the names of settings, separated by commas.
    pub(super) patterns: String,
    /// Names of variables, separated by commas.
    pub(super) variables: String,
}

impl TraceParams {
    /// Scopes, names and values: settings in the order in which they were read, then variables.
    pub(super) fn found(
        &self,
        config: Option<&Config>,
        variable: &dyn Fn(&str) -> Option<OsString>,
    ) -> Vec<(&'static str, String, Option<String>)> {
        let patterns: Vec<&str> = items(&self.patterns).collect();
        let settings = config.into_iter().flat_map(Config::entries_by_scope);
        let settings = settings.filter(|(_, name, _)| patterns.iter().any(|pattern| matches(pattern, name)));
        let settings = settings.map(|(scope, name, value)| (scope, text(name), value.map(text)));
        // No variable has a name with these.
        let names = items(&self.variables).filter(|name| !name.contains(['=', '\0']));
        let variables = names.filter_map(|name| {
            let value = variable(name)?.to_string_lossy().into_owned();
            Some(("command", name.to_owned(), Some(value)))
        });
        settings.chain(variables).collect()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn items(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|item| !item.is_empty())
}

/// As in git, case does not count, not even in subsections, and `*` matches dots and slashes.
fn matches(pattern: &str, name: &[u8]) -> bool {
    wildmatch(pattern.into(), name.into(), wildmatch::Mode::IGNORE_CASE)
}

/// A word whose password is hidden, if it is a URL that has one.
pub(super) fn redacted(word: &str) -> String {
    let hidden = || {
        let rest = URLS.iter().find_map(|beginning| word.strip_prefix(beginning))?;
        let authority = rest.split('/').next()?;
        let user = &authority[..authority.find('@')?];
        let colon = user.find(':')?;
        let front = &word[..word.len() - rest.len() + colon];
        Some(format!("{front}:<REDACTED>{}", &rest[user.len()..]))
    };
    hidden().unwrap_or_else(|| word.to_owned())
}

/// The names of the parent process, its parent and so on, as far as `proc` tells (proc(5), "/proc/pid/stat").
pub(super) fn ancestry(proc: &Path, parent: u32) -> Vec<String> {
    let mut names = Vec::new();
    let mut next = parent;
    while next > 0 && names.len() < MAX_ANCESTORS {
        let Ok(stat) = std::fs::read(proc.join(next.to_string()).join("stat")) else { break };
        let Some((name, above)) = name_and_parent(&stat) else { break };
        names.push(text(name));
        next = above;
    }
    names
}

/// Of a line `<number> (<name>) <state> <parent> …`. The name may contain anything.
fn name_and_parent(stat: &[u8]) -> Option<(&[u8], u32)> {
    let open = stat.iter().position(|byte| *byte == b'(')?;
    let close = stat.iter().rposition(|byte| *byte == b')')?;
    let name = stat.get(open + 1..close)?;
    let rest = std::str::from_utf8(&stat[close + 1..]).ok()?;
    Some((name, rest.split_ascii_whitespace().nth(1)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords() {
        let check = |word: &str, expect: &str| assert_eq!(redacted(word), expect);
        check("https://user:secret@host/x", "https://user:<REDACTED>@host/x");
        check("http://:secret@host", "http://:<REDACTED>@host");
        check("https://u:@host", "https://u:<REDACTED>@host");
        check("https://u:p@a@b/c", "https://u:<REDACTED>@a@b/c");
        for word in [
            "",
            "https://",
            "https://a:b",
            "https://u@host",
            "https://u:p/q@host",
            "ssh://u:p@host",
            "x https://u:p@host",
            "https://é",
            "https://@:",
        ] {
            check(word, word);
        }
    }

    #[test]
    fn patterns() {
        let check = |pattern: &str, name: &str, expect: bool| {
            assert_eq!(matches(pattern, name.as_bytes()), expect, "{pattern} {name}");
        };
        check("core.bare", "core.bare", true);
        check("CORE.B*", "core.bare", true);
        check("core", "core.bare", false);
        check("remote.*.url", "remote.a/b.url", true);
        check("remote.a.?.URL", "remote.a.B.url", true);
        check("core.[bf]*", "core.bare", true);
        check("core.[", "core.bare", false);
    }

    #[test]
    fn variables_in_the_order_of_their_list() {
        let params = TraceParams { variables: " A ,,B=,\0,none,A".to_owned(), ..TraceParams::default() };
        let found = params.found(None, &|name| (name != "none").then(|| name.into()));
        let names: Vec<&str> = found.iter().map(|(_, name, _)| name.as_str()).collect();
        assert_eq!(names, ["A", "A"]);
    }

    #[test]
    fn parents() {
        let proc = packrace_testkit::scratch_dir();
        let write = |number: u32, stat: &[u8]| {
            let dir = proc.path().join(number.to_string());
            std::fs::create_dir(&dir).unwrap();
            std::fs::write(dir.join("stat"), stat).unwrap();
        };
        write(7, b"7 (a (b) \"c\n\xff) S 5 1 1");
        write(5, b"5 (sh) S 1 1 1");
        write(1, b"1 (init) S 0 0 0");
        assert_eq!(ancestry(proc.path(), 7), ["a (b) \"c\n\u{fffd}", "sh", "init"]);
        assert_eq!(ancestry(proc.path(), 8), [""; 0]);
        assert_eq!(ancestry(proc.path(), 0), [""; 0]);
        // A loop, which the kernel does not make, ends too.
        write(9, b"9 (x) S 9");
        assert_eq!(ancestry(proc.path(), 9).len(), MAX_ANCESTORS);
        for (number, stat) in
            [(20, &b""[..]), (21, b"21 (x"), (22, b")("), (23, b"1 (x) S"), (24, b"1 (x) S -1")]
        {
            write(number, stat);
            assert_eq!(ancestry(proc.path(), number), [""; 0], "{stat:?}");
        }
    }
}
