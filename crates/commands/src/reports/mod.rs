//! What `git status` and `git diff` say.

pub mod diff_stat;
pub mod long_status;
pub mod patch_text;
