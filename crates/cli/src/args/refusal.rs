//! What is said of a command line that makes no sense, or that asks how a command is used: git's words, and our own usage.

use std::error::Error as _;
use std::ffi::OsString;

use clap::error::{ContextKind, ErrorKind};
use packrace_commands::command_words::{COMMANDS_OF_GIT, command_position, place_of_option};
use packrace_commands::numbers::NumberError;
use packrace_commands::{Fatal, synopsis};

use crate::FATAL;

use super::{Command, NO, Parsed, USAGE, WITHOUT_ABBREVIATIONS, command_line};

/// What `COMMAND -h` shows.
pub fn asked_usage(argv: &[OsString]) -> Option<Parsed<Command>> {
    let (_, before) = argv.split_last().filter(|(last, _)| *last == "-h")?;
    // What follows there is a message.
    if before.ends_with(&["stash".into(), "create".into()]) {
        return None;
    }
    // All commands are put together for it, which other calls do not pay for.
    let command = typed_command(before)?;
    let is_last = before.last().is_some_and(|name| name == command.get_name());
    is_last.then(|| Parsed::shown(from_usage(command), USAGE))
}

/// What is said of a command line that clap refuses.
pub fn answer(error: &clap::Error, argv: &[OsString]) -> Parsed<Command> {
    let refused = |text: String| Parsed::refused(text, USAGE);
    if let Some(message) = number_error(error, argv) {
        return refused(format!("error: {message}\n"));
    }
    if let Some(fatal) = error.source().and_then(|source| source.downcast_ref()) {
        return bad_value(fatal);
    }
    // `-h` may stand among other letters.
    let is_h = error.kind() == ErrorKind::DisplayHelp && !argv.iter().any(|arg| arg == "--help");
    match error.kind() {
        ErrorKind::UnknownArgument if invalid_argument(error) == "--help-all" && is_of_git(argv) => {
            Parsed::shown(help_of_typed(argv), USAGE)
        }
        // Those do not say what is wrong.
        kind if (is_h || kind != ErrorKind::DisplayHelp)
            && words(argv)
                .first()
                .is_some_and(|name| WITHOUT_ABBREVIATIONS.iter().any(|one| name == one)) =>
        {
            refused(usage_of_typed(argv))
        }
        ErrorKind::DisplayHelp if is_h => answer_to_h(argv),
        ErrorKind::DisplayHelp if is_of_git(argv) => whole_help(argv),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Parsed::shown(error.to_string(), 0),
        // A value behind `=`.
        ErrorKind::TooManyValues | ErrorKind::WrongNumberOfValues => {
            refused(format!("error: option `{}' takes no value\n", typed_name(&option_name(error), argv)))
        }
        ErrorKind::UnknownArgument => refused_argument(&invalid_argument(error), argv),
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            if is_of_git(argv) =>
        {
            refused(format!("error: need a subcommand\n{}", usage_of_typed(argv)))
        }
        ErrorKind::InvalidSubcommand if is_of_git(argv) => {
            let name = error.get(ContextKind::InvalidSubcommand).map(ToString::to_string).unwrap_or_default();
            refused(no_subcommand(&name, argv))
        }
        ErrorKind::MissingRequiredArgument if is_of_git(argv) => refused(usage_of_typed(argv)),
        ErrorKind::ValueValidation if invalid_argument(error).starts_with("--config-env ") => {
            let reason = error.source().map(ToString::to_string).unwrap_or_default();
            Parsed::refused(format!("fatal: {reason}\n"), FATAL)
        }
        ErrorKind::InvalidValue if misses_value(error) => {
            let option = option_name(error);
            // What lacks a value is typed last, maybe behind other letters.
            let letters = argv.last().and_then(|last| last.to_str()?.strip_prefix('-'));
            refused(
                match letters.filter(|letters| !letters.starts_with('-')).and_then(|s| s.chars().last()) {
                    Some(letter) => format!("error: switch `{letter}' requires a value\n"),
                    None => format!("error: option `{option}' requires a value\n"),
                },
            )
        }
        // What one of our own readers of arguments says.
        ErrorKind::ValueValidation if error.get(ContextKind::InvalidArg).is_none() => {
            let text = error.to_string();
            refused(format!("{}\n", text.lines().next().unwrap_or_default()))
        }
        _ => refused(error.to_string()),
    }
}

