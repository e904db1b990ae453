//! packrace.

fn main() {}
