//! `packrace access from-gitolite`: converts gitolite's configuration files to rules.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

use packrace_commands::{Call, Fatal, in_directory};
use packrace_server::access::convert_gitolite_file;

use crate::args::FromGitolite;

pub fn run(call: &Call, args: &FromGitolite) -> Result<(), Fatal> {
    let directory = in_directory(call, Path::new("."))?;
    let converted = convert_gitolite_file(&directory, &args.conf).map_err(Fatal::new)?;
    let left_out: String = converted.left_out.iter().map(|line| format!("{line}\n")).collect();
    if !left_out.is_empty() && !args.partial {
        let why = "some rules cannot be converted; nothing was written; see --partial";
        return Err(Fatal::error(why).after(left_out));
    }
    match &args.output {
        None => call.streams.write(converted.toml.as_bytes())?,
        Some(path) => {
            let failed = |error: std::io::Error| Fatal::new(format!("{}: {error}", path.display()));
            let path = in_directory(call, path)?;
            let mut file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(failed)?;
            file.write_all(converted.toml.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
        }
    }
    call.streams.errors.clone().write_all(left_out.as_bytes()).map_err(Fatal::new)
}
