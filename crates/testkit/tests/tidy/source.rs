//! Rules about Rust source. They look at code: comments, strings and, where a rule says so, tests are blanked first.

use crate::room_of;

/// Files above [`MAX_LINES`], each with its reason.
const LONG_FILES: [(&str, &str); 0] = [];

/// Lines of a file; beyond it, look for the second reason to change.
const MAX_LINES: usize = 600;

/// Lines of a function.
const MAX_FUNCTION_LINES: usize = 70;

/// `std::fs`, `std::net` and clocks in rooms that take bytes and time as arguments.
pub fn input_and_output(path: &str, text: &str) -> Vec<String> {
    if !matches!(room_of(path), Some("object" | "format" | "protocol")) || is_test_file(path) {
        return Vec::new();
    }
    let code = without_tests(&code_of(text));
    let paths = ["std::fs", "std::net", "Instant::now", "SystemTime::now"];
    let grouped = ["fs", "net"].into_iter().filter(|name| imported_from_std(&code, name));
    // What `os` has beside input and output.
    let calls = code.replace("packrace_os::inflate", "");
    let os = has_word(&calls, "packrace_os").then_some("packrace_os");
    paths
        .into_iter()
        .filter(|word| has_word(&code, word))
        .chain(grouped)
        .chain(os)
        .map(|f| format!("{path}: {f}"))
        .collect()
}

/// `unsafe` outside `os`.
pub fn unsafe_code(path: &str, text: &str) -> Vec<String> {
    let found = room_of(path) != Some("os") && has_word(&code_of(text), "unsafe");
    found.then(|| format!("{path}: unsafe outside os")).into_iter().collect()
}

/// Reading of environment variables outside `cli`; development rooms and tests may.
pub fn environment(path: &str, text: &str) -> Vec<String> {
    if matches!(room_of(path), Some("cli" | "testkit" | "bench" | "fuzz") | None) || is_test_file(path) {
        return Vec::new();
    }
    let code = without_tests(&code_of(text));
    let words = [
        "env::var",
        "env::var_os",
        "env::vars",
        "env::vars_os",
        "env::home_dir",
        "env::args",
        "env::args_os",
    ];
    words.into_iter().filter(|word| has_word(&code, word)).map(|word| format!("{path}: {word}")).collect()
}

/// Standard streams and the end of the process in `commands`, which is handed its streams and shares the process with others.
pub fn streams_of_process(path: &str, text: &str) -> Vec<String> {
    if room_of(path) != Some("commands") || is_test_file(path) {
        return Vec::new();
    }
    let code = without_tests(&code_of(text));
    let words = ["io::stdin", "io::stdout", "io::stderr", "process::exit", "println!", "eprintln!"];
    words.into_iter().filter(|word| has_word(&code, word)).map(|word| format!("{path}: {word}")).collect()
}

/// Files longer than [`MAX_LINES`]; `tests.rs` may be.
pub fn length(path: &str, text: &str) -> Vec<String> {
    let lines = text.lines().count();
    let exempt = path.ends_with("/tests.rs") || LONG_FILES.iter().any(|(file, _)| *file == path);
    (lines > MAX_LINES && !exempt).then(|| format!("{path}: {lines} lines")).into_iter().collect()
}

/// Functions longer than [`MAX_FUNCTION_LINES`].
pub fn function_length(path: &str, text: &str) -> Vec<String> {
    let code = code_of(text);
    let starts = code
        .match_indices("fn ")
        .filter(|(at, _)| !code[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '_'));
    starts
        .filter_map(|(at, keyword)| {
            let name = code[at + keyword.len()..].split(['(', '<']).next()?;
            // Types of functions have no name.
            let body = name
                .starts_with(|c: char| c.is_alphabetic() || c == '_')
                .then(|| body_after(&code[at..]))??;
            let lines = body.lines().count();
            (lines > MAX_FUNCTION_LINES).then(|| format!("{path}: {name} has {lines} lines"))
        })
        .collect()
}

/// The text of a function from its keyword to its last brace; `None` if it has no body.
fn body_after(code: &str) -> Option<&str> {
    let mut depth = 0;
    for (at, c) in code.char_indices() {
        match c {
            '{' | '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ';' if depth == 0 => return None,
            '}' => {
                depth -= 1;
                if depth == 0 {
                    return Some(&code[..=at]);
                }
            }
            _ => {}
        }
    }
    None
}

