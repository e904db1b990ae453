//! Selects the objects of a pack: by bitmap or by walk, less what a filter leaves out.

pub mod filter;
pub mod islands;
pub mod plan;
pub mod reach;
