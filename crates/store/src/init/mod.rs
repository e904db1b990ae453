//! Makes a repository, or completes an existing one (git-init).
//!
//! ```text
//! begin  ─ directory ─ template ─ configuration read, formats agreed on
//! finish ─ object directories ─ configuration ─ refs ─ HEAD ─ gitfile
//! ```
//!
//! A directory without `HEAD` is not a repository. So `HEAD` is written after everything else, and the
//! gitfile that points to it after that. If the process is killed before, running the same command again
//! completes the repository.

mod separate;
mod settings;
mod template;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use packrace_object::{HashKind, Kind, oid};
use packrace_os::count::Role;
use packrace_os::durable::{self, NewFile, ToSync};

pub use separate::{Separation, write_gitfile};
pub use template::Template;

use crate::config::{Config, ConfigSources};
use crate::error::{Error, Reason};
use crate::file_dependencies::FileDependencies;
use crate::hooks::{Hooks, HooksFrom, MessageSink};
use crate::publish::{Component, ObjectsStored, Sharing, WritePolicy, dir_of};
use crate::refs::{
    Backend, Expected, LogPolicy, Peeled, RefChange, RefEdit, RefObjects, RefStorage, RefStore, RefWrites,
    STUB_HEAD, STUB_HEADS, TransactionMode,
};
use crate::repository::hooks::HookPlace;
use crate::repository::{RepositoryFormat, discovery, including};

/// As [`STUB_HEADS`], if refs are in another place.
const HEADS_ELSEWHERE: &[u8] = b"repository uses alternate refs storage\n";

/// Options of a new repository.
#[derive(Debug, Clone)]
pub struct InitOptions {
    /// The git directory, whose parent exists.
    pub git_dir: PathBuf,
    /// The object directory, if not below the git directory.
    pub object_dir: Option<PathBuf>,
    /// A gitfile that will point to the git directory.
    pub gitfile: Option<PathBuf>,
    /// The work tree, if it does not follow from the location of the git directory.
    pub work_tree: Option<PathBuf>,
    /// Whether it has no work tree.
    pub is_bare: bool,
    /// Whether `is_bare` is a guess, which existing configuration overrides.
    pub is_bare_guessed: bool,
    /// The files copied into it.
    pub template: Template,
    /// The requested hash.
    pub hash: Option<HashKind>,
    /// The hash of a new repository if none is requested.
    pub default_hash: HashKind,
    /// The requested ref storage.
    pub refs: Option<RefStorage>,
    /// The ref storage of a new repository if none is requested.
    pub default_refs: Backend,
    /// The requested sharing.
    pub sharing: Option<Sharing>,
    /// The configuration outside of the repository.
    pub config: ConfigSources,
    /// Sections appended to its configuration.
    pub sections: Vec<NewSection>,
}

/// A section of a new configuration: `[name "subsection"]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSection {
    /// A name that git knows, such as `remote`.
    pub name: &'static str,
    /// The text in quotes; any bytes.
    pub subsection: Vec<u8>,
    /// Keys and values, in order.
    pub entries: Vec<(&'static str, Vec<u8>)>,
}

/// A git directory with its template, but nothing else new yet.
#[derive(Debug)]
pub struct Begun {
    options: InitOptions,
    common_dir: PathBuf,
    config: Config,
    policy: WritePolicy,
    format: RepositoryFormat,
    is_new: bool,
    /// Those that are told of `HEAD`, if any are to be.
    hooks: Option<Arc<Hooks>>,
}

/// The git directory at `path`, or that its gitfile points to; `path` itself if nothing exists there.
pub fn git_dir_at(path: &Path) -> Result<PathBuf, Error> {
    let found = packrace_os::identity(path, Role::Config).map_err(|error| Error::io(path, error))?;
    if !found.is_some_and(|found| found.is_file) {
        return Ok(path.to_owned());
    }
    Ok(discovery::enter(path, true, &mut FileDependencies::default())?.git_dir)
}

impl Begun {
    /// Creates the git directory, copies the template and determines the formats.
    pub fn begin(options: InitOptions) -> Result<Self, Error> {
        let git_dir = &options.git_dir;
        let mut common_dir = discovery::common_dir_of(git_dir)?;
        let (config, format) = read_config(&options, &common_dir)?;
        let policy = policy_of(&options, &config)?;
        // Refuse impossible requests before anything is written.
        config.boolean("init.defaultSubmodulePathConfig")?;
        let had_head = has_head(git_dir);
        agree(&options, &config, format, (had_head, had_head))?;
        make_dir(git_dir, policy)?;
        template::copy(&options.template, &common_dir, policy)?;
        common_dir = discovery::common_dir_of(git_dir)?;
        let (config, format) = read_config(&options, &common_dir)?;
        let policy = policy_of(&options, &config)?;
        let is_new = !has_head(git_dir);
        let format = agree(&options, &config, format, (had_head, !is_new))?;
        Ok(Begun { common_dir, config, policy, format, is_new, hooks: None, options })
    }

