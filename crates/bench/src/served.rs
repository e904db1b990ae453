//! Requests to `upload-pack` of a running server: `git daemon`, or `packrace serve`.

use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use packrace_testkit::Git;
use packrace_testkit::raw_client::{READ_BYTES, Transport};

use crate::measure::{Observation, Timing};
use crate::serve::Server;
use crate::work::{How, Work};

/// For packrace, which otherwise would generate a pack only for the first request.
const KEEPS_NOTHING: &str = "[cache]\nenabled = false\n";
const KEEPS_DELTAS: &str = "[cache]\nmax-memory-bytes = 0\nmax-disk-bytes = 0\n";

/// A contender that is requested over git://.
pub struct Served {
    settings: tempfile::NamedTempFile,
    binary: PathBuf,
    git: Git,
    repo: PathBuf,
    request: Vec<u8>,
    server: Option<Server>,
}

impl Served {
    /// A server of the repository's directory.
    pub fn new(binary: &Path, work: &Work, git: &Git) -> io::Result<Self> {
        let settings = tempfile::NamedTempFile::new()?;
        let keeps = if work.how == How::ServedKeepingDeltas { KEEPS_DELTAS } else { KEEPS_NOTHING };
        std::fs::write(settings.path(), keeps)?;
        let mut served = Served {
            settings,
            binary: binary.to_path_buf(),
            git: git.clone(),
            repo: work.repo.clone(),
            request: work.request.clone(),
            server: None,
        };
        served.start()?;
        Ok(served)
    }

    /// Ends the server, with all that it has mapped.
    pub fn stop(&mut self) {
        self.server = None;
    }

    /// A new server, started after `prepare`: it has no open repository.
    pub fn start_anew(&mut self, prepare: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.stop();
        prepare()?;
        self.start()
    }

    fn start(&mut self) -> io::Result<()> {
        let root = self.repo.parent().ok_or_else(|| io::Error::other("a repository lies in a directory"))?;
        let settings = Some(self.settings.path());
        self.server = Some(Server::of(&self.binary, &self.git, root, None, settings)?);
        Ok(())
    }

    fn server(&self) -> &Server {
        self.server.as_ref().expect("it was started")
    }

    /// The mean of `runs` consecutive requests. CPU time is the server's.
    pub fn time(&self, runs: usize) -> io::Result<Timing> {
        let start = Instant::now();
        let ask = || {
            let mut bytes = 0;
            for _ in 0..runs {
                self.ask(|read| bytes += read.len() as u64)?;
            }
            Ok((bytes, start.elapsed().as_secs_f64()))
        };
        let ((bytes, wall_seconds), cpu_seconds) = self.server().with_processor_seconds(ask)?;
        let count = runs as f64;
        Ok(Timing {
            wall_seconds: wall_seconds / count,
            cpu_seconds: cpu_seconds / count,
            bytes: bytes / runs as u64,
        })
    }

    /// One response, and the server's memory meanwhile.
    pub fn observe(&self) -> io::Result<Observation> {
        let mut answer = Vec::new();
        let ((), peak) = self.server().watched(|| self.ask(|read| answer.extend_from_slice(read)))?;
        Ok(Observation {
            answer,
            peak,
            calls: None,
            reported_client_writes: None,
            reported_pack_writes: None,
            packs_on_mount: None,
        })
    }

    /// One request and its response, to the end of the connection.
    fn ask(&self, mut take: impl FnMut(&[u8])) -> io::Result<()> {
        let target = self.server().target(Transport::Git, &self.repo)?;
        let mut stream = target.connect()?;
        stream.write_all(&target.opening())?;
        stream.write_all(&self.request)?;
        let mut buffer = vec![0; READ_BYTES];
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(length) => take(&buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use packrace_testkit::{RepoBuilder, Size};

    use super::*;
    use crate::work::{self, Check};

    #[test]
    fn a_server_is_asked() {
        let git = Git::stock();
        let repo = RepoBuilder::new(Size::Tiny).build();
        let work = Work {
            name: String::new(),
            how: How::Served,
            repo: repo.path().to_owned(),
            request: work::clone_request(git, repo.path()),
            check: Check::SamePack,
            bytes_of: None,
        };
        let mut served = Served::new(git.binary(), &work, git).unwrap();
        let answer = served.observe().unwrap().answer;
        crate::check::agree(git, &work, &answer, None).unwrap();
        served.start_anew(|| Ok(())).unwrap();
        let timing = served.time(3).unwrap();
        // With threads, git finds different deltas each time.
        assert!(timing.bytes.abs_diff(answer.len() as u64) < 1000, "{timing:?} beside {}", answer.len());
        assert!(timing.wall_seconds > 0.0);
    }
}
