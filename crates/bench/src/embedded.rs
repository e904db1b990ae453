//! The forge on axum of the server's examples beside `packrace serve`: what embedding costs.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use packrace_testkit::raw_client::{Take, Target, Transport};
use packrace_testkit::{Git, RepoBuilder, Size, clean_environment};
use serde_json::{Value, json};

use crate::args::Args;
use crate::goals::verdicts;
use crate::pushers::Pushers;
use crate::serve::Server;
use crate::{Error, PACKRACE, work};

/// The example, whole.
#[allow(dead_code)]
#[path = "../../server/examples/forge.rs"]
mod forge;

/// The argument that makes this program the forge.
pub const HOST: &str = "--host-forge";

/// `alice:wonder`, of the example's users.
const AUTHORIZATION: &str = "\nAuthorization: Basic YWxpY2U6d29uZGVy";

/// Pushes, or clones, to one server in a row, before the other has its turn.
const TURN: usize = 10;

const FORGE: &str = "the forge of the examples";

fn failed(error: impl std::fmt::Display) -> std::io::Error {
    std::io::Error::other(error.to_string())
}

/// Serves a folder as the forge, for as long as the process lives.
pub fn host(root: &Path) -> Result<(), Error> {
    let git = forge::git(root)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("http://{}/", listener.local_addr()?);
    listener.set_nonblocking(true)?;
    tokio::runtime::Runtime::new()?.block_on(async {
        git.serve(tokio::net::TcpListener::from_std(listener)?, forge::pages()).await;
        Ok(())
    })
}

/// Prints both ratios; an error if an answer is wrong, or a ref not where it was pushed.
pub fn run(args: &Args, git: &Git, packrace: Option<&Path>) -> Result<Vec<Value>, Error> {
    let binary = packrace.ok_or("embedded needs a packrace")?;
    let dir = tempfile::tempdir()?;
    let turns = if args.smoke { 1 } else { 4 * args.rounds };
    let first = dir.path().join("first.git");
    git.run(dir.path(), &["init", "-q", "--bare", "-b", "main", &first.display().to_string()]);
    let pushers = Pushers::prepare(git, &first, 1, turns * TURN).with_headers(AUTHORIZATION);
    let contenders = [PACKRACE, FORGE].map(|who| -> Result<_, Error> {
        let root = dir.path().join(who);
        let cloned = root.join("alice/cloned.git");
        std::fs::create_dir_all(root.join("alice"))?;
        RepoBuilder::new(if args.smoke { Size::Small } else { Size::Medium }).build_at(&cloned, git);
        git.run(&cloned, &["repack", "-adbq"]);
        let pushed = root.join("alice/pushed.git").display().to_string();
        git.run(
            dir.path(),
            &["clone", "-q", "--mirror", "--no-local", &first.display().to_string(), &pushed],
        );
        let server = match who {
            PACKRACE => Server::packrace(binary, &root, None)?,
            _ => {
                let mut command = Command::new(std::env::current_exe()?);
                clean_environment(&mut command);
                command.arg(HOST).arg(&root);
                Server::http_only(command)?
            }
        };
        Ok((who, server, cloned))
    });
    let contenders = contenders.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut cpu = [[0.0; 2]; 2];
    for turn in 0..turns {
        for ((_, server, cloned), cpu) in contenders.iter().zip(&mut cpu) {
            let path = "/alice/cloned.git".to_owned();
            let target = Target { path, ..server.target(Transport::Http, cloned)? };
            let request = target.request(&work::clone_request(git, cloned));
            let clone = || {
                (0..TURN).try_for_each(|_| target.fetch(&request, Take::Checksum).map(drop).map_err(failed))
            };
            cpu[0] += server.with_processor_seconds(clone)?.1;
            let pushes = turn * TURN..(turn + 1) * TURN;
            let push = || {
                let pushed = pushes.clone().map(|number| {
                    pushers.push_one(target.address, "alice/pushed.git", number).map_err(failed)
                });
                pushed.collect::<Result<Vec<_>, _>>()
            };
            cpu[1] += server.with_processor_seconds(push)?.1;
        }
    }
    println!("\nEmbedding: a forge on axum beside serve, over HTTP; CPU of the server.\n");
    println!("| work | serve | forge | goal |\n|---|---:|---:|---|");
    let mut records = Vec::new();
    for (at, work) in ["embedded, clone", "embedded, push"].into_iter().enumerate() {
        for ((who, ..), cpu) in contenders.iter().zip(&cpu) {
            let seconds = cpu[at] / (turns * TURN) as f64;
            records.push(json!({ "work": work, "who": who, "beside": PACKRACE, "cpu_seconds": seconds, "runs": turns * TURN }));
        }
        let [serve, forge] = [cpu[0][at], cpu[1][at]].map(|seconds| seconds * 1e3 / (turns * TURN) as f64);
        let judged = verdicts(&records[records.len() - 1], &records);
        println!("| {work} | {serve:.2} ms | {forge:.2} ms, {:.2} × | {judged} |", forge / serve);
    }
    for (_, server, _) in &contenders {
        let address = server.target(Transport::Http, &first)?.address;
        pushers.check(address, "alice/pushed.git", 1, turns * TURN)?;
    }
    Ok(records)
}
