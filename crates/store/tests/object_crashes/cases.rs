//! Ways to store objects.

use std::path::Path;

use packrace_object::Kind;
use packrace_os::count::Role;
use packrace_os::durable::{self, NewFile};
use packrace_store::publish::{
    BatchOptions, LooseBatch, LooseLimit, ObjectBatch, StreamError, WritePolicy, loose_compression,
};
use packrace_store::{Error, Quarantine, Repository};

use super::world::World;

pub struct Case {
    pub name: &'static str,
    /// Makes what is there before, durably.
    pub prepare: fn(&World, &Path),
    /// Stores the objects in a repository; with its end, they are acknowledged.
    pub store: fn(&World, &Repository) -> Result<(), Error>,
    /// So many states are looked at behind each change.
    pub max_states: usize,
}

pub const CASES: [Case; 14] = [
    Case { name: "loose", prepare: nothing, store: loose, max_states: 150 },
    Case { name: "loose beside others", prepare: some_dirs, store: loose, max_states: 100 },
    Case { name: "loose, some written by others", prepare: nothing, store: beside_others, max_states: 80 },
    Case { name: "pack", prepare: nothing, store: pack, max_states: 400 },
    Case { name: "pack without its directory", prepare: no_pack_dir, store: pack, max_states: 300 },
    Case { name: "quarantined loose", prepare: nothing, store: quarantined_loose, max_states: 60 },
    Case { name: "quarantined pack", prepare: no_pack_dir, store: quarantined_pack, max_states: 150 },
    Case { name: "quarantined by others", prepare: some_dirs, store: quarantined_by_others, max_states: 50 },
    Case { name: "batch of a handful", prepare: nothing, store: handful, max_states: 100 },
    Case { name: "batch of many", prepare: nothing, store: many, max_states: 400 },
    Case { name: "batch without a directory", prepare: no_pack_dir, store: many, max_states: 300 },
    Case { name: "batch with streams", prepare: nothing, store: with_streams, max_states: 400 },
    Case { name: "handful, some written by others", prepare: nothing, store: handful_beside, max_states: 60 },
    Case { name: "many, some written by others", prepare: nothing, store: many_beside, max_states: 150 },
];

fn nothing(_: &World, _: &Path) {}

fn some_dirs(world: &World, dir: &Path) {
    for number in 0..3 {
        std::fs::create_dir_all(world.loose_path(dir, number).parent().unwrap()).unwrap();
    }
}

fn no_pack_dir(_: &World, dir: &Path) {
    std::fs::remove_dir(dir.join("objects/pack")).unwrap();
}

fn add_all(world: &World, mut batch: LooseBatch) -> Result<LooseBatch, Error> {
    for (id, kind, content) in &world.objects {
        batch.add(id, *kind, content)?;
    }
    Ok(batch)
}

fn batch(repository: &Repository) -> Result<LooseBatch, Error> {
    let level = loose_compression(repository.config())?;
    let policy = WritePolicy::of(repository.config())?;
    Ok(LooseBatch::new(repository.object_dir(), repository.snapshot()?, level, policy))
}

fn loose(world: &World, repository: &Repository) -> Result<(), Error> {
    add_all(world, batch(repository)?)?.publish()?.stored();
    Ok(())
}

/// A file that another process writes at the same time, who has not yet synced it and the directory.
fn write_unsynced(world: &World, dir: &Path, number: usize) {
    let path = world.loose_path(dir, number);
    let (id, kind, content) = &world.objects[number];
    let mut plain = Vec::new();
    packrace_format::loose_object::write_header(*kind, content.len() as u64, &mut plain);
    plain.extend_from_slice(content);
    let mut deflated = Vec::new();
    packrace_format::zlib::deflate(&plain, 9, &mut deflated);
    durable::make_dir(path.parent().unwrap(), |mode| mode, Role::Objects).unwrap();
    let mut file = NewFile::create(&path, 0o444, Role::Objects).unwrap_or_else(|_| panic!("{id} is there"));
    file.write(&deflated).unwrap();
    file.keep().unwrap();
}

