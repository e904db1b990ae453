//! Pathspecs (gitglossary, "pathspec").

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt as _;
use std::rc::Rc;

use gix_glob::wildmatch::Mode;

use super::attributes::{Condition, PathAttributes};
use super::magic::{self, Magic};
use super::{PathError, directories_above, path_of, said_of_outside};

/// Settings for all pathspecs (git, `GIT_LITERAL_PATHSPECS` and similar).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpecDefaults {
    /// No characters are special.
    pub literal: bool,
    /// As if all had `:(glob)`.
    pub glob: bool,
    /// As if all had `:(literal)`.
    pub noglob: bool,
    /// As if all had `:(icase)`.
    pub icase: bool,
}

impl SpecDefaults {
    fn check(self) -> Result<(), PathError> {
        let refused = match self {
            SpecDefaults { glob: true, noglob: true, .. } => {
                "global 'glob' and 'noglob' pathspec settings are incompatible"
            }
            SpecDefaults { literal: true, glob, noglob, icase } if glob || noglob || icase => {
                "global 'literal' pathspec setting is incompatible with all other global pathspec settings"
            }
            _ => return Ok(()),
        };
        Err(PathError::Spec(refused.to_owned()))
    }
}

/// One pathspec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// As typed.
    pub original: Vec<u8>,
    /// Relative to the top of the work tree; a trailing slash asks for a directory.
    path: Vec<u8>,
    /// The length of the current directory at the start of the path; this part is always literal.
    prefix_bytes: usize,
    /// The position of the first wildcard.
    wildcard: Option<usize>,
    is_from_top: bool,
    is_excluding: bool,
    folds_case: bool,
    /// Whether `*` stops at a slash.
    is_glob: bool,
    /// Attributes that matching paths must have.
    conditions: Vec<Condition>,
}

impl Spec {
    /// The path, with a trailing slash if a directory was asked for.
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    /// The words of its magic, separated by commas.
    pub fn long_magic(&self) -> &[u8] {
        match self.original.strip_prefix(b":(") {
            Some(long) => &long[..magic::end(long)],
            None => match (self.is_from_top, self.is_excluding) {
                (true, true) => b"top,exclude",
                (true, false) => b"top",
                (false, true) => b"exclude",
                (false, false) => b"",
            },
        }
    }

    /// Whether its path begins at the top of the work tree (`:(top)`).
    pub fn is_from_top(&self) -> bool {
        self.is_from_top
    }

    /// Whether it excludes paths.
    pub fn is_excluding(&self) -> bool {
        self.is_excluding
    }

    /// Whether it selects one path, or everything below one directory.
    pub fn is_one_path(&self) -> bool {
        self.wildcard.is_none() && !self.folds_case
    }

    /// Whether its form need not name an existing file (`:(glob)`, `:(icase)`).
    pub fn is_never_a_name(&self) -> bool {
        self.is_glob || self.folds_case || self.is_excluding
    }

    /// What all matching paths begin with.
    fn literal(&self) -> &[u8] {
        let end = self.wildcard.unwrap_or(self.path.len());
        let end = if self.folds_case { end.min(self.prefix_bytes) } else { end };
        &self.path[..end]
    }

    /// The common prefix of all matching paths.
    fn beginning(&self) -> &[u8] {
        self.literal().strip_suffix(b"/").unwrap_or(self.literal())
    }

    /// The directory or path that contains all matching paths.
    pub fn root(&self) -> &[u8] {
        let beginning = self.beginning();
        if self.is_one_path() {
            return beginning;
        }
        match self.path[..self.wildcard.unwrap_or(0).max(self.prefix_bytes)]
            .iter()
            .rposition(|byte| *byte == b'/')
        {
            Some(slash) if slash <= beginning.len() => &beginning[..slash],
            _ => b"",
        }
    }

