//! The server's settings, which change while it runs, and a full file system for its cache.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The settings file.
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

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes different settings for each `number`. With every other one, most clones must queue.
    pub fn write(&self, number: usize) -> io::Result<()> {
        let clones = if number.is_multiple_of(2) { 512 } else { 2 };
        // Nothing is cached in memory, so that packs requested twice are cached on disk, if possible.
        let text = format!(
            "[limits]\nmax-connections = {}\n\n[admission]\nmax-clones = {clones}\n\n\
             [cache]\nmax-memory-bytes = 0\nmax-disk-bytes = \"1m\"\nmax-age = \"5s\"\ndirectory = \"{}\"\n",
            1000 + number,
            self.cache.display(),
        );
        // Atomic: the server may read at any time.
        let fresh = self.path.with_extension("fresh");
        std::fs::write(&fresh, text)?;
        std::fs::rename(fresh, &self.path)
    }
}

/// A file system of 128 KiB in memory, if mounting is allowed; unmounted when dropped.
pub struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    /// Mounts it, if possible.
    pub fn new(place: &'a Path) -> Option<Self> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=128k", "tmpfs"]).arg(place).stderr(Stdio::null());
        mount.status().is_ok_and(|status| status.success()).then_some(SmallDisk(place))
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        // The server may still have files open: it goes away when the last one is closed.
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}
