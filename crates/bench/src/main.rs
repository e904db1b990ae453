//! packrace-bench.

fn main() {}
