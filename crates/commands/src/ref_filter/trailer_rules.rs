//! What the configuration says of trailers (git-config, `trailer.*`).

use packrace_store::{Config, Error};

/// Which lines are trailers, and how their keys are written.
#[derive(Debug, Clone)]
pub struct TrailerRules {
    /// The characters that may end a key; the first one is written.
    separators: Vec<u8>,
    aliases: Vec<KeyAlias>,
}

/// A key that settings name.
#[derive(Debug, Clone)]
struct KeyAlias {
    name: Vec<u8>,
    key: Option<Vec<u8>>,
}

impl Default for TrailerRules {
    fn default() -> Self {
        TrailerRules { separators: b":".to_vec(), aliases: Vec::new() }
    }
}

impl TrailerRules {
    /// The settings, and warnings about them.
    pub fn of(config: &Config) -> Result<(Self, Vec<String>), Error> {
        let mut rules = TrailerRules::default();
        let mut warnings = Vec::new();
        let mut of_text = vec!["trailer.separators".to_owned()];
        for (name, value) in config.section("trailer") {
            let key = name.rsplit(|byte| *byte == b'.').next().unwrap_or_default();
            let name = String::from_utf8_lossy(name);
            match value {
                Some(value) if !is_known(key, value) => {
                    let value = String::from_utf8_lossy(value);
                    warnings.push(format!("unknown value '{value}' for key '{name}'"));
                }
                None if matches!(key, b"key" | b"command" | b"cmd") => of_text.push(name.into_owned()),
                _ => {}
            }
        }
        config.need_values(&of_text.iter().map(String::as_str).collect::<Vec<_>>())?;
        if let Some(separators) = config.string("trailer.separators") {
            rules.separators = separators;
        }
        for (name, key, value) in config.subsections("trailer") {
            if !matches!(key, b"key" | b"where" | b"ifexists" | b"ifmissing" | b"command" | b"cmd") {
                continue;
            }
            let alias = rules.alias(name);
            if key == b"key" && alias.key.replace(value.unwrap_or_default().to_vec()).is_some() {
                warnings.push(format!("more than one trailer.{}.key", String::from_utf8_lossy(name)));
            }
        }
        Ok((rules, warnings))
    }

    /// The alias of this name, which is added if there is none.
    fn alias(&mut self, name: &[u8]) -> &mut KeyAlias {
        let known = self.aliases.iter().position(|alias| alias.name.eq_ignore_ascii_case(name));
        let at = known.unwrap_or_else(|| {
            self.aliases.push(KeyAlias { name: name.to_vec(), key: None });
            self.aliases.len() - 1
        });
        &mut self.aliases[at]
    }

    /// Key and value of a trailer: letters, digits and hyphens, then a separator, then any text.
    pub fn split<'l>(&self, line: &'l [u8]) -> Option<(&'l [u8], &'l [u8])> {
        let mut is_behind_key = false;
        for (at, byte) in line.iter().enumerate() {
            match byte {
                byte if self.separators.contains(byte) => {
                    let key = line[..at].trim_ascii_end();
                    return (!key.is_empty()).then(|| (key, line[at + 1..].trim_ascii()));
                }
                b'-' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' if !is_behind_key => {}
                byte if byte.is_ascii_whitespace() && at > 0 => is_behind_key = true,
                _ => return None,
            }
        }
        None
    }

    /// The key that settings give for a key, if they name it: keys may be shortened.
    pub fn configured<'k>(&'k self, key: &'k [u8]) -> Option<&'k [u8]> {
        let end = key.iter().rposition(u8::is_ascii_alphanumeric).map_or(0, |last| last + 1);
        let begins =
            |whole: &[u8]| whole.get(..end).is_some_and(|start| start.eq_ignore_ascii_case(&key[..end]));
        let alias = self
            .aliases
            .iter()
            .find(|alias| begins(&alias.name) || alias.key.as_deref().is_some_and(begins))?;
        Some(alias.key.as_deref().unwrap_or(key))
    }

    /// What stands between a key and its value: nothing, if the key ends in a separator.
    pub fn between(&self, key: &[u8]) -> Vec<u8> {
        let last = key.trim_ascii_end().last();
        match self.separators.first() {
            Some(first) if last.is_some_and(|last| !self.separators.contains(last)) => vec![*first, b' '],
            _ => Vec::new(),
        }
    }
}

/// Whether a setting about new trailers has one of its values.
fn is_known(key: &[u8], value: &[u8]) -> bool {
    let known: &[&str] = match key {
        b"where" => &["after", "before", "end", "start"],
        b"ifexists" => &["addIfDifferent", "addIfDifferentNeighbor", "add", "replace", "doNothing"],
        b"ifmissing" => &["doNothing", "add"],
        _ => return true,
    };
    known.iter().any(|known| value.eq_ignore_ascii_case(known.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(separators: &str, aliases: &[(&str, Option<&str>)]) -> TrailerRules {
        let bytes = |text: &str| text.as_bytes().to_vec();
        let alias = |(name, key): &(&str, Option<&str>)| KeyAlias { name: bytes(name), key: key.map(bytes) };
        TrailerRules { separators: bytes(separators), aliases: aliases.iter().map(alias).collect() }
    }

    #[test]
    fn lines_are_split_at_separators() {
        let cases = [
            (":", "A: b", Some(("A", "b"))),
            (":", "A-1  :b ", Some(("A-1", "b"))),
            (":", "A b: c", None),
            (":", ": b", None),
            (":", "A = b", None),
            ("=#", "A #b", Some(("A", "b"))),
            ("= ", "A #b", Some(("A", "#b"))),
            ("", "A: b", None),
        ];
        for (separators, line, expect) in cases {
            let expect = expect.map(|(key, value)| (key.as_bytes(), value.as_bytes()));
            assert_eq!(rules(separators, &[]).split(line.as_bytes()), expect, "{separators:?} {line:?}");
        }
    }

    #[test]
    fn keys_are_found_by_their_beginnings() {
        let rules = rules(":", &[("ack", Some("Acked-by")), ("sign", None)]);
        let cases = [
            ("a", Some("Acked-by")),
            ("ACKED-", Some("Acked-by")),
            ("acked-by-me", None),
            ("Sig", Some("Sig")),
            ("x", None),
        ];
        for (key, expect) in cases {
            assert_eq!(rules.configured(key.as_bytes()), expect.map(str::as_bytes), "{key}");
        }
    }

    #[test]
    fn keys_that_end_in_a_separator_get_no_other() {
        for (separators, key, expect) in [("#:", "A", "# "), (":", "A: ", ""), (":", "", ""), ("", "A", "")] {
            assert_eq!(
                rules(separators, &[]).between(key.as_bytes()),
                expect.as_bytes(),
                "{separators} {key}"
            );
        }
    }
}
