//! What the server is told, which changes while it runs, and a file system for its cache that is always full.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The file of settings.
pub struct SettingsFile {
    path: PathBuf,
    cache: PathBuf,
}

impl SettingsFile {
    /// Settings in this folder, for a cache in another one.
    pub fn new(folder: &Path, cache: &Path) -> io::Result<Self> {
        let file = SettingsFile { path: folder.join("settings.toml"), cache: cache.to_path_buf() };
        file.write(0)?;
        Ok(file)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes another one for each `number`. With every other, most clones wait in line.
    pub fn write(&self, number: usize) -> io::Result<()> {
        let clones = if number.is_multiple_of(2) { 512 } else { 2 };
        // Nothing is kept in memory, so that packs that are asked for twice go on disk, or would.
        let text = format!(
            "[limits]\nmax-connections = {}\n\n[admission]\nmax-clones = {clones}\n\n\
             [cache]\nmax-memory-bytes = 0\nmax-disk-bytes = \"1m\"\nmax-age = \"5s\"\ndirectory = \"{}\"\n",
            1000 + number,
            self.cache.display(),
        );
        // Whole or not at all: the server may read at any time.
        let fresh = self.path.with_extension("fresh");
        std::fs::write(&fresh, text)?;
        std::fs::rename(fresh, &self.path)
    }
}

/// A file system of 128 KiB in memory, where mounting is allowed; unmounted when dropped.
pub struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    /// Mounts it, if that is possible.
    pub fn new(place: &'a Path) -> Option<Self> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=128k", "tmpfs"]).arg(place).stderr(Stdio::null());
        mount.status().is_ok_and(|status| status.success()).then_some(SmallDisk(place))
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        // The server's files may be there for a moment yet: it goes when the last is closed.
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}
