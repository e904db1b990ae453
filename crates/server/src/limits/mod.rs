//! Decides which clients wait, and which are refused: connections, requests, memory, clones and processors.

pub(crate) mod address;
pub mod admission;
pub mod budget;
pub(crate) mod connections;
pub mod cpu;
mod settings;

pub use address::AddressRange;
pub use settings::Limits;
