//! What is said of a command line that makes no sense, or that asks how a command is used: git's words, and our own usage.

use std::error::Error as _;
use std::ffi::OsString;

use clap::error::{ContextKind, ErrorKind};
use packrace_commands::numbers::NumberError;

use crate::FATAL;

use super::{COMMANDS_OF_GIT, Command, Parsed, USAGE, command_line};

/// What `COMMAND -h` shows.
pub fn asked_usage(argv: &[OsString]) -> Option<Parsed<Command>> {
    let (_, before) = argv.split_last().filter(|(last, _)| *last == "-h")?;
    // All commands are put together for it, which other calls do not pay for.
    let mut command = typed_command(before)?;
    let is_last = before.last().is_some_and(|name| name == command.get_name());
    let text = is_last.then(|| from_usage(&command.render_help().to_string()))?;
    Some(Parsed::Answer { text, to_stdout: true, code: USAGE })
}

/// What is said of a command line that clap refuses.
pub fn answer(error: &clap::Error, argv: &[OsString]) -> Parsed<Command> {
    let help = |code| Parsed::Answer { text: error.to_string(), to_stdout: true, code };
    let refused = |text: String| Parsed::Answer { text, to_stdout: false, code: USAGE };
    let usage = |text: String| {
        let usage = error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
        refused(format!("{text}{}\n", plain(&usage)))
    };
    if let Some(message) = number_error(error) {
        return refused(format!("error: {message}\n"));
    }
    match error.kind() {
        ErrorKind::DisplayHelp if argv.iter().any(|arg| arg == "-h") => {
            Parsed::Answer { text: from_usage(&error.to_string()), to_stdout: true, code: USAGE }
        }
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => help(0),
        ErrorKind::UnknownArgument => match unknown(&invalid_argument(error), argv) {
            // Git's usage goes elsewhere here: to standard output.
            text if text.starts_with("error: ambiguous") => refused(text),
            text => usage(text),
        },
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            if is_of_git(argv) =>
        {
            refused(format!("error: need a subcommand\n{}", usage_of_typed(argv)))
        }
        ErrorKind::InvalidSubcommand if is_of_git(argv) => {
            let name = error.get(ContextKind::InvalidSubcommand).map(ToString::to_string).unwrap_or_default();
            refused(format!("error: unknown subcommand: `{name}'\n{}", usage_of_typed(argv)))
        }
        ErrorKind::MissingRequiredArgument if is_of_git(argv) => refused(usage_of_typed(argv)),
        ErrorKind::ValueValidation if invalid_argument(error).starts_with("--config-env ") => {
            let reason = error.source().map(ToString::to_string).unwrap_or_default();
            Parsed::Answer { text: format!("fatal: {reason}\n"), to_stdout: false, code: FATAL }
        }
        ErrorKind::InvalidValue if misses_value(error) => {
            let option = invalid_argument(error);
            let word = if option.starts_with("--") { "option" } else { "switch" };
            let option = option.trim_start_matches('-').split([' ', '=']).next().unwrap_or_default();
            refused(format!("error: {word} `{option}' requires a value\n"))
        }
        // What one of our own readers of arguments says.
        ErrorKind::ValueValidation if error.get(ContextKind::InvalidArg).is_none() => {
            let text = error.to_string();
            refused(format!("{}\n", text.lines().next().unwrap_or_default()))
        }
        _ => refused(error.to_string()),
    }
}

/// How a command is used, in one line.
pub fn usage_of(name: &str) -> String {
    let mut command = command_line();
    command.build();
    let mut words = name.split(' ');
    let found = words.try_fold(&mut command, |command, word| command.find_subcommand_mut(word));
    let usage = found.map(|command| command.render_usage().to_string());
    format!("{}\n", plain(&usage.unwrap_or_default()))
}

/// Of an argument that is no option, or the beginning of several: what is wrong with it.
fn unknown(option: &str, argv: &[OsString]) -> String {
    let name = option.trim_start_matches('-');
    match option.len() - name.len() {
        0 => String::new(),
        1 => format!("error: unknown switch `{name}'\n"),
        _ => match two_meanings(name, argv) {
            Some([one, other]) => {
                format!("error: ambiguous option: {name} (could be --{one} or --{other})\n")
            }
            None => format!("error: unknown option `{name}'\n"),
        },
    }
}

/// The last two options of the command that begin like this, if there are as many.
fn two_meanings(name: &str, argv: &[OsString]) -> Option<[String; 2]> {
    let command = typed_command(argv)?;
    let mut found: Vec<String> = Vec::new();
    for argument in command.get_arguments() {
        let names = argument.get_long().into_iter().chain(argument.get_all_aliases().unwrap_or_default());
        found.extend(names.filter(|long| long.starts_with(name)).map(str::to_owned));
    }
    let last = found.pop()?;
    Some([found.pop()?, last])
}

/// The command that was typed, or its subcommand.
fn typed_command(argv: &[OsString]) -> Option<clap::Command> {
    let mut command = command_line();
    command.build();
    let mut is_typed = false;
    for name in argv.iter().skip(1).take_while(|arg| *arg != "--").filter_map(|arg| arg.to_str()) {
        if let Some(next) = command.find_subcommand(name) {
            command = next.clone();
            is_typed = true;
        }
    }
    is_typed.then_some(command)
}

/// Whether the command is one that git has.
fn is_of_git(argv: &[OsString]) -> bool {
    let mut names = argv.iter().skip(1).filter_map(|arg| arg.to_str());
    names.any(|name| COMMANDS_OF_GIT.contains(&name))
}

fn usage_of_typed(argv: &[OsString]) -> String {
    let usage = typed_command(argv).map(|mut command| command.render_usage().to_string());
    format!("{}\n\n", plain(&usage.unwrap_or_default()).trim_end())
}

/// A help text from its usage on, as `-h` shows it.
fn from_usage(help: &str) -> String {
    let at = help.find("Usage:").unwrap_or_default();
    plain(&help[at..])
}

/// Whether an option stands last that needs a value.
fn misses_value(error: &clap::Error) -> bool {
    let value = error.get(ContextKind::InvalidValue).map(ToString::to_string);
    value.is_some_and(|value| value.is_empty()) && invalid_argument(error).starts_with('-')
}

/// Options whose values are numbers without a unit.
const NUMERIC: [&str; 3] = ["max-new-filters", "hash", "abbrev"];

/// What is wrong with the value of an option that takes a number.
fn number_error(error: &clap::Error) -> Option<String> {
    if error.kind() != ErrorKind::ValueValidation {
        return None;
    }
    let argument = invalid_argument(error);
    let name = argument.trim_start_matches('-').split(['=', ' ', '[']).next()?;
    let own = error.source().and_then(|source| source.downcast_ref::<NumberError>());
    own.or(NUMERIC.contains(&name).then_some(&NumberError::Empty)).map(|own| own.message(name))
}

fn invalid_argument(error: &clap::Error) -> String {
    error.get(ContextKind::InvalidArg).map(ToString::to_string).unwrap_or_default()
}

/// Text without colours and in git's lower case `usage:`. Git's commands are git's there: scripts look for that.
fn plain(usage: &str) -> String {
    let mut text = String::new();
    let mut is_escape = false;
    for character in usage.chars() {
        match character {
            '\x1b' => is_escape = true,
            'm' if is_escape => is_escape = false,
            _ if is_escape => {}
            other => text.push(other),
        }
    }
    let text = text.replace("Usage:", "usage:");
    COMMANDS_OF_GIT
        .iter()
        .fold(text, |text, name| text.replace(&format!("packrace {name}"), &format!("git {name}")))
}
