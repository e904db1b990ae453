//! Storing objects where it ends badly: the machine stops behind any change of the disk, the process is killed, a step fails.
//!
//! What a disk may show after a crash is `os::simulated::recorded`'s to say. Here each of these states is read: what was
//! acknowledged is there, what was not is there whole or not at all, and storing the same again does well. And that these
//! tests would find a sync that is left out: see [`mutants`].

mod cases;
mod faults;
mod matrix;
mod mutants;
mod world;
