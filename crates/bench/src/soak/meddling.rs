//! Changes repositories from outside while they are served.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use super::Soak;

/// Time between two changes.
const EVERY: Duration = Duration::from_millis(700);

/// Changes settings, repacks with and without a bitmap, packs refs, and deletes and recreates a repository.
pub fn meddle(soak: &Soak, is_over: &AtomicBool) {
    let changing = &soak.site.changing;
    let changes: [&dyn Fn() -> io::Result<()>; 6] = [
        &|| stock(soak, changing, &["repack", "-adbq"]),
        &|| stock(soak, changing, &["pack-refs", "--all"]),
        &|| std::fs::remove_dir_all(&soak.site.fleeting),
        &|| stock(soak, changing, &["-c", "repack.writeBitmaps=false", "repack", "-dq"]),
        &|| copy(&soak.site.outside, &soak.site.fleeting),
        &|| stock(soak, changing, &["-c", "repack.writeBitmaps=false", "repack", "-adq"]),
    ];
    for number in 0.. {
        if is_over.load(Relaxed) {
            break;
        }
        let settings = soak.settings.write(number).and_then(|()| soak.server.reload());
        if let Err(error) = settings {
            soak.fail("new settings", error);
        }
        for change in changes {
            if let Err(error) = change() {
                soak.fail("a change from outside", error);
            }
            soak.counts.changes.fetch_add(1, Relaxed);
            std::thread::sleep(EVERY);
        }
    }
}

fn stock(soak: &Soak, repo: &Path, args: &[&str]) -> io::Result<()> {
    let output = soak.git.command(repo).args(args).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("git {args:?}: {}", String::from_utf8_lossy(&output.stderr).trim_end())))
}

/// Copies a repository file by file, like a tool that does not know its format.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            std::fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}
