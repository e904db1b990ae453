//! What git's fsck finds in single objects: git's message ids, severities and words (git-fsck, "FSCK MESSAGES").
//!
//! A [`Checker`] looks at one object after the other. Files that git itself reads (`.gitmodules`, `.gitattributes`) are known
//! by the trees that name them, which may come before or after their content: what is left over when all objects have been
//! seen, [`Checker::pending`] tells, and the caller brings the content. [`readable`] says what git's parser of objects takes
//! before it comes to fsck at all, and [`links`] what an object leads to.
//!
//! Trust contract: any bytes; no panic, time linear in the length, and memory only for what is found and for ids of files
//! that git reads. Nothing is allocated for an object that is in order.

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
