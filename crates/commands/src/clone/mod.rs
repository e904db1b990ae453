//! `git clone --bare` and `--mirror`: copies a repository from a server.

mod head;
mod junk;
mod place;
mod remote_text;
mod take;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use packrace_client::{HttpMessages as _, Remote, Scheme, ServerConnection, Timeouts, Url};
use packrace_object::ObjectId;
use packrace_protocol::message::fetch_request::FetchRequest;
use packrace_protocol::session::RefsRequest;
use packrace_protocol::session::fetch_client::{FetchLimits, ListedRefs};
use packrace_store::init::{Begun, InitOptions, NewSection};
use packrace_store::publish::ObjectsStored;
use packrace_store::refs::{
    Expected, RefChange, RefEdit, RefWrites, StoredObjects, TransactionMode, is_good_name,
};
use packrace_store::{Config, OpenOptions, Repository};

use self::head::RemoteHead;
use self::junk::Junk;
pub use self::junk::Unfinished;
use self::place::CloneTarget;
use crate::call::Call;
use crate::call::fatal::Fatal;
use crate::http_remote::{self, Messages};
use crate::init;
use crate::options::CloneOptions;
use crate::progress;
use crate::trace2::http::HttpTrace;
use crate::trace2::packets::TracedConnection;

/// Implements `git clone` with `--bare` or `--mirror`. Before anything is written, `watch` gets a handle with
/// which a signal handler can remove an unfinished clone.
pub fn run(
    call: &Call,
    args: &CloneOptions,
    watch: impl FnOnce(Unfinished) -> Result<(), Fatal>,
) -> Result<(), Fatal> {
    let Some(typed) = &args.repository else {
        return Err(Fatal::usage("You must specify a repository to clone.\n").with_usage_of("clone"));
    };
    if !args.bare && !args.mirror {
        let message = "clone: only --bare and --mirror are supported: packrace makes no work trees";
        return Err(Fatal::usage(message).unless_git());
    }
    let (options, default_head) = init::bare_prototype(call, args.ref_format.as_deref())?;
    let config = Config::outside(&options.config)?;
    let typed = typed.to_str().ok_or_else(|| Fatal::new("the URL is not UTF-8").unless_git())?;
    let url = parsed(typed, &config)?;
    let refs = call.environment.ref_storage()?;
    let place = CloneTarget::find(call, typed.as_ref(), args.directory.as_deref())?;
    if !args.quiet {
        error_line!(call, "Cloning into bare repository '{}'...", place.shown);
    }
    let origin = origin(args, &config)?;
    let shows_progress = !args.quiet && progress::is_wanted(call, args.progress);
    let junk = Junk::begin(&place);
    watch(junk.unfinished())?;
    place.make()?;
    let job = CloneJob {
        args,
        call,
        typed_url: typed,
        url,
        origin,
        config,
        open: OpenOptions {
            // Variables for other repositories do not apply to the new one.
            config: options.config.clone(),
            strict: true,
            ref_storage: refs.clone(),
            ..OpenOptions::default()
        },
        init: InitOptions { git_dir: place.path.clone(), refs: refs.or(options.refs), ..options },
        default_head,
        shows_progress,
    };
    job.run()?;
    junk.keep();
    Ok(())
}

/// The URL; those that packrace does not know, or that need settings that it has not, are for git.
fn parsed(typed: &str, config: &Config) -> Result<Url, Fatal> {
    let url = Url::parse(typed).map_err(|error| Fatal::from(error).unless_git())?;
    if url.scheme != Scheme::Git {
        http_remote::leave_unsupported(config, &url)?;
    }
    Ok(url)
}

