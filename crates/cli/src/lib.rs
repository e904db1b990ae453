//! The programs `packrace` and `packrace-service`: they parse arguments and environment, and return the exit code. The commands
//! themselves are in `packrace_commands`, except `serve`, `shell` and `http-backend`.

#![forbid(unsafe_code)]
// These macros panic if the stream is closed or the disk is full; `process` has one that does not.
#![warn(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
mod process;

mod access;
mod after_push;
mod args;
mod bucket;
mod completions;
mod events;
mod gitolite;
mod hand_over;
mod http_backend;
mod interrupted_clone;
mod log;
mod man;
mod repo;
mod sandbox;
mod serve;
mod shell;
mod warnings;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use args::{Command, Parsed, Service, USAGE};
use packrace_commands::trace2::{Trace, TraceSession};
use packrace_commands::{self as commands, Call, Fatal};
use packrace_os::faults::{self, Scope};
use packrace_os::interruption;
use process::Reports;

/// Git's exit code for fatal errors.
const FATAL: u8 = 128;

/// `packrace`: all commands.
pub fn packrace() -> ExitCode {
    run::<Command>()
}

/// `packrace-service`: what a process does for one client of Git. It leaves everything else to `packrace`; without the code for
/// that, it starts in half the time.
pub fn service() -> ExitCode {
    run::<Service>()
}

/// The commands of a program.
trait Commands: Sized {
    /// Reads a command line, the program's own name first. `None`: it is for `packrace`.
    fn parse(argv: &[OsString]) -> Option<Parsed<Self>>;

    fn run(self, call: Call) -> Result<(), Fatal>;

    /// Only looks up what its options name.
    fn check(self, _call: &Call) -> Result<(), Fatal> {
        Ok(())
    }

    /// How a command is used, in one line.
    fn usage_of(_command: &str) -> String {
        String::new()
    }

    /// What a disk fault ends. In a server, that is one response.
    fn scope(&self) -> Scope {
        Scope::Process
    }

    /// Servers have a log; other commands print warnings in git's format.
    fn has_log(&self) -> bool {
        false
    }
}

fn run<C: Commands>() -> ExitCode {
    let reports = Reports::asked_for();
    let session = TraceSession::begin(&reports.trace2);
    let typed: Vec<_> = std::env::args_os().collect();
    let argv = commands::command_words::with_command(typed.clone());
    let Some(parsed) = C::parse(&argv) else {
        let error = hand_over::to_packrace(&argv[1..]);
        eprint_line!("fatal: cannot run packrace: {}", packrace_os::reason(&error));
        return ExitCode::from(FATAL);
    };
    let (code, trace) = match parsed {
        Parsed::Run { globals, name, command, refusal } => {
            let mut environment = process::environment(&globals.variables);
            environment.session_id.clone_from(&session.id);
            let call = Call::new((*globals).into(), environment, process::streams());
            // A configuration that is broken is reported by the command.
            let settings = call.open_options().ok().map(|options| options.config);
            let trace = Trace::begin(&reports.trace2, settings.as_ref(), &session, &typed, to_stderr);
            if let Some(trace) = &trace {
                trace.command(&call, &name, &|name| std::env::var_os(name));
            }
            let call = Call { ends_process: true, git: hand_over::git, ..call };
            (contained(call, command, refusal, &argv, trace.as_ref()), trace)
        }
        Parsed::HandOver(refusal) => {
            let trace = Trace::begin(&reports.trace2, None, &session, &typed, to_stderr);
            (
                to_git(&argv[1..], trace.as_ref(), refusal.as_deref().map(|text| (text.as_bytes(), USAGE))),
                trace,
            )
        }
        Parsed::Answer { text, shown, code } => {
            let trace = Trace::begin(&reports.trace2, None, &session, &typed, to_stderr);
            let misplaced = if code == 0 { None } else { misplaced(&argv) };
            let ended = misplaced.unwrap_or_else(|| Fatal::silent(code).after(text).showing(shown));
            (tell(&ended, ""), trace)
        }
    };
    if let Some(path) = &reports.io_report
        && let Err(error) = packrace_os::write_file(path, packrace_os::count::report().as_bytes())
    {
        eprint_line!("warning: cannot write {}: {error}", path.display());
    }
    if let Some(trace) = trace {
        trace.end(code);
    }
    ExitCode::from(code)
}

