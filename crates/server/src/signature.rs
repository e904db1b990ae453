//! Signatures of pushes and commits: what the programs that verify them report (git-config, `gpg.ssh`; GnuPG,
//! doc/DETAILS; ssh-keygen, "-Y find-principals", "-Y verify", "-Y check-novalidate").

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::process::ExitStatus;

use packrace_os::child::{ChildProcess, Confinement, OutputStream, Program};
use packrace_os::count::Role;
use packrace_os::durable::NewFile;
use packrace_store::{Config, Hooks};

/// The most output of a program that verifies a signature.
const MAX_STATUS_BYTES: usize = 1 << 20;

/// The most names that one key may have among the allowed signers; each costs a process.
const MAX_PRINCIPALS: usize = 16;

/// The result of checking a signature.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Signature {
    /// A letter, as for `%G?`, but `G` whatever the trust.
    pub status: Option<char>,
    /// Who signed; empty if unknown.
    pub signer: String,
    /// The key, or its fingerprint.
    pub key: String,
    /// The fingerprint of the key.
    pub fingerprint: String,
    /// The fingerprint of the key that it belongs to.
    pub primary_fingerprint: String,
    /// How far the key is trusted.
    pub trust: Trust,
    /// What the program says for people.
    pub report: String,
}

/// How far a key is trusted to be its owner's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Trust {
    /// Nothing is known.
    #[default]
    Undefined,
    /// Not at all.
    Never,
    /// A little.
    Marginal,
    /// Enough for most uses.
    Fully,
    /// As one's own.
    Ultimate,
}

impl Trust {
    /// Each level in git's words.
    pub const NAMES: [(Trust, &'static str); 5] = [
        (Trust::Undefined, "undefined"),
        (Trust::Never, "never"),
        (Trust::Marginal, "marginal"),
        (Trust::Fully, "fully"),
        (Trust::Ultimate, "ultimate"),
    ];

    /// The level in git's word.
    pub fn name(self) -> &'static str {
        Trust::NAMES[self as usize].1
    }
}

impl Signature {
    /// A signature that is wrong, or was made for something else.
    fn bad() -> Self {
        Signature { status: Some('B'), trust: Trust::Never, ..Signature::default() }
    }
}

/// Verifies signatures with external programs.
pub struct SignatureChecker<'a> {
    /// Names the programs and the keys.
    pub config: &'a Config,
    /// Where the programs run.
    pub directory: &'a Path,
    /// Where the signature is put for them.
    pub temporary_dir: &'a Path,
    /// What they may do.
    pub confinement: &'a Confinement,
    /// Gets why nothing could be verified: `error` or `fatal`, and the words.
    pub on_error: &'a dyn Fn(&str, &str),
}

/// What a program wrote.
struct Said {
    status: ExitStatus,
    output: String,
    messages: String,
}