    /// Whether it matches a path, whatever attributes that has.
    pub fn is_match(&self, path: &[u8], is_dir: bool) -> bool {
        let (wanted, must_be_dir) = match self.path.strip_suffix(b"/") {
            Some(wanted) => (wanted, true),
            None => (&self.path[..], false),
        };
        if wanted.is_empty() {
            return true;
        }
        let is_same = |one: &[u8], other: &[u8]| match self.folds_case {
            true => {
                let prefix = self.prefix_bytes.min(one.len());
                one[..prefix] == other[..prefix] && one.eq_ignore_ascii_case(other)
            }
            false => one == other,
        };
        if let Some(start) = path.get(..wanted.len())
            && is_same(wanted, start)
        {
            match path.get(wanted.len()) {
                None if !must_be_dir || is_dir => return true,
                Some(b'/') => return true,
                _ => {}
            }
        }
        let Some(wildcard) = self.wildcard else { return false };
        let literal = self.prefix_bytes.min(wildcard);
        if path.len() < literal || path[..literal] != self.path[..literal] {
            return false;
        }
        let mut mode = Mode::empty();
        mode.set(Mode::NO_MATCH_SLASH_LITERAL, self.is_glob);
        mode.set(Mode::IGNORE_CASE, self.folds_case);
        gix_glob::wildmatch(self.path[literal..].into(), path[literal..].into(), mode)
    }
}

/// Which matches a pathspec had.
#[derive(Debug, Clone, Copy, Default)]
struct Met {
    /// By any path.
    at_all: bool,
    /// By a path of the index.
    by_entry: bool,
    /// By a new path that is exactly the typed one, which has no wildcards.
    exactly: bool,
}

/// All pathspecs of a command.
#[derive(Debug, Clone)]
pub struct Pathspecs {
    specs: Vec<Spec>,
    /// The matches of each pathspec.
    met: Vec<Met>,
    /// Pathspecs for single paths, by path, so that many of them are cheap.
    by_path: HashMap<Vec<u8>, Vec<usize>>,
    /// The other pathspecs, except excluding ones.
    others: Vec<usize>,
    excluding: Vec<usize>,
    /// The pathspecs that match everything.
    everything: Vec<usize>,
    /// If a pathspec asks for any.
    attributes: Option<Rc<dyn PathAttributes>>,
}

impl Pathspecs {
    /// Parses pathspecs; `prefix` is the current directory below the top of the work tree, with a trailing
    /// slash unless it is the top. `top` is for messages, and for absolute pathspecs.
    pub fn parse(
        elements: &[Vec<u8>],
        prefix: &[u8],
        top: &[u8],
        defaults: SpecDefaults,
    ) -> Result<Self, PathError> {
        if !elements.is_empty() {
            defaults.check()?;
        }
        let mut specs = Vec::with_capacity(elements.len());
        for element in elements {
            specs.push(parse(element, prefix, top, defaults)?);
        }
        if !specs.is_empty() && specs.iter().all(|spec: &Spec| spec.is_excluding) {
            specs.push(Spec {
                original: Vec::new(),
                path: Vec::new(),
                prefix_bytes: 0,
                wildcard: None,
                is_from_top: false,
                is_excluding: false,
                folds_case: false,
                is_glob: false,
                conditions: Vec::new(),
            });
        }
        let mut found = Pathspecs {
            met: vec![Met::default(); specs.len()],
            by_path: HashMap::new(),
            others: Vec::new(),
            excluding: Vec::new(),
            everything: Vec::new(),
            attributes: None,
            specs: Vec::new(),
        };
        for (at, spec) in specs.iter().enumerate() {
            match () {
                () if spec.is_excluding => found.excluding.push(at),
                () if spec.path.is_empty() && spec.conditions.is_empty() => {
                    found.everything.push(at);
                }
                () if spec.is_one_path() && !spec.path.is_empty() => {
                    let path = spec.path.strip_suffix(b"/").unwrap_or(&spec.path).to_vec();
                    found.by_path.entry(path).or_default().push(at);
                }
                () => found.others.push(at),
            }
        }
        found.specs = specs;
        Ok(found)
    }

