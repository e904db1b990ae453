//! Files that are read while they change, and those that cannot be read.
