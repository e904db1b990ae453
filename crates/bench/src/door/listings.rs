//! Ref listings with and without credentials, and single access decisions.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use packrace_server::access::{AccessFiles, AccessPolicy as _, Ask, Decision, FilePolicy, Principal};
use packrace_testkit::peer::{Feed, Script, http};
use packrace_testkit::raw_client::Transport;
use packrace_testkit::{Git, RepoBuilder, Size, clean_environment};
use serde_json::{Value, json};

use crate::args::Args;
use crate::goals::verdicts;
use crate::serve::Server;
use crate::{Error, PACKRACE};

/// The number of access rules of the server that requires credentials.
const RULES: usize = 10_000;

/// The number of timed decisions.
const DECISIONS: u32 = 100_000;

const USER: &str = "alice";

/// `alice:sesame`.
const AUTHORIZATION: &str = "\nAuthorization: Basic YWxpY2U6c2VzYW1l";

/// How a client lists refs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listing {
    Anonymous,
    /// With credentials in every request, as with git's `http.proactiveAuth`.
    Proactive,
    /// As git does by default: first without credentials, which is answered with 401.
    AfterRefusal,
}

impl Listing {
    fn name(self) -> &'static str {
        match self {
            Listing::Anonymous => "packrace, without rules, anonymous",
            Listing::Proactive => "packrace, credentials with each request, 10,000 rules",
            Listing::AfterRefusal => "packrace, credentials after a 401, 10,000 rules",
        }
    }
}

/// Prints the cost of listings and decisions; an error if an answer is wrong.
pub fn run(args: &Args, git: &Git, binary: &Path) -> Result<Vec<Value>, Error> {
    let folder = tempfile::tempdir()?;
    let root = folder.path().join("root");
    std::fs::create_dir(&root)?;
    let repo = root.join("steady.git");
    RepoBuilder::new(Size::Small).build_at(&repo, git);
    let files = write_files(binary, folder.path())?;
    let settings = folder.path().join("settings.toml");
    let (rules, users) = (path_of(&files.rules), path_of(&files.users));
    let text = format!("[access]\nrules = {rules:?}\nusers = {users:?}\n[log]\nlevel = \"warn\"\n");
    std::fs::write(&settings, text)?;
    let open_settings = folder.path().join("open.toml");
    std::fs::write(&open_settings, "[log]\nlevel = \"warn\"\n")?;

    let open = Server::packrace_as(binary, &root, None, Some(&open_settings))?;
    let guarded = Server::packrace_as(binary, &root, None, Some(&settings))?;
    let count = if args.smoke { 20 } else { 1000 };
    let all =
        [(Listing::Anonymous, &open), (Listing::Proactive, &guarded), (Listing::AfterRefusal, &guarded)];
    let mut seconds = [const { Vec::new() }; 3];
    for _ in 0..args.rounds {
        for ((listing, server), seconds) in all.iter().zip(&mut seconds) {
            let address = server.target(Transport::Http, &repo)?.address;
            let list = || (0..count).try_for_each(|_| list_refs(address, *listing));
            seconds.push(server.with_processor_seconds(list)?.1);
        }
    }
    println!("\n| {count} listings of refs over HTTP | CPU of the server, ms | |\n|---|---:|---:|");
    let medians = seconds.map(|mut seconds| {
        seconds.sort_by(f64::total_cmp);
        seconds[seconds.len() / 2]
    });
    let record = |((listing, _), median): (&(Listing, &Server), f64)| {
        json!({ "work": "door, listings", "who": listing.name(), "beside": Listing::Anonymous.name(),
            "listings": count, "cpu_seconds": median })
    };
    let mut records: Vec<Value> = all.iter().zip(medians).map(record).collect();
    for ((listing, _), record) in all.iter().zip(&records) {
        let cpu_seconds = record["cpu_seconds"].as_f64().unwrap_or_default();
        println!(
            "| {} | {:.0}, {:.2} × | {} |",
            listing.name(),
            cpu_seconds * 1e3,
            cpu_seconds / medians[0],
            verdicts(record, &records)
        );
    }
    records.push(decisions(&files)?);
    Ok(records)
}

fn path_of(path: &Option<PathBuf>) -> String {
    path.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
}

/// Writes rules for many users and repositories, of which the last one applies to ours, and a file of users.
fn write_files(binary: &Path, folder: &Path) -> Result<AccessFiles, Error> {
    let rule = |repository: &str, who: &str| {
        format!(
            "[[rule]]\nrepository = {repository:?}\nwho = {who:?}\nallow = [\"read\", \"write\", \"create\"]\n\n"
        )
    };
    let others = (1..RULES).map(|number| rule(&format!("team{number}/**"), &format!("user{number}")));
    let (rules, users) = (folder.join("rules.toml"), folder.join("users"));
    std::fs::write(&rules, others.collect::<String>() + &rule("steady.git", USER))?;
    let mut command = Command::new(binary);
    clean_environment(&mut command);
    command.args(["access", "hash", USER]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    std::io::Write::write_all(&mut child.stdin.take().ok_or("no standard input")?, b"sesame\n")?;
    std::fs::write(&users, child.wait_with_output()?.stdout)?;
    std::fs::set_permissions(&users, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    Ok(AccessFiles { rules: Some(rules), users: Some(users), ..AccessFiles::default() })
}

/// `git ls-remote` in version 2: the capabilities, then the refs.
fn list_refs(address: SocketAddr, listing: Listing) -> std::io::Result<()> {
    let expect = |status: u16, got: u16| match status == got {
        true => Ok(()),
        false => Err(std::io::Error::other(format!("{listing:?}: HTTP {got} instead of {status}"))),
    };
    let get = "GET /steady.git/info/refs?service=git-upload-pack HTTP/1.1\nGit-Protocol: version=2";
    let post = "POST /steady.git/git-upload-pack HTTP/1.1\nGit-Protocol: version=2\n\
                Content-Type: application/x-git-upload-pack-request";
    let credentials = if listing == Listing::Anonymous { "" } else { AUTHORIZATION };
    if listing == Listing::AfterRefusal {
        expect(401, http(address, get, b"", Feed::Whole).status)?;
    }
    expect(200, http(address, &format!("{get}{credentials}"), b"", Feed::Whole).status)?;
    let command =
        Script::new().line("command=ls-refs").line("object-format=sha1").delim().line("peel").flush();
    expect(200, http(address, &format!("{post}{credentials}"), command.bytes(), Feed::Whole).status)
}

/// The time of one decision with all rules.
fn decisions(files: &AccessFiles) -> Result<Value, Error> {
    let policy = FilePolicy::load(files)?.ok_or("there are rules")?;
    let principal = Principal::named(USER);
    let begun = Instant::now();
    for _ in 0..DECISIONS {
        let decision = policy.decide(&principal, std::hint::black_box(b"steady.git"), Ask::Read);
        if decision != Decision::Allow {
            return Err(format!("a wrong decision: {decision:?}").into());
        }
    }
    let microseconds = begun.elapsed().as_secs_f64() * 1e6 / f64::from(DECISIONS);
    let record = json!({ "work": "door, decision", "who": PACKRACE, "rules": RULES, "microseconds_each": microseconds });
    println!("\nA decision with {RULES} rules: {microseconds:.2} µs, {}", verdicts(&record, &[]));
    Ok(record)
}
