//! A served folder with one repository.

#![allow(dead_code, reason = "every test that has it is a program of its own and uses some of it")]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use packrace_server::limits::Limits;
use packrace_server::settings::{Admin, Settings};
use packrace_testkit::peer::{Feed, http};
use packrace_testkit::{Git, RepoBuilder, Size};

use super::served;

/// A served folder; the server lives as long as the process.
pub struct Served {
    pub folder: tempfile::TempDir,
    pub http: SocketAddr,
    pub git: SocketAddr,
    /// Where numbers are: connections there have places of their own.
    admin: SocketAddr,
}

impl Served {
    /// `a.git` of this size.
    pub fn new(size: Size, limits: Limits) -> Self {
        let folder = packrace_testkit::scratch_dir();
        let root = folder.path().join("root");
        std::fs::create_dir(&root).unwrap();
        RepoBuilder::new(size).build_at(&root.join("a.git"), Git::stock());
        let admin = Admin::At(([127, 0, 0, 1], 0).into());
        let settings = Settings { limits, admin, ..served::settings(folder.path()) };
        let addresses = served::start(&root, settings);
        let (http, git, admin) = (addresses[0], addresses[1], addresses[2]);
        Served { folder, http, git, admin }
    }

    /// Connections that are open over both transports.
    pub fn connections(&self) -> usize {
        let metrics = http(self.admin, "GET /-/metrics HTTP/1.1", b"", Feed::Whole).body;
        let metrics = String::from_utf8(metrics).unwrap();
        let of_a_door = |line: &str| -> Option<usize> {
            line.strip_prefix("packrace_connections{")?.rsplit_once(' ')?.1.parse().ok()
        };
        metrics.lines().filter_map(of_a_door).sum()
    }

    pub fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    pub fn tip(&self) -> String {
        Git::stock().run(&self.root().join("a.git"), &["rev-parse", "HEAD"]).trim().to_owned()
    }
}

/// Tries until it succeeds or time is up.
pub fn until(limit: Duration, mut attempt: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < limit {
        if attempt() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}
