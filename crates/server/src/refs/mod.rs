//! Refs as clients see them: in a namespace, without those that are hidden, as lines.

pub(crate) mod lines;
mod list;
pub(crate) mod view;

pub(crate) use list::{head_line, ref_list};