impl SignatureChecker<'_> {
    /// Runs the program for signatures of this kind. Without a result there is no status.
    pub fn check(&self, signed: &[u8], signature: &[u8]) -> Signature {
        let kinds: [(&[u8], &[&str], &str); 3] = [
            (b"-----BEGIN PGP", &["gpg.program", "gpg.openpgp.program"], "gpg"),
            (b"-----BEGIN SIGNED MESSAGE-----", &["gpg.x509.program"], "gpgsm"),
            (b"-----BEGIN SSH SIGNATURE-----", &["gpg.ssh.program"], "ssh-keygen"),
        ];
        let Some((_, names, default)) = kinds.iter().find(|(begin, ..)| signature.starts_with(begin)) else {
            return Signature::default();
        };
        let named = names.iter().find_map(|name| self.config.string(name));
        let program = named.map_or_else(|| default.into(), OsString::from_vec);
        let file = NewFile::create_temporary(self.temporary_dir, ".git_vtag_tmp", 0o600, Role::Hook);
        let Ok(mut file) = file.and_then(|mut file| {
            file.write(signature)?;
            file.flush()?;
            Ok(file)
        }) else {
            return Signature::default();
        };
        let found = match *default {
            "ssh-keygen" => self.check_ssh(&program, signed, file.path()),
            kind => self.check_gpg(kind, program, signed, file.path()),
        };
        let _ = file.flush();
        found
    }

    /// `kind` is the program of GnuPG that `program` stands for. gpgsm knows no `--keyid-format`.
    fn check_gpg(&self, kind: &str, program: OsString, signed: &[u8], signature: &Path) -> Signature {
        let of_keys = (kind == "gpg").then_some("--keyid-format=long");
        let options = of_keys.into_iter().chain(["--status-fd=1", "--verify"]).map(OsString::from);
        let files = [signature.as_os_str().to_owned(), "-".into()];
        let argv = [program].into_iter().chain(options).chain(files).collect();
        self.ask(argv, signed).map_or_else(Signature::default, |said| Signature {
            report: said.messages,
            ..read_status(&said.output)
        })
    }

    /// Finds the possible signers, and verifies whether one of them signed. A signature by an unlisted key
    /// has no signer, and is still valid, as in git.
    fn check_ssh(&self, program: &OsString, signed: &[u8], signature: &Path) -> Signature {
        let Some(allowed) =
            self.config.path("gpg.ssh.allowedSignersFile").filter(|path| !path.as_os_str().is_empty())
        else {
            (self.on_error)(
                "error",
                "gpg.ssh.allowedSignersFile needs to be configured and exist for ssh signature verification",
            );
            return Signature::default();
        };
        // Keys may have times; what counts is when they signed.
        let time = signed_at(signed).map(|time| format!("-Overify-time={time}"));
        let command = |verb: &str, options: &[&str]| {
            let words = ["-Y", verb].into_iter().chain(options.iter().copied()).chain(time.as_deref());
            let words = words.map(OsString::from);
            let signature = ["-s".into(), signature.as_os_str().to_owned()];
            [program.clone()].into_iter().chain(words).chain(signature).collect::<Vec<_>>()
        };
        let with_file = |mut argv: Vec<OsString>, option: &str, path: &Path| {
            argv.extend([option.into(), path.as_os_str().to_owned()]);
            argv
        };
        let found = self.ask(with_file(command("find-principals", &[]), "-f", &allowed), b"");
        // A program that cannot be started is asked again, as in git, which then has found no names either.
        let (output, messages) = match found {
            Some(said) if said.status.success() => (said.output, said.messages),
            Some(said) => (String::new(), said.messages),
            None => Default::default(),
        };
        let principals: Vec<&str> = output.lines().filter(|line| !line.is_empty()).collect();
        if principals.is_empty() {
            let judged = self.judge_ssh(command("check-novalidate", &["-n", "git"]), signed);
            return Signature { report: judged.report + &messages, ..judged };
        }
        let revoked = self.config.path("gpg.ssh.revocationFile").filter(|path| !path.as_os_str().is_empty());
        let mut judged = Signature::bad();
        for principal in principals.into_iter().take(MAX_PRINCIPALS) {
            let argv = command("verify", &["-n", "git", "-I", principal]);
            let argv = with_file(argv, "-f", &allowed);
            // A file that does not exist makes every signature bad.
            let argv = revoked.iter().fold(argv, |argv, path| with_file(argv, "-r", path));
            judged = self.judge_ssh(argv, signed);
            if judged.status == Some('G') {
                break;
            }
        }
        judged
    }

    fn judge_ssh(&self, argv: Vec<OsString>, signed: &[u8]) -> Signature {
        let Some(said) = self.ask(argv, signed) else { return Signature::bad() };
        let judged = if said.status.success() { read_good_signature(&said.output) } else { Signature::bad() };
        Signature { report: said.output + &said.messages, ..judged }
    }

    /// Runs a program.
    fn ask(&self, argv: Vec<OsString>, input: &[u8]) -> Option<Said> {
        let program = Program {
            argv,
            hook: None,
            directory: self.directory.to_owned(),
            environment: Vec::new(),
            reads_messages: true,
            confinement: self.confinement.clone(),
        };
        let (mut output, mut messages) = (Vec::new(), Vec::new());
        let run: io::Result<ExitStatus> = ChildProcess::start(&program).and_then(|child| {
            child.run_apart(input, &mut |stream, text| {
                let said = if stream == OutputStream::Output { &mut output } else { &mut messages };
                let room = MAX_STATUS_BYTES - said.len();
                said.extend_from_slice(&text[..text.len().min(room)]);
            })
        });
        match run {
            Ok(status) => Some(Said {
                status,
                output: String::from_utf8_lossy(&output).into_owned(),
                messages: String::from_utf8_lossy(&messages).into_owned(),
            }),
            Err(error) => {
                let (kind, text) = Hooks::not_started(&program, &program.argv[0].to_string_lossy(), &error);
                (self.on_error)(kind, &text);
                None
            }
        }
    }
}

/// When an object or certificate says that it was made, in local time, as ssh-keygen reads it.
fn signed_at(signed: &[u8]) -> Option<String> {
    let who = signed
        .split(|byte| *byte == b'\n')
        .take_while(|line| !line.is_empty())
        .find(|line| [&b"committer "[..], b"tagger ", b"pusher "].iter().any(|key| line.starts_with(key)))?;
    let time = &who[who.iter().rposition(|byte| *byte == b'>')? + 1..];
    let seconds = std::str::from_utf8(time).ok()?.split_whitespace().next()?.parse().ok()?;
    let time = jiff::Timestamp::from_second(seconds).ok()?.to_zoned(jiff::tz::TimeZone::system());
    Some(time.strftime("%Y%m%d%H%M%S").to_string())
}

