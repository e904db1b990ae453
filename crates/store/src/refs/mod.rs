//! Refs: the files and reftable backends behind one read interface.
