//! Signatures of signed pushes: what the programs that verify them report (git-config, `gpg.ssh`; GnuPG,
//! doc/DETAILS; ssh-keygen, "-Y find-principals", "-Y verify", "-Y check-novalidate").

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::process::ExitStatus;

use packrace_os::child::{ChildProcess, OutputStream, Program};
use packrace_os::count::Role;
use packrace_os::durable::NewFile;

use super::ReceivePack;
use super::client_messages::ClientMessages;

/// The most output of a program that verifies a signature.
const MAX_STATUS_BYTES: usize = 1 << 20;

/// The most names that one key may have among the allowed signers; each costs a process.
const MAX_PRINCIPALS: usize = 16;

/// The result of checking a signature.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Signature {
    /// A letter, as for `%G?`.
    pub(super) status: Option<char>,
    /// Who signed; empty if unknown.
    pub(super) signer: String,
    /// The key, or its fingerprint.
    pub(super) key: String,
}

impl Signature {
    fn bad() -> Self {
        Signature { status: Some('B'), ..Signature::default() }
    }
}

/// Verifies signatures with external programs.
pub(super) struct SignatureChecker<'a> {
    pub(super) call: &'a ReceivePack,
    pub(super) client: &'a ClientMessages,
}

impl SignatureChecker<'_> {
    /// Runs the program for signatures of this kind. Without a result there is no status.
    pub(super) fn check(&self, signed: &[u8], signature: &[u8]) -> Signature {
        let kinds: [(&[u8], &[&str], &str); 3] = [
            (b"-----BEGIN PGP", &["gpg.program", "gpg.openpgp.program"], "gpg"),
            (b"-----BEGIN SIGNED MESSAGE-----", &["gpg.x509.program"], "gpgsm"),
            (b"-----BEGIN SSH SIGNATURE-----", &["gpg.ssh.program"], "ssh-keygen"),
        ];
        let Some((_, names, default)) = kinds.iter().find(|(begin, ..)| signature.starts_with(begin)) else {
            return Signature::default();
        };
        let config = self.call.subject.repository.config();
        let named = names.iter().find_map(|name| config.string(name));
        let program = named.map_or_else(|| default.into(), OsString::from_vec);
        let file = NewFile::create_temporary(&self.call.temporary_dir, ".git_vtag_tmp", 0o600, Role::Hook);
        let Ok(mut file) = file.and_then(|mut file| {
            file.write(signature)?;
            file.flush()?;
            Ok(file)
        }) else {
            return Signature::default();
        };
        let found = match *default {
            "ssh-keygen" => self.check_ssh(&program, signed, file.path()),
            _ => self.check_gpg(program, signed, file.path()),
        };
        let _ = file.flush();
        found
    }

    fn check_gpg(&self, program: OsString, signed: &[u8], signature: &Path) -> Signature {
        let options = ["--keyid-format=long", "--status-fd=1", "--verify"].map(OsString::from);
        let files = [signature.as_os_str().to_owned(), "-".into()];
        let argv = [program].into_iter().chain(options).chain(files).collect();
        self.ask(argv, signed).map_or_else(Signature::default, |(_, said)| read_status(&said))
    }

    /// Finds the possible signers, and verifies whether one of them signed. A signature by an unlisted key
    /// has no signer, and is still valid, as in git.
    fn check_ssh(&self, program: &OsString, signed: &[u8], signature: &Path) -> Signature {
        let config = self.call.subject.repository.config();
        let Some(allowed) =
            config.path("gpg.ssh.allowedSignersFile").filter(|path| !path.as_os_str().is_empty())
        else {
            self.client.error(
                "gpg.ssh.allowedSignersFile needs to be configured and exist for ssh signature verification",
            );
            return Signature::default();
        };
        let command = |verb: &str, options: &[&str]| {
            let words = ["-Y", verb].into_iter().chain(options.iter().copied()).map(OsString::from);
            let signature = ["-s".into(), signature.as_os_str().to_owned()];
            [program.clone()].into_iter().chain(words).chain(signature).collect::<Vec<_>>()
        };
        let with_file = |mut argv: Vec<OsString>, option: &str, path: &Path| {
            argv.extend([option.into(), path.as_os_str().to_owned()]);
            argv
        };
        let found = self.ask(with_file(command("find-principals", &[]), "-f", &allowed), b"");
        let Some((status, principals)) = found else { return Signature::bad() };
        let principals: Vec<&str> = principals.lines().filter(|line| !line.is_empty()).collect();
        if !status.success() || principals.is_empty() {
            return self.judge_ssh(command("check-novalidate", &["-n", "git"]), signed);
        }
        let revoked = config.path("gpg.ssh.revocationFile").filter(|path| !path.as_os_str().is_empty());
        for principal in principals.into_iter().take(MAX_PRINCIPALS) {
            let argv = command("verify", &["-n", "git", "-I", principal]);
            let argv = with_file(argv, "-f", &allowed);
            // A file that does not exist makes every signature bad.
            let argv = revoked.iter().fold(argv, |argv, path| with_file(argv, "-r", path));
            let found = self.judge_ssh(argv, signed);
            if found.status == Some('G') {
                return found;
            }
        }
        Signature::bad()
    }

    fn judge_ssh(&self, argv: Vec<OsString>, signed: &[u8]) -> Signature {
        match self.ask(argv, signed) {
            Some((status, said)) if status.success() => read_good_signature(&said),
            _ => Signature::bad(),
        }
    }

    /// Runs a program, and returns its standard output.
    fn ask(&self, argv: Vec<OsString>, input: &[u8]) -> Option<(ExitStatus, String)> {
        let program = Program {
            argv,
            directory: self.call.subject.repository.git_dir().to_owned(),
            environment: Vec::new(),
            reads_messages: true,
            confinement: self.call.subject.confinement.clone(),
        };
        let mut said = Vec::new();
        let run: io::Result<ExitStatus> = ChildProcess::start(&program).and_then(|child| {
            child.run_apart(input, &mut |stream, text| {
                if stream == OutputStream::Output {
                    let room = MAX_STATUS_BYTES - said.len();
                    said.extend_from_slice(&text[..text.len().min(room)]);
                }
            })
        });
        match run {
            Ok(status) => Some((status, String::from_utf8_lossy(&said).into_owned())),
            Err(error) => {
                self.client.error(&format!("cannot run {}: {error}", program.argv[0].to_string_lossy()));
                None
            }
        }
    }
}

