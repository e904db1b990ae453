//! Git's fsck for single objects, with git's message ids, severities and texts (git-fsck, "FSCK MESSAGES").
//!
//! A [`Checker`] checks one object after another. Special files, which git itself reads (`.gitmodules`,
//! `.gitattributes`), are identified by the trees that name them, before or after their content is checked:
//! once all objects are checked, [`Checker::pending`] lists the rest, and the caller provides their content.
//! [`readable`] tells whether git's parser accepts an object before fsck runs at all, and [`links`] which
//! objects it refers to.
//!
//! Trust contract: any bytes; no panic, time linear in the length, and memory only for findings and for ids
//! of special files. Objects without problems cost no allocation.

mod checker;
mod config_text;
mod finding;
mod gitmodules;
mod header;
mod links;
mod message;
mod readable;
mod report;
mod severities;
mod skip_list;
mod special_name;
mod submodule_url;
mod tree_check;

pub use checker::{Checker, Content, Pending};
pub use finding::Finding;
pub use links::links;
pub use message::{MessageId, Severity};
pub use readable::{Unreadable, readable};
pub use report::Rules;
pub use severities::{SettingError, Severities};
pub use skip_list::{InvalidName, SkipList};
pub use special_name::SpecialFile;

#[cfg(test)]
mod tests;