/// Reads `Good "git" signature for NAME with TYPE key FINGERPRINT`, or the same without a name. Names may
/// contain any characters.
fn read_good_signature(said: &str) -> Signature {
    let line = said.lines().next().unwrap_or_default();
    let Some(rest) = line.strip_prefix("Good \"git\" signature ") else { return Signature::bad() };
    let Some((who, key)) = rest.rsplit_once(" key ") else { return Signature::bad() };
    let signer = who.strip_prefix("for ").and_then(|who| Some(who.rsplit_once(" with ")?.0));
    let trust = if signer.is_some() { Trust::Fully } else { Trust::Undefined };
    let signer = signer.unwrap_or_default().to_owned();
    let (key, fingerprint) = (key.to_owned(), key.to_owned());
    Signature { status: Some('G'), signer, key, fingerprint, trust, ..Signature::default() }
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
        if let Some(rest) = line.strip_prefix("VALIDSIG ") {
            let mut words = rest.split(' ');
            found.fingerprint = words.next().unwrap_or_default().to_owned();
            // After the fingerprint: date, time, expiry, version, reserved, two algorithms, class.
            found.primary_fingerprint = words.nth(8).unwrap_or_default().to_owned();
        }
        if let Some(rest) = line.strip_prefix("TRUST_") {
            let level = rest.split(' ').next().unwrap_or_default();
            let known = Trust::NAMES.iter().find(|(_, name)| level.eq_ignore_ascii_case(name));
            found.trust = known.map_or(found.trust, |(trust, _)| *trust);
        }
        for (word, letter) in kinds {
            let Some(rest) = line.strip_prefix(word) else { continue };
            if found.status != Some('N') {
                // Two verdicts on one signature: as in git, there is none.
                return Signature { status: Some('E'), ..Signature::default() };
            }
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
        let check = |said: &str, status, signer: &str, key: &str, trust| {
            let found = read_good_signature(said);
            assert_eq!((found.status, found.trust), (Some(status), trust), "{said}");
            assert_eq!((found.signer.as_str(), found.key.as_str()), (signer, key), "{said}");
            assert_eq!(found.fingerprint, key, "{said}");
        };
        let good = "Good \"git\" signature";
        check(&format!("{good} for a@b with ED25519 key SHA256:x\n"), 'G', "a@b", "SHA256:x", Trust::Fully);
        check(
            &format!("{good} for a with b key c with RSA key SHA256:x\n"),
            'G',
            "a with b key c",
            "SHA256:x",
            Trust::Fully,
        );
        check(&format!("{good} with ED25519 key SHA256:x\n"), 'G', "", "SHA256:x", Trust::Undefined);
        check("Good \"file\" signature for a@b with ED25519 key SHA256:x\n", 'B', "", "", Trust::Never);
        check("Could not verify signature.\n", 'B', "", "", Trust::Never);
        check("", 'B', "", "", Trust::Never);
    }

    #[test]
    fn what_gpg_says() {
        let check = |said: &str, status, signer: &str, key: &str, trust: &str| {
            let found = read_status(said);
            assert_eq!((found.status, found.trust.name()), (Some(status), trust), "{said}");
            assert_eq!((found.signer.as_str(), found.key.as_str()), (signer, key), "{said}");
        };
        let good = "[GNUPG:] NEWSIG\n[GNUPG:] GOODSIG 12AB C O <c@o>\n";
        check(&format!("{good}[GNUPG:] TRUST_ULTIMATE 0 pgp\n"), 'G', "C O <c@o>", "12AB", "ultimate");
        check(&format!("{good}[GNUPG:] TRUST_UNDEFINED\n"), 'G', "C O <c@o>", "12AB", "undefined");
        check(&format!("{good}[GNUPG:] TRUST_NEVER\n"), 'G', "C O <c@o>", "12AB", "never");
        check(&format!("{good}{good}"), 'E', "", "", "undefined");
        check("[GNUPG:] BADSIG 12AB C O <c@o>", 'B', "C O <c@o>", "12AB", "undefined");
        check("[GNUPG:] ERRSIG 12AB 1 8 00 1 9", 'E', "", "12AB", "undefined");
        check("gpg: no such thing", 'N', "", "", "undefined");
        let found = read_status("[GNUPG:] VALIDSIG AA 2020-01-01 1577836800 0 4 0 1 8 00 BB\n");
        assert_eq!((found.fingerprint.as_str(), found.primary_fingerprint.as_str()), ("AA", "BB"));
        let short = read_status("[GNUPG:] VALIDSIG AA 2020-01-01 1577836800 0 4 0 1 8 00\n");
        assert_eq!((short.fingerprint.as_str(), short.primary_fingerprint.as_str()), ("AA", ""));
    }
}
