//! `~/.netrc`, curl's file of users and passwords per host (ftp(1), netrc(5)).

use packrace_client::BasicCredentials;

/// The user and the password of a host: from its first entry, else from `default`. If `user` is given, the
/// entry must be for that user.
pub(super) fn find(text: &str, host: &str, user: Option<&str>) -> Option<BasicCredentials> {
    let mut words = words(text);
    let mut entry: Option<Entry> = None;
    while let Some(word) = words.next() {
        match word.as_str() {
            "machine" => {
                if let Some(found) = entry.take().and_then(|entry| entry.credentials(user)) {
                    return Some(found);
                }
                entry = words.next().filter(|name| name.eq_ignore_ascii_case(host)).map(|_| Entry::default());
            }
            "default" => {
                if let Some(found) = entry.take().and_then(|entry| entry.credentials(user)) {
                    return Some(found);
                }
                entry = Some(Entry::default());
            }
            "login" | "password" | "account" => {
                let value = words.next();
                let Some(entry) = &mut entry else { continue };
                match word.as_str() {
                    "login" => entry.login = value,
                    "password" => entry.password = value,
                    _ => {}
                }
            }
            _ => {}
        }
    }
    entry.and_then(|entry| entry.credentials(user))
}

#[derive(Default)]
struct Entry {
    login: Option<String>,
    password: Option<String>,
}

impl Entry {
    fn credentials(self, user: Option<&str>) -> Option<BasicCredentials> {
        let login = self.login.unwrap_or_default();
        let found = BasicCredentials { user: login, password: self.password? };
        Some(found).filter(|found| user.is_none_or(|user| user == found.user))
    }
}

/// The words of a file: separated by blanks, or quoted with backslash escapes; `#` at the start of a word
/// begins a comment. A macro (`macdef`) ends at the next empty line.
fn words(text: &str) -> impl Iterator<Item = String> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            rest = rest.trim_start();
            if rest.starts_with('#') {
                rest = rest.split_once('\n').map_or("", |(_, after)| after);
            } else if rest.starts_with("macdef") {
                rest = rest.split_once("\n\n").map_or("", |(_, after)| after);
            } else {
                break;
            }
        }
        match rest.strip_prefix('"') {
            Some(quoted) => {
                let mut word = String::new();
                let mut letters = quoted.char_indices();
                while let Some((at, letter)) = letters.next() {
                    match letter {
                        '"' => {
                            rest = &quoted[at + 1..];
                            return Some(word);
                        }
                        '\\' => word.extend(letters.next().map(|(_, letter)| letter)),
                        letter => word.push(letter),
                    }
                }
                rest = "";
                Some(word)
            }
            None => {
                let (word, after) = rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len()));
                rest = after;
                Some(word.to_owned()).filter(|word| !word.is_empty())
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# hosts\nmachine a login alice password one\nmachine b\n  login \"bo b\" password \"t\\\"wo\"\n\
        macdef init\nmachine a login x password y\n\nmachine c password three\ndefault login anon password mail\n";

    fn check(host: &str, user: Option<&str>, expect: Option<(&str, &str)>) {
        let found = find(FILE, host, user);
        let found = found.as_ref().map(|found| (found.user.as_str(), found.password.as_str()));
        assert_eq!(found, expect, "{host}, {user:?}");
    }

    #[test]
    fn entries() {
        check("a", None, Some(("alice", "one")));
        check("A", Some("alice"), Some(("alice", "one")));
        check("a", Some("bob"), None);
        check("b", None, Some(("bo b", "t\"wo")));
        check("c", None, Some(("", "three")));
        check("d", None, Some(("anon", "mail")));
        assert_eq!(find("machine a login", "a", None), None);
        assert_eq!(find("machine a login \"x", "a", None), None);
        assert_eq!(find("machine", "a", None), None);
    }
}
