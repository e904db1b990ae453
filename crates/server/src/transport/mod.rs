//! The doors through which clients come.

pub mod stdio;