    /// The attributes that pathspecs ask for.
    pub(crate) fn conditions(&self) -> impl Iterator<Item = &Condition> {
        self.specs.iter().flat_map(|spec| &spec.conditions)
    }

    /// Where to look up attributes; before, pathspecs that ask for any match nothing.
    pub(crate) fn set_attributes(&mut self, attributes: Rc<dyn PathAttributes>) {
        self.attributes = Some(attributes);
    }

    /// Fails if attributes could not be read; their paths did not match.
    pub fn check_attributes(&self) -> Result<(), PathError> {
        match self.attributes.as_ref().and_then(|attributes| attributes.take_problem()) {
            Some(problem) => Err(problem),
            None => Ok(()),
        }
    }

    /// Whether untracked paths below an untracked directory may match. As in git, the directory itself must have the
    /// attributes that are asked for.
    pub fn may_enter(&self, dir: &[u8]) -> bool {
        if self.attributes.is_none() {
            return true;
        }
        let has = |spec: &Spec| has_attributes(self.attributes.as_deref(), spec, dir, true);
        self.specs.iter().any(|spec| !spec.is_excluding && has(spec))
            && !self.specs.iter().any(|spec| spec.is_excluding && spec.is_match(dir, true) && has(spec))
    }

    /// Each pathspec, and whether it matched.
    pub fn iter(&self) -> impl Iterator<Item = (&Spec, bool)> {
        self.specs.iter().zip(self.met.iter().map(|met| met.at_all))
    }

    /// The pathspecs that matched no index entry.
    pub fn without_entry(&self) -> impl Iterator<Item = &Spec> {
        let all = self.specs.iter().zip(&self.met);
        all.filter(|(spec, met)| !met.by_entry && !spec.is_excluding).map(|(spec, _)| spec)
    }

    /// Whether there are none, so that all paths match.
    pub fn is_empty(&self) -> bool {
        self.specs.is_empty()
    }

    /// Whether a path of the index matches; records the match.
    pub fn meet_entry(&mut self, path: &[u8], is_dir: bool) -> bool {
        let is_meant = self.met_by(path, is_dir, |met, _| {
            met.by_entry = true;
            true
        });
        is_meant && !self.is_excluded(path, is_dir)
    }

    /// Whether a new path matches; records the match. As in git 2.55, after a pathspec without wildcards matched exactly the
    /// path that it names, it matches nothing else: `:(icase)a` selects only `A` if there are `A` and `a`.
    pub fn meet(&mut self, path: &[u8], is_dir: bool) -> bool {
        let is_meant = self.met_by(path, is_dir, |met, is_exact| {
            let is_open = !met.exactly;
            met.exactly |= is_exact;
            is_open
        });
        is_meant && !self.is_excluded(path, is_dir)
    }

    /// Finds pathspecs that match a path; `note` returns for each whether it still counts.
    fn met_by(&mut self, path: &[u8], is_dir: bool, mut note: impl FnMut(&mut Met, bool) -> bool) -> bool {
        if self.specs.is_empty() {
            return true;
        }
        let mut is_meant = false;
        let (specs, met, attributes) = (&self.specs, &mut self.met, self.attributes.as_deref());
        let mut look = |at: usize| {
            if specs[at].is_match(path, is_dir) && has_attributes(attributes, &specs[at], path, is_dir) {
                let is_exact = specs[at].wildcard.is_none() && specs[at].path.eq_ignore_ascii_case(path);
                if note(&mut met[at], is_exact) {
                    met[at].at_all = true;
                    is_meant = true;
                }
            }
        };
        self.everything.iter().copied().for_each(&mut look);
        if !self.by_path.is_empty() {
            for name in directories_above(path).chain([path]) {
                self.by_path.get(name).into_iter().flatten().copied().for_each(&mut look);
            }
        }
        self.others.iter().copied().for_each(&mut look);
        is_meant
    }

    fn is_excluded(&self, path: &[u8], is_dir: bool) -> bool {
        self.excluding.iter().any(|at| self.matches(&self.specs[*at], path, is_dir))
    }

