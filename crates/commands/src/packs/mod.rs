//! Shared by commands that read and write packs.

pub mod hash;
pub mod input;
pub mod settings;
