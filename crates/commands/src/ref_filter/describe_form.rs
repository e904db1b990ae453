//! What `%(describe:…)` asks for (git-for-each-ref, `describe`).

use gix_glob::wildmatch;

use super::argument::{fatal, unrecognized};
use crate::call::fatal::Fatal;

/// Fewest digits of a commit's name.
const MIN_DIGITS: usize = 4;

/// What is asked for behind the colon.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DescribeForm {
    pub filter: TagFilter,
    pub abbreviation: Option<Digits>,
}

/// Which tags count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TagFilter {
    /// Lightweight tags, too.
    pub has_light: bool,
    /// Tags must match one, if there is any.
    matching: Vec<Vec<u8>>,
    /// Tags must match none.
    excluded: Vec<Vec<u8>>,
}

/// How long the name of the commit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Digits {
    /// Only the tag is shown.
    None,
    AtLeast(usize),
}

impl DescribeForm {
    /// Reads what follows the colon.
    pub fn parse(text: &[u8]) -> Result<Self, Fatal> {
        let mut form = DescribeForm::default();
        let mut rest = text;
        while !rest.is_empty() {
            let end = rest.iter().position(|byte| *byte == b',');
            let word = &rest[..end.unwrap_or(rest.len())];
            let equals = word.iter().position(|byte| *byte == b'=');
            let (key, value) = match equals {
                Some(at) => (&word[..at], Some(&word[at + 1..])),
                None => (word, None),
            };
            let given = value.filter(|value| !value.is_empty());
            let missing = |key: &str| Fatal::new(format!("value expected describe:{key}="));
            match key {
                b"tags" => {
                    form.filter.has_light = boolean(value).ok_or_else(|| unrecognized("describe", rest))?
                }
                b"abbrev" => {
                    let text = given.ok_or_else(|| Fatal::new("argument expected for describe:abbrev"))?;
                    let whole = &rest[b"abbrev=".len()..];
                    form.abbreviation = Some(Digits::parse(text, whole)?);
                }
                b"match" => form.filter.matching.push(given.ok_or_else(|| missing("match"))?.to_vec()),
                b"exclude" => form.filter.excluded.push(given.ok_or_else(|| missing("exclude"))?.to_vec()),
                _ => return Err(unrecognized("describe", rest)),
            }
            rest = end.map_or(&[], |end| &rest[end + 1..]);
        }
        Ok(form)
    }
}

/// Whether an option is on: as in a configuration, and without a value.
fn boolean(value: Option<&[u8]>) -> Option<bool> {
    value.map_or(Some(true), packrace_store::parse_boolean)
}

impl Digits {
    /// `whole` is what messages show: all that follows.
    fn parse(text: &[u8], whole: &[u8]) -> Result<Self, Fatal> {
        let cannot = || fatal("cannot fully parse describe:abbrev=", whole);
        let plain = std::str::from_utf8(text).map_err(|_| cannot())?.trim_ascii_start();
        let number = plain.strip_prefix(['+', '-']).unwrap_or(plain);
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(cannot());
        }
        // A number that is too long is the largest.
        let number: i64 = number.parse().unwrap_or(i64::MAX);
        if plain.starts_with('-') && number > 0 {
            return Err(fatal("positive value expected describe:abbrev=", whole));
        }
        // Git keeps 32 bits.
        Ok(match number as i32 {
            0 => Digits::None,
            number => {
                Digits::AtLeast(usize::try_from(number).map_or(MIN_DIGITS, |number| number.max(MIN_DIGITS)))
            }
        })
    }
}

impl TagFilter {
    pub fn is_match(&self, name: &[u8]) -> bool {
        let any = |patterns: &[Vec<u8>]| {
            let mode = wildmatch::Mode::empty();
            patterns.iter().any(|pattern| gix_glob::wildmatch(pattern.as_slice().into(), name.into(), mode))
        };
        (self.matching.is_empty() || any(&self.matching)) && !any(&self.excluded)
    }
}
