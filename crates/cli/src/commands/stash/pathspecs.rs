//! Which paths `stash push` is told of.

use std::io::Read as _;
use std::path::Path;

use packrace_worktree::index::Index;
use packrace_worktree::paths::Pathspecs;

use super::Context;
use crate::args::StashPush;
use crate::commands::Fatal;

/// Longest list of pathspecs that is read.
const MAX_LIST_BYTES: u64 = 1 << 30;

/// Those of arguments, or of a file.
pub(super) fn of(context: &Context<'_>, args: &StashPush) -> Result<Pathspecs, Fatal> {
    let mut elements: Vec<Vec<u8>> =
        args.pathspecs.iter().map(|spec| spec.as_encoded_bytes().to_vec()).collect();
    if let Some(file) = &args.pathspec_from_file {
        if !elements.is_empty() {
            let text = "'--pathspec-from-file' and pathspec arguments cannot be used together";
            return Err(Fatal::new(text));
        }
        elements = parse_list(&read(context, Path::new(file))?, args.pathspec_file_nul)?;
    } else if args.pathspec_file_nul {
        return Err(Fatal::new("the option '--pathspec-file-nul' requires '--pathspec-from-file'"));
    }
    parse(context, &elements)
}

/// Reads pathspecs as they were typed.
pub(super) fn parse(context: &Context<'_>, elements: &[Vec<u8>]) -> Result<Pathspecs, Fatal> {
    let top = context.top.as_os_str().as_encoded_bytes();
    Pathspecs::parse(elements, &context.prefix, top, context.environment.pathspecs).map_err(Fatal::new)
}

fn read(context: &Context<'_>, file: &Path) -> Result<Vec<u8>, Fatal> {
    if file == Path::new("-") {
        let mut list = Vec::new();
        std::io::stdin().take(MAX_LIST_BYTES).read_to_end(&mut list).map_err(Fatal::new)?;
        return Ok(list);
    }
    let path = crate::commands::in_directory(context.globals, file)?;
    packrace_os::read_file(&path, packrace_os::count::Role::Config, MAX_LIST_BYTES).map_err(|error| {
        let why = crate::commands::reason(&error);
        Fatal::new(format!("could not open '{}' for reading: {why}", file.display()))
    })
}

/// Lines, quoted or not, or what ends in NUL (git-stash, "--pathspec-from-file").
fn parse_list(list: &[u8], ends_in_nul: bool) -> Result<Vec<Vec<u8>>, Fatal> {
    let end = if ends_in_nul { 0 } else { b'\n' };
    let list = list.strip_suffix(&[end]).unwrap_or(list);
    if list.is_empty() {
        return Ok(Vec::new());
    }
    let mut elements = Vec::new();
    for line in list.split(|byte| *byte == end) {
        if ends_in_nul {
            elements.push(line.to_vec());
            continue;
        }
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        elements.push(match line.strip_prefix(b"\"") {
            None => line.to_vec(),
            Some(rest) => match packrace_store::unquote(rest) {
                Some((text, taken)) if taken == rest.len() => text,
                _ => {
                    let shown = String::from_utf8_lossy(line);
                    return Err(Fatal::new(format!("line is badly quoted: {shown}")));
                }
            },
        });
    }
    Ok(elements)
}

/// Complains of pathspecs that mean nothing in the index, as git shows them.
pub(super) fn check(context: &Context<'_>, index: &Index, specs: &mut Pathspecs) -> Result<(), Fatal> {
    for (key, _) in index.entries() {
        specs.meet_entry(key.path(), false);
    }
    let mut is_missing = false;
    for spec in specs.without_entry() {
        let shown = match spec.original.starts_with(b":") {
            true => String::from_utf8_lossy(&spec.original).into_owned(),
            false => {
                let path = String::from_utf8_lossy(spec.path());
                format!(":(prefix:{}){path}", context.prefix.len())
            }
        };
        eprintln!("error: pathspec '{shown}' did not match any file(s) known to git");
        is_missing = true;
    }
    match is_missing {
        false => Ok(()),
        true => {
            eprintln!("Did you forget to 'git add'?");
            Err(Fatal::silent(1))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        let check = |list: &[u8], nul: bool, expect: &[&str]| {
            let elements = parse_list(list, nul).unwrap();
            assert_eq!(elements, expect.iter().map(|text| text.as_bytes().to_vec()).collect::<Vec<_>>());
        };
        check(b"", false, &[]);
        check(b"a\nb", false, &["a", "b"]);
        check(b"a\r\n\"b\\tc\"\r\n", false, &["a", "b\tc"]);
        check(b"a\0\"b\n\0", true, &["a", "\"b\n"]);
        assert_eq!(parse_list(b"\"a", false).unwrap_err().message, "line is badly quoted: \"a");
    }
}