    /// Whether a path matches; records nothing.
    pub fn is_meant(&self, path: &[u8], is_dir: bool) -> bool {
        let is_match = |spec: &&Spec| self.matches(spec, path, is_dir);
        self.specs.is_empty()
            || (self.specs.iter().filter(|spec| !spec.is_excluding).any(|spec| is_match(&spec))
                && !self.specs.iter().filter(|spec| spec.is_excluding).any(|spec| is_match(&spec)))
    }

    /// Whether one of them matches a path, which must have the attributes that it asks for; records nothing.
    pub fn matches(&self, spec: &Spec, path: &[u8], is_dir: bool) -> bool {
        spec.is_match(path, is_dir) && has_attributes(self.attributes.as_deref(), spec, path, is_dir)
    }

    /// Paths that contain all matches, none below another; "" is the top.
    pub fn roots(&self) -> Vec<Vec<u8>> {
        let adding = self.specs.iter().filter(|spec| !spec.is_excluding);
        let mut roots: Vec<&[u8]> = adding.map(Spec::root).collect();
        if self.specs.is_empty() {
            roots.push(b"");
        }
        // By components: "a/b" sorts before "a.b".
        roots.sort_unstable_by(|one, other| {
            one.split(|byte| *byte == b'/').cmp(other.split(|byte| *byte == b'/'))
        });
        let mut kept: Vec<Vec<u8>> = Vec::new();
        for root in roots {
            let is_below = kept.last().is_some_and(|last| {
                last.is_empty()
                    || root.strip_prefix(&last[..]).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
            });
            if !is_below {
                kept.push(root.to_vec());
            }
        }
        kept
    }

    /// The deepest directory that the literal beginnings of all pathspecs are in; "" for the top.
    pub fn common_dir(&self) -> Vec<u8> {
        let adding = self.specs.iter().filter(|spec| !spec.is_excluding);
        let mut beginnings = adding.map(Spec::literal);
        let first = beginnings.next().unwrap_or_default();
        let length = beginnings.fold(first.len(), |length, other| {
            let both = first[..length].iter().zip(other);
            both.take_while(|(one, other)| one == other).count()
        });
        let slash = first[..length].iter().rposition(|byte| *byte == b'/');
        first[..slash.unwrap_or(0)].to_vec()
    }
}

/// Whether a path has the attributes that a pathspec asks for.
fn has_attributes(attributes: Option<&dyn PathAttributes>, spec: &Spec, path: &[u8], is_dir: bool) -> bool {
    spec.conditions.is_empty()
        || attributes.is_some_and(|attributes| attributes.have(path, is_dir, &spec.conditions))
}

fn parse(element: &[u8], prefix: &[u8], top: &[u8], defaults: SpecDefaults) -> Result<Spec, PathError> {
    let shown = || String::from_utf8_lossy(element).into_owned();
    if element.is_empty() {
        let words =
            "empty string is not a valid pathspec. please use . instead if you meant to match all paths";
        return Err(PathError::Spec(words.to_owned()));
    }
    let mut magic = Magic {
        is_literal: defaults.literal || defaults.noglob,
        is_icase: defaults.icase,
        ..Magic::default()
    };
    let rest = match defaults.literal {
        true => element,
        false => magic.take(element)?,
    };
    if magic.is_glob && magic.is_literal && !defaults.noglob {
        return Err(PathError::Spec(format!("{}: 'literal' and 'glob' are incompatible", shown())));
    }
    let is_glob = magic.is_glob || (defaults.glob && !magic.is_literal);
    let prefix = if magic.is_top { &b""[..] } else { prefix };
    let outside = || match said_of_outside(rest, top) {
        said if said.starts_with("Invalid path") => PathError::Spec(said),
        said => PathError::Spec(format!("{}: {said}", shown())),
    };
    let (path, prefix_bytes) = match magic.prefix_bytes {
        Some(bytes) => {
            // Git ends with `BUG`, or finds nothing.
            let is_from_top = prefix.is_empty() && without_dots(rest).as_deref() == Some(rest);
            if bytes > rest.len() || !is_from_top {
                return Err(PathError::Spec(format!("'prefix' magic does not fit in '{}'", shown())));
            }
            (rest.to_vec(), bytes)
        }
        None => {
            let path = normalized(rest, prefix, top).ok_or_else(outside)?;
            let same = path.iter().zip(prefix).take_while(|(one, other)| one == other).count();
            (path, prefix.len().min(same))
        }
    };
    let has_wildcards = !magic.is_literal || magic.is_glob;
    let wildcard =
        path[prefix_bytes..].iter().position(|byte| b"*?[\\".contains(byte)).filter(|_| has_wildcards);
    Ok(Spec {
        original: element.to_vec(),
        path,
        prefix_bytes,
        wildcard: wildcard.map(|at| prefix_bytes + at),
        is_from_top: magic.is_top,
        is_excluding: magic.is_exclude,
        folds_case: magic.is_icase,
        is_glob,
        conditions: magic.conditions,
    })
}

