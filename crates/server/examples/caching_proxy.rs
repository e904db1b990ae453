//! A caching proxy: mirrors of another server's repositories, made when first asked for and fetched when old:
//! `cargo run -p packrace-server --example caching_proxy -- https://git.example.org FOLDER`

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use packrace_server::embed::{Git, GitHttp, RepositoryPaths};

/// Clients may see refs that are so old.
const MAX_AGE: Duration = Duration::from_secs(2);

/// When a mirror was last fetched; locked while it is.
type Fetched = Arc<Mutex<Option<Instant>>>;

#[derive(Debug)]
struct Mirrors {
    upstream: String,
    folder: PathBuf,
    fetched: Mutex<HashMap<Vec<u8>, Fetched>>,
}

impl Mirrors {
    /// Brings a mirror up to date, if it is too old. Clients that ask meanwhile wait, and share what comes.
    fn refresh(&self, name: &str) -> Option<()> {
        let entry = self.fetched.lock().ok()?.entry(name.into()).or_default().clone();
        let mut fetched = entry.lock().ok()?;
        if fetched.is_none_or(|at| at.elapsed() > MAX_AGE) {
            let repository = self.folder.join(name);
            let git = |args: &[&str]| {
                let mut command = Command::new("git");
                command.env("GIT_TERMINAL_PROMPT", "0").stdin(Stdio::null()).stdout(Stdio::null());
                command.arg("-C").arg(&self.folder).args(args).status().ok()?.success().then_some(())
            };
            match repository.exists() {
                true => git(&["-C", name, "fetch", "-q", "--prune", "origin"])?,
                false => git(&["clone", "-q", "--mirror", &format!("{}/{name}", self.upstream), name])?,
            }
            *fetched = Some(Instant::now());
        }
        Some(())
    }
}

impl RepositoryPaths for Mirrors {
    fn path_of(&self, name: &[u8]) -> Option<PathBuf> {
        let name = std::str::from_utf8(name).ok()?;
        let is_plain = |part: &str| !part.starts_with(['.', '-']) && !part.contains(['\\', ':']);
        // Only `…/NAME.git`, so that no mirror lies within another.
        let (folders, last) = name.rsplit_once('/').unwrap_or(("", name));
        let is_name = last.ends_with(".git") && !folders.split('/').any(|part| part.ends_with(".git"));
        (is_name && name.split('/').all(is_plain)).then_some(())?;
        self.refresh(name)?;
        Some(PathBuf::from(name))
    }
}

/// The proxy, for any web server.
pub fn proxy(upstream: &str, folder: &Path) -> std::io::Result<GitHttp> {
    let mirrors =
        Mirrors { upstream: upstream.to_owned(), folder: folder.to_owned(), fetched: Mutex::default() };
    Ok(Git::builder(folder).repositories(mirrors).build()?.http())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [upstream, folder] = &arguments[..] else { return Err("usage: caching_proxy URL FOLDER".into()) };
    let app = axum::Router::new().fallback_service(proxy(upstream, Path::new(folder))?);
    tokio::runtime::Runtime::new()?.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        println!("http://{}/", listener.local_addr()?);
        Ok(axum::serve(listener, app).await?)
    })
}
