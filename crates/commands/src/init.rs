//! `git init`: creates a repository, or completes an existing one.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use packrace_object::HashKind;
use packrace_os::count::Role;
use packrace_os::durable;
use packrace_os::trace::{self, TraceStep};
use packrace_store::init::{self, Begun, Separation, Template};
use packrace_store::publish::{Sharing, WritePolicy};
use packrace_store::refs::{Backend, RefStorage, is_good_name};
use packrace_store::{Config, MessageSink};

use crate::call::Call;
use crate::call::discovery::in_directory;
use crate::call::fatal::Fatal;
use crate::call::printable::harmless;
use crate::options::InitOptions;
use crate::packs::hash::hash_of_name;

/// Git's hint if no branch name was chosen, word for word.
const BRANCH_HINT: &str = "\
Using 'master' as the name for the initial branch. This default branch name
will change to \"main\" in Git 3.0. To configure the initial branch name
to use in all of your new repositories, which will suppress this warning,
call:

\tgit config --global init.defaultBranch <name>

Names commonly chosen instead of 'master' are 'main', 'trunk' and
'development'. The just-created branch can be renamed via this command:

\tgit branch -m <name>
";

/// The longest chain of symbolic links.
const MAX_LINKS: usize = 32;

/// Implements `git init`.
pub fn run(call: &Call, args: &InitOptions) -> Result<(), Fatal> {
    if args.separate_git_dir.is_some() && args.bare {
        return Err(Fatal::new("options '--separate-git-dir' and '--bare' cannot be used together"));
    }
    let variables = &call.environment.init;
    if variables.has_common_dir {
        return Err(Fatal::usage("init: GIT_COMMON_DIR is not supported"));
    }
    let start = in_directory(call, Path::new("."))?;
    let start = packrace_os::real_path(&start).map_err(Fatal::new)?;
    let sharing = match &args.shared {
        Some(value) => Some(Sharing::parse(Some(value.as_encoded_bytes()), "arg")?),
        None => None,
    };
    let separate = args.separate_git_dir.as_ref().map(|dir| absolute(&start, Path::new(dir))).transpose()?;
    let config_sources = call.open_options()?.config;
    let base = match &args.directory {
        Some(directory) => make_start(&start, Path::new(directory))?,
        None => start.clone(),
    };
    let config = Config::outside(&config_sources)?;
    config.check_usual()?;
    let place = InitTarget::of(call, args, &base)?;
    if place.is_bare && separate.is_some() {
        return Err(Fatal::new("--separate-git-dir incompatible with bare repository"));
    }
    place.trace();
    let (hash, default_hash) = hashes(args, call, &config)?;
    let (refs, default_refs) = ref_formats(args, call, &config)?;
    let mut gitfile = None;
    let git_dir = match &separate {
        Some(separate) => {
            gitfile = Some(separated(&place.git_dir, separate, &config)?);
            separate.clone()
        }
        None => init::git_dir_at(&place.git_dir)?,
    };
    let options = init::InitOptions {
        git_dir,
        object_dir: call.open_options()?.object_dir.map(|dir| base.join(dir)),
        gitfile,
        work_tree: place.work_tree,
        is_bare: place.is_bare,
        is_bare_guessed: !args.bare && !call.globals.bare,
        template: template(args, call, &config, &start, &base),
        hash,
        default_hash,
        // The variable wins over the option, as in git.
        refs: call.environment.ref_storage()?.or(refs.map(RefStorage::from)),
        default_refs,
        sharing,
        config: config_sources,
        sections: Vec::new(),
    };
    make(call, args, options, &config)
}

