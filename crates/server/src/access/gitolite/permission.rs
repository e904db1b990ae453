//! The permission of a rule in a `gitolite.conf`.

/// `-`, `C`, `R`, or `RW` followed by any of `+CDM`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Permission {
    Deny,
    /// Permission to create a repository.
    CreateRepository,
    Read,
    Write(WritePermission),
}

/// The letters after `RW`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct WritePermission {
    pub(super) rewind: bool,
    pub(super) create: bool,
    pub(super) delete: bool,
    pub(super) merge: bool,
}

impl Permission {
    pub(super) fn parse(word: &str) -> Option<Self> {
        let rest = match word {
            "-" => return Some(Permission::Deny),
            "C" => return Some(Permission::CreateRepository),
            "R" => return Some(Permission::Read),
            _ => word.strip_prefix("RW")?,
        };
        let mut rest = rest;
        let mut take = |letter: char| match rest.strip_prefix(letter) {
            Some(after) => {
                rest = after;
                true
            }
            None => false,
        };
        let write =
            WritePermission { rewind: take('+'), create: take('C'), delete: take('D'), merge: take('M') };
        rest.is_empty().then_some(Permission::Write(write))
    }

    pub(super) fn write(self) -> WritePermission {
        match self {
            Permission::Write(write) => write,
            _ => WritePermission::default(),
        }
    }
}
