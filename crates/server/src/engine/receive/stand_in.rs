//! Stands in for the store's quarantine until that is there.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use packrace_os::count::Role;
use packrace_os::durable;
use packrace_store::publish::DurableObjects;
use packrace_store::{OpenOptions, Repository, Snapshot};

use super::Error;

pub(super) struct Quarantine {
    dir: PathBuf,
    home: PathBuf,
    view: Repository,
}

fn io(error: std::io::Error) -> Error {
    Error::unavailable(error.to_string())
}

impl Quarantine {
    pub(super) fn create(repository: &Repository) -> Result<Self, Error> {
        let home = packrace_os::real_path(repository.object_dir()).map_err(io)?;
        let dir = home.join(format!("tmp_objdir-incoming-{:06}", durable::random_number() % 1_000_000));
        durable::make_dir(&dir, |mode| mode, Role::Objects).map_err(io)?;
        durable::make_dir(&dir.join("pack"), |mode| mode, Role::Objects).map_err(io)?;
        let options = OpenOptions {
            strict: true,
            object_dir: Some(dir.clone()),
            alternates: vec![home.clone()],
            ..OpenOptions::default()
        };
        let view = Repository::open(repository.git_dir(), &options)?;
        Ok(Quarantine { dir, home, view })
    }

    pub(super) fn pack_dir(&self) -> PathBuf {
        self.dir.join("pack")
    }

    pub(super) fn policy(&self) -> packrace_store::publish::WritePolicy {
        packrace_store::publish::WritePolicy::default()
    }

    pub(super) fn note_pack(&mut self, _: &packrace_store::publish::PublishedPack) {}

    pub(super) fn view(&self) -> &Repository {
        &self.view
    }

    pub(super) fn snapshot(&self) -> Result<Arc<Snapshot>, packrace_store::Error> {
        self.view.snapshot()
    }

    pub(super) fn environment(&self) -> Vec<(OsString, OsString)> {
        vec![
            ("GIT_OBJECT_DIRECTORY".into(), self.dir.clone().into()),
            ("GIT_ALTERNATE_OBJECT_DIRECTORIES".into(), self.home.clone().into()),
            ("GIT_QUARANTINE_PATH".into(), self.dir.clone().into()),
        ]
    }

    pub(super) fn migrate(self) -> Result<Migrated, Error> {
        let mut keeps = Vec::new();
        for suffix in [".keep", ".pack", ".rev", ".idx"] {
            for entry in packrace_os::list_dir(&self.dir.join("pack"), Role::Pack).map_err(io)? {
                if entry.name.to_string_lossy().ends_with(suffix) {
                    let to = self.home.join("pack").join(&entry.name);
                    if suffix == ".keep" {
                        keeps.push(to.clone());
                    }
                    durable::rename_file(&self.dir.join("pack").join(&entry.name), &to, Role::Pack)
                        .map_err(io)?;
                }
            }
        }
        for entry in packrace_os::list_dir(&self.dir, Role::Objects).map_err(io)? {
            if entry.name.len() == 2 {
                let (from, to) = (self.dir.join(&entry.name), self.home.join(&entry.name));
                durable::make_dir(&to, |mode| mode, Role::Objects).map_err(io)?;
                for entry in packrace_os::list_dir(&from, Role::Objects).map_err(io)? {
                    durable::rename_file(&from.join(&entry.name), &to.join(&entry.name), Role::Objects)
                        .map_err(io)?;
                }
            }
        }
        Ok(Migrated { objects: DurableObjects::stored_before(), keeps })
    }
}

pub(super) struct Migrated {
    pub(super) objects: DurableObjects,
    keeps: Vec<PathBuf>,
}

impl Migrated {
    pub(super) fn release(self) -> Result<(), Error> {
        self.keeps.iter().try_for_each(|keep| durable::remove_file(keep, Role::Pack).map(drop).map_err(io))
    }
}

impl Drop for Quarantine {
    fn drop(&mut self) {
        fn remove(dir: &std::path::Path) {
            for entry in packrace_os::list_dir(dir, Role::Objects).unwrap_or_default() {
                let path = dir.join(&entry.name);
                match entry.kind {
                    packrace_os::EntryType::Dir => remove(&path),
                    _ => drop(durable::remove_file(&path, Role::Objects)),
                }
            }
            let _ = durable::remove_empty_dir(dir, Role::Objects);
        }
        remove(&self.dir);
    }
}
