use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use super::ConfigScope;
use crate::error::{Error, Reason};

/// A name and its value, and where it was read.
#[derive(Debug, Clone)]
pub(super) struct ConfigEntry {
    pub(super) scope: ConfigScope,
    /// Normalized by `normalized`.
    pub(super) name: Vec<u8>,
    /// `None` for a name without `=`.
    pub(super) value: Option<Vec<u8>>,
    pub(super) file: Option<Arc<Path>>,
}

impl ConfigEntry {
    pub(super) fn integer(&self) -> Result<i64, Error> {
        parse_integer(self.value.as_deref().unwrap_or_default()).ok_or_else(|| {
            let value = self.value_text();
            let digits =
                value.trim_start_matches(['-', '+']).trim_end_matches(['k', 'm', 'g', 'K', 'M', 'G']);
            let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            self.bad_number(if is_number { "out of range" } else { "invalid unit" })
        })
    }

    pub(super) fn bad_number(&self, why: &str) -> Error {
        let (value, name) = (self.value_text(), self.name_text());
        let place = self.file.as_ref().map(|path| format!(" in file {}", path.display()));
        let place = place.unwrap_or_default();
        Reason::Config(format!("bad numeric config value '{value}' for '{name}'{place}: {why}")).into()
    }

    pub(super) fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(self.value.as_deref().unwrap_or_default()))
    }

    pub(super) fn value_text(&self) -> String {
        String::from_utf8_lossy(self.value.as_deref().unwrap_or_default()).into_owned()
    }

    pub(super) fn name_text(&self) -> String {
        String::from_utf8_lossy(&self.name).into_owned()
    }
}

pub(super) fn parse_integer(value: &[u8]) -> Option<i64> {
    gix_config::Integer::try_from(str::from_utf8(value).ok()?).ok()?.to_decimal()
}