/// What follows the top in a path.
fn below<'a>(path: &'a [u8], top: &[u8]) -> Option<&'a [u8]> {
    let rest = path.strip_prefix(top)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix(b"/") }
}

/// The same for a path that leads to the top through symbolic links.
fn below_links<'a>(path: &'a [u8], top: &[u8]) -> Option<&'a [u8]> {
    let ends = path.iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    let is_top = |end: &usize| {
        packrace_os::real_path(path_of(&path[..*end])).is_ok_and(|real| real.as_os_str().as_bytes() == top)
    };
    let end = ends.chain([path.len()]).find(is_top)?;
    Some(path[end..].strip_prefix(b"/").unwrap_or(&path[end..]))
}

/// A path relative to the top, without `.`, `..` and empty components; a trailing slash stays. `None` if it
/// is outside.
fn normalized(path: &[u8], prefix: &[u8], top: &[u8]) -> Option<Vec<u8>> {
    if !path.starts_with(b"/") {
        return without_dots(&[prefix, path].concat());
    }
    let whole = [b"/", &without_dots(path)?[..]].concat();
    below(&whole, top).or_else(|| below_links(&whole, top)).map(<[u8]>::to_vec)
}

/// A path without `.`, `..`, empty components and a slash at its start. `None` if it leads above where it starts.
fn without_dots(path: &[u8]) -> Option<Vec<u8>> {
    let mut names: Vec<&[u8]> = Vec::new();
    for name in path.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => {
                names.pop()?;
            }
            name => names.push(name),
        }
    }
    let asks_for_dir = path.ends_with(b"/") || path.ends_with(b"/.") || path.ends_with(b"/..");
    let mut joined = names.join(&b'/');
    if asks_for_dir && !joined.is_empty() {
        joined.push(b'/');
    }
    Some(joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(elements: &[&str], prefix: &str, meant: &[&str], not_meant: &[&str]) {
        let elements: Vec<Vec<u8>> = elements.iter().map(|element| element.as_bytes().to_vec()).collect();
        let specs = Pathspecs::parse(&elements, prefix.as_bytes(), b"/top", SpecDefaults::default());
        let mut specs = specs.expect("pathspecs");
        let roots = specs.roots();
        for (paths, expected) in [(meant, true), (not_meant, false)] {
            for path in paths {
                let (path, is_dir) = path.strip_suffix('/').map_or((*path, false), |path| (path, true));
                assert_eq!(specs.is_meant(path.as_bytes(), is_dir), expected, "{path}");
                assert_eq!(specs.meet_entry(path.as_bytes(), is_dir), expected, "{path}");
                let is_below = |root: &Vec<u8>| {
                    root.is_empty()
                        || path
                            .as_bytes()
                            .strip_prefix(&root[..])
                            .is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
                };
                assert!(!expected || roots.iter().any(is_below), "{path}: {roots:?}");
            }
        }
    }

    #[test]
    fn paths_are_meant() {
        check(&["a"], "", &["a", "a/b", "a/b/c"], &["b", "ab", "A"]);
        check(&["a/"], "", &["a/", "a/b"], &["a", "ab"]);
        check(&["."], "", &["a", "a/b"], &[]);
        check(&["."], "d/", &["d/a", "d/b/c"], &["a", "dd/a", "e"]);
        check(&["../a", "b"], "d/", &["a", "d/b", "a/x"], &["d/a", "b"]);
        check(&["*.c"], "", &["x.c", "d/x.c"], &["x.h", "x.cc"]);
        check(&["*.c"], "d/", &["d/x.c", "d/e/x.c"], &["x.c", "e/x.c"]);
        check(&[":(glob)*.c"], "", &["x.c"], &["d/x.c"]);
        check(&[":(glob)**/*.c"], "", &["x.c", "d/e/x.c"], &["x.h"]);
        check(&["a*/b"], "", &["a/b", "ax/y/b"], &["b", "a/c"]);
        check(&[":(icase)A"], "", &["a", "A/b"], &["b"]);
        check(&[":(icase)A"], "d/", &["d/a", "d/A/b"], &["D/a"]);
        check(&[":!a"], "", &["b", "b/a"], &["a", "a/b"]);
        check(&[":!a"], "d/", &["d/b", "b", "a"], &["d/a", "d/a/b"]);
        check(&["x", ":^x/y"], "", &["x", "x/z"], &["x/y", "x/y/z", "a"]);
        check(&[":/a", ":(top)b"], "d/", &["a", "b/c"], &["d/a", "d/b"]);
        check(&[":(literal)*"], "", &["*", "*/a"], &["a"]);
        check(&[":(prefix:2)d/*"], "", &["d/a", "d/*"], &["d", "e"]);
        check(&[":(prefix:3)d/*"], "", &["d/*", "d/*/a"], &["d/a"]);
        check(&[":(prefix:,icase)D", ":(prefix:-1)./e"], "", &["d/a", "e"], &["a"]);
        check(&["/top/a", "/top"], "d/", &["a", "b"], &[]);
        check(&["a.b", "a", "a/c"], "", &["a.b", "a/c", "a/d", "a.b/c"], &["a.c"]);
    }

    #[test]
    fn every_pathspec_that_matches_is_met() {
        let elements = [".", ":/", "a", "a", "*", "b"].map(|element| element.as_bytes().to_vec());
        let specs = Pathspecs::parse(&elements, b"", b"/top", SpecDefaults::default());
        let mut specs = specs.expect("pathspecs");
        assert!(specs.meet_entry(b"a", false));
        let left: Vec<&[u8]> = specs.without_entry().map(|spec| &spec.original[..]).collect();
        assert_eq!(left, [b"b"]);
    }

    #[test]
    fn refusals_are_in_gits_words() {
        let check = |element: &str, words: &str| {
            let refused =
                Pathspecs::parse(&[element.as_bytes().to_vec()], b"d/", b"/top", SpecDefaults::default());
            assert_eq!(refused.expect_err(element).to_string(), words);
        };
        check(":(bad)a", "Invalid pathspec magic 'bad' in ':(bad)a'");
        check(":(prefix:1x)a", "invalid parameter for pathspec magic 'prefix'");
        check(":(prefix:0)a", "'prefix' magic does not fit in ':(prefix:0)a'");
        check(":(top,prefix:2)a", "'prefix' magic does not fit in ':(top,prefix:2)a'");
        check(":(top,prefix:0)../a", "'prefix' magic does not fit in ':(top,prefix:0)../a'");
        check(":(top", "Missing ')' at the end of pathspec magic in ':(top'");
        check(":#x", "Unimplemented pathspec magic '#' in ':#x'");
        check(":(glob,literal)x", ":(glob,literal)x: 'literal' and 'glob' are incompatible");
        check("../../x", "../../x: '../../x' is outside repository at '/top'");
        check(":/../x", ":/../x: '../x' is outside repository at '/top'");
        check("/topx", "/topx: '/topx' is outside repository at '/top'");
    }
}
