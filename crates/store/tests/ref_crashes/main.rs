//! Ref transactions that end badly: the machine stops behind any change of the disk, the process is killed, a step fails.
//!
//! What a disk may show after a crash is `os::simulated::recorded`'s to say. Here each of these states is read, by us and by
//! stock git, and the next transaction is made in it. And what a disk may make of the files of refs later: see [`damage`].

mod cases;
mod damage;
mod faults;
mod matrix;
mod migration;
mod mutants;
mod overtaken;
mod rewrites;
mod stale_locks;
mod upkeep;
mod world;