/// That there is no repository, or no work tree, where git looks for it before it looks at what was typed.
fn misplaced(argv: &[OsString]) -> Option<Fatal> {
    let globals = args::before_checked_command(argv)?;
    let environment = process::environment(&globals.variables);
    let call = Call::new(globals.into(), environment, process::streams());
    commands::check_place(&call, commands::command_words::needs_work_tree(argv)).err()
}

/// If standard error is closed, the text is lost.
fn to_stderr(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Lets git do it, which gets these arguments. Returns only if it cannot be started: the exit code, after what is said where there is
/// no git.
fn to_git(arguments: &[OsString], trace: Option<&Trace>, refusal: Option<(&[u8], u8)>) -> u8 {
    trace.iter().for_each(|trace| trace.exec("git", arguments));
    let error = hand_over::to_git(arguments);
    trace.iter().for_each(|trace| trace.exec_failed(&error));
    match refusal.filter(|_| error.kind() == std::io::ErrorKind::NotFound) {
        Some((text, code)) => {
            // If standard error is closed, the text is lost.
            let _ = std::io::stderr().write_all(text);
            code
        }
        None => {
            eprint_line!("fatal: cannot run git: {}", packrace_os::reason(&error));
            FATAL
        }
    }
}

/// Runs a command whose files may be on a disk that fails.
fn contained(
    call: Call,
    command: impl Commands,
    refusal: Option<Fatal>,
    argv: &[OsString],
    trace: Option<&Trace>,
) -> u8 {
    let scope = command.scope();
    if let Err(error) = faults::contain(scope) {
        eprint_line!("warning: disk faults will kill this process: {error}");
    }
    if scope == Scope::Process {
        interruption::remove_unnamed_files();
    }
    let code = execute(call, command, refusal, argv, trace);
    match faults::first_damaged().filter(|_| scope == Scope::Process && code != FATAL) {
        Some(damaged) => {
            eprint_line!("fatal: {damaged}");
            FATAL
        }
        None => code,
    }
}

fn execute<C: Commands>(
    call: Call,
    command: C,
    refusal: Option<Fatal>,
    argv: &[OsString],
    trace: Option<&Trace>,
) -> u8 {
    if !command.has_log() {
        warnings::to_stderr();
    }
    // Some commands look at what was typed before they look for the repository.
    let ended = match refusal {
        Some(fatal) => command.check(&call).and(Err(fatal)),
        None => command.run(call),
    };
    let ended = ended.map_err(|fatal| match fatal.code {
        USAGE => misplaced(argv).unwrap_or(fatal),
        _ => fatal,
    });
    match ended {
        Ok(()) => 0,
        Err(fatal) if fatal.is_for_git => to_git(&argv[1..], trace, Some((&fatal.text(), fatal.code))),
        Err(fatal) => {
            if let Some(trace) = trace.filter(|_| !fatal.message.is_empty()) {
                trace.error(&fatal.message);
            }
            let usage = fatal.usage_of.map(|command| format!("{}\n", C::usage_of(command).trim_end()));
            tell(&fatal, &usage.unwrap_or_default())
        }
    }
}

/// Prints what a program ends with, and its usage: the exit code.
fn tell(ended: &Fatal, usage: &str) -> u8 {
    // Who would read it may be gone, as with `| head`.
    let _ = std::io::stderr().write_all(&[&ended.text(), usage.as_bytes()].concat());
    let _ = std::io::stdout().write_all(ended.shown.as_bytes());
    ended.code
}

impl Commands for Service {
    fn parse(argv: &[OsString]) -> Option<Parsed<Self>> {
        args::parse_service(argv)
    }

    fn run(self, call: Call) -> Result<(), Fatal> {
        match self {
            Service::UploadPack(args) => commands::upload_pack::run(&call, &args.into()),
            Service::ReceivePack(args) => commands::receive_pack::run(&call, &args.into()),
        }
    }
}

impl Commands for Command {
    fn parse(argv: &[OsString]) -> Option<Parsed<Self>> {
        Some(args::parse(argv.to_vec()))
    }

    fn usage_of(command: &str) -> String {
        args::usage_of(command)
    }

    fn scope(&self) -> Scope {
        if matches!(self, Command::Serve(_)) { Scope::Work } else { Scope::Process }
    }

    fn has_log(&self) -> bool {
        matches!(self, Command::Serve(_) | Command::Shell(_))
    }

    fn run(self, call: Call) -> Result<(), Fatal> {
        dispatch(call, self)
    }

    fn check(self, call: &Call) -> Result<(), Fatal> {
        match self {
            Command::CommitTree(args) => commands::commit_tree::check(call, &args.0),
            Command::ForEachRef(args) => commands::for_each_ref::check(call, &(*args).into()),
            Command::Refs(args) => commands::refs::check(call, &args.into()),
            Command::UpdateIndex(args) => commands::update_index::check(call, &args.0),
            _ => Ok(()),
        }
    }
}

fn dispatch(call: Call, command: Command) -> Result<(), Fatal> {
    match command {
        Command::Serve(args) => serve::run(call, &args),
        Command::Shell(args) => shell::run(call, &args),
        Command::Access(args) => access::run(&call, &args),
        Command::Repo(args) => repo::run(&call, &args),
        Command::Bucket(args) => bucket::run(&call, &args),
        Command::Events(args) => events::run(&call, &args),
        Command::UploadPack(args) => commands::upload_pack::run(&call, &args.into()),
        Command::ReceivePack(args) => commands::receive_pack::run(&call, &args.into()),
        Command::HttpBackend => http_backend::run(&call),
        Command::Add(args) => commands::add::run(&call, &(*args).into()),
        Command::Clone(args) => commands::clone::run(&call, &(*args).into(), interrupted_clone::watch),
        Command::CommitGraph(args) => commands::commit_graph::run(&call, &args.try_into()?),
        Command::ForEachRef(args) => commands::for_each_ref::run(&call, &(*args).into()),
        Command::IndexPack(args) => commands::index_pack::run(&call, &(*args).into()),
        Command::Init(args) => commands::init::run(&call, &(*args).into()),
        Command::Maintenance(args) => commands::maintenance::run(&call, &(*args).try_into()?),
        Command::MultiPackIndex(args) => commands::multi_pack_index::run(&call, &args.into()),
        Command::PackObjects(args) => commands::pack_objects::run(&call, &(*args).into()),
        Command::Repack(args) => commands::repack::run(&call, &(*args).into()),
        Command::HashObject(args) => commands::hash_object::run(&call, &(*args).into()),
        Command::WriteTree(args) => commands::write_tree::run(&call, &args.into()),
        Command::CommitTree(args) => commands::commit_tree::run(&call, &args.0),
        Command::UpdateIndex(args) => commands::update_index::run(&call, &args.0),
        Command::UpdateRef(args) => {
            if args.stdin {
                packrace_os::process::grow_heap_in_large_steps();
            }
            commands::update_ref::run(&call, &args.into())
        }
        Command::SymbolicRef(args) => commands::symbolic_ref::run(&call, &args.into()),
        Command::ShowRef(args) => commands::show_ref::run(&call, &args.into()),
        Command::PackRefs(args) => commands::pack_refs::run(&call, &args.into()),
        Command::Refs(args) => commands::refs::run(&call, &args.into()),
        Command::Reflog(args) => commands::reflog::run(&call, &(*args).into()),
        Command::Stash(args) => commands::stash::run(&call, &(*args).into()),
        Command::UnpackObjects(args) => commands::unpack_objects::run(&call, &args.into()),
        Command::VerifyPack(args) => commands::verify_pack::run(&call, &args.into()),
        Command::Completions(args) => completions::run(&call, &args),
        Command::Man(args) => man::run(&args),
    }
}
