//! The `packrace` command: what was typed and the environment go in, standard error and an exit code come out.

#![forbid(unsafe_code)]
// They panic where nobody listens or the disk is full: `output` has what does not.
#![warn(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
mod output;

mod args;
mod columns;
mod commands;
mod diff_stat;
mod discovery;
mod environment;
mod fatal;
mod identity;
mod log;
mod long_status;
mod object_format;
mod object_list;
mod patch_text;
mod printable;
mod progress;
mod quoting;
mod ref_changes;
mod ref_filter;
mod ref_script;
mod revisions;
mod sandbox;
mod serve_config;
mod trace2;
mod users;
mod utf8;
mod work_tree;

use std::io::Write as _;
use std::process::ExitCode;

use args::{Command, Parsed};
use environment::Environment;
use packrace_os::faults::{self, Scope};
use trace2::{Session, Trace};

/// What git ends with when it cannot go on.
const FATAL: u8 = 128;

fn main() -> ExitCode {
    let mut environment = Environment::of_process();
    let session = Session::begin(environment.trace2_parent.as_deref());
    environment.session_id.clone_from(&session.id);
    let argv: Vec<_> = std::env::args_os().collect();
    let trace = Trace::begin(environment.trace2.clone(), &session, &argv);
    let mut name = None;
    let code = match args::parse(argv) {
        Parsed::Run(globals, command) => {
            name = Some(command.name());
            run(&globals, command, &environment)
        }
        Parsed::Answer { text, to_stdout, code } => {
            // Whoever asked may have gone already, as behind `| head`.
            let _ = match to_stdout {
                true => write!(std::io::stdout(), "{text}"),
                false => write!(std::io::stderr(), "{text}"),
            };
            code
        }
    };
    if let Some(path) = &environment.io_report
        && let Err(error) = packrace_os::write_file(path, packrace_os::count::report().as_bytes())
    {
        tell!("warning: cannot write {}: {error}", path.display());
    }
    if let Some(trace) = trace {
        trace.end(name, code);
    }
    ExitCode::from(code)
}

fn run(globals: &args::Globals, command: Command, environment: &Environment) -> u8 {
    // A disk fault ends what needs the file: of a server, a response; of all else, the process.
    let scope = if matches!(command, Command::Serve(_)) { Scope::Work } else { Scope::Process };
    if let Err(error) = faults::contain(scope) {
        tell!("warning: disk faults will end this process: {error}");
    }
    let code = execute(globals, command, environment);
    match faults::first_damaged().filter(|_| scope == Scope::Process && code != FATAL) {
        Some(damaged) => {
            tell!("fatal: {damaged}");
            FATAL
        }
        None => code,
    }
}

fn execute(globals: &args::Globals, command: Command, environment: &Environment) -> u8 {
    // The server has a log; what others say on the way is git's.
    if !matches!(command, Command::Serve(_)) {
        commands::warnings::to_stderr();
    }
    let result = match command {
        Command::UploadPack(args) => commands::upload_pack::run(globals, &args, environment),
        Command::ReceivePack(args) => commands::receive_pack::run(globals, &args, environment),
        Command::HttpBackend => commands::http_backend::run(globals, environment),
        Command::Serve(args) => commands::serve::run(globals, &args, environment),
        Command::Add(args) => commands::add::run(globals, &args, environment),
        Command::Clone(args) => commands::clone::run(globals, &args, environment),
        Command::CommitGraph(args) => commands::commit_graph::run(globals, &args, environment),
        Command::ForEachRef(args) => commands::for_each_ref::run(globals, &args, environment),
        Command::IndexPack(args) => commands::index_pack::run(globals, &args, environment),
        Command::Init(args) => commands::init::run(globals, &args, environment),
        Command::MultiPackIndex(args) => commands::multi_pack_index::run(globals, &args, environment),
        Command::PackObjects(args) => commands::pack_objects::run(globals, &args, environment),
        Command::Repack(args) => commands::repack::run(globals, &args, environment),
        Command::HashObject(args) => commands::hash_object::run(globals, &args, environment),
        Command::WriteTree(args) => commands::write_tree::run(globals, &args, environment),
        Command::CommitTree(args) => commands::commit_tree::run(globals, &args, environment),
        Command::UpdateIndex(args) => commands::update_index::run(globals, &args, environment),
        Command::UpdateRef(args) => commands::update_ref::run(globals, &args, environment),
        Command::SymbolicRef(args) => commands::symbolic_ref::run(globals, &args, environment),
        Command::ShowRef(args) => commands::show_ref::run(globals, &args, environment),
        Command::PackRefs(args) => commands::pack_refs::run(globals, &args, environment),
        Command::Refs(args) => commands::refs::run(globals, &args, environment),
        Command::Reflog(args) => commands::reflog::run(globals, &args, environment),
        Command::Stash(args) => commands::stash::run(globals, &args, environment),
        Command::UnpackObjects(args) => commands::unpack_objects::run(globals, &args, environment),
        Command::VerifyPack(args) => commands::verify_pack::run(globals, &args, environment),
        Command::Man(args) => commands::man::run(&args),
    };
    match result {
        Ok(()) => 0,
        Err(fatal) => {
            // Git keeps `fatal:` for what ends it on the spot.
            let word = if fatal.code == 1 { "error" } else { "fatal" };
            if !fatal.message.is_empty() {
                let _ = writeln!(std::io::stderr(), "{word}: {}", printable::harmless(&fatal.message));
            }
            fatal.code
        }
    }
}
