//! Circles of imports: modules of one level, files or folders, of which each needs the other.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{code_of, without_tests};

/// A module of a crate: the names that lead to it from the root, which has none.
type Module = Vec<String>;

/// Circles among sibling modules of `crate_name`, given its shipped sources as (path, text).
pub fn circles(crate_name: &str, sources: &[(&str, &str)]) -> Vec<String> {
    let prefix = format!("crates/{crate_name}/src/");
    let modules: BTreeMap<Module, String> = sources
        .iter()
        .filter_map(|(path, text)| {
            Some((module_of(path.strip_prefix(&prefix)?), without_tests(&code_of(text))))
        })
        .collect();
    let mut edges: BTreeMap<&[String], Needs<'_>> = BTreeMap::new();
    for (module, code) in &modules {
        for path in imported_paths(code) {
            let Some(needed) = resolve(module, &path, &modules) else { continue };
            let shared = module.iter().zip(needed).take_while(|(a, b)| a == b).count();
            // A module and one inside of it are one thing.
            if shared < module.len() && shared < needed.len() {
                let siblings = edges.entry(&module[..shared]).or_default();
                siblings.entry(&module[shared]).or_default().insert(&needed[shared]);
            }
        }
    }
    let inside = |parent: &[String]| [&[crate_name.to_string()], parent].concat().join("/");
    edges
        .iter()
        .flat_map(|(parent, needs)| {
            groups(needs).into_iter().map(|group| format!("{}: {group}", inside(parent)))
        })
        .collect()
}

/// The module whose source is at `path`, from `src`.
fn module_of(path: &str) -> Module {
    let mut names: Module = path.trim_end_matches(".rs").split('/').map(str::to_string).collect();
    if matches!(names.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        names.pop();
    }
    names
}

/// The module that `path`, written in `module`, leads to or into.
fn resolve<'a>(
    module: &Module,
    path: &[String],
    modules: &'a BTreeMap<Module, String>,
) -> Option<&'a Module> {
    let mut at = module.clone();
    for (index, name) in path.iter().enumerate() {
        match name.as_str() {
            "crate" if index == 0 => at.clear(),
            "super" => drop(at.pop()),
            "self" => {}
            _ => at.push(name.clone()),
        }
    }
    while !modules.contains_key(&at) {
        at.pop()?;
    }
    modules.get_key_value(&at).map(|(key, _)| key)
}

/// Every path in `code` that begins with `crate`, `super` or `self`, with those of a `{…}` one by one.
fn imported_paths(code: &str) -> Vec<Vec<String>> {
    let part_of_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let starts = ["crate::", "super::", "self::"].into_iter().flat_map(|start| code.match_indices(start));
    let mut paths = Vec::new();
    for (at, _) in starts.filter(|(at, _)| !code[..*at].ends_with(part_of_path)) {
        expand(&code[at..], &[], &mut paths);
    }
    paths
}

/// Adds the paths of one tree of `use`, each after `before`; returns what follows the tree.
fn expand<'a>(code: &'a str, before: &[String], paths: &mut Vec<Vec<String>>) -> &'a str {
    let mut path = before.to_vec();
    let mut rest = code.trim_start();
    loop {
        if let Some(mut inner) = rest.strip_prefix('{') {
            while !inner.trim_start().starts_with('}') && !inner.trim_start().is_empty() {
                let after = expand(inner, &path, paths);
                let next = after.find([',', '}']).unwrap_or(after.len());
                inner = after[next..].strip_prefix(',').unwrap_or(&after[next..]);
            }
            return inner.trim_start().strip_prefix('}').unwrap_or("");
        }
        let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        path.push(rest[..length].to_string());
        rest = &rest[length..];
        match rest.strip_prefix("::") {
            Some(more) => rest = more,
            None => break,
        }
    }
    paths.push(path);
    rest
}

/// What each name needs.
type Needs<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// The groups of names that reach one another.
fn groups(needs: &Needs<'_>) -> Vec<String> {
    let all: Needs<'_> = needs.keys().map(|name| (*name, reached(name, needs))).collect();
    let in_circle = all.iter().filter(|(name, reached)| reached.contains(*name));
    let found: BTreeSet<Vec<&str>> = in_circle
        .map(|(name, reached)| {
            let meets = |other: &&str| all.get(other).is_some_and(|back| back.contains(name));
            reached.iter().copied().filter(meets).collect()
        })
        .collect();
    found.into_iter().map(|group| group.join(" <-> ")).collect()
}

/// What `from` needs, and what that needs, and so on.
fn reached<'a>(from: &'a str, needs: &Needs<'a>) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(name) = open.pop() {
        open.extend(needs.get(name).into_iter().flatten().copied().filter(|next| reached.insert(*next)));
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::circles;

    fn check(sources: &[(&str, &str)], expected: &[&str]) {
        let sources: Vec<(String, &str)> =
            sources.iter().map(|(path, text)| (format!("crates/x/src/{path}"), *text)).collect();
        let sources: Vec<(&str, &str)> = sources.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        assert_eq!(circles("x", &sources), expected);
    }

    #[test]
    fn circles_are_found_at_every_level() {
        check(
            &[("lib.rs", ""), ("a.rs", "use crate::b::B;"), ("b.rs", "fn f() { crate::a::g() }")],
            &["x: a <-> b"],
        );
        check(
            &[("lib.rs", ""), ("a/mod.rs", ""), ("a/c.rs", "use crate::{b, d};"), ("b.rs", "use super::a;")],
            &["x: a <-> b"],
        );
        check(
            &[
                ("lib.rs", ""),
                ("a/mod.rs", ""),
                ("a/c.rs", "use super::d::D;"),
                ("a/d.rs", "use crate::a::{c::C};"),
            ],
            &["x/a: c <-> d"],
        );
        let three = [
            ("a.rs", "use crate::b;"),
            ("b.rs", "use crate::{z::{Y}, c as d};"),
            ("c.rs", "use crate::a::A;"),
        ];
        check(&[&[("lib.rs", "")], &three[..]].concat(), &["x: a <-> b <-> c"]);
    }

    #[test]
    fn what_is_no_circle() {
        // A module and what is inside of it, tests, comments, and what is not a module.
        check(&[("lib.rs", "use a::A;"), ("a/mod.rs", "use self::b::B;"), ("a/b.rs", "use super::A;")], &[]);
        check(
            &[
                ("lib.rs", ""),
                ("a.rs", "use crate::b;"),
                ("b.rs", "#[cfg(test)]\nmod tests { use crate::a; }"),
            ],
            &[],
        );
        check(&[("lib.rs", ""), ("a.rs", "use crate::b;"), ("b.rs", "// crate::a\nuse crate::Error;")], &[]);
        check(
            &[("lib.rs", ""), ("a.rs", "use crate::b;"), ("b.rs", "use other::crate::a; use mycrate::a;")],
            &[],
        );
    }
}
