//! The tidy test: the rules of the house, checked on every manifest and source file of the workspace.
//!
//! Each rule is a function from a name and a text to findings, with a test that shows it can fail.

mod imports;
mod links;
mod manifest;
mod names;
mod pages;
mod publishing;
mod source;
mod text;

use std::path::{Path, PathBuf};

/// A file of the workspace: its path from the root, with `/`, and its text.
struct File {
    path: String,
    text: String,
}

/// Directories that hold nothing committed.
const NOT_OURS: [&str; 4] = [".git", "target", "corpus", "artifacts"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("crates/testkit is two below")
        .to_path_buf()
}

/// Every text file of the workspace, in order of paths.
fn files() -> Vec<File> {
    let root = root();
    let mut found = Vec::new();
    let mut open = vec![root.clone()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().expect("our names are UTF-8");
            if NOT_OURS.contains(&name) {
                continue;
            }
            if path.is_dir() {
                open.push(path);
            } else if let Ok(text) = String::from_utf8(std::fs::read(&path).unwrap()) {
                let path = path.strip_prefix(&root).unwrap().to_str().unwrap().to_string();
                found.push(File { path, text });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// Whether there is a file or a directory at this path from the root.
fn exists(path: &str) -> bool {
    root().join(path).exists()
}

/// The room that a path lies in: the directory below `crates`, or `fuzz`.
fn room_of(path: &str) -> Option<&str> {
    match path.strip_prefix("crates/") {
        Some(rest) => rest.split_once('/').map(|(room, _)| room),
        None => path.starts_with("fuzz/").then_some("fuzz"),
    }
}

fn assert_tidy(findings: Vec<String>) {
    assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
}

/// Runs a rule over every Rust file.
fn for_sources(rule: impl Fn(&str, &str) -> Vec<String>) {
    let files = files();
    let sources: Vec<&File> = files.iter().filter(|file| file.path.ends_with(".rs")).collect();
    assert!(sources.len() > 20, "the workspace was found");
    assert_tidy(sources.iter().flat_map(|file| rule(&file.path, &file.text)).collect());
}

/// Path and text of every Rust file that is not compiled for tests only.
fn shipped_sources(files: &[File]) -> Vec<(&str, &str)> {
    let sources: Vec<&File> = files.iter().filter(|file| file.path.ends_with(".rs")).collect();
    let tests: Vec<String> =
        sources.iter().flat_map(|file| source::test_modules(&file.path, &file.text)).collect();
    let shipped = sources.iter().filter(|file| !tests.contains(&file.path));
    shipped.map(|file| (file.path.as_str(), file.text.as_str())).collect()
}

/// Runs a rule over every Rust file that is not compiled for tests only.
fn for_shipped_sources(rule: impl Fn(&str, &str) -> Vec<String>) {
    let files = files();
    let sources = shipped_sources(&files);
    assert!(sources.len() > 20, "the workspace was found");
    assert_tidy(sources.iter().flat_map(|(path, text)| rule(path, text)).collect());
}

/// Runs a rule over every text file.
fn for_texts(rule: impl Fn(&str, &str) -> Vec<String>) {
    assert_tidy(files().iter().flat_map(|file| rule(&file.path, &file.text)).collect());
}

#[test]
fn edges_point_down() {
    let manifests = files().into_iter().filter(|file| file.path.ends_with("Cargo.toml"));
    let findings = manifests
        .filter_map(|file| room_of(&file.path).map(|room| manifest::edges(room, &file.text)))
        .collect::<Vec<_>>();
    assert!(findings.len() >= 10, "the manifests were found");
    assert_tidy(findings.concat());
}

#[test]
fn published_crates_have_what_a_registry_shows() {
    let files = files();
    let text = |path: &str| files.iter().find(|file| file.path == path).map(|file| file.text.as_str());
    let rooms = files.iter().filter(|file| file.path.starts_with("crates/"));
    let mut rooms: Vec<&str> = rooms.filter_map(|file| room_of(&file.path)).collect();
    rooms.dedup();
    let mut findings = publishing::requirements(text("Cargo.toml").expect("the workspace has a manifest"));
    for room in rooms {
        let manifest = text(&format!("crates/{room}/Cargo.toml")).expect("a crate has a manifest");
        let library = text(&format!("crates/{room}/src/lib.rs")).unwrap_or_default();
        findings.extend(publishing::lacks(manifest, text(&format!("crates/{room}/README.md")), library));
    }
    assert_tidy(findings);
}

#[test]
fn modules_need_one_another_in_one_direction() {
    let files = files();
    let shipped = shipped_sources(&files);
    let mut rooms: Vec<&str> = shipped.iter().filter_map(|(path, _)| room_of(path)).collect();
    rooms.dedup();
    assert!(rooms.len() >= 10, "the crates were found");
    assert_tidy(rooms.into_iter().flat_map(|room| imports::circles(room, &shipped)).collect());
}

#[test]
fn type_names_lead_to_one_place() {
    let files = files();
    let sources = shipped_sources(&files);
    assert!(sources.len() > 20, "the workspace was found");
    assert_tidy(names::type_names(&sources));
}

#[test]
fn every_room_is_in_the_architecture() {
    let files = files();
    let page = files.iter().find(|file| file.path == "ARCHITECTURE.md").map_or("", |file| file.text.as_str());
    let mut rooms: Vec<&str> = files.iter().filter_map(|file| room_of(&file.path)).collect();
    rooms.dedup();
    assert_tidy(manifest::unnamed_rooms(&rooms, page));
}

#[test]
fn formats_and_protocol_do_no_input_or_output() {
    for_shipped_sources(source::input_and_output);
}

#[test]
fn unsafe_is_in_os_only() {
    for_sources(source::unsafe_code);
}

#[test]
fn the_environment_is_read_in_cli_only() {
    for_shipped_sources(source::environment);
}

#[test]
fn commands_use_the_streams_they_are_given() {
    for_shipped_sources(source::streams_of_process);
}

#[test]
fn files_are_short() {
    for_sources(source::length);
}

/// Whoever embeds packrace cannot use what is in the program.
#[test]
fn cli_is_thin() {
    let files = files();
    let sources = files.iter().filter(|file| file.path.starts_with("crates/cli/src/"));
    let lines: usize = sources.map(|file| file.text.lines().count()).sum();
    assert!((1_000..=7_000).contains(&lines), "crates/cli/src has {lines} lines; at most 7,000");
}

#[test]
fn functions_are_short() {
    for_sources(|path, text| match path.contains("/tests/") {
        // Tables of cases are long.
        true => Vec::new(),
        false => source::function_length(path, text),
    });
}

#[test]
fn a_folder_speaks_for_itself() {
    let files = files();
    let paths: Vec<&str> =
        files.iter().map(|file| file.path.as_str()).filter(|path| path.ends_with(".rs")).collect();
    for_sources(|path, text| source::module_style(path, text, &paths));
}

#[test]
fn docs_say_something() {
    for_sources(source::filler);
}

#[test]
fn ignored_tests_say_why() {
    for_sources(source::ignored_tests);
}

#[test]
fn nothing_is_left_over() {
    for_sources(source::leftovers);
}

#[test]
fn links_lead_somewhere() {
    let files = files();
    let pages: Vec<(&str, &str)> = files
        .iter()
        .filter(|file| file.path.ends_with(".md"))
        .map(|file| (file.path.as_str(), file.text.as_str()))
        .collect();
    assert!(pages.len() > 80, "the pages were found");
    assert_tidy(links::broken(&pages, exists));
}

#[test]
fn named_pages_exist() {
    for_texts(|path, text| match path.ends_with("tidy/links.rs") {
        // Its tests name pages that are none.
        true => Vec::new(),
        false => links::unknown_pages(path, text, exists),
    });
}

#[test]
fn every_page_is_in_the_book() {
    let files = files();
    let summary = files.iter().find(|file| file.path == links::SUMMARY).expect("it is committed");
    let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
    assert_tidy(links::not_in_the_book(&paths, &summary.text));
}

/// Runs a rule over the shipped sources and one page.
fn for_page(page: &str, rule: impl Fn(&[(&str, &str)], &str) -> Vec<String>) {
    let files = files();
    let page = files.iter().find(|file| file.path == page).expect("it is committed");
    assert_tidy(rule(&shipped_sources(&files), &page.text));
}

#[test]
fn every_error_text_has_its_remedy() {
    for_page(pages::ERRORS, pages::errors);
}

#[test]
fn every_metric_is_in_the_runbook() {
    for_page(pages::RUNBOOK, pages::metrics);
}

#[test]
fn no_text_names_a_machine() {
    for_texts(text::machine_paths);
}

#[test]
fn no_text_names_another_registry() {
    for_texts(text::registries);
}
