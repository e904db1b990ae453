//! Rules about published crates: what a registry, docs.rs and a reader of the first page need.

/// Longest README of a crate: its front page says more.
const MAX_README_LINES: usize = 15;

/// Registries take this many keywords, of so many characters.
const MAX_KEYWORDS: usize = 5;
const MAX_KEYWORD_LENGTH: usize = 20;

/// What a crate lacks to be published, given its manifest, its README and the text of its `lib.rs`; empty for those that are not.
pub fn lacks(manifest: &str, readme: Option<&str>, library: &str) -> Vec<String> {
    let table: toml::Table = manifest.parse().expect("a manifest is TOML");
    let package = &table["package"];
    let name = package["name"].as_str().expect("a package has a name");
    if package.get("publish").and_then(|publish| publish.as_bool()) == Some(false) {
        return Vec::new();
    }
    let words = |field: &str| -> Vec<&str> {
        let list = package.get(field).and_then(|list| list.as_array()).into_iter().flatten();
        list.filter_map(|word| word.as_str()).collect()
    };
    let keywords = words("keywords");
    let is_short = |word: &&str| word.len() <= MAX_KEYWORD_LENGTH;
    let docs = package.get("metadata").and_then(|metadata| metadata.get("docs")?.get("rs"));
    let is_text = |field: &str| package.get(field).is_some_and(|text| text.is_str());
    let checks = [
        (is_text("description"), "no description"),
        (is_text("readme") && readme.is_some(), "no readme"),
        (readme.is_none_or(|text| text.lines().count() <= MAX_README_LINES), "a README above 15 lines"),
        (
            (1..=MAX_KEYWORDS).contains(&keywords.len()) && keywords.iter().all(is_short),
            "no, or bad, keywords",
        ),
        (!words("categories").is_empty(), "no categories"),
        (docs.is_some(), "no metadata for docs.rs"),
        (has_example(library), "no example on the front page of its library"),
    ];
    checks.iter().filter(|(is_good, _)| !is_good).map(|(_, what)| format!("{name} has {what}")).collect()
}

/// Whether the text at the start of a library has a block of Rust.
fn has_example(library: &str) -> bool {
    let page = library.lines().map_while(|line| line.strip_prefix("//!"));
    let fences = page.filter_map(|line| line.trim().strip_prefix("```"));
    // Fences open and close in turn.
    fences.step_by(2).any(|kind| matches!(kind, "" | "no_run"))
}

/// Requirements of the workspace with which its crates could not be used beside others: its own crates without a version, except
/// those that only tests use, and exact versions. `Cargo.lock` pins.
pub fn requirements(workspace: &str) -> Vec<String> {
    let table: toml::Table = workspace.parse().expect("a manifest is TOML");
    let workspace = &table["workspace"];
    let own = workspace["package"]["version"].as_str().expect("the crates have one version");
    let mut findings = Vec::new();
    for (name, value) in workspace["dependencies"].as_table().into_iter().flatten() {
        let version = value.as_str().or_else(|| value.get("version")?.as_str());
        let is_ours = value.get("path").is_some() && name != "packrace-testkit";
        if is_ours && version != Some(own) {
            findings.push(format!("{name} needs version = \"{own}\" beside its path"));
        }
        if version.is_some_and(|version| version.starts_with('=')) {
            findings.push(format!("{name} is required in exactly one version"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[package]\nname = \"x\"\npublish.workspace = true\ndescription = \"X\"\nreadme = \"README.md\"\n\
                        keywords = [\"git\"]\ncategories = [\"filesystem\"]\n[package.metadata.docs.rs]\ntargets = []\n";
    const PAGE: &str = "//! X.\n//!\n//! ```text\n//! a\n//! ```\n//!\n//! ```\n//! x();\n//! ```\nmod x;\n";

    fn check(manifest: &str, readme: Option<&str>, library: &str, findings: usize) {
        assert_eq!(lacks(manifest, readme, library).len(), findings, "{manifest}{library}");
    }

    #[test]
    fn what_a_published_crate_lacks_is_found() {
        check(GOOD, Some("# x\n"), PAGE, 0);
        for line in GOOD.lines().filter(|line| line.contains(" = ")).skip(2) {
            let without = GOOD.replace(line, "");
            let expect = usize::from(!line.starts_with("targets"));
            check(&without, Some("# x\n"), PAGE, expect);
        }
        check(&GOOD.replace("[package.metadata.docs.rs]", "[other]"), Some("# x\n"), PAGE, 1);
        check(&GOOD.replace("\"git\"", "\"a-word-that-is-too-long\""), Some("# x\n"), PAGE, 1);
        check(GOOD, None, PAGE, 1);
        check(GOOD, Some(&"x\n".repeat(16)), PAGE, 1);
        check("[package]\nname = \"x\"\npublish = false\n", None, "", 0);
    }

    #[test]
    fn a_front_page_without_example_is_found() {
        check(GOOD, Some("# x\n"), "//! X.\n\nmod x;\n", 1);
        check(GOOD, Some("# x\n"), "//! X.\n//! ```text\n//! a\n//! ```\nmod x;\n//! ```\n", 1);
        check(GOOD, Some("# x\n"), "//! ```no_run\n//! x();\n//! ```\n", 0);
    }

    #[test]
    fn requirements_that_exclude_others_are_found() {
        let workspace = |dependency: &str| {
            let start = "[workspace.package]\nversion = \"0.1.0\"\n[workspace.dependencies]\n";
            requirements(&format!("{start}{dependency}\n")).len()
        };
        assert_eq!(workspace("gix-hash = \"=0.28.1\""), 1);
        assert_eq!(workspace("gix-hash = { version = \"=0.28.1\", features = [] }"), 1);
        assert_eq!(workspace("gix-hash = { version = \"0.28.1\", features = [] }"), 0);
        assert_eq!(workspace("packrace-os = { path = \"crates/os\" }"), 1);
        assert_eq!(workspace("packrace-os = { path = \"crates/os\", version = \"0.0.9\" }"), 1);
        assert_eq!(workspace("packrace-os = { path = \"crates/os\", version = \"0.1.0\" }"), 0);
        assert_eq!(workspace("packrace-testkit = { path = \"crates/testkit\" }"), 0);
    }
}