/// What `init --bare` would create, without a path and regardless of `GIT_REFERENCE_BACKEND`; and the target of `HEAD`.
pub fn bare_prototype(call: &Call, ref_format: Option<&str>) -> Result<(init::InitOptions, Vec<u8>), Fatal> {
    let ref_format = ref_format.map(str::to_owned);
    let args = InitOptions { bare: true, quiet: true, ref_format, ..InitOptions::default() };
    let sources = call.open_options()?.config;
    let config = Config::outside(&sources)?;
    let (hash, default_hash) = hashes(&args, call, &config)?;
    let (refs, default_refs) = ref_formats(&args, call, &config)?;
    let here = in_directory(call, Path::new("."))?;
    let options = init::InitOptions {
        git_dir: PathBuf::new(),
        object_dir: None,
        gitfile: None,
        work_tree: None,
        is_bare: true,
        is_bare_guessed: false,
        template: template(&args, call, &config, &here, &here),
        hash,
        default_hash,
        refs: refs.map(RefStorage::from),
        default_refs,
        sharing: None,
        config: sources,
        sections: Vec::new(),
    };
    Ok((options, initial_branch(call, &args, &config)?))
}

/// Creates the repository and reports it.
fn make(call: &Call, args: &InitOptions, options: init::InitOptions, config: &Config) -> Result<(), Fatal> {
    let git_dir = options.git_dir.clone();
    let object_dir = options.object_dir.clone().unwrap_or_else(|| git_dir.join("objects"));
    let errors = call.streams.errors.clone();
    let outlet = MessageSink::new(move |bytes| drop(errors.say(bytes)));
    let begun = Begun::begin(options)?.with_hooks(call.environment.for_hooks(&call.globals), outlet)?;
    begun.check_settings()?;
    let (is_new, is_shared) = (begun.is_new(), begun.is_shared());
    let branch = if is_new { initial_branch(call, args, config)? } else { Vec::new() };
    if let Some(name) = args.initial_branch.as_ref().filter(|_| !is_new) {
        error_line!(call, "warning: re-init: ignored --initial-branch={}", name.to_string_lossy());
    }
    begun.finish(&branch).map_err(|error| match error.to_string() {
        // Git says so of these alone.
        words if words.starts_with(&*object_dir.to_string_lossy()) => {
            Fatal::silent(1).after(harmless(&words) + "\n")
        }
        _ => error.into(),
    })?;
    if !args.quiet {
        let what = if is_new { "Initialized empty" } else { "Reinitialized existing" };
        let shared = if is_shared { " shared" } else { "" };
        let git_dir = packrace_os::real_path(&git_dir).map_err(Fatal::new)?;
        let shown = git_dir.as_os_str().as_encoded_bytes();
        let shown = shown.strip_suffix(b"/").unwrap_or(shown);
        let words = format!("{what}{shared} Git repository in ");
        call.write_line([words.as_bytes(), shown, b"/"].concat())?;
    }
    Ok(())
}

/// The path and kind of the repository.
struct InitTarget {
    /// The git directory, or a file that points to it.
    git_dir: PathBuf,
    is_bare: bool,
    /// The work tree, if `core.worktree` must name it.
    work_tree: Option<PathBuf>,
}

impl InitTarget {
    fn of(call: &Call, args: &InitOptions, base: &Path) -> Result<Self, Fatal> {
        let named = call.globals.git_dir.as_ref().or(call.environment.git_dir.as_ref());
        let work_tree = call.environment.init.work_tree.as_ref();
        let is_said_bare = args.bare || call.globals.bare;
        if work_tree.is_some() && (is_said_bare || named.is_none()) {
            return Err(Fatal::new(
                "GIT_WORK_TREE (or --work-tree=<directory>) not allowed without specifying GIT_DIR (or --git-dir=<directory>)",
            ));
        }
        // A bare repository is in the directory that was typed, whatever GIT_DIR says.
        let Some(named) = named.filter(|_| !is_said_bare || args.directory.is_none()) else {
            let git_dir = if is_said_bare { base.to_owned() } else { base.join(".git") };
            let is_link = matches!(packrace_os::read_link(&git_dir, Role::Config), Ok(Some(_)));
            if is_link && !is_said_bare && !git_dir.is_file() {
                // It may lead to a repository that is yet to be made, which has another name in any case.
                let git_dir = absolute(base, Path::new(".git"))?;
                return Ok(InitTarget { git_dir, is_bare: false, work_tree: Some(base.to_owned()) });
            }
            return Ok(InitTarget { git_dir, is_bare: is_said_bare, work_tree: None });
        };
        if named.as_os_str().is_empty() {
            return Err(Fatal::new("The empty string is not a valid path"));
        }
        let is_bare = is_said_bare || work_tree.is_none() && is_name_of_bare(named, base);
        let in_its_work_tree = base.join(named).parent().map(Path::to_owned);
        if let (false, None, Some(top)) = (is_bare, work_tree, &in_its_work_tree)
            && let Err(why) = look(top)
        {
            return Err(Fatal::new(format!("Cannot access work tree '{}': {why}", top.display())));
        }
        let git_dir = absolute(base, named)?;
        let work_tree = work_tree.map(|tree| absolute(base, tree)).transpose()?;
        // A git directory named `.git` in its work tree needs no setting.
        let work_tree = work_tree.filter(|tree| tree.join(".git") != git_dir);
        Ok(InitTarget { git_dir, is_bare, work_tree })
    }