/// What is told of a command line that clap refuses: as in git, of an argument that is one too many, or a
/// value that another command reads, only if no option is wrong.
pub fn told_first(error: clap::Error, argv: &[OsString]) -> clap::Error {
    // Each argument is one more look at all.
    const MAX_WORDS: usize = 64;
    let late =
        surplus_argument(&error, argv).map(|at| (at, at + 1)).or_else(|| number_for_another(&error, argv));
    let Some((at, end)) = late.filter(|_| argv.len() <= MAX_WORDS) else { return error };
    let fewer = [&argv[..at], &argv[end..]].concat();
    super::typed::<Command>(&fewer).err().map_or(error, |other| told_first(other, &fewer))
}

/// Where the option stands that is unknown, or has a bad value.
pub fn refused_option(error: &clap::Error, argv: &[OsString]) -> Option<usize> {
    let argument = invalid_argument(error);
    let option = argument.split([' ', '=', '[']).next().filter(|option| option.starts_with('-'))?;
    argv.iter().position(|word| word.to_str().is_some_and(|word| word.split('=').next() == Some(option)))
}

/// Where the argument stands that is one too many, if that is what is wrong.
fn surplus_argument(error: &clap::Error, argv: &[OsString]) -> Option<usize> {
    let argument = invalid_argument(error);
    let is_surplus = error.kind() == ErrorKind::UnknownArgument && !argument.starts_with('-');
    argv.iter().rposition(|word| *word == *argument).filter(|_| is_surplus)
}

/// Where an option of `repack` and its value stand, from and to, if that is no number: git leaves it to `pack-objects` to tell.
fn number_for_another(error: &clap::Error, argv: &[OsString]) -> Option<(usize, usize)> {
    let is_number = error.source().is_some_and(|source| source.is::<NumberError>());
    let is_handed_on = ["window", "window-memory", "depth", "threads"].contains(&option_name(error).as_str());
    let is_late = is_number && is_handed_on && words(argv).first().is_some_and(|name| name == "repack");
    let at = refused_option(error, argv).filter(|_| is_late)?;
    let has_value = argv[at].as_encoded_bytes().contains(&b'=');
    Some((at, if has_value { at + 1 } else { argv.len().min(at + 2) }))
}

/// What is said of a value that is refused where it is read.
fn bad_value(fatal: &Fatal) -> Parsed<Command> {
    let text = String::from_utf8_lossy(&fatal.text()).into_owned();
    match fatal.is_for_git {
        true => Parsed::HandOver(Some(text)),
        false => Parsed::refused(text, fatal.code),
    }
}

/// Git takes `--help` by its full name only: what begins so is the beginning of another option, if there is one.
pub fn expand_beginning_of_help(argv: &mut [OsString]) {
    let is_begun = |word: &OsString| ["--h", "--he", "--hel"].iter().any(|begun| word == begun);
    let Some(at) = argv.iter().take_while(|word| *word != "--").position(is_begun) else { return };
    let begun = argv[at].to_str().map(|word| word.trim_start_matches('-')).unwrap_or_default();
    let command = typed_command(argv);
    let options = command.iter().flat_map(clap::Command::get_arguments).filter(|one| one.get_id() != "help");
    let meant: Vec<&str> = options.flat_map(names).filter(|name| name.starts_with(begun)).collect();
    if let [one] = meant.as_slice() {
        argv[at] = format!("--{one}").into();
    }
}

/// What is said of `stash store` with options that it does not know: as in git, they are taken for commits.
pub fn not_stored(words: &[OsString]) -> Parsed<Command> {
    let text = match words {
        words if words.iter().any(|word| word == "-q" || word == "--quiet") => String::new(),
        [word] => format!("Cannot update refs/stash with {}\n", word.to_string_lossy()),
        _ => "\"git stash store\" requires one <commit> argument\n".to_owned(),
    };
    Parsed::refused(text, 1)
}

/// What `-h` shows. Git knows `--help` by its full name only, so what clap has taken for it is refused.
fn answer_to_h(argv: &[OsString]) -> Parsed<Command> {
    let is_begun = |word: &&OsString| word.len() > 2 && b"--help".starts_with(word.as_encoded_bytes());
    let Some(word) = words(argv).iter().find(is_begun) else {
        return Parsed::shown(help_of_typed(argv), USAGE);
    };
    refused_argument(&word.to_string_lossy(), argv)
}

