//! Whether a change breaks programs that use the crates: their public items are compared with those of the last release, in
//! `crates/*/public-api.txt`.
//!
//! `PUBLIC_API=renew cargo test -p packrace-testkit --test public_api -- --ignored` writes the lists anew.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The crates whose items others use.
const CRATES: [&str; 9] =
    ["client", "commands", "format", "journal", "object", "pack", "protocol", "server", "store"];

/// Makes rustdoc write JSON, which stable ones do only if told that they are not. Nothing else is built that way.
const WRAPPER: &str =
    "#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec \"$REAL_RUSTDOC\" \"$@\" -Zunstable-options --output-format=json\n";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/testkit is two below").to_owned()
}

/// Where rustdoc writes: beside the pages.
fn target() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is in the target directory")
}

/// Describes all crates in one run, with the features that they have in the workspace: what they need is checked for the
/// pages, too, and only once.
fn describe(wrapper: &Path) {
    let mut command = Command::new(env!("CARGO"));
    let describes_us = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(describes_us)) {
        command.env_remove(name);
    }
    let rustdoc = Path::new(env!("CARGO")).with_file_name("rustdoc");
    command.env("REAL_RUSTDOC", rustdoc).env("RUSTDOC", wrapper).current_dir(root());
    // Flags of their own, so that pages that are there are not taken for the list.
    command.env("RUSTDOCFLAGS", "--cfg=packrace_public_api");
    command
        .args(["doc", "--quiet", "--locked", "--lib", "--no-deps", "--workspace", "--target-dir"])
        .arg(target());
    let output = command.output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The public items of a crate, a line each.
fn items(name: &str) -> BTreeSet<String> {
    let json = target().join(format!("doc/packrace_{name}.json"));
    let api = public_api::Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    api.items().map(ToString::to_string).collect()
}

/// The version of the workspace, and the part of it that allows changes that break users.
fn version() -> (String, String) {
    let manifest: toml::Table = fs::read_to_string(root().join("Cargo.toml")).unwrap().parse().unwrap();
    let version = manifest["workspace"]["package"]["version"].as_str().expect("it has a version").to_owned();
    let breaking = compatible(&version);
    (version, breaking)
}

/// `0.1` of `0.1.2`, `3` of `3.1.2`: versions that have it in common do not break users (semver.org, cargo's reference).
fn compatible(version: &str) -> String {
    let parts: Vec<&str> = version.split('.').collect();
    if parts[0] == "0" { parts[..2].join(".") } else { parts[0].to_owned() }
}

/// What a list says: the version, and its items.
fn parse(list: &str) -> (&str, BTreeSet<&str>) {
    let (first, rest) = list.split_once('\n').unwrap_or((list, ""));
    (first.trim_start_matches("# ").rsplit(' ').next().unwrap_or_default(), rest.lines().collect())
}

#[test]
#[ignore = "needs a rustdoc whose JSON public-api reads (Rust 1.93 to 1.95)"]
fn no_user_is_broken_without_a_new_version() {
    let folder = tempfile::tempdir().unwrap();
    let wrapper = folder.path().join("rustdoc");
    packrace_testkit::write_program(&wrapper, WRAPPER);
    describe(&wrapper);
    let (version, breaking) = version();
    let renews = std::env::var("PUBLIC_API").is_ok_and(|what| what == "renew");
    let mut broken = Vec::new();
    for name in CRATES {
        let items = items(name);
        assert!(items.len() > 20, "{name}: {items:?}");
        let file = root().join("crates").join(name).join("public-api.txt");
        if renews {
            let lines: String = items.iter().map(|item| format!("{item}\n")).collect();
            fs::write(&file, format!("# packrace-{name} {version}\n{lines}")).unwrap();
            continue;
        }
        let list = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let (released, known) = parse(&list);
        if compatible(released) == breaking {
            let gone = known.iter().filter(|item| !items.contains(**item));
            broken.extend(gone.map(|item| format!("packrace-{name}: {item}")));
        }
    }
    assert!(
        broken.is_empty(),
        "these items are gone, or are not what they were:\n{}\nUsers of {version} would break: it needs a new minor version. If it is not released, renew the lists:\n\
         PUBLIC_API=renew cargo test -p packrace-testkit --test public_api -- --ignored",
        broken.join("\n")
    );
}

#[test]
fn versions_that_break_users() {
    assert_eq!(compatible("0.1.2"), "0.1");
    assert_eq!(compatible("3.1.2"), "3");
    assert_eq!(parse("# packrace-a 0.1.0\npub fn a()\n"), ("0.1.0", BTreeSet::from(["pub fn a()"])));
}