    fn trace(&self) {
        let top = self.work_tree.as_deref().or(self.git_dir.parent());
        if let Some(top) = top.filter(|_| !self.is_bare) {
            trace::tell(TraceStep::WorkTree(top));
        }
    }
}

/// Git's guess: a git directory named `.git` is not bare.
fn is_name_of_bare(named: &Path, base: &Path) -> bool {
    let name = named.as_os_str().as_bytes();
    named == base || name != b".git" && !name.ends_with(b"/.git")
}

/// Moves the existing repository, if there is one. Gives the file that will point to it.
fn separated(git: &Path, separate: &Path, config: &Config) -> Result<PathBuf, Fatal> {
    let separation = Separation::of(git)?;
    if look(&separation.from).is_ok() && separation.from != separate {
        separation.carry_out(separate, WritePolicy::of(config)?)?;
    }
    Ok(separation.gitfile)
}

/// The named directory, created with all its parents.
fn make_start(start: &Path, directory: &Path) -> Result<PathBuf, Fatal> {
    let shown = directory.display();
    let cannot = |why: &str| Fatal::new(format!("cannot mkdir {shown}: {why}"));
    if directory.as_os_str().is_empty() {
        return Err(cannot("No such file or directory"));
    }
    let path = start.join(directory);
    let mut missing: Vec<&Path> = Vec::new();
    for above in path.ancestors() {
        match packrace_os::identity(above, Role::Config)
            .map_err(|error| cannot(&packrace_os::reason(&error)))?
        {
            Some(found) if found.is_dir => break,
            Some(_) => return Err(cannot("File exists")),
            None => missing.push(above),
        }
    }
    for dir in missing.into_iter().rev() {
        durable::make_dir(dir, |mode| mode, Role::Config)
            .map_err(|error| cannot(&packrace_os::reason(&error)))?;
    }
    // A link that leads nowhere is in the way.
    packrace_os::real_path(&path).map_err(|_| cannot("File exists"))
}

/// A path without links; its last component need not exist.
fn absolute(base: &Path, path: &Path) -> Result<PathBuf, Fatal> {
    if path.as_os_str().is_empty() {
        return Err(Fatal::new("The empty string is not a valid path"));
    }
    let typed = path;
    let mut path = base.join(typed);
    if let Ok(real) = packrace_os::real_path(&path) {
        return Ok(real);
    }
    if let Ok(followed) = packrace_os::follow_links(&path, MAX_LINKS, Role::Config) {
        if followed.is_link {
            let shown = typed.display();
            return Err(Fatal::new(format!("More than {MAX_LINKS} nested symlinks on path '{shown}'")));
        }
        path = followed.path;
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(path) };
    match packrace_os::real_path(parent) {
        Ok(parent) => Ok(parent.join(name)),
        Err(error) => {
            // The first missing component.
            let missing = parent.ancestors().take_while(|dir| look(dir).is_err()).last().unwrap_or(parent);
            Err(Fatal::new(format!("Invalid path '{}': {}", missing.display(), packrace_os::reason(&error))))
        }
    }
}

/// Checks that a path exists; the error is in the system's words.
fn look(path: &Path) -> Result<(), String> {
    match packrace_os::identity(path, Role::Config) {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err("No such file or directory".to_owned()),
        Err(error) => Err(packrace_os::reason(&error)),
    }
}