fn beside_others(world: &World, repository: &Repository) -> Result<(), Error> {
    let is_first = !world.loose_path(repository.git_dir(), 0).exists();
    if is_first {
        write_unsynced(world, repository.git_dir(), 0);
    }
    let batch = add_all(world, batch(repository)?)?;
    if is_first && !world.loose_path(repository.git_dir(), 1).exists() {
        write_unsynced(world, repository.git_dir(), 1);
    }
    batch.publish()?.stored();
    Ok(())
}

/// Everything in one transaction, below which there are loose objects.
fn begun(repository: &Repository, limit: u32) -> Result<ObjectBatch, Error> {
    let options =
        BatchOptions { loose_limit: LooseLimit::below(limit), ..BatchOptions::of(repository.config())? };
    Ok(ObjectBatch::new(repository.object_dir(), repository.snapshot()?, options))
}

fn filled(world: &World, repository: &Repository, limit: u32) -> Result<ObjectBatch, Error> {
    let batch = begun(repository, limit)?;
    for (id, kind, content) in &world.objects {
        batch.add(id, *kind, content)?;
    }
    Ok(batch)
}

fn publish(batch: ObjectBatch) -> Result<(), Error> {
    batch.publish()?.stored();
    Ok(())
}

fn handful(world: &World, repository: &Repository) -> Result<(), Error> {
    publish(filled(world, repository, 100)?)
}

fn many(world: &World, repository: &Repository) -> Result<(), Error> {
    publish(filled(world, repository, 3)?)
}

/// One of the objects is there before.
fn beside(world: &World, repository: &Repository, limit: u32) -> Result<(), Error> {
    if !world.loose_path(repository.git_dir(), 0).exists() {
        write_unsynced(world, repository.git_dir(), 0);
    }
    publish(filled(world, repository, limit)?)
}

fn handful_beside(world: &World, repository: &Repository) -> Result<(), Error> {
    beside(world, repository, 100)
}

fn many_beside(world: &World, repository: &Repository) -> Result<(), Error> {
    beside(world, repository, 3)
}

/// Blobs as if they were large, each twice: what came for nothing is cut off.
fn with_streams(world: &World, repository: &Repository) -> Result<(), Error> {
    let batch = begun(repository, 100)?;
    for (id, kind, content) in &world.objects {
        if *kind != Kind::Blob {
            batch.add(id, *kind, content)?;
            continue;
        }
        for _ in 0..2 {
            match batch.add_blob_stream(content.len() as u64, &mut &content[..]) {
                Ok(streamed) => assert_eq!(streamed, *id),
                Err(StreamError::Store(error)) => return Err(error),
                Err(error) => panic!("{error}"),
            }
        }
    }
    publish(batch)
}

fn pack(world: &World, repository: &Repository) -> Result<(), Error> {
    let policy = WritePolicy::of(repository.config())?;
    let pack = world.publish_pack(&repository.object_dir().join("pack"), policy)?;
    pack.stored();
    if pack.made_keep {
        let _ = durable::remove_file(&pack.stem.with_extension("keep"), Role::Pack);
    }
    Ok(())
}

fn quarantined_loose(world: &World, repository: &Repository) -> Result<(), Error> {
    let mut quarantine = Quarantine::create(repository)?;
    let loose = add_all(world, quarantine.loose_batch()?)?.publish()?;
    quarantine.note_loose(loose);
    quarantine.migrate()?.release()
}

fn quarantined_pack(world: &World, repository: &Repository) -> Result<(), Error> {
    let mut quarantine = Quarantine::create(repository)?;
    let pack = world.publish_pack(&quarantine.pack_dir(), quarantine.policy())?;
    quarantine.note_pack(&pack);
    quarantine.migrate()?.release()
}

/// A hook has written them, and nobody knows whether they were synced.
fn quarantined_by_others(world: &World, repository: &Repository) -> Result<(), Error> {
    let quarantine = Quarantine::create(repository)?;
    let policy = world.open(repository.git_dir(), Some("none"));
    let policy = WritePolicy::of(policy.config())?;
    let level = loose_compression(repository.config())?;
    let mut batch = LooseBatch::new(quarantine.object_dir(), quarantine.snapshot()?, level, policy);
    for (id, kind, content) in &world.objects[..4] {
        batch.add(id, *kind, content)?;
    }
    batch.publish()?;
    world.publish_pack(&quarantine.pack_dir(), policy)?;
    quarantine.migrate()?.release()
}
