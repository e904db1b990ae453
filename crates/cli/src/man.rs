//! `packrace man`: writes the man pages, from the definitions of `--help`.

use packrace_commands::{Fatal, synopsis};

use crate::args::{Man, command_line};

pub fn run(args: &Man) -> Result<(), Fatal> {
    for (name, page) in pages().map_err(Fatal::new)? {
        packrace_os::write_file(&args.directory.join(name), &page).map_err(Fatal::new)?;
    }
    Ok(())
}

/// File names and contents.
fn pages() -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let mut pages = Vec::new();
    let mut top = command_line();
    // Only now do all commands have their options.
    top.build();
    let mut render = |command: clap::Command, path: &[&str]| {
        let of_packrace = |one: &String| format!("packrace {}", &one["git ".len()..]);
        let usage: Vec<String> = synopsis(path).iter().map(of_packrace).collect();
        let command =
            if usage.is_empty() { command } else { command.override_usage(usage.join("\n       ")) };
        let name = format!("{}.1", command.get_name());
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        pages.push((name, page));
        std::io::Result::Ok(())
    };
    for command in top.get_subcommands().filter(|command| !command.is_hide_set()) {
        let name = format!("packrace-{}", command.get_name());
        for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
            let path = [command.get_name(), inner.get_name()];
            render(inner.clone().name(format!("{name}-{}", inner.get_name())), &path)?;
        }
        render(command.clone().name(name), &[command.get_name()])?;
    }
    render(top, &[])?;
    render(service(), &[])?;
    Ok(pages)
}

/// What the page of `packrace-service` is made of.
fn service() -> clap::Command {
    let arguments = clap::Arg::new("arguments")
        .num_args(0..)
        .help("A command line of packrace: see packrace-upload-pack(1) and packrace-receive-pack(1)");
    clap::Command::new("packrace-service")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Serve one client of Git, for hosts that start a process for each")
        .long_about(
            "Does what packrace does with the commands upload-pack and receive-pack, also as a link named git-upload-pack or \
             git-receive-pack. It has no code for anything else, so a process starts in half the time. Other commands, and what \
             packrace refuses, it leaves to the packrace beside it, or else in PATH.",
        )
        .disable_help_flag(true)
        .disable_version_flag(true)
        .arg(arguments)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_committed_pages_are_up_to_date() {
        let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/man");
        for (name, page) in super::pages().unwrap() {
            let committed = std::fs::read(directory.join(&name)).unwrap_or_default();
            assert!(committed == page, "docs/man/{name} is old: run `cargo run -p packrace -- man docs/man`");
        }
    }
}