/// What is said of an argument that is no option, or the beginning of several.
fn refused_argument(argument: &str, argv: &[OsString]) -> Parsed<Command> {
    match unknown(argument, argv) {
        // Until August 2026, git's usage goes to standard output then.
        text if text.starts_with("error: ambiguous") => {
            Parsed::Answer { text, shown: help_of_typed(argv), code: USAGE }
        }
        text if text.starts_with("usage: ") => Parsed::refused(text, USAGE),
        text => Parsed::refused(text + &usage_of_typed(argv), USAGE),
    }
}

/// What `--help` shows.
fn whole_help(argv: &[OsString]) -> Parsed<Command> {
    let help = typed_command(argv).map(|mut command| command.render_long_help().to_string());
    Parsed::shown(plain(&help.unwrap_or_default()), 0)
}

/// How a command is used: git's synopsis, if it is git's.
pub fn usage_of(name: &str) -> String {
    let argv: Vec<OsString> = ["packrace"].into_iter().chain(name.split(' ')).map(OsString::from).collect();
    usage_of_typed(&argv)
}

/// Of an argument that is no option, or the beginning of several: what is wrong with it.
fn unknown(option: &str, argv: &[OsString]) -> String {
    // It may be one too many, which git does not say.
    if option == "-" || is_behind_options(option, argv) {
        return String::new();
    }
    let Some(name) = option.strip_prefix("--") else {
        return match option.strip_prefix('-') {
            Some(switch) => unknown_switch(switch, argv),
            None if words(argv).first().is_some_and(|name| name == "receive-pack") => {
                "fatal: too many arguments\n\n".to_owned()
            }
            None if words(argv).starts_with(&["refs".into(), "verify".into()]) => {
                "usage: 'git refs verify' takes no arguments\n".to_owned()
            }
            None => String::new(),
        };
    };
    // As it was typed, with its value.
    let is_typed = |rest: &&str| rest.strip_prefix(name).is_some_and(|v| v.is_empty() || v.starts_with('='));
    let mut rests = words(argv).iter().filter_map(|word| word.to_str()?.strip_prefix("--"));
    let typed = rests.find(is_typed).unwrap_or(name);
    match two_meanings(name, argv) {
        Some([one, other]) => format!("error: ambiguous option: {typed} (could be --{one} or --{other})\n"),
        None => format!("error: unknown option {}{typed}'\n", opening_quote(argv)),
    }
}

/// What one command of git puts before an option that it does not know, and what the others put there.
fn opening_quote(argv: &[OsString]) -> char {
    if words(argv).first().is_some_and(|name| name == "update-index") { '\'' } else { '`' }
}

/// What is said of a name that is no subcommand.
fn no_subcommand(name: &str, argv: &[OsString]) -> String {
    let text = match is_behind_options(name, argv) {
        true => "error: need a subcommand".to_owned(),
        false => format!("error: unknown subcommand: `{name}'"),
    };
    format!("{text}\n{}", usage_of_typed(argv))
}

/// Whether `--` stands before an argument.
fn is_behind_options(argument: &str, argv: &[OsString]) -> bool {
    let mut before = words(argv).iter().take_while(|word| *word != argument);
    before.any(|word| word == "--")
}

/// What is said of a letter that is no option. Git shows one that is not ASCII with what follows.
fn unknown_switch(switch: &str, argv: &[OsString]) -> String {
    let quote = opening_quote(argv);
    if switch.is_ascii() {
        return format!("error: unknown switch {quote}{switch}'\n");
    }
    let letters = words(argv).iter().filter_map(|word| word.to_str()?.strip_prefix('-'));
    let rest = letters.filter(|letters| !letters.starts_with('-')).find_map(|s| Some(&s[s.find(switch)?..]));
    format!("error: unknown non-ascii option in string: `-{}'\n", rest.unwrap_or(switch))
}

