//! The `packrace` command: parses arguments and environment, and returns the exit code. The commands
//! themselves are in `packrace_commands`, except `serve`, `shell` and `http-backend`.

#![forbid(unsafe_code)]
// These macros panic if the stream is closed or the disk is full; `process` has one that does not.
#![warn(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
mod process;

mod access;
mod args;
mod aws_files;
mod bucket;
mod completions;
mod events;
mod gitolite;
mod http_backend;
mod interruption;
mod log;
mod man;
mod repo;
mod sandbox;
mod serve;
mod shell;
mod trace2;
mod warnings;

use std::io::Write as _;
use std::process::ExitCode;

use args::{Command, Parsed};
use packrace_commands::{self as commands, Call, Fatal};
use packrace_os::faults::{self, Scope};
use process::Reports;
use trace2::{Trace, TraceSession};

/// Git's exit code for fatal errors.
const FATAL: u8 = 128;

fn main() -> ExitCode {
    let reports = Reports::asked_for();
    let session = TraceSession::begin(reports.trace2_parent.as_deref());
    let argv: Vec<_> = std::env::args_os().collect();
    let trace = Trace::begin(reports.trace2, &session, &argv);
    let mut name = None;
    let code = match args::parse(argv) {
        Parsed::Run(globals, command) => {
            name = Some(command.name());
            let mut environment = process::environment(&globals.variables);
            environment.session_id = session.id;
            let call = Call::new((*globals).into(), environment, process::streams());
            run(Call { ends_process: true, ..call }, command)
        }
        Parsed::Answer { text, to_stdout, code } => {
            // The reader may be gone, as with `| head`.
            let _ = match to_stdout {
                true => write!(std::io::stdout(), "{text}"),
                false => write!(std::io::stderr(), "{text}"),
            };
            code
        }
    };
    if let Some(path) = &reports.io_report
        && let Err(error) = packrace_os::write_file(path, packrace_os::count::report().as_bytes())
    {
        eprint_line!("warning: cannot write {}: {error}", path.display());
    }
    if let Some(trace) = trace {
        trace.end(name, code);
    }
    ExitCode::from(code)
}

fn run(call: Call, command: Command) -> u8 {
    // A disk fault ends what uses the file: in a server one response, otherwise the process.
    let scope = if matches!(command, Command::Serve(_)) { Scope::Work } else { Scope::Process };
    if let Err(error) = faults::contain(scope) {
        eprint_line!("warning: disk faults will kill this process: {error}");
    }
    let code = execute(call, command);
    match faults::first_damaged().filter(|_| scope == Scope::Process && code != FATAL) {
        Some(damaged) => {
            eprint_line!("fatal: {damaged}");
            FATAL
        }
        None => code,
    }
}

fn execute(call: Call, command: Command) -> u8 {
    // Servers have a log; other commands print warnings in git's format.
    if !matches!(command, Command::Serve(_) | Command::Shell(_)) {
        warnings::to_stderr();
    }
    match dispatch(call, command) {
        Ok(()) => 0,
        Err(fatal) => {
            let usage = fatal.usage_of.map(|command| format!("{}\n", args::usage_of(command).trim_end()));
            let text = [fatal.text(), usage.unwrap_or_default().into_bytes()].concat();
            // If standard error is closed, the message is lost.
            let _ = std::io::stderr().write_all(&text);
            fatal.code
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
        Command::Add(args) => commands::add::run(&call, &(*args).try_into()?),
        Command::Clone(args) => commands::clone::run(&call, &(*args).into(), interruption::watch),
        Command::CommitGraph(args) => commands::commit_graph::run(&call, &args.try_into()?),
        Command::ForEachRef(args) => commands::for_each_ref::run(&call, &(*args).into()),
        Command::IndexPack(args) => commands::index_pack::run(&call, &(*args).into()),
        Command::Init(args) => commands::init::run(&call, &(*args).into()),
        Command::Maintenance(args) => commands::maintenance::run(&call, &(*args).try_into()?),
        Command::MultiPackIndex(args) => commands::multi_pack_index::run(&call, &args.into()),
        Command::PackObjects(args) => commands::pack_objects::run(&call, &(*args).try_into()?),
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
