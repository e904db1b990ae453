//! The published crates, as a registry would hand them out: a crate outside the workspace depends on their packages,
//! beside `gix` and another patch version of `gix-hash` than the lock file's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The release of gix whose crates the workspace depends on.
const GIX: &str = "0.90";

/// The directory of everything that is built; what is checked here shares the dependencies in it.
fn target() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is in the target directory")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/testkit is two below").to_owned()
}

/// Runs cargo, which must succeed, and returns its output.
fn cargo(dir: &Path, args: &[&str]) -> Vec<u8> {
    let mut command = Command::new(env!("CARGO"));
    // `cargo test` describes this crate in variables. Build scripts that depend on them (ring's) would run anew, here and in
    // the next build, with everything that depends on theirs.
    let describes_us = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(describes_us)) {
        command.env_remove(name);
    }
    let output = command.args(args).current_dir(dir).output().expect("cargo runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo {}: {errors}", args.join(" "));
    output.stdout
}

/// The text of a field that every package has.
fn text<'a>(package: &'a Value, field: &str) -> &'a str {
    package[field].as_str().expect("a package has it")
}

/// A new folder of this name.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Packages these crates, and unpacks them into `folder`.
fn package(published: &[&Value], others: &[&Value], folder: &Path) {
    let mut args = vec!["package", "--workspace", "--no-verify", "--allow-dirty", "--quiet"];
    args.extend(others.iter().flat_map(|package| ["--exclude", text(package, "name")]));
    let target = target().to_str().expect("our paths are UTF-8");
    args.extend(["--target-dir", target]);
    cargo(&root(), &args);
    for each in published {
        let name = format!("{}-{}", text(each, "name"), text(each, "version"));
        let file = self::target().join("package").join(format!("{name}.crate"));
        // Files of now: cargo gives all the same old date, and would take what it built of an earlier run for fresh.
        let unpacked = Command::new("tar").arg("-xzmf").arg(&file).arg("-C").arg(folder).status().unwrap();
        assert!(unpacked.success(), "{name}");
        for wanted in ["README.md", "LICENSE-MIT", "LICENSE-APACHE"] {
            assert!(folder.join(&name).join(wanted).is_file(), "{name} has no {wanted}");
        }
    }
}

/// Copies a crate of the registry with its next patch version, which it returns.
fn next_patch(original: &Value, to: &Path) -> String {
    let version = text(original, "version");
    let (start, patch) = version.rsplit_once('.').expect("three numbers");
    let next = format!("{start}.{}", patch.parse::<u64>().expect("a number") + 1);
    let from = Path::new(text(original, "manifest_path")).parent().expect("it is in a folder");
    assert!(Command::new("cp").arg("-r").arg(from).arg(to).status().unwrap().success());
    let manifest = to.join("Cargo.toml");
    let written = fs::read_to_string(&manifest).unwrap();
    let line = |version: &str| format!("\nversion = \"{version}\"\n");
    fs::write(&manifest, written.replacen(&line(version), &line(&next), 1)).unwrap();
    next
}

/// The workspace's `[profile.dev]`: with another one, no dependency could be shared.
fn profile() -> String {
    let manifest: toml::Table = fs::read_to_string(root().join("Cargo.toml")).unwrap().parse().unwrap();
    let dev = toml::Table::from_iter([("dev".to_owned(), manifest["profile"]["dev"].clone())]);
    toml::to_string(&toml::Table::from_iter([("profile".to_owned(), dev.into())])).unwrap()
}

#[test]
#[ignore = "needs the package registry: gix itself is no dependency of the workspace"]
fn a_crate_outside_builds_with_the_packages_and_another_gix() {
    let metadata = cargo(&root(), &["metadata", "--format-version=1", "--locked"]);
    let metadata: Value = serde_json::from_slice(&metadata).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let ours = packages.iter().filter(|package| package["source"].is_null());
    let (published, others): (Vec<&Value>, Vec<&Value>) = ours.partition(|ours| ours["publish"].is_null());
    assert!(published.len() >= 14, "{published:?}");
    let folder = folder("packages");
    package(&published, &others, &folder);
    let gix_hash = packages.iter().find(|package| text(package, "name") == "gix-hash").unwrap();
    let next = next_patch(gix_hash, &folder.join("gix-hash"));

    let outside = self::folder("outside");
    let mut dependencies = format!("gix-hash = \"={next}\"\n");
    let mut patches = format!("gix-hash = {{ path = {:?} }}\n", folder.join("gix-hash"));
    for each in &published {
        let (name, version) = (text(each, "name"), text(each, "version"));
        dependencies += &format!("{name} = \"{version}\"\n");
        patches += &format!("{name} = {{ path = {:?} }}\n", folder.join(format!("{name}-{version}")));
    }
    let manifest = format!(
        "[package]\nname = \"outside\"\nedition = \"2024\"\n[workspace]\n[dependencies]\n\
         gix = {{ version = \"{GIX}\", default-features = false, features = [\"sha1\", \"sha256\"] }}\n\
         {dependencies}[patch.crates-io]\n{patches}{}",
        profile()
    );
    fs::write(outside.join("Cargo.toml"), manifest).unwrap();
    // What the workspace has built serves here, too; only gix is added.
    fs::copy(root().join("Cargo.lock"), outside.join("Cargo.lock")).unwrap();
    fs::create_dir(outside.join("src")).unwrap();
    let library = "//! Ids go from gix to packrace as they are.\n\
        pub fn id(id: gix::ObjectId) -> packrace_object::ObjectId {\n    id\n}\n";
    fs::write(outside.join("src/lib.rs"), library).unwrap();
    cargo(&outside, &["check", "--quiet", "--target-dir", target().to_str().unwrap()]);

    let lock: toml::Table = fs::read_to_string(outside.join("Cargo.lock")).unwrap().parse().unwrap();
    let locked = lock["package"].as_array().unwrap().iter();
    let versions: Vec<&str> = locked
        .filter(|package| package["name"].as_str() == Some("gix-hash"))
        .filter_map(|package| package["version"].as_str())
        .collect();
    assert_eq!(versions, [next.as_str()]);
}
