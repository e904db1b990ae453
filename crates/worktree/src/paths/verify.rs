//! Names that an index must not have (git-config, `core.protectNTFS`, `core.protectHFS`).

use gix_validate::path::component::{Mode as Kind, Options};
use packrace_store::Config;

use super::PathError;

/// What counts as dangerous.
#[derive(Debug, Clone, Copy)]
pub struct NameRules(Options);

impl NameRules {
    /// What the configuration says.
    pub fn of(config: &Config) -> Result<Self, PathError> {
        Ok(NameRules(Options {
            protect_windows: false,
            protect_hfs: config.boolean("core.protectHFS")?.unwrap_or(false),
            protect_ntfs: config.boolean("core.protectNTFS")?.unwrap_or(true),
        }))
    }

    /// Whether every name of a path may be there.
    pub fn allow(&self, path: &[u8], is_link: bool) -> bool {
        let mut names = path.split(|byte| *byte == b'/').peekable();
        while let Some(name) = names.next() {
            let kind = (is_link && names.peek().is_none()).then_some(Kind::Symlink);
            if gix_validate::path::component(name.into(), kind, self.0).is_err() {
                return false;
            }
        }
        true
    }
}