/// A module with a file beside its folder: the folder's own text is its `mod.rs`. And folders whose first line does not say what they are for.
pub fn module_style(path: &str, text: &str, paths: &[&str]) -> Vec<String> {
    let (dir, file) = path.rsplit_once('/').expect("sources lie in directories");
    let folder = format!("{dir}/{}/", file.trim_end_matches(".rs"));
    let beside = paths.iter().any(|other| other.starts_with(&folder));
    let beside = beside.then(|| format!("{path} belongs into {folder}mod.rs"));
    let is_head = file == "mod.rs" && path.contains("/src/") && !dir.ends_with("/tests");
    let silent = is_head && !text.starts_with("//!");
    beside
        .into_iter()
        .chain(silent.then(|| format!("{path} does not begin with what the folder is for")))
        .collect()
}

/// Doc comments of one word, which say nothing that a better name would not.
pub fn filler(path: &str, text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    let is_doc =
        |at: Option<usize>| at.and_then(|at| lines.get(at)).is_some_and(|line| line.starts_with("///"));
    let alone = |at: usize| is_doc(Some(at)) && !is_doc(at.checked_sub(1)) && !is_doc(Some(at + 1));
    let plain =
        |line: &str| line.trim_start_matches("/// ").trim_end_matches('.').chars().all(char::is_alphabetic);
    (0..lines.len())
        .filter(|at| alone(*at) && plain(lines[*at]))
        .map(|at| format!("{path}:{}: {}", at + 1, lines[at]))
        .collect()
}

/// `#[ignore]` without a reason, or with another than that a test needs a tool or is slow: all that are ignored run in the
/// second command.
pub fn ignored_tests(path: &str, text: &str) -> Vec<String> {
    let code: String = code_of(text).split_whitespace().collect();
    let without = code.contains("#[ignore]").then(|| format!("{path}: #[ignore] without a reason"));
    let reasons = text.lines().filter_map(|line| line.trim_start().strip_prefix("#[ignore = \""));
    let is_known = |reason: &&str| ["needs ", "slow: "].iter().any(|start| reason.starts_with(start));
    let others = reasons.filter(|reason| !is_known(reason));
    others.map(|reason| format!("{path}: #[ignore] because \"{reason}")).chain(without).collect()
}

/// What is written to be replaced before it is shown.
pub fn leftovers(path: &str, text: &str) -> Vec<String> {
    let code = code_of(text);
    let words = ["todo!", "unimplemented!", "dbg!"];
    words.into_iter().filter(|word| has_word(&code, word)).map(|word| format!("{path}: {word}")).collect()
}

/// The files of the modules that `text` declares below `#[cfg(test)]`: they are tests too.
pub fn test_modules(path: &str, text: &str) -> Vec<String> {
    let (dir, file) = path.rsplit_once('/').expect("sources lie in directories");
    let dir = match file {
        "lib.rs" | "main.rs" | "mod.rs" => dir.to_string(),
        _ => format!("{dir}/{}", file.trim_end_matches(".rs")),
    };
    let code = code_of(text);
    code.match_indices("#[cfg(test)]")
        .filter_map(|(at, attribute)| {
            let item = code[at + attribute.len()..].split([';', '{']).next()?.trim();
            let name = item.rsplit(' ').next().filter(|_| item.contains("mod "))?;
            Some([format!("{dir}/{name}.rs"), format!("{dir}/{name}/mod.rs")])
        })
        .flatten()
        .collect()
}

/// Whether a file holds nothing but tests, by its path, or an example, which is a program of its own.
pub fn is_test_file(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/") || path.contains("/examples/")
}

/// Whether `word` stands in `code` with no letter, digit or underscore against either end.
fn has_word(code: &str, word: &str) -> bool {
    let part_of_name = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| {
        let after = &code[at + word.len()..];
        !code[..at].ends_with(part_of_name) && !after.starts_with(part_of_name)
    })
}

