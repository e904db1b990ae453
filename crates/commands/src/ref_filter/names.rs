//! Shortens names of refs and of objects.

use std::collections::HashSet;

use packrace_store::Repository;
use packrace_store::refs::{RefSnapshot, SHORT_NAME_RULES, Target};

use super::atom::NameForm;
use crate::call::fatal::Fatal;

/// Longest chain of symbolic refs.
const MAX_SYMREF_DEPTH: usize = 5;

/// Shortens ref names.
pub struct ShortNames<'a> {
    repository: &'a Repository,
    refs: &'a RefSnapshot,
    /// Whether a short name must be unambiguous, or only have no earlier match; read on first use.
    is_strict: Option<bool>,
    /// The refs outside `refs/`, read on first use.
    roots: Option<HashSet<Vec<u8>>>,
}

impl<'a> ShortNames<'a> {
    pub fn new(repository: &'a Repository, refs: &'a RefSnapshot) -> Self {
        ShortNames { repository, refs, is_strict: None, roots: None }
    }

    /// Appends a name in the given form.
    pub fn write(&mut self, name: &[u8], form: NameForm, out: &mut Vec<u8>) -> Result<(), Fatal> {
        match form {
            NameForm::Short => out.extend_from_slice(self.shorten(name)?),
            form => out.extend_from_slice(stripped(name, form)),
        }
        Ok(())
    }

    fn shorten<'n>(&mut self, name: &'n [u8]) -> Result<&'n [u8], Fatal> {
        let is_strict = match self.is_strict {
            Some(is_strict) => is_strict,
            None => self.repository.config().boolean("core.warnAmbiguousRefs")?.unwrap_or(true),
        };
        self.is_strict = Some(is_strict);
        shorten(name, is_strict, &mut |name| self.exists(name))
    }

    fn exists(&mut self, name: &[u8]) -> Result<bool, Fatal> {
        if name.starts_with(b"refs/") {
            return Ok(self.refs.resolve(name).map_err(Fatal::new)?.is_some());
        }
        if self.roots.is_none() {
            let roots = self.repository.refs().root_refs().map_err(Fatal::new)?;
            self.roots = Some(roots.into_iter().collect());
        }
        Ok(self.roots.as_ref().is_some_and(|roots| roots.contains(name)))
    }
}

/// A ref name without a prefix that git adds: by the last matching rule whose short name means no other ref
/// by any rule, or if not `is_strict`, by any earlier rule.
pub fn shorten<'n>(
    name: &'n [u8],
    is_strict: bool,
    exists: &mut dyn FnMut(&[u8]) -> Result<bool, Fatal>,
) -> Result<&'n [u8], Fatal> {
    for rule in (1..SHORT_NAME_RULES.len()).rev() {
        let (before, after) = SHORT_NAME_RULES[rule];
        let short = name.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
        let Some(short) = short.filter(|short| !short.is_empty()) else { continue };
        let last = if is_strict { SHORT_NAME_RULES.len() } else { rule };
        let mut is_ambiguous = false;
        for (other, (before, after)) in SHORT_NAME_RULES[..last].iter().enumerate() {
            is_ambiguous |= other != rule && exists(&[before, short, after].concat())?;
        }
        if !is_ambiguous {
            return Ok(short);
        }
    }
    Ok(name)
}

/// The end of a chain of symbolic refs, whether it exists or not; `None` if `name` is not symbolic.
pub fn symbolic_end(refs: &RefSnapshot, name: &[u8]) -> Result<Option<Vec<u8>>, Fatal> {
    let mut end: Option<Vec<u8>> = None;
    for _ in 0..MAX_SYMREF_DEPTH {
        match refs.find(end.as_deref().unwrap_or(name)).map_err(Fatal::new)? {
            Some(Target::Symbolic(target)) => end = Some(target.to_vec()),
            _ => break,
        }
    }
    Ok(end)
}

/// A ref name with components removed.
pub fn stripped(name: &[u8], form: NameForm) -> &[u8] {
    let parts = name.split(|byte| *byte == b'/').count() as i64;
    let count = |n: i64| if n < 0 { (parts + n).max(0) } else { n };
    let mut slashes = name.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    match form {
        NameForm::StripLeft(n) => match count(n) {
            0 => name,
            n => slashes.nth(n as usize - 1).map_or(&[], |at| &name[at + 1..]),
        },
        NameForm::StripRight(n) => match count(n) {
            0 => name,
            n => slashes.rev().nth(n as usize - 1).map_or(&[], |at| &name[..at]),
        },
        NameForm::Full | NameForm::Short => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_names() {
        let check = |form, expect: &str| {
            assert_eq!(String::from_utf8_lossy(stripped(b"refs/heads/a/b", form)), expect, "{form:?}")
        };
        check(NameForm::StripLeft(0), "refs/heads/a/b");
        check(NameForm::StripLeft(1), "heads/a/b");
        check(NameForm::StripLeft(3), "b");
        check(NameForm::StripLeft(4), "");
        check(NameForm::StripLeft(i64::from(i32::MAX)), "");
        check(NameForm::StripLeft(-1), "b");
        check(NameForm::StripLeft(-9), "refs/heads/a/b");
        check(NameForm::StripRight(1), "refs/heads/a");
        check(NameForm::StripRight(4), "");
        check(NameForm::StripRight(-1), "refs");
        check(NameForm::StripRight(-4), "refs/heads/a/b");
    }
}
