//! All entries with their scopes (git-config, "SCOPES").

use super::{Config, ConfigScope};

impl ConfigScope {
    fn word(self) -> &'static str {
        match self {
            ConfigScope::System => "system",
            ConfigScope::Global => "global",
            ConfigScope::Local => "local",
            ConfigScope::Worktree => "worktree",
            ConfigScope::Command => "command",
        }
    }
}

impl Config {
    /// The scope, name and value of each entry, in ascending priority; `None` for a name without `=`.
    pub fn entries_by_scope(&self) -> impl Iterator<Item = (&'static str, &[u8], Option<&[u8]>)> {
        self.entries.iter().map(|entry| (entry.scope.word(), entry.name.as_slice(), entry.value.as_deref()))
    }
}