    /// Lets the hooks of the template and of the configuration see that `HEAD` is made, with these variables.
    pub fn with_hooks(
        mut self,
        environment: Vec<(OsString, OsString)>,
        messages: MessageSink,
    ) -> Result<Self, Error> {
        let InitOptions { git_dir, gitfile, work_tree, is_bare, .. } = &self.options;
        let usual = || Some(dir_of(gitfile.as_ref().unwrap_or(git_dir)).to_owned());
        let place = HookPlace {
            git_dir,
            common_dir: &self.common_dir,
            work_tree: if *is_bare { None } else { work_tree.clone().or_else(usual) },
            has_own_work_tree: work_tree.is_some(),
        };
        let hooks = Hooks::at(place, &self.config, &HooksFrom::Repository, environment, messages)?;
        self.hooks = Some(Arc::new(Hooks { git_dir: Some(git_dir.clone()), ..hooks }));
        Ok(self)
    }

    /// Whether no repository existed before.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Whether users other than the owner may write to it.
    pub fn is_shared(&self) -> bool {
        self.policy.sharing() != Sharing::Umask
    }

    /// Refuses settings that git refuses in every command, also those of the repository.
    pub fn check_settings(&self) -> Result<(), Error> {
        self.config.check_usual()?;
        self.config.need_values(&["core.logAllRefUpdates"])
    }

    /// Creates what is missing; `HEAD` points to `head` if there was none.
    pub fn finish(self, head: &[u8]) -> Result<(), Error> {
        let Begun { options, common_dir, policy, .. } = &self;
        change_mode(&options.git_dir, |mode| policy.dir_mode(mode))?;
        let object_dir = options.object_dir.clone().unwrap_or_else(|| common_dir.join("objects"));
        for dir in [object_dir.clone(), object_dir.join("pack"), object_dir.join("info")] {
            make_dir(&dir, *policy)?;
        }
        self.sync(&[&object_dir])?;
        settings::write(&self)?;
        match self.format.refs.backend {
            Backend::Files => self.make_files()?,
            Backend::Reftable => self.make_stack()?,
        }
        if self.has_stubs() {
            self.make_stubs()?;
        }
        if self.is_new {
            self.make_head(head)?;
        }
        // One sync for all names: without a `HEAD`, this is not a repository yet.
        self.sync(&[&options.git_dir, dir_of(&options.git_dir), common_dir])?;
        match &options.gitfile {
            Some(gitfile) => write_gitfile(gitfile, &options.git_dir, *policy),
            None => Ok(()),
        }
    }

    fn refs(&self) -> RefStore {
        let RepositoryFormat { hash, refs } = &self.format;
        RefStore::open_stored(self.options.git_dir.clone(), self.common_dir.clone(), refs, *hash)
    }

    /// Whether `HEAD` and `refs` of the git directory only show that this is a repository.
    fn has_stubs(&self) -> bool {
        !self.format.refs.is_usual()
    }

    fn make_files(&self) -> Result<(), Error> {
        let refs = self.refs().dir().join("refs");
        make_dir(&refs, self.policy)?;
        change_mode(&refs, |mode| self.policy.dir_mode(mode))?;
        make_dir(&refs.join("heads"), self.policy)?;
        make_dir(&refs.join("tags"), self.policy)?;
        self.sync(&[&refs])
    }

    fn make_stack(&self) -> Result<(), Error> {
        let refs = self.refs();
        make_dir(&refs.dir().join("reftable"), self.policy)?;
        self.sync(&[refs.dir()])
    }

    fn make_stubs(&self) -> Result<(), Error> {
        let refs = self.common_dir.join("refs");
        make_dir(&refs, self.policy)?;
        let heads = match self.format.refs.place {
            Some(_) => HEADS_ELSEWHERE,
            None => STUB_HEADS,
        };
        self.make_file(&refs.join("heads"), heads)?;
        if !self.is_new {
            change_mode(&self.options.git_dir.join("HEAD"), |mode| self.policy.file_mode(mode))?;
        }
        self.sync(&[&refs])
    }

    fn make_head(&self, head: &[u8]) -> Result<(), Error> {
        let store = self.refs();
        let writes = RefWrites {
            policy: self.policy,
            // An unborn branch has no history.
            log: LogPolicy::Never,
            hooks: self.hooks.clone(),
            ..RefWrites::of(&self.config, self.format.hash, self.options.is_bare, Vec::new())?
        };
        let edit = RefEdit {
            name: b"HEAD".to_vec(),
            change: RefChange::SetSymbolic(head.to_vec()),
            expected: Expected::Any,
            deref: false,
            message: b"".as_slice().into(),
            force_log: false,
        };
        let failed = |error: crate::refs::PrepareError| Error::caused(error.kind(), error.to_string(), error);
        let prepared =
            store.prepare(vec![edit], TransactionMode::Atomic, &writes, &mut NoObjects).map_err(failed)?;
        prepared.commit(&ObjectsStored::earlier(), &mut NoObjects).map_err(failed)?;
        if self.has_stubs() {
            self.sync(&[store.dir()])?;
            self.make_file(&self.options.git_dir.join("HEAD"), STUB_HEAD)?;
        }
        Ok(())
    }

