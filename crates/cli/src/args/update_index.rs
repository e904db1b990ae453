//! What `update-index` is asked for, in order: an option holds for what comes after it, and some are done on the spot.

use std::ffi::{OsStr, OsString};

use clap::builder::{OsStringValueParser, TypedValueParser as _};
use clap::{Arg, ArgAction, ArgMatches};
use packrace_commands::numbers::integer;
use packrace_commands::option_values;
use packrace_commands::options::UntrackedCache::{Off, On, Test};
use packrace_commands::options::{Step, Switch, UpdateIndexOptions};

use super::globals::placed;

/// The steps, as they were typed.
#[derive(Debug)]
pub struct UpdateIndex(pub UpdateIndexOptions);

/// Long names, what they switch, and help.
const SWITCHES: [(&str, Switch, &str); 15] = [
    ("ignore-submodules", Switch::IgnoreSubmodules, "Let a later --refresh ignore submodules"),
    ("add", Switch::Add, "Add files that are not in the index"),
    ("replace", Switch::Replace, "Let files replace directories in the index, and vice versa"),
    ("remove", Switch::Remove, "Remove files that are missing from the work tree"),
    ("unmerged", Switch::Unmerged, "Let a later --refresh ignore conflicts"),
    ("assume-unchanged", Switch::AssumeUnchanged, "Only mark files as assumed to be unchanged"),
    ("skip-worktree", Switch::SkipWorktree, "Only mark files as absent from the work tree"),
    (
        "fsmonitor-valid",
        Switch::FsMonitorValid,
        "Only mark files as unchanged for a file system monitor: no effect",
    ),
    (
        "ignore-skip-worktree-entries",
        Switch::IgnoreSkipWorktree,
        "Let --remove keep files marked with --skip-worktree",
    ),
    ("info-only", Switch::InfoOnly, "Put object IDs into the index without storing the objects"),
    ("force-remove", Switch::ForceRemove, "Remove files from the index even if they are in the work tree"),
    ("ignore-missing", Switch::IgnoreMissing, "Let a later --refresh ignore missing files"),
    ("verbose", Switch::Verbose, "Print what is added and removed"),
    ("show-index-version", Switch::ShowVersion, "Print the version of the index"),
    ("force-write-index", Switch::ForceWrite, "Write the index even if nothing has changed"),
];

/// Long names of what is done on the spot, and help: none if it is hidden.
const STEPS: [(&str, Step, &str); 16] = [
    ("no-index-version", Step::Version(0), ""),
    ("stdin", Step::Stdin, "Read paths from standard input; must be the last option"),
    ("index-info", Step::IndexInfo, "Read entries from standard input; must be the last option"),
    ("unresolve", Step::Unresolve, "Restore the conflicts of the following paths"),
    ("again", Step::Again, "Update files whose entries differ from HEAD again"),
    ("clear-resolve-undo", Step::ClearResolveUndo, "Forget how conflicts were resolved"),
    ("split-index", Step::Split(true), "Write the index split, beside a new shared index"),
    ("no-split-index", Step::Split(false), "Write the index whole"),
    ("fsmonitor", Step::FsMonitor(true), "Keep what a file system monitor says (core.fsmonitor)"),
    ("no-fsmonitor", Step::FsMonitor(false), "Forget what a file system monitor has said"),
    ("untracked-cache", Step::UntrackedCache(On), "Let the index cache the names of untracked files"),
    ("force-untracked-cache", Step::UntrackedCache(On), "The same as --untracked-cache"),
    ("no-untracked-cache", Step::UntrackedCache(Off), "Remove the cache of untracked files"),
    ("no-force-untracked-cache", Step::UntrackedCache(Off), ""),
    ("no-test-untracked-cache", Step::UntrackedCache(Off), ""),
    ("test-untracked-cache", Step::UntrackedCache(Test), "Only test whether this cache works here"),
];

