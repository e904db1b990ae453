//! The configuration of conversions.

use gix_filter::eol::{AutoCrlf, Configuration, Mode};
use packrace_store::Config;

use super::Error;
use super::driver::Driver;
use super::eol::Safety;

/// The settings of conversions, as plain data.
#[derive(Debug, Clone)]
pub(super) struct FilterSettings {
    pub(super) eol: Configuration,
    pub(super) safety: Safety,
    /// `core.checkRoundtripEncoding`.
    pub(super) checked_encodings: Vec<String>,
    pub(super) drivers: Vec<Driver>,
}

impl FilterSettings {
    pub(super) fn of(config: &Config) -> Result<Self, Error> {
        let is = |name: &str, word: &str| {
            config.string(name).is_some_and(|value| value.eq_ignore_ascii_case(word.as_bytes()))
        };
        let auto_crlf = match is("core.autocrlf", "input") {
            true => AutoCrlf::Input,
            false if config.boolean("core.autocrlf")?.unwrap_or(false) => AutoCrlf::Enabled,
            false => AutoCrlf::Disabled,
        };
        let eol = match () {
            () if is("core.eol", "lf") => Some(Mode::Lf),
            () if is("core.eol", "crlf") => Some(Mode::CrLf),
            () => None,
        };
        let safety = match is("core.safecrlf", "warn") || config.string("core.safecrlf").is_none() {
            true => Safety::Warned,
            false if config.boolean("core.safecrlf")?.unwrap_or(false) => Safety::Refused,
            false => Safety::Ignored,
        };
        let checked = config.string("core.checkRoundtripEncoding").unwrap_or_else(|| b"SHIFT-JIS".to_vec());
        let checked = String::from_utf8_lossy(&checked).into_owned();
        let checked_encodings =
            checked.split([',', ' ', '\t']).filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let eol = Configuration { auto_crlf, eol };
        Ok(FilterSettings { eol, safety, checked_encodings, drivers: drivers(config)? })
    }
}

fn drivers(config: &Config) -> Result<Vec<Driver>, Error> {
    let mut drivers: Vec<Driver> = Vec::new();
    for (driver, key, value) in config.subsections("filter") {
        let driver = String::from_utf8_lossy(driver);
        let at = drivers.iter().position(|known| known.name == driver).unwrap_or_else(|| {
            drivers.push(Driver { name: driver.into_owned(), ..Driver::default() });
            drivers.len() - 1
        });
        let value = value.map(<[u8]>::to_vec);
        match key {
            b"clean" => drivers[at].clean = value,
            b"smudge" => drivers[at].smudge = value,
            b"process" => drivers[at].process = value,
            b"required" => {
                let name = format!("filter.{}.required", drivers[at].name);
                drivers[at].is_required = config.boolean(&name)?.unwrap_or(false);
            }
            _ => {}
        }
    }
    Ok(drivers)
}