/// Whether `use std::{…}` names this module at its top level.
fn imported_from_std(code: &str, module: &str) -> bool {
    code.match_indices("std::{").any(|(at, opening)| {
        let mut depth = 0;
        let mut top = String::new();
        for c in code[at + opening.len()..].chars() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                c if depth == 0 => top.push(c),
                _ => {}
            }
        }
        top.split(',').any(|item| item.trim().split([':', ' ']).next() == Some(module))
    })
}

/// The text with comments, strings and characters blanked; lines stay where they are.
pub fn code_of(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = skipped_until(&chars, at);
        if end == at {
            code.push(chars[at]);
            at += 1;
        } else {
            code.extend(chars[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    code
}

/// The code of `text`, and each of its string literals outside tests: where it stands in the code, and its text.
pub fn string_literals(text: &str) -> (String, Vec<(usize, String)>) {
    let chars: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut literals = Vec::new();
    // How many braces are open since `#[cfg(test)]`.
    let mut in_tests: Option<usize> = None;
    let mut at = 0;
    while at < chars.len() {
        let end = skipped_until(&chars, at);
        if end > at {
            let literal = literal_text(&chars[at..end]).filter(|_| in_tests.is_none());
            literals.extend(literal.map(|literal| (code.len(), literal)));
            code.push(' ');
            at = end;
            continue;
        }
        code.push(chars[at]);
        in_tests = match (in_tests, chars[at]) {
            (None, ']') if code.ends_with("#[cfg(test)]") => Some(0),
            (Some(depth), '{') => Some(depth + 1),
            (Some(0), ';') | (Some(1), '}') => None,
            (Some(depth), '}') => depth.checked_sub(1),
            (state, _) => state,
        };
        at += 1;
    }
    (code, literals)
}

/// What a string literal says, on one line; nothing for a character or a comment.
fn literal_text(chars: &[char]) -> Option<String> {
    let open = chars.iter().position(|c| *c == '"').filter(|_| !matches!(chars[0], '/' | '\''))?;
    let close = chars.iter().rposition(|c| *c == '"').filter(|close| *close > open)?;
    let is_raw = chars[..open].contains(&'r');
    let mut said = String::new();
    let mut rest = chars[open + 1..close].iter();
    while let Some(c) = rest.next() {
        match (c, is_raw) {
            ('\\', false) => match rest.next() {
                Some('n' | 'r' | 't' | '\n') | None => said.push(' '),
                Some(escaped) => said.push(*escaped),
            },
            (c, _) => said.push(*c),
        }
    }
    Some(said)
}

/// Where the comment or literal that starts at `at` ends; `at` itself if none starts there.
fn skipped_until(chars: &[char], at: usize) -> usize {
    let rest = &chars[at..];
    let in_name = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
    match rest {
        ['/', '/', ..] => at + rest.iter().position(|c| *c == '\n').unwrap_or(rest.len()),
        ['/', '*', ..] => block_comment_end(chars, at),
        ['"', ..] => quoted_end(chars, at, '"'),
        ['\'', '\\', ..] => quoted_end(chars, at, '\''),
        ['\'', _, '\'', ..] => at + 3,
        ['r' | 'b' | 'c', ..] if !in_name => raw_string_end(chars, at).unwrap_or(at),
        _ => at,
    }
}

fn block_comment_end(chars: &[char], mut at: usize) -> usize {
    let mut depth = 0;
    while at < chars.len() {
        match &chars[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn quoted_end(chars: &[char], start: usize, quote: char) -> usize {
    let mut at = start + 1;
    while at < chars.len() && chars[at] != quote {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(chars.len())
}

/// The end of `r"…"`, `br#"…"#` and the like, if one starts at `start`.
fn raw_string_end(chars: &[char], start: usize) -> Option<usize> {
    let mut at = start + usize::from(matches!(chars[start], 'b' | 'c'));
    if chars.get(at) != Some(&'r') {
        return None;
    }
    at += 1;
    let hashes = chars[at..].iter().take_while(|c| **c == '#').count();
    at += hashes;
    if chars.get(at) != Some(&'"') {
        return None;
    }
    let closing: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
    let found = chars[at + 1..].windows(closing.len()).position(|window| window == closing);
    Some(found.map_or(chars.len(), |found| at + 1 + found + closing.len()))
}

/// `code` without the items below `#[cfg(test)]`.
pub fn without_tests(code: &str) -> String {
    let mut kept = String::new();
    let mut rest = code;
    while let Some(at) = rest.find("#[cfg(test)]") {
        kept.push_str(&rest[..at]);
        let mut depth = 0;
        let end = rest[at..].char_indices().find(|(_, c)| {
            depth += i32::from(*c == '{') - i32::from(*c == '}');
            (*c == '}' || *c == ';') && depth == 0
        });
        rest = end.map_or("", |(length, _)| &rest[at + length + 1..]);
    }
    kept + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    type Rule = fn(&str, &str) -> Vec<String>;

    fn check(rule: Rule, path: &str, text: &str, findings: usize) {
        assert_eq!(rule(path, text).len(), findings, "{path}: {text}");
    }

    #[test]
    fn input_and_output_are_found_outside_tests() {
        let object = "crates/object/src/a.rs";
        check(input_and_output, object, "use std::fs;", 1);
        check(input_and_output, object, "use std::{fmt, net::{IpAddr, TcpStream}};", 1);
        check(input_and_output, object, "fn f() { Instant::now(); SystemTime::now(); }", 2);
        check(
            input_and_output,
            object,
            "#[cfg(test)]\nmod tests { fn f() { std::fs::read(); } }\nuse std::net;",
            1,
        );
        check(input_and_output, object, "#[cfg(test)]\nmod tests { use std::fs; }", 0);
        check(input_and_output, object, "use packrace_os::inflate::StreamInflater;", 0);
        check(input_and_output, object, "use packrace_os::{inflate, durable};", 1);
        check(
            input_and_output,
            object,
            "// std::fs\nconst A: &str = \"std::net\"; use std::{fmt::{fs}, io};",
            0,
        );
        check(input_and_output, "crates/object/src/a/tests.rs", "use std::fs;", 0);
        check(input_and_output, "crates/os/src/a.rs", "use std::fs;", 0);
    }

    #[test]
    fn modules_for_tests_are_known() {
        let files = test_modules("crates/object/src/lib.rs", "mod a;\n#[cfg(test)]\npub(crate) mod b;\n");
        assert_eq!(files, ["crates/object/src/b.rs", "crates/object/src/b/mod.rs"]);
        assert_eq!(
            test_modules("crates/object/src/a.rs", "#[cfg(test)]\nmod b;")[0],
            "crates/object/src/a/b.rs"
        );
        assert!(test_modules("crates/object/src/a.rs", "#[cfg(test)]\nuse x;\nmod b;").is_empty());
    }

    #[test]
    fn unsafe_is_found_outside_os() {
        check(unsafe_code, "crates/pack/src/a.rs", "unsafe { x() }", 1);
        check(unsafe_code, "crates/pack/tests/a.rs", "unsafe impl Send for X {}", 1);
        check(unsafe_code, "crates/os/src/a.rs", "unsafe { x() }", 0);
        check(unsafe_code, "crates/pack/src/a.rs", "#![forbid(unsafe_code)] // unsafe", 0);
    }

    #[test]
    fn environment_is_found_outside_cli() {
        check(environment, "crates/store/src/a.rs", "std::env::var(\"HOME\")", 1);
        check(environment, "crates/store/src/a.rs", "use std::env; env::vars_os()", 1);
        check(environment, "crates/store/src/a.rs", "#[cfg(test)]\nfn f() { std::env::var(\"HOME\") }", 0);
        check(environment, "crates/cli/src/a.rs", "std::env::var(\"HOME\")", 0);
        check(environment, "crates/store/examples/a.rs", "std::env::args_os()", 0);
    }

    #[test]
    fn streams_of_the_process_are_found_in_commands() {
        check(streams_of_process, "crates/commands/src/a.rs", "std::io::stdout().lock()", 1);
        check(
            streams_of_process,
            "crates/commands/src/a.rs",
            "use std::io::{self}; io::stderr(); eprintln!(\"x\");",
            2,
        );
        check(streams_of_process, "crates/commands/src/a.rs", "std::process::exit(1)", 1);
        check(streams_of_process, "crates/commands/tests/a.rs", "std::io::stdout()", 0);
        check(streams_of_process, "crates/cli/src/a.rs", "std::io::stdout()", 0);
    }

    #[test]
    fn long_files_are_found() {
        let long = "x\n".repeat(601);
        check(length, "crates/store/src/a.rs", &long, 1);
        check(length, "crates/store/src/a.rs", &long[2..], 0);
        check(length, "crates/store/src/a/tests.rs", &long, 0);
    }

    #[test]
    fn long_functions_are_found() {
        let body = |lines: usize| "    x();\n".repeat(lines);
        let function = |lines: usize| format!("pub fn f<T>(a: [u8; 3]) -> T {{\n{}}}\n", body(lines));
        check(function_length, "crates/store/src/a.rs", &function(69), 1);
        check(function_length, "crates/store/src/a.rs", &function(68), 0);
        let others = format!("trait T {{ fn f(&self); }}\ntype F = fn (u8);\n{}", "// fn g() {\n".repeat(80));
        check(function_length, "crates/store/src/a.rs", &others, 0);
        let inner = format!("mod a {{\n fn f() {{ }}\n{}\n async fn g() {{ }} }}", body(80));
        check(function_length, "crates/store/src/a.rs", &inner, 0);
    }

    #[test]
    fn other_styles_of_modules_are_found() {
        let paths = ["crates/a/src/b.rs", "crates/a/src/b/c.rs", "crates/a/src/d/mod.rs"];
        let findings = |path: &str, text: &str| module_style(path, text, &paths).len();
        assert_eq!(findings(paths[0], ""), 1);
        assert_eq!(findings(paths[1], ""), 0);
        assert_eq!([findings(paths[2], "mod x;"), findings(paths[2], "//! D.\nmod x;")], [1, 0]);
        assert_eq!(findings("crates/a/tests/d/mod.rs", ""), 0);
    }

    #[test]
    fn filler_is_found() {
        let path = "crates/store/src/a.rs";
        check(filler, path, "    /// Where.\n    at: usize,", 1);
        check(
            filler,
            path,
            "/// `core.bare`\nbare: bool,\n/// Where it\n/// is.\nat: usize,\n/// A tree.\nTree,",
            0,
        );
    }

    #[test]
    fn ignored_tests_are_found() {
        check(ignored_tests, "crates/store/src/a.rs", "#[test]\n#[ ignore ]\nfn f() {}", 1);
        check(ignored_tests, "crates/store/src/a.rs", "#[test]\n#[ignore = \"fails\"]\nfn f() {}", 1);
        check(ignored_tests, "crates/store/src/a.rs", "#[test]\n#[ignore = \"slow: all\"]\nfn f() {}", 0);
        check(
            ignored_tests,
            "crates/store/src/a.rs",
            "#[ignore = \"needs a network\"]\nfn f() {} // #[ignore]",
            0,
        );
    }

    #[test]
    fn leftovers_are_found() {
        for word in ["todo", "unimplemented", "dbg"] {
            check(leftovers, "crates/store/src/a.rs", &format!("fn f() {{ {word}!(\"x\") }}"), 1);
        }
        check(leftovers, "crates/store/src/a.rs", "// todo!()\nfn f() { my_todo!() }", 0);
    }

    #[test]
    fn string_literals_are_found() {
        let text = "a(\"one \\\"two\\\"\\n\"); // \"not\"\nb(r#\"three \\n\"#, 'c', \"four \\\n    five\");\n\
                    #[cfg(test)]\nmod tests { c(\"six\"); }\nd(\"seven\");";
        let (code, literals) = string_literals(text);
        let said: Vec<&str> = literals.iter().map(|(_, said)| said.trim_end()).collect();
        assert_eq!(said, ["one \"two\"", "three \\n", "four      five", "seven"]);
        assert!(code[..literals[3].0].ends_with("d("));
    }

    #[test]
    fn literals_and_comments_are_blanked() {
        let text = r##"a(b"x\"y", r#"p"q"#, 'c', '\'', '"', &'a str) /* d /* e */ f */ g // h
i"##;
        let code: String = code_of(text).split_whitespace().collect();
        assert_eq!(code, "a(b,,,,,&'astr)gi");
    }
}
