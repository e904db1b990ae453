//! `SSH_ORIGINAL_COMMAND`: the command of an SSH client.
//!
//! Git's client sends the program, a space, and the path in the quoting of shells: between `'`, with `'\''`
//! for a `'` and `'\!'` for a `!`. No shell sees it here; it is parsed, and all of it must be understood.
//!
//! | command | meaning |
//! |---|---|
//! | `git-upload-pack 'PATH'`, `git-receive-pack 'PATH'` | a service and a path |
//! | `git upload-pack 'PATH'`, `git receive-pack 'PATH'` | the same |
//! | the same with a PATH without quotes, if a shell would leave it as it is | the same |
//! | all else | refused |

use crate::service::call::Service;

/// The longest command: a path has 4,096 bytes, and quoting makes at most four of one.
const MAX_COMMAND_BYTES: usize = 32 << 10;

/// The most bytes of a command that a refusal repeats.
const MAX_SHOWN_BYTES: usize = 200;

/// The command of a client, parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellCommand {
    pub(super) service: Service,
    /// As it was sent: with or without a leading slash.
    pub(super) path: Vec<u8>,
}

/// Why a command is not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotRun {
    /// It is neither of the two commands, or it has something else as well; in git-shell's words.
    #[error("unrecognized command '{0}'")]
    Unrecognized(String),
    /// An option of one of the two commands.
    #[error("options are not supported: '{0}'")]
    HasOption(String),
    /// A path below a home directory: clients see only the served folder.
    #[error("'{0}' does not appear to be a git repository")]
    Home(String),
}

impl ShellCommand {
    /// Parses any bytes.
    pub fn parse(command: &[u8]) -> Result<Self, NotRun> {
        let unrecognized = || NotRun::Unrecognized(shown(command));
        if command.len() > MAX_COMMAND_BYTES {
            return Err(unrecognized());
        }
        let (service, argument) = split_service(command).ok_or_else(unrecognized)?;
        if argument.starts_with(b"-") {
            return Err(NotRun::HasOption(shown(first_word(argument))));
        }
        ShellCommand::new(service, dequote(argument).ok_or_else(unrecognized)?)
            .unwrap_or_else(|| Err(unrecognized()))
    }

    /// A service of the repository at `path`. `None` for an empty path.
    pub(super) fn new(service: Service, path: Vec<u8>) -> Option<Result<Self, NotRun>> {
        Some(match path.first()? {
            b'-' => Err(NotRun::HasOption(shown(&path))),
            b'~' => Err(NotRun::Home(shown(&path))),
            _ => Ok(ShellCommand { service, path }),
        })
    }

    /// The path with a leading slash. It is checked when it is opened.
    pub(crate) fn request_path(&self) -> Vec<u8> {
        match self.path.first() {
            Some(b'/') => self.path.clone(),
            _ => [b"/", &self.path[..]].concat(),
        }
    }

    /// The message when there is no repository, or none that the client may see.
    pub(super) fn no_repository(&self) -> String {
        format!("'{}' does not appear to be a git repository", shown(&self.path))
    }
}

/// The service, and the bytes after the one space behind it.
fn split_service(command: &[u8]) -> Option<(Service, &[u8])> {
    let rest = command.strip_prefix(b"git-").or_else(|| command.strip_prefix(b"git "))?;
    [Service::UploadPack, Service::ReceivePack].into_iter().find_map(|service| {
        let argument = rest.strip_prefix(service.name().as_bytes())?.strip_prefix(b" ")?;
        Some((service, argument))
    })
}

fn first_word(argument: &[u8]) -> &[u8] {
    argument.split(|byte| *byte == b' ').next().unwrap_or_default()
}

/// Removes the quotes of a word. `None` unless the whole is one word in the quoting of git's client, or one
/// without quotes that no shell would change.
fn dequote(word: &[u8]) -> Option<Vec<u8>> {
    let Some(mut rest) = word.strip_prefix(b"'") else {
        return (!word.iter().any(|byte| is_special(*byte))).then(|| word.to_vec());
    };
    let mut path = Vec::new();
    loop {
        let end = rest.iter().position(|byte| *byte == b'\'')?;
        path.extend_from_slice(&rest[..end]);
        rest = match &rest[end + 1..] {
            [] => return Some(path),
            [b'\\', escaped @ (b'\'' | b'!'), b'\'', more @ ..] => {
                path.push(*escaped);
                more
            }
            _ => return None,
        };
    }
}

/// Whether a byte without quotes has a meaning for a shell, anywhere in a word.
fn is_special(byte: u8) -> bool {
    byte.is_ascii_control() || b" '\"\\$`;&|<>()[]{}*?!#=^%".contains(&byte)
}