/// The name of the remote.
fn origin(args: &CloneOptions, config: &Config) -> Result<Vec<u8>, Fatal> {
    let configured = || config.string("clone.defaultRemoteName");
    let name = args.origin.as_ref().map(|name| name.as_bytes().to_vec()).or_else(configured);
    let name = name.unwrap_or_else(|| b"origin".to_vec());
    match is_good_name(&[b"refs/remotes/", name.as_slice(), b"/test"].concat()) {
        true => Ok(name),
        false => Err(Fatal::new(format!("'{}' is not a valid remote name", String::from_utf8_lossy(&name)))),
    }
}

/// A running clone.
struct CloneJob<'a> {
    args: &'a CloneOptions,
    call: &'a Call,
    /// As it was typed.
    typed_url: &'a str,
    url: Url,
    origin: Vec<u8>,
    /// Configuration from outside the new repository.
    config: Config,
    open: OpenOptions,
    init: InitOptions,
    /// The target of `HEAD` if the server does not name one.
    default_head: Vec<u8>,
    shows_progress: bool,
}

impl CloneJob<'_> {
    fn run(self) -> Result<(), Fatal> {
        let url = &self.url;
        let agent = self.call.environment.agent();
        let mut timeouts = Timeouts::default();
        timeouts.ipv6 = self.args.ipv6;
        let is_verbose = self.args.verbose && !self.args.quiet;
        let trace = HttpTrace::open(self.call);
        let mut messages = Messages { call: self.call, is_verbose, is_quiet: self.args.quiet, trace };
        match url.scheme {
            Scheme::Git => {
                let mut say = |text: &str| messages.verbose(text);
                let connection = packrace_client::open_git(url, timeouts, &mut say)?;
                let first = packrace_client::git_request(url)?;
                let connection = TracedConnection::new(self.call, connection, &first);
                let mut remote = open(connection, &agent, timeouts)?;
                self.take_from(&mut remote)?;
                remote.end_stateful();
                Ok(())
            }
            Scheme::Http | Scheme::Https => {
                http_remote::check_credentials_in_url(self.call, &self.config, self.typed_url)?;
                let remote = String::from_utf8_lossy(&self.origin);
                let options = http_remote::options(self.call, &self.config, url, &remote, timeouts)?;
                let mut source = http_remote::credentials(self.call, &self.config);
                let connection = packrace_client::open_http(url, &options, &mut source, &mut messages)?;
                let connection = TracedConnection::new(self.call, connection, &[]);
                self.take_from(&mut open(connection, &agent, timeouts)?)
            }
        }
    }

    /// Everything after the server's first message.
    fn take_from<E: ServerConnection>(&self, remote: &mut Remote<E>) -> Result<(), Fatal> {
        let listed = remote.list_refs(&self.refs_request())?;
        let refs = self.taken_refs(&listed);
        let branch = self.args.branch.as_deref().map(OsStr::as_bytes);
        let head = RemoteHead::choose(&listed, &refs, branch, &self.default_head, &self.origin)?;
        let repository = self.make(remote.server().hash, &head)?;
        let mut wants: Vec<ObjectId> = refs.iter().map(|(_, id)| *id).chain(head.wanted()).collect();
        wants.sort_unstable();
        wants.dedup();
        if wants.is_empty() {
            error_line!(self.call, "warning: You appear to have cloned an empty repository.");
            return Ok(());
        }
        let request = FetchRequest {
            wants,
            ofs_delta: true,
            no_progress: !self.shows_progress,
            ..FetchRequest::default()
        };
        let proof = take::receive(remote, &request, &repository, self.shows_progress, self.call)?;
        self.write_refs(&repository, refs, &head, &proof)
    }

    fn refs_request(&self) -> RefsRequest {
        let mut prefixes = vec![b"HEAD".to_vec()];
        if self.args.mirror {
            prefixes.push(b"refs/".to_vec());
        } else {
            prefixes.push(b"refs/heads/".to_vec());
            prefixes.extend((!self.args.no_tags).then(|| b"refs/tags/".to_vec()));
        }
        RefsRequest { symrefs: true, peel: true, unborn: true, prefixes }
    }

    /// The refs to clone. A server may list refs that were not asked for.
    fn taken_refs(&self, listed: &ListedRefs) -> Vec<(Vec<u8>, ObjectId)> {
        let prefixes = self.refs_request().prefixes;
        let mut refs = Vec::with_capacity(listed.len());
        for listed in listed.iter() {
            let Some(id) = listed.id else { continue };
            if !prefixes[1..].iter().any(|prefix| listed.name.starts_with(prefix)) {
                continue;
            }
            if !is_good_name(listed.name) {
                let name = listed.name.escape_ascii();
                error_line!(self.call, "error: * Ignoring funny ref '{name}' locally");
                continue;
            }
            refs.push((listed.name.to_vec(), id));
        }
        refs
    }

    /// Creates the repository without objects and refs.
    fn make(&self, hash: packrace_object::HashKind, head: &RemoteHead) -> Result<Repository, Fatal> {
        let mut entries = vec![("url", self.typed_url.into())];
        // A mirror has all refs anyway.
        if self.args.no_tags || self.args.mirror {
            entries.push(("tagOpt", b"--no-tags".to_vec()));
        }
        if self.args.mirror {
            entries.push(("fetch", b"+refs/*:refs/*".to_vec()));
            entries.push(("mirror", b"true".to_vec()));
        }
        let options = InitOptions {
            hash: Some(hash),
            sections: vec![NewSection { name: "remote", subsection: self.origin.clone(), entries }],
            ..self.init.clone()
        };
        let branch = match head {
            RemoteHead::Symbolic(branch) => branch,
            RemoteHead::Detached(_) => &self.default_head,
        };
        Begun::begin(options)?.finish(branch)?;
        Ok(Repository::open(&self.init.git_dir, &self.open)?)
    }

    /// Writes all refs at once, then a detached `HEAD`, if there is one.
    fn write_refs(
        &self,
        repository: &Repository,
        refs: Vec<(Vec<u8>, ObjectId)>,
        head: &RemoteHead,
        proof: &ObjectsStored,
    ) -> Result<(), Fatal> {
        let config = repository.config();
        let who = self.call.environment.committer.committer(config)?;
        let writes = RefWrites::of(config, repository.hash_kind(), true, who)?;
        let mut objects = StoredObjects::new(&repository.snapshot()?);
        let store = repository.refs();
        store.create_initial(refs, proof, &writes, &mut objects).map_err(Fatal::new)?;
        let RemoteHead::Detached(id) = head else { return Ok(()) };
        let edit = RefEdit {
            name: b"HEAD".to_vec(),
            change: RefChange::Set(head::peel(*id, &mut objects)?),
            expected: Expected::Any,
            deref: false,
            message: [b"clone: from ", self.typed_url.as_bytes()].concat().into(),
            force_log: false,
        };
        let prepared =
            store.prepare(vec![edit], TransactionMode::Atomic, &writes, &mut objects).map_err(Fatal::new)?;
        prepared.commit(proof, &mut objects).map_err(Fatal::new)?;
        Ok(())
    }
}

fn open<E: ServerConnection>(connection: E, agent: &str, timeouts: Timeouts) -> Result<Remote<E>, Fatal> {
    let remote = Remote::open(connection, agent, FetchLimits::default(), timeouts)?;
    packrace_os::trace::negotiated(2);
    Ok(remote)
}

impl From<packrace_client::Error> for Fatal {
    fn from(error: packrace_client::Error) -> Self {
        use packrace_protocol::session::fetch_client::Error as Protocol;
        match error {
            packrace_client::Error::Protocol(Protocol::SaidNothing) => Fatal::new(
                "Could not read from remote repository.\n\n\
                 Please make sure you have the correct access rights\nand the repository exists.",
            ),
            other => Fatal::new(other),
        }
    }
}

/// A path as messages show it.
fn shown(path: &Path) -> String {
    path.display().to_string()
}
