//! What a multi-pack-index that cannot be opened means for commands that are about it.

use packrace_store::helper_fault::multi_pack_index::MultiPackIndexFault;

use crate::call::fatal::Fatal;

/// Why git does not open a file.
pub(super) enum Damage {
    /// It cannot be parsed, for this reason. A chain ends below such a file.
    Unparsed(String),
    /// It ends the command, whatever it is for.
    Ends(Fatal),
}

impl From<Fatal> for Damage {
    fn from(fatal: Fatal) -> Self {
        Damage::Ends(fatal)
    }
}

impl From<MultiPackIndexFault> for Damage {
    fn from(fault: MultiPackIndexFault) -> Self {
        match fault {
            MultiPackIndexFault::Unparsed(why) => Damage::Unparsed(why),
            MultiPackIndexFault::Ends(last, None) => Damage::Ends(Fatal::new(last)),
            MultiPackIndexFault::Ends(last, Some(before)) => {
                Damage::Ends(Fatal::new(last).after(format!("error: {before}\n")))
            }
        }
    }
}

impl From<Damage> for Fatal {
    /// What the damage of a single file means for a command that is about it.
    fn from(damage: Damage) -> Self {
        match damage {
            Damage::Unparsed(why) => {
                Fatal::error(format!("{why}\nerror: multi-pack-index file exists, but failed to parse"))
            }
            Damage::Ends(fatal) => fatal,
        }
    }
}
