//! For development only: a deterministic repository builder, a scripted peer and the tidy test.