/// Bytes from a client, for a message to it.
fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_SHOWN_BYTES)]);
    let text: String = text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect();
    if bytes.len() > MAX_SHOWN_BYTES { format!("{text}…") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_commands() {
        let check = |command: &str, service, path: &str| {
            let parsed = ShellCommand::parse(command.as_bytes()).unwrap();
            let expect = (service, path.as_bytes().to_vec());
            assert_eq!((parsed.service, parsed.request_path()), expect, "{command}");
        };
        let (fetch, push) = (Service::UploadPack, Service::ReceivePack);
        check("git-upload-pack '/a.git'", fetch, "/a.git");
        check("git-upload-pack 'a.git'", fetch, "/a.git");
        check("git-receive-pack '/a/b c.git'", push, "/a/b c.git");
        check("git upload-pack '/a.git'", fetch, "/a.git");
        check("git receive-pack 'a.git/'", push, "/a.git/");
        check("git-upload-pack /a.git", fetch, "/a.git");
        check("git-upload-pack team/ä+b@c.git", fetch, "/team/ä+b@c.git");
        check("git-upload-pack '/it'\\''s'\\!' \"$x\" `y`; z'", fetch, "/it's! \"$x\" `y`; z");
        check("git-upload-pack ''\\'''", fetch, "/'");
        check("git-upload-pack '/a~b'", fetch, "/a~b");
        check("git-upload-pack '/~a'", fetch, "/~a");
        // Whether these exist is not decided here.
        check("git-upload-pack '../a'", fetch, "/../a");
        check("git-upload-pack '//a'", fetch, "//a");
        check("git-upload-pack '/'", fetch, "/");
    }

    #[test]
    fn all_else_is_refused() {
        let check = |command: &str, expect: &str| {
            assert_eq!(ShellCommand::parse(command.as_bytes()).unwrap_err().to_string(), expect);
        };
        for other in [
            "",
            "id",
            "git",
            "git-upload-pack",
            "git-upload-pack ",
            "git-upload-pack ''",
            "git-upload-packs '/a'",
            "git-upload-archive '/a'",
            "git  upload-pack '/a'",
            "git-upload-pack  '/a'",
            " git-upload-pack '/a'",
            "/usr/bin/git-upload-pack '/a'",
            "GIT-UPLOAD-PACK '/a'",
            "git-upload-pack '/a' ",
            "git-upload-pack '/a'; id",
            "git-upload-pack '/a' '/b'",
            "git-upload-pack '/a'/b",
            "git-upload-pack '/a",
            "git-upload-pack '/a'\\'",
            "git-upload-pack '/a'\\'b",
            "git-upload-pack '/a'\\''",
            "git-upload-pack '/a'\\x'b'",
            "git-upload-pack \"/a\"",
            "git-upload-pack /a\\ b",
            "git-upload-pack /a b",
            "git-upload-pack $(id)",
            "git-upload-pack `id`",
            "git-upload-pack /a;id",
            "git-upload-pack /a|id",
            "git-upload-pack /a>b",
            "git-upload-pack /a*",
            "git -c x=y upload-pack '/a'",
        ] {
            check(other, &format!("unrecognized command '{other}'"));
        }
        check("git-upload-pack '/a'\nid", "unrecognized command 'git-upload-pack '/a'?id'");
        check("git-upload-pack /a\tb\x1b[2J", "unrecognized command 'git-upload-pack /a?b?[2J'");
        check("git-upload-pack --strict '/a'", "options are not supported: '--strict'");
        check("git receive-pack -q", "options are not supported: '-q'");
        check("git-upload-pack '--timeout=1'", "options are not supported: '--timeout=1'");
        check("git-upload-pack '~/a'", "'~/a' does not appear to be a git repository");
        check("git-upload-pack ~bob/a", "'~bob/a' does not appear to be a git repository");
        let long = format!("git-upload-pack '/{}'", "'\\''".repeat(20_000));
        assert!(ShellCommand::parse(long.as_bytes()).unwrap_err().to_string().len() < 300);
    }

    #[test]
    fn no_bytes_are_too_much() {
        let whole = b"git-upload-pack '/a'\\''b'\\!'c'";
        let is_word = |end: &usize| ShellCommand::parse(&whole[..*end]).is_ok();
        assert_eq!((0..=whole.len()).filter(is_word).collect::<Vec<_>>(), [20, 25, whole.len()]);
        for at in 0..whole.len() {
            for byte in 0..=255 {
                let mut changed = *whole;
                changed[at] = byte;
                let _ = ShellCommand::parse(&changed);
            }
        }
        let not_utf8 = ShellCommand::parse(b"git-upload-pack '\xff\xfe'").unwrap();
        assert_eq!(not_utf8.path, b"\xff\xfe");
        assert!(not_utf8.no_repository().ends_with("' does not appear to be a git repository"));
        let _ = ShellCommand::parse(b"\xff\xfe").unwrap_err().to_string();
    }
}