fn template(args: &InitOptions, call: &Call, config: &Config, start: &Path, base: &Path) -> Template {
    let named = args.template.as_ref().map(|dir| start.join(dir));
    let is_empty = args.template.as_ref().is_some_and(|dir| dir.is_empty());
    // A configured template path is relative to the new repository, and reported as written.
    let configured = call.environment.init.template_dir.clone().or_else(|| config.path("init.templateDir"));
    match (named, configured) {
        (Some(_), _) if is_empty => Template::Empty,
        (Some(dir), _) => Template::Directory { path: dir.clone(), shown: dir },
        (None, Some(dir)) if dir.as_os_str().is_empty() => Template::Empty,
        (None, Some(dir)) => Template::Directory { path: base.join(&dir), shown: dir },
        (None, None) => Template::BuiltIn,
    }
}

/// The hash asked for, and the hash of a new repository.
fn hashes(args: &InitOptions, call: &Call, config: &Config) -> Result<(Option<HashKind>, HashKind), Fatal> {
    let typed = args.object_format.as_deref();
    let variable = call.environment.init.default_hash.as_deref();
    chosen(typed, variable, config, "init.defaultObjectFormat", hash_of_name, HashKind::Sha1)
}

/// The ref format asked for, and that of a new repository.
fn ref_formats(
    args: &InitOptions,
    call: &Call,
    config: &Config,
) -> Result<(Option<Backend>, Backend), Fatal> {
    let parse =
        |name: &str| Backend::of_name(name).ok_or_else(|| format!("unknown ref storage format '{name}'"));
    let typed = args.ref_format.as_deref();
    let variable = call.environment.init.default_ref_format.as_deref();
    let is_experimental = config.boolean("feature.experimental")?.unwrap_or(false);
    let usual = if is_experimental { Backend::Reftable } else { Backend::Files };
    chosen(typed, variable, config, "init.defaultRefFormat", parse, usual)
}

/// Option, then variable, then configuration; an unknown configured name is only a warning.
fn chosen<T: Copy>(
    typed: Option<&str>,
    variable: Option<&str>,
    config: &Config,
    name: &str,
    parse: impl Fn(&str) -> Result<T, String>,
    usual: T,
) -> Result<(Option<T>, T), Fatal> {
    config.need_values(&[name])?;
    let configured = config.string(name).map(|value| parse(&String::from_utf8_lossy(&value)));
    let configured =
        configured.and_then(|value| value.inspect_err(|unknown| tracing::warn!("{unknown}")).ok());
    if let Some(typed) = typed {
        let typed = parse(typed).map_err(Fatal::new)?;
        return Ok((Some(typed), typed));
    }
    let variable = variable.map(&parse).transpose().map_err(Fatal::new)?;
    Ok((None, variable.or(configured).unwrap_or(usual)))
}

/// The initial target of `HEAD`.
fn initial_branch(call: &Call, args: &InitOptions, config: &Config) -> Result<Vec<u8>, Fatal> {
    let full = |name: &[u8]| [b"refs/heads/", name].concat();
    if let Some(name) = &args.initial_branch {
        let branch = full(name.as_encoded_bytes());
        let shown = name.to_string_lossy();
        return match is_good_name(&branch) {
            true => Ok(branch),
            false => Err(Fatal::new(format!("invalid initial branch name: '{shown}'"))),
        };
    }
    let of_variable = call.environment.init.initial_branch.as_ref().map(|name| name.clone().into_bytes());
    if of_variable.is_none() {
        config.need_values(&["init.defaultBranch"])?;
    }
    if let Some(name) = of_variable.or_else(|| config.string("init.defaultBranch")) {
        let branch = full(&name);
        let shown = String::from_utf8_lossy(&name);
        return match is_good_name(&branch) {
            true => Ok(branch),
            false => Err(Fatal::new(format!("invalid branch name: init.defaultBranch = {shown}"))),
        };
    }
    if !args.quiet {
        call.hint(config, "defaultBranchName", BRANCH_HINT)?;
    }
    Ok(full(b"master"))
}
