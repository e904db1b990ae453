//! Configuration outside of repositories, as it was when it could last be read.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Config;
use crate::error::Error;

/// For a server whose sandbox allows files, not names. When editors or `git config` replace a configuration
/// file, the new file cannot be read, so the values read before stay in effect.
#[derive(Debug, Default)]
pub struct LastConfig(Mutex<LastState>);

#[derive(Debug, Default)]
struct LastState {
    config: Option<Config>,
    /// Whether the log already reports that the values differ from the files.
    is_told: bool,
}

impl LastConfig {
    pub(super) fn keep(&self, config: &Config) {
        *self.lock() = LastState { config: Some(config.clone()), is_told: false };
    }

    /// The last values read, if `error` says that a file exists but cannot be read.
    pub(super) fn instead_of(&self, error: Error) -> Result<Config, Error> {
        let mut state = self.lock();
        let Some(config) = state.config.clone().filter(|_| error.is_unreadable_config()) else {
            return Err(error);
        };
        if !std::mem::replace(&mut state.is_told, true) {
            tracing::warn!("{error}: keeping the last readable configuration; restart the server to read it");
        }
        Ok(config)
    }

    fn lock(&self) -> MutexGuard<'_, LastState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::config::ConfigSources;

    #[test]
    fn what_cannot_be_read_counts_as_it_was() {
        let dir = packrace_testkit::scratch_dir();
        let path = dir.path().join("config");
        let without = ConfigSources { global: vec![path.clone()], ..ConfigSources::default() };
        let with = ConfigSources { last: Some(Arc::default()), ..without.clone() };
        let value = |sources: &ConfigSources| Config::outside(sources).map(|config| config.string("a.b"));
        // Nothing has been read yet, so there is no fallback.
        std::fs::create_dir(&path).unwrap();
        let error = value(&with).unwrap_err().to_string();
        assert_eq!(error, format!("unable to access '{}': Is a directory", path.display()));
        std::fs::remove_dir(&path).unwrap();
        assert_eq!(value(&with).unwrap(), None);
        for text in ["c", "d"] {
            std::fs::write(&path, format!("[a]\n\tb = {text}\n")).unwrap();
            assert_eq!(value(&with).unwrap().unwrap(), text.as_bytes());
        }
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert_eq!(value(&with.clone()).unwrap().unwrap(), b"d");
        value(&without).unwrap_err();
        // A removed file sets nothing. A readable but invalid file is an error.
        std::fs::remove_dir(&path).unwrap();
        assert_eq!(value(&with).unwrap(), None);
        std::fs::write(&path, "[a\n").unwrap();
        value(&with).unwrap_err();
    }
}
