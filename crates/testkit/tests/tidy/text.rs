//! Rules about every committed text.

/// Directories of one machine. Written in two halves so that this file does not name them either.
const MACHINE_PATHS: [&str; 3] = [concat!("/wor", "k/"), concat!("/roo", "t/"), concat!("/hom", "e/")];

/// The one registry that a lock file names.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Absolute paths that only exist where somebody wrote this.
pub fn machine_paths(path: &str, text: &str) -> Vec<String> {
    let starts_a_path =
        |before: &str| !before.ends_with(|c: char| c.is_alphanumeric() || "_.-~})>*".contains(c));
    let mut findings = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for name in MACHINE_PATHS {
            if line.match_indices(name).any(|(at, _)| starts_a_path(&line[..at])) {
                findings.push(format!("{path}:{}: names {name}", number + 1));
            }
        }
    }
    findings
}

/// Other sources of packages than the public registry.
pub fn registries(path: &str, text: &str) -> Vec<String> {
    let signs = [
        concat!("registry", "+http"),
        concat!("sparse", "+http"),
        concat!("replace", "-with"),
        concat!("index", "-url"),
    ];
    let mut findings = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.replace(REGISTRY, "");
        if signs.iter().any(|sign| line.contains(sign)) {
            findings.push(format!("{path}:{}: names another registry", number + 1));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_paths_are_found() {
        for name in MACHINE_PATHS {
            assert_eq!(
                machine_paths("a.md", &format!("see\n`{name}x`\n")),
                [format!("a.md:2: names {name}")]
            );
            assert!(machine_paths("a.md", &format!("relative{name}x")).is_empty());
        }
        assert!(machine_paths("a.md", "/usr/bin/git").is_empty());
    }

    #[test]
    fn other_registries_are_found() {
        let mirror = REGISTRY.replace("github.com/rust-lang", "mirror.example");
        assert_eq!(registries("Cargo.lock", &format!("source = \"{mirror}\"")).len(), 1);
        assert_eq!(registries(".cargo/config.toml", concat!("replace", "-with = \"x\"")).len(), 1);
        assert!(registries("Cargo.lock", &format!("source = \"{REGISTRY}\"")).is_empty());
    }
}