/// Reads `Good "git" signature for NAME with TYPE key FINGERPRINT`, or the same without a name. Names may
/// contain any characters.
fn read_good_signature(said: &str) -> Signature {
    let line = said.lines().next().unwrap_or_default();
    let Some(rest) = line.strip_prefix("Good \"git\" signature ") else { return Signature::bad() };
    let Some((who, key)) = rest.rsplit_once(" key ") else { return Signature::bad() };
    let signer = who.strip_prefix("for ").and_then(|who| Some(who.rsplit_once(" with ")?.0));
    Signature { status: Some('G'), signer: signer.unwrap_or_default().to_owned(), key: key.to_owned() }
}

/// Reads the output of `--status-fd` (GnuPG, doc/DETAILS).
fn read_status(said: &str) -> Signature {
    let mut found = Signature { status: Some('N'), ..Signature::default() };
    let kinds = [
        ("GOODSIG ", 'G'),
        ("BADSIG ", 'B'),
        ("ERRSIG ", 'E'),
        ("EXPSIG ", 'X'),
        ("EXPKEYSIG ", 'Y'),
        ("REVKEYSIG ", 'R'),
    ];
    for line in said.lines().filter_map(|line| line.strip_prefix("[GNUPG:] ")) {
        for (word, letter) in kinds {
            let Some(rest) = line.strip_prefix(word) else { continue };
            let (key, signer) = rest.split_once(' ').unwrap_or((rest, ""));
            found.status = Some(letter);
            found.key = key.to_owned();
            // No name follows the key of a signature that could not be checked.
            found.signer = if letter == 'E' { String::new() } else { signer.to_owned() };
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ssh_keygen_says() {
        let check = |said: &str, status, signer: &str, key: &str| {
            let expect = Signature { status: Some(status), signer: signer.into(), key: key.into() };
            assert_eq!(read_good_signature(said), expect, "{said}");
        };
        let good = "Good \"git\" signature";
        check(&format!("{good} for a@b with ED25519 key SHA256:x\n"), 'G', "a@b", "SHA256:x");
        check(
            &format!("{good} for a with b key c with RSA key SHA256:x\n"),
            'G',
            "a with b key c",
            "SHA256:x",
        );
        check(&format!("{good} with ED25519 key SHA256:x\n"), 'G', "", "SHA256:x");
        check("Good \"file\" signature for a@b with ED25519 key SHA256:x\n", 'B', "", "");
        check("Could not verify signature.\n", 'B', "", "");
        check("", 'B', "", "");
    }

    #[test]
    fn what_gpg_says() {
        let check = |said: &str, status, signer: &str, key: &str| {
            let expect = Signature { status: Some(status), signer: signer.into(), key: key.into() };
            assert_eq!(read_status(said), expect, "{said}");
        };
        let good = "[GNUPG:] NEWSIG\n[GNUPG:] GOODSIG 12AB C O <c@o>\n";
        check(&format!("{good}[GNUPG:] TRUST_ULTIMATE 0 pgp\n"), 'G', "C O <c@o>", "12AB");
        check(&format!("{good}[GNUPG:] TRUST_UNDEFINED\n"), 'G', "C O <c@o>", "12AB");
        check("[GNUPG:] BADSIG 12AB C O <c@o>", 'B', "C O <c@o>", "12AB");
        check("[GNUPG:] ERRSIG 12AB 1 8 00 1 9", 'E', "", "12AB");
        check("gpg: no such thing", 'N', "", "");
    }
}