impl clap::FromArgMatches for UpdateIndex {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut found: Vec<(usize, Step)> = Vec::new();
        let mut collect = |name: &str, step: &dyn Fn(&OsStr) -> Step| {
            let at = matches.indices_of(name).into_iter().flatten();
            let values = matches.get_raw(name).into_iter().flatten();
            found.extend(at.zip(values).map(|(at, value)| (at, step(value))));
        };
        for (name, switch, _) in SWITCHES {
            collect(name, &|_| Step::Set(switch, true));
            collect(&format!("no-{name}"), &|_| Step::Set(switch, false));
        }
        collect("quiet", &|_| Step::Set(Switch::Quiet, true));
        collect("nul", &|_| Step::Set(Switch::Nul, true));
        collect("refresh", &|_| Step::Refresh { really: false });
        collect("really-refresh", &|_| Step::Refresh { really: true });
        for (name, step, _) in STEPS {
            collect(name, &|_| step.clone());
        }
        collect("paths", &|value| Step::Path(value.to_owned()));
        found.extend(placed(matches, "cacheinfo").map(|(at, joined)| (at, Step::CacheInfo(joined))));
        found.extend(placed(matches, "chmod").map(|(at, executable)| (at, Step::Chmod(executable))));
        found.extend(placed(matches, "index-version").map(|(at, version)| (at, Step::Version(version))));
        found.sort_by_key(|(at, _)| *at);
        let steps: Vec<Step> = found.into_iter().map(|(_, step)| step).collect();
        for (step, name) in [(Step::Stdin, "stdin"), (Step::IndexInfo, "index-info")] {
            if steps.iter().rev().skip(1).any(|other| *other == step) {
                return Err(refused(&format!("option '{name}' must be the last argument")));
            }
        }
        Ok(UpdateIndex(UpdateIndexOptions { steps }))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = UpdateIndex::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for UpdateIndex {
    fn augment_args(mut command: clap::Command) -> clap::Command {
        let flag = |name: &str| {
            let arg = Arg::new(name.to_owned()).long(name.to_owned()).action(ArgAction::Append);
            arg.num_args(0).default_missing_value("")
        };
        let short = |name: &'static str, letter: char, help: &'static str| {
            let arg = Arg::new(name).short(letter).action(ArgAction::Append);
            arg.num_args(0).default_missing_value("").help(help)
        };
        let value = |name: &'static str, value: &'static str, help: &'static str| {
            let arg = Arg::new(name).long(name).action(ArgAction::Append).value_name(value);
            arg.value_parser(clap::value_parser!(OsString)).allow_hyphen_values(true).help(help)
        };
        for (name, switch, help) in SWITCHES {
            let off = flag(&format!("no-{name}"));
            let off = match switch {
                Switch::AssumeUnchanged | Switch::SkipWorktree => off.help("Only clear the mark"),
                _ => off.hide(true),
            };
            command = command.arg(flag(name).help(help)).arg(off);
        }
        command = command
            .arg(short("quiet", 'q', "Do not report changed files in a later --refresh"))
            .arg(flag("refresh").help("Refresh the stat data of unchanged files"))
            .arg(flag("really-refresh").help("Like --refresh, also for files marked with --assume-unchanged"))
            .arg(
                value(
                    "cacheinfo",
                    "MODE,OBJECT,PATH",
                    "Put this entry into the index; three arguments also work",
                )
                .value_parser(OsStringValueParser::new().try_map(option_values::cache_info)),
            )
            .arg(
                value("chmod", "(+|-)x", "Set or clear the executable bit of the files")
                    .value_parser(option_values::executable),
            )
            .arg(value("index-version", "N", "Write the index in version 2, 3 or 4").value_parser(integer))
            .arg(short("nul", 'z', "With --stdin and --index-info, input lines end with NUL"));
        for (name, _, help) in STEPS {
            let arg = flag(name).help(help).hide(help.is_empty());
            command = command.arg(if name == "again" { arg.short('g') } else { arg });
        }
        let paths = Arg::new("paths").num_args(0..).value_name("FILE").help("The files");
        command.arg(paths.value_parser(clap::value_parser!(OsString)))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

fn refused(text: &str) -> clap::Error {
    clap::Error::raw(clap::error::ErrorKind::ValueValidation, format!("{text}\n"))
}

#[cfg(test)]
mod tests {
    use packrace_commands::command_words::join_cache_info;

    use super::*;

    fn check(args: &[&str], expect: &[Step]) {
        let mut argv: Vec<OsString> =
            ["packrace", "update-index"].iter().chain(args).map(OsString::from).collect();
        join_cache_info(&mut argv);
        let matches = <UpdateIndex as clap::Args>::augment_args(clap::Command::new("update-index"))
            .try_get_matches_from(&argv[1..])
            .unwrap();
        let found = <UpdateIndex as clap::FromArgMatches>::from_arg_matches(&matches);
        assert_eq!(found.unwrap().0.steps, expect, "{args:?}");
    }

    #[test]
    fn order_is_kept() {
        let path = |name: &str| Step::Path(name.into());
        let on = |switch| Step::Set(switch, true);
        check(
            &["a", "--add", "b", "--no-add", "c"],
            &[path("a"), on(Switch::Add), path("b"), Step::Set(Switch::Add, false), path("c")],
        );
        check(
            &["-q", "--refresh", "--refresh", "-q"],
            &[
                on(Switch::Quiet),
                Step::Refresh { really: false },
                Step::Refresh { really: false },
                on(Switch::Quiet),
            ],
        );
        check(
            &["--chmod=+x", "a", "--chmod", "-x", "--", "--add"],
            &[Step::Chmod(true), path("a"), Step::Chmod(false), path("--add")],
        );
        let id = "1".repeat(40);
        check(
            &["--cacheinfo", "100644", &id, "a,b", "--verbose"],
            &[Step::CacheInfo(format!("100644\0{id}\0a,b").into_bytes()), on(Switch::Verbose)],
        );
        check(
            &["--cacheinfo", &format!("100644,{id},a,b"), "--cacheinfo", &format!("7,{id},c")],
            &[
                Step::CacheInfo(format!("100644,{id},a,b").into_bytes()),
                Step::CacheInfo(format!("7,{id},c").into_bytes()),
            ],
        );
        check(
            &["-g", "--unresolve", "-z", "--stdin"],
            &[Step::Again, Step::Unresolve, on(Switch::Nul), Step::Stdin],
        );
    }
}
