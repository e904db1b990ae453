//! Names of types: a search for one leads to one place, two at most.

use std::collections::BTreeMap;

use crate::room_of;
use crate::source::{code_of, is_test_file, without_tests};

/// How often a name may be defined in the workspace.
const MAX_DEFINITIONS: usize = 2;

/// Names that each crate may define, once: Rust's convention for what a crate fails with.
const ONCE_A_CRATE: [&str; 2] = ["Error", "ErrorKind"];

/// Names that are defined too often in the shipped sources, given as (path, text).
pub fn type_names(sources: &[(&str, &str)]) -> Vec<String> {
    let mut definitions: BTreeMap<(String, &str), Vec<&str>> = BTreeMap::new();
    for (path, text) in sources {
        // Examples, fuzz targets and the tests beside `src` are not part of a crate.
        if !path.contains("/src/") || is_test_file(path) {
            continue;
        }
        for name in types_of(&without_tests(&code_of(text))) {
            let place = match ONCE_A_CRATE.contains(&name) {
                true => room_of(path).unwrap_or_default(),
                false => "the workspace",
            };
            definitions.entry((name.to_string(), place)).or_default().push(path);
        }
    }
    let max = |name: &str| if ONCE_A_CRATE.contains(&name) { 1 } else { MAX_DEFINITIONS };
    definitions
        .iter()
        .filter(|((name, _), paths)| paths.len() > max(name))
        .map(|((name, place), paths)| {
            format!("{name} is defined {} times in {place}: {}", paths.len(), paths.join(", "))
        })
        .collect()
}

/// The names of the types that `code` defines. An indented `type` is one of a trait or of its implementation.
fn types_of(code: &str) -> impl Iterator<Item = &str> {
    code.lines().filter_map(|line| {
        let item = without_visibility(line.trim_start());
        let item = item.strip_prefix("unsafe ").unwrap_or(item);
        let (keyword, rest) = item.split_once(' ')?;
        let is_type = match keyword {
            "struct" | "enum" | "trait" | "union" => true,
            "type" => !line.starts_with(' '),
            _ => false,
        };
        let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
        (is_type && !name.is_empty()).then_some(name)
    })
}

fn without_visibility(item: &str) -> &str {
    match item.strip_prefix("pub(") {
        Some(rest) => rest.split_once(") ").map_or(rest, |(_, item)| item),
        None => item.strip_prefix("pub ").unwrap_or(item),
    }
}

#[cfg(test)]
mod tests {
    use super::{type_names, types_of};

    fn check(sources: &[(&str, &str)], expected: &[&str]) {
        assert_eq!(type_names(sources), expected);
    }

    #[test]
    fn every_kind_of_type_is_found() {
        let code = "struct A;\npub enum B<T> {\n    C,\n}\npub(super) trait D: E {\n    type F;\n}\n\
                    pub(in crate::g) type H = I;\nimpl J for A {\n    type K = L;\n}\nunion M {}\n\
                    fn n() {\n    struct O(P);\n}\npub unsafe trait Q {}\n\
                    macro_rules! r { () => { struct $name; } }\n";
        assert_eq!(types_of(code).collect::<Vec<_>>(), ["A", "B", "D", "H", "M", "O", "Q"]);
    }

    #[test]
    fn a_third_type_of_a_name_is_found() {
        let two = [("crates/x/src/a.rs", "struct State;"), ("crates/y/src/a.rs", "pub enum State {}")];
        check(&two, &[]);
        check(
            &[&two[..], &[("crates/y/src/b.rs", "type State = u8;")]].concat(),
            &["State is defined 3 times in the workspace: \
               crates/x/src/a.rs, crates/y/src/a.rs, crates/y/src/b.rs"],
        );
        // Comments, literals, other words, and tests in all their places.
        for (path, text) in [
            ("crates/y/src/b.rs", "// struct State;\nconst A: &str = \"\nstruct State;\";"),
            ("crates/y/src/b.rs", "struct States;\nfn f(struct_: State) {}"),
            ("crates/y/src/b.rs", "#[cfg(test)]\nmod tests {\n    struct State;\n}"),
            ("crates/y/src/b/tests.rs", "struct State;"),
            ("crates/y/tests/b.rs", "struct State;"),
        ] {
            check(&[&two[..], &[(path, text)]].concat(), &[]);
        }
    }

    #[test]
    fn a_second_error_of_a_crate_is_found() {
        let three = [
            ("crates/x/src/a.rs", "pub enum Error {}"),
            ("crates/y/src/a.rs", "pub struct Error(Reason);\nimpl T for U {\n    type Error = V;\n}"),
            ("crates/z/src/a.rs", "type Error = Box<W>;\npub enum ErrorKind {}"),
        ];
        check(&three, &[]);
        check(
            &[&three[..], &[("crates/z/src/b.rs", "enum Error {}\nenum ErrorKind {}")]].concat(),
            &[
                "Error is defined 2 times in z: crates/z/src/a.rs, crates/z/src/b.rs",
                "ErrorKind is defined 2 times in z: crates/z/src/a.rs, crates/z/src/b.rs",
            ],
        );
    }
}
