//! How text is shown: quoted, measured, and mended.

pub mod columns;
pub mod quoting;
pub mod utf8;
