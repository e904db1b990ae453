//! Rules about manifests and rooms.

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
    ("worktree", &["store", "protocol", "os", "format", "object"]),
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
    fn an_unnamed_room_is_found() {
        assert_eq!(unnamed_rooms(&["os", "attic"], "| `os` | …"), ["ARCHITECTURE.md does not name attic"]);
        assert!(unnamed_rooms(&["os"], "see crates/os").is_empty());
        assert_eq!(unnamed_rooms(&["os"], "").len(), 1);
    }
}
