//! What a repository's own configuration may set when a server serves a folder to which others may write:
//! docs/configuration-trust.md.

use std::path::{Path, PathBuf};

/// How far a repository's own configuration is trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Rule {
    /// As in git.
    Counts,
    /// It names a program: only protected configuration may set it.
    Program,
    /// It names a file or folder outside to read: only protected configuration may set it.
    File,
    /// It names a folder of programs, which must be in the git directory.
    Hooks,
    /// It names the work tree, which must be in the served folder.
    WorkTree,
}

/// The rule for a key, whose name is normalized by [`normalized`](super::normalized).
pub(crate) fn rule(name: &[u8]) -> Rule {
    let text = String::from_utf8_lossy(name);
    let (section, rest) = text.split_once('.').unwrap_or((&text, ""));
    let key = rest.rsplit_once('.').map_or(rest, |(_, key)| key);
    match (section, key) {
        ("core", "hookspath") => Rule::Hooks,
        ("core", "worktree") => Rule::WorkTree,
        ("core", "attributesfile" | "excludesfile") => Rule::File,
        ("gpg", "allowedsignersfile" | "revocationfile") | ("mailmap", "file") => Rule::File,
        (
            "core",
            "alternaterefscommand" | "askpass" | "editor" | "fsmonitor" | "gitproxy" | "pager" | "sshcommand",
        ) => Rule::Program,
        ("alias" | "credential" | "filter" | "hook" | "pager", _) => Rule::Program,
        ("diff", "command" | "external" | "textconv") | ("merge", "driver") => Rule::Program,
        ("gc", "recentobjectshook") | ("uploadpack", "packobjectshook") => Rule::Program,
        ("gpg", "program" | "defaultkeycommand") => Rule::Program,
        ("interactive", "difffilter") | ("sequence", "editor") | ("trailer", "cmd" | "command") => {
            Rule::Program
        }
        ("remote", "receivepack" | "uploadpack" | "vcs") | ("submodule", "update") => Rule::Program,
        _ => Rule::Counts,
    }
}

/// The served folder, and the folders that its repositories may name. Plain data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// The folder, without links.
    pub root: PathBuf,
    /// Folders outside of it, without links, that its repositories may name: pools of alternates,
    /// folders of hooks.
    pub allowed: Vec<PathBuf>,
}

impl Served {
    /// Whether `path` leads into `within` or one of the allowed folders.
    pub(crate) fn allows(&self, path: &Path, within: &Path) -> bool {
        let is_below = |folder: &Path, real: &Path| real.starts_with(folder);
        packrace_os::real_path(path).is_ok_and(|real| {
            packrace_os::real_path(within).is_ok_and(|within| is_below(&within, &real))
                || self.allowed.iter().any(|folder| is_below(folder, &real))
        })
    }
}

#[cfg(test)]
mod tests;
