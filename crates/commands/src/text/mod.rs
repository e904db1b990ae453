//! Text for output: quoting, width, and UTF-8 repair.

pub mod columns;
pub mod quoting;
pub mod utf8;
