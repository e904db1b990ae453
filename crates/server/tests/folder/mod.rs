//! A served folder with one repository.

#![allow(dead_code, reason = "every test that has it is a program of its own and uses some of it")]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use packrace_server::transport::settings::{Limits, Settings};
use packrace_testkit::{Git, RepoBuilder, Size};

use super::served;

/// A served folder; the server lives as long as the process.
pub struct Served {
    pub folder: tempfile::TempDir,
    pub http: SocketAddr,
    pub git: SocketAddr,
}

impl Served {
    /// `a.git` of this size.
    pub fn new(size: Size, limits: Limits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        std::fs::create_dir(&root).unwrap();
        RepoBuilder::new(size).build_at(&root.join("a.git"), Git::stock());
        let settings = Settings { limits, ..served::settings(folder.path()) };
        let addresses = served::start(&root, settings);
        let (http, git) = (addresses[0], addresses[1]);
        Served { folder, http, git }
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
