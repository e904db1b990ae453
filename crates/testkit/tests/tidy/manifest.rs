//! Rules about manifests and rooms.

use std::collections::BTreeSet;

/// The rooms and what each may use of the others; `*` is all of them. ARCHITECTURE.md says why.
const ROOMS: [(&str, &[&str]); 18] = [
    ("cli", &["*"]),
    (
        "commands",
        &[
            "server",
            "client",
            "worktree",
            "maintenance",
            "pack",
            "store",
            "os",
            "format",
            "protocol",
            "object",
        ],
    ),
    (
        "server",
        &["journal", "remote", "ssh", "maintenance", "pack", "store", "os", "format", "protocol", "object"],
    ),
    ("remote", &["store", "os", "format", "object"]),
    ("ssh", &["os"]),
    ("journal", &["os"]),
    ("client", &["pack", "store", "os", "protocol", "object"]),
    ("maintenance", &["pack", "store", "os", "format", "object"]),
    ("worktree", &["store", "os", "format", "object"]),
    ("pack", &["object", "format", "store"]),
    ("store", &["object", "format", "os"]),
    ("os", &[]),
    ("format", &["object", "os"]),
    ("protocol", &["object"]),
    ("object", &[]),
    ("testkit", &["*"]),
    ("bench", &["*"]),
    ("fuzz", &["*"]),
];

/// Crates from outside that belong to some rooms alone.
const RESERVED: [(&str, &[&str]); 17] = [
    ("landlock", &["os"]),
    ("rustix", &["os", "bench"]),
    ("libc", &["os"]),
    ("libdeflater", &["format"]),
    ("libdeflate-sys", &["os"]),
    ("gix-hash", &["object"]),
    ("tokio", &["server", "ssh", "client", "remote", "cli", "bench"]),
    ("hyper", &["server", "client", "remote"]),
    ("hyper-util", &["server", "client", "remote"]),
    ("hyper-rustls", &["remote"]),
    ("object_store", &["remote"]),
    ("rustls", &["client", "remote", "server", "bench"]),
    ("tokio-rustls", &["client", "server"]),
    ("x509-cert", &["server"]),
    ("russh", &["ssh", "bench"]),
    ("clap", &["cli"]),
    ("tracing-subscriber", &["cli"]),
];

/// Dependencies in a room's manifest that the house does not allow. Tests may use testkit and outside crates.
pub fn edges(room: &str, manifest: &str) -> Vec<String> {
    let Some((_, allowed)) = ROOMS.iter().find(|(name, _)| *name == room) else {
        return vec![format!("{room}: not a room of the house")];
    };
    let table: toml::Table = manifest.parse().expect("a manifest is TOML");
    let mut findings = Vec::new();
    for (section, dependency) in dependencies(&table) {
        let for_tests = section == "dev-dependencies";
        match dependency.strip_prefix("packrace-") {
            Some("testkit") if for_tests => {}
            Some(other) if allowed.contains(&"*") || allowed.contains(&other) => {}
            Some(_) => findings.push(format!("{room}: may not use {dependency} ({section})")),
            None => {
                let reserved = RESERVED.iter().find(|(name, _)| *name == dependency);
                if !for_tests && reserved.is_some_and(|(_, rooms)| !rooms.contains(&room)) {
                    findings.push(format!("{room}: {dependency} belongs to other rooms"));
                }
            }
        }
    }
    findings
}

/// All dependencies with the name of their section, those of `[target.…]` too.
fn dependencies(table: &toml::Table) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
        for (name, value) in table.get(section).and_then(|value| value.as_table()).into_iter().flatten() {
            let package = value.get("package").and_then(|package| package.as_str()).unwrap_or(name);
            found.push((section.to_string(), package.to_string()));
        }
    }
    for target in table.get("target").and_then(|value| value.as_table()).into_iter().flat_map(|t| t.values())
    {
        found.extend(target.as_table().map(dependencies).unwrap_or_default());
    }
    found
}

