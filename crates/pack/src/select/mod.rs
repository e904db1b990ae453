//! Selects the objects of a pack, by bitmap or by walk, without those that a filter leaves out.

pub mod filter;
pub mod islands;
pub mod plan;
pub mod reach;
pub mod ref_pattern;
