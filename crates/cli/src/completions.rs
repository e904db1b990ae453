//! `packrace completions`: shell completions, from the definitions of `--help`.

use packrace_commands::{Call, Fatal};

use crate::args::{Completions, command_line};

pub fn run(call: &Call, args: &Completions) -> Result<(), Fatal> {
    call.streams.write(&script(args.shell))
}

fn script(shell: clap_complete::Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command_line(), "packrace", &mut script);
    script
}

#[cfg(test)]
mod tests {
    use clap_complete::Shell;

    #[test]
    fn every_command_and_its_options_are_offered() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = String::from_utf8(super::script(shell)).unwrap();
            for word in ["upload-pack", "for-each-ref", "stateless-rpc", "keep-unreachable"] {
                assert!(script.contains(word), "{shell}: {word}");
            }
        }
    }
}