    /// Writes a file, or only fixes the mode of an existing one.
    fn make_file(&self, path: &Path, text: &[u8]) -> Result<(), Error> {
        let io = |error| Error::io(path, error);
        if packrace_os::identity(path, Role::Config).map_err(io)?.is_some() {
            return change_mode(path, |mode| self.policy.file_mode(mode));
        }
        let mut file =
            NewFile::create_temporary(dir_of(path), "tmp_init_", 0o666, Role::Config).map_err(io)?;
        file.change_mode(|mode| self.policy.file_mode(mode)).map_err(io)?;
        file.write(text).map_err(io)?;
        if self.policy.syncs(Component::Reference) {
            file.sync().map_err(io)?;
        }
        file.replace(path).map_err(io)
    }

    /// Makes the names in these directories as durable as refs.
    fn sync(&self, dirs: &[&Path]) -> Result<(), Error> {
        sync_dirs(dirs, self.policy)
    }
}

/// A transaction that points `HEAD` to an unborn branch looks up no objects.
struct NoObjects;

impl RefObjects for NoObjects {
    fn kind(&mut self, _: &oid) -> Result<Option<Kind>, Error> {
        Ok(None)
    }

    fn peel(&mut self, _: &oid) -> Result<Peeled, Error> {
        Ok(Peeled::Unknown)
    }
}

/// Whether there is a `HEAD`, even as a dangling symbolic link.
fn has_head(git_dir: &Path) -> bool {
    packrace_os::owner(&git_dir.join("HEAD")).is_ok()
}

fn read_config(options: &InitOptions, common_dir: &Path) -> Result<(Config, RepositoryFormat), Error> {
    let mut config = Config::around(&options.config, including(&options.git_dir))?;
    config.add_local(common_dir, including(&options.git_dir))?;
    config.need_values_to_open()?;
    let format = RepositoryFormat::of(&config)?;
    Ok((config, format))
}

fn policy_of(options: &InitOptions, config: &Config) -> Result<WritePolicy, Error> {
    let policy = WritePolicy::of(config)?;
    Ok(options.sharing.map_or(policy, |sharing| policy.shared(sharing)))
}

/// The existing formats, or the requested ones for what is not decided yet; with whether there was a `HEAD` before the
/// template was copied, and is one now.
fn agree(
    options: &InitOptions,
    config: &Config,
    found: RepositoryFormat,
    (had_head, has_head): (bool, bool),
) -> Result<RepositoryFormat, Error> {
    let has_version = config.local_integer("core.repositoryFormatVersion")?.is_some();
    // A `HEAD` that a template has brought says nothing of the hash.
    let is_decided = had_head || has_version;
    if !has_head && !has_version {
        return Ok(RepositoryFormat {
            hash: options.hash.unwrap_or(options.default_hash),
            refs: options.refs.clone().unwrap_or(options.default_refs.into()),
        });
    }
    let refused = |what: &str| {
        Err(Reason::Refused(format!("attempt to reinitialize repository with different {what}")).into())
    };
    if is_decided && options.hash.is_some_and(|hash| hash != found.hash) {
        return refused("hash");
    }
    if options.refs.as_ref().is_some_and(|refs| *refs != found.refs) {
        return refused("reference storage format");
    }
    match is_decided {
        true => Ok(found),
        false => Ok(RepositoryFormat { hash: options.hash.unwrap_or(options.default_hash), ..found }),
    }
}

/// Creates a directory with the policy's permissions, unless it exists.
fn make_dir(path: &Path, policy: WritePolicy) -> Result<(), Error> {
    let made = durable::make_dir(path, |mode| policy.dir_mode(mode), Role::Config);
    made.map(drop).map_err(|error| Error::io(path, error))
}

fn change_mode(path: &Path, change: impl FnOnce(u32) -> u32) -> Result<(), Error> {
    durable::change_mode(path, change, Role::Config).map_err(|error| Error::io(path, error))
}

fn sync_dirs(dirs: &[&Path], policy: WritePolicy) -> Result<(), Error> {
    if !policy.syncs(Component::Reference) {
        return Ok(());
    }
    let dirs: BTreeSet<&Path> = dirs.iter().copied().collect();
    let to_sync = dirs.into_iter().map(ToSync::Dir).collect();
    durable::sync_together(to_sync, Role::Config).map_err(Error::sync)
}