/// What the lock file of the fuzz targets says differently from a room's manifest. They are a workspace of their own,
/// which `cargo build` does not bring up to date and `--locked` refuses.
pub fn stale_lock(manifest: &str, lock: &str) -> Vec<String> {
    let table: toml::Table = manifest.parse().expect("a manifest is TOML");
    let name = table["package"]["name"].as_str().expect("a package has a name");
    let lock: toml::Table = lock.parse().expect("a lock file is TOML");
    let packages = lock["package"].as_array().expect("a lock file lists packages");
    let Some(package) = packages.iter().find(|package| package["name"].as_str() == Some(name)) else {
        return Vec::new();
    };
    let listed = package.get("dependencies").and_then(|list| list.as_array()).into_iter().flatten();
    let locked: BTreeSet<&str> =
        listed.filter_map(|entry| entry.as_str()?.split_whitespace().next()).collect();
    let wanted = dependencies(&table);
    let wanted: BTreeSet<&str> = wanted
        .iter()
        .filter(|(section, _)| section != "dev-dependencies")
        .map(|(_, dependency)| dependency.as_str())
        .collect();
    let differing = locked.symmetric_difference(&wanted);
    differing
        .map(|dependency| {
            format!("fuzz/Cargo.lock is stale: {name} and {dependency}; run cargo update -w in fuzz")
        })
        .collect()
}

/// Rooms that the page does not name as `crates/<room>` or in backticks.
pub fn unnamed_rooms(rooms: &[&str], page: &str) -> Vec<String> {
    let named = |room: &str| page.contains(&format!("`{room}`")) || page.contains(&format!("crates/{room}"));
    rooms
        .iter()
        .filter(|room| !named(room))
        .map(|room| format!("ARCHITECTURE.md does not name {room}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(room: &str, manifest: &str, findings: usize) {
        assert_eq!(edges(room, manifest).len(), findings, "{room}: {manifest}");
    }

    #[test]
    fn an_edge_up_is_found() {
        check("object", "[dependencies]\npackrace-format.workspace = true\n", 1);
        check("pack", "[dependencies]\npackrace-format.workspace = true\npackrace-os.workspace = true\n", 1);
        check("store", "[dependencies]\nrenamed = { package = \"packrace-server\", path = \"x\" }\n", 1);
        check("protocol", "[target.'cfg(unix)'.dependencies]\npackrace-os.workspace = true\n", 1);
        check("protocol", "[build-dependencies]\npackrace-os.workspace = true\n", 1);
        check("attic", "[package]\n", 1);
    }

    #[test]
    fn an_edge_down_is_not() {
        check("pack", "[dependencies]\npackrace-store.workspace = true\nthiserror = \"2\"\n", 0);
        check("cli", "[dependencies]\npackrace-server.workspace = true\n", 0);
    }

    #[test]
    fn tests_may_use_testkit_and_no_other_room() {
        check("format", "[dev-dependencies]\npackrace-testkit.workspace = true\ntokio = \"1\"\n", 0);
        check("format", "[dev-dependencies]\npackrace-store.workspace = true\n", 1);
        check("format", "[dependencies]\npackrace-testkit.workspace = true\n", 1);
    }

    #[test]
    fn a_reserved_crate_is_found_elsewhere() {
        check("protocol", "[dependencies]\ntokio = \"1\"\n", 1);
        check("store", "[dependencies]\nrustix = \"1\"\n", 1);
        check("os", "[dependencies]\nrustix = \"1\"\n", 0);
        check("os", "[dependencies]\nlibc = \"1\"\n", 0);
        check("server", "[dependencies]\nlibc = \"1\"\n", 1);
    }

    #[test]
    fn a_stale_lock_is_found() {
        let lock = "[[package]]\nname = \"packrace-os\"\nversion = \"0.1.0\"\ndependencies = [\"libc\", \"rustix 1.1.6\"]\n";
        let manifest = |dependencies: &str| format!("[package]\nname = \"packrace-os\"\n{dependencies}");
        let current = "[dependencies]\nlibc = \"1\"\nrustix = \"1\"\n[dev-dependencies]\ntempfile = \"3\"\n";
        assert!(stale_lock(&manifest(current), lock).is_empty());
        assert_eq!(stale_lock(&manifest("[dependencies]\nlibc = \"1\"\n"), lock).len(), 1);
        let more = "[dependencies]\nlibc = \"1\"\nrustix = \"1\"\nlandlock = \"1\"\n";
        assert_eq!(stale_lock(&manifest(more), lock).len(), 1);
        assert!(stale_lock("[package]\nname = \"packrace-attic\"\n", lock).is_empty());
    }

    #[test]
    fn an_unnamed_room_is_found() {
        assert_eq!(unnamed_rooms(&["os", "attic"], "| `os` | …"), ["ARCHITECTURE.md does not name attic"]);
        assert!(unnamed_rooms(&["os"], "see crates/os").is_empty());
        assert_eq!(unnamed_rooms(&["os"], "").len(), 1);
    }
}
