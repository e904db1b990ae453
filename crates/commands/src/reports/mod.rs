//! The output of `git status` and `git diff`.

pub mod diff_stat;
pub mod long_status;
pub mod patch_text;