/// The last two options of the command that begin like this, if there are as many. As in git, what takes an option back
/// stands behind it.
fn two_meanings(name: &str, argv: &[OsString]) -> Option<[String; 2]> {
    let command = typed_command(argv)?;
    let name_of_command = command.get_bin_name().unwrap_or_default();
    let arguments: Vec<&clap::Arg> = command.get_arguments().filter(|one| one.get_id() != "help").collect();
    let own_place = |long: &str| arguments.iter().position(|one| names(one).any(|name| name == long));
    let mut found: Vec<&str> = arguments.iter().copied().flat_map(names).collect();
    found.retain(|long| long.starts_with(name));
    found.sort_by_key(|long| {
        let option = long.strip_prefix(NO).unwrap_or(long);
        let own = || [own_place(option), own_place(long)].into_iter().flatten().min();
        place_of_option(name_of_command, option).or_else(own)
    });
    let last = found.pop()?;
    // Git names one twice here.
    let other = if name == NO { last } else { found.pop()? };
    Some([other.to_owned(), last.to_owned()])
}

/// All names of an option.
fn names(argument: &clap::Arg) -> impl Iterator<Item = &str> {
    argument.get_long().into_iter().chain(argument.get_all_aliases().unwrap_or_default())
}

/// The command and what follows.
fn words(argv: &[OsString]) -> &[OsString] {
    argv.get(command_position(argv)..).unwrap_or_default()
}

/// The command that was typed, or its subcommand.
fn typed_command(argv: &[OsString]) -> Option<clap::Command> {
    let mut command = command_line();
    command.build();
    let mut path = Vec::new();
    for name in argv.iter().skip(1).take_while(|arg| *arg != "--").filter_map(|arg| arg.to_str()) {
        if let Some(next) = command.find_subcommand(name) {
            command = next.clone();
            path.push(name);
        }
    }
    let usage = synopsis(&path).join("\n   or: ");
    let command = if usage.is_empty() { command } else { command.override_usage(usage) };
    (!path.is_empty()).then_some(command)
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

fn help_of_typed(argv: &[OsString]) -> String {
    typed_command(argv).map(from_usage).unwrap_or_default()
}

/// The help of a command from its usage on, as `-h` shows it.
fn from_usage(mut command: clap::Command) -> String {
    let help = command.render_help().to_string();
    plain(&help[help.find("Usage:").unwrap_or_default()..])
}

/// Whether an option stands last that needs a value.
fn misses_value(error: &clap::Error) -> bool {
    let value = error.get(ContextKind::InvalidValue).map(ToString::to_string);
    value.is_some_and(|value| value.is_empty()) && invalid_argument(error).starts_with('-')
}

/// What is wrong with the value of an option that takes a number.
fn number_error(error: &clap::Error, argv: &[OsString]) -> Option<String> {
    let own = error.source().and_then(|source| source.downcast_ref::<NumberError>())?;
    let name = option_name(error);
    let message = own.message(&name);
    let is_word = || words(argv).iter().any(|word| word.as_encoded_bytes().starts_with(b"--g"));
    // The one that is typed as a letter, too.
    let is_letter = name == "geometric" && !is_word();
    Some(if is_letter { message.replace("option `geometric'", "switch `g'") } else { message })
}

/// Which of the names of an option was typed before a value, or begun.
fn typed_name(option: &str, argv: &[OsString]) -> String {
    let command = typed_command(argv);
    let mut arguments = command.iter().flat_map(clap::Command::get_arguments);
    let argument = arguments.find(|one| one.get_long() == Some(option));
    let begun = words(argv).iter().filter_map(|word| word.to_str()?.strip_prefix("--")?.split_once('='));
    let mut begun = begun.flat_map(|(typed, _)| {
        argument.into_iter().flat_map(names).filter(move |name| name.starts_with(typed))
    });
    begun.next().unwrap_or(option).to_owned()
}

/// The name of the option that is refused.
fn option_name(error: &clap::Error) -> String {
    let argument = invalid_argument(error);
    argument.trim_start_matches('-').split(['=', ' ', '[', '.']).next().unwrap_or_default().to_owned()
}

fn invalid_argument(error: &clap::Error) -> String {
    error.get(ContextKind::InvalidArg).map(ToString::to_string).unwrap_or_default()
}

/// Text in git's lower case `usage:`. Git's commands are git's there: scripts look for that.
fn plain(usage: &str) -> String {
    let text = usage.replace("Usage:", "usage:");
    COMMANDS_OF_GIT
        .iter()
        .fold(text, |text, name| text.replace(&format!("packrace {name}"), &format!("git {name}")))
}
