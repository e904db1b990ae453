//! Names that an index must not have (git-config, `core.protectNTFS`, `core.protectHFS`).

use gix_validate::path::component::{Mode as Kind, Options};
use packrace_store::Config;

/// The rules for dangerous names.
#[derive(Debug, Clone, Copy)]
pub struct NameRules(Options);

impl NameRules {
    /// Reads the rules from the configuration.
    pub fn of(config: &Config) -> Result<Self, packrace_store::Error> {
        Ok(NameRules(Options {
            protect_windows: false,
            protect_hfs: config.boolean("core.protectHFS")?.unwrap_or(false),
            protect_ntfs: config.boolean("core.protectNTFS")?.unwrap_or(true),
        }))
    }

    /// Whether every component of a path is allowed. As in git, a name forbidden for links is also forbidden
    /// for a link's parent directories.
    pub fn allow(&self, path: &[u8], is_link: bool) -> bool {
        let kind = is_link.then_some(Kind::Symlink);
        let mut names = path.split(|byte| *byte == b'/');
        names.all(|name| gix_validate::path::component(name.into(), kind, self.0).is_ok())
    }
}
