//! The binary beside stock git: the same answers to the same clients, over every door.
//!
//! This layer stays thin: what can be tested in a crate is tested there.

mod add;
mod attributes;
mod bad_input;
mod budgets;
mod clone;
mod combined;
mod commit_graph;
mod commit_tree;
mod damage;
mod features;
mod filters;
mod for_each_ref;
mod handed_over;
mod hash_object;
mod hell;
mod hook;
mod http_backend;
mod index_pack;
mod index_twins;
mod init;
mod islands;
mod maintained;
mod matrix;
mod migrate;
mod multi_pack_index;
mod negotiation;
mod pack_objects;
mod pack_objects_to_stay;
mod progress;
mod promisor;
mod push;
mod reading_refs;
mod ref_twins;
mod reflog;
mod repack;
mod repack_command;
mod running;
mod stash;
mod stored_refs;
mod trace2;
mod unpack_objects;
mod update_index;
mod update_ref;
mod write_tree;
