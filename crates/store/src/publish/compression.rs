//! zlib levels (git-config, "core.compression").

use crate::config::Config;
use crate::error::{Error, Reason};

/// The level for loose objects (`core.looseCompression`).
pub fn loose_compression(config: &Config) -> Result<i32, Error> {
    level(config, "core.looseCompression", "zlib", 1)
}

/// The level in packs (`pack.compression`).
pub fn pack_compression(config: &Config) -> Result<i32, Error> {
    level(config, "pack.compression", "pack", -1)
}

/// The value of `name`, or else of `core.compression`. An invalid level is an error even if unused.
fn level(config: &Config, name: &str, what: &str, default: i32) -> Result<i32, Error> {
    let mut found = default;
    for (name, what) in [("core.compression", "zlib"), (name, what)] {
        match config.small_integer(name)? {
            None => {}
            Some(level @ -1..=9) => found = level,
            Some(level) => return Err(Reason::Config(format!("bad {what} compression level {level}")).into()),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels() {
        let check = |settings: &[(&str, &str)], loose: Result<i32, &str>, pack: Result<i32, &str>| {
            let overrides =
                settings.iter().map(|(name, value)| ((*name).to_owned(), Some((*value).to_owned())));
            let sources = crate::ConfigSources { overrides: overrides.collect(), ..Default::default() };
            let config = Config::outside(&sources).unwrap();
            for (found, expect) in [(loose_compression(&config), loose), (pack_compression(&config), pack)] {
                let found = found.map_err(|error| error.to_string());
                assert_eq!(found, expect.map_err(str::to_owned), "{settings:?}");
            }
        };
        check(&[], Ok(1), Ok(-1));
        check(&[("core.compression", "9")], Ok(9), Ok(9));
        check(&[("core.compression", "9"), ("core.looseCompression", "-1")], Ok(-1), Ok(9));
        check(&[("pack.compression", "0")], Ok(1), Ok(0));
        let bad = "bad zlib compression level 10";
        check(&[("core.compression", "10"), ("pack.compression", "1")], Err(bad), Err(bad));
        check(&[("pack.compression", "-2")], Ok(1), Err("bad pack compression level -2"));
    }
}
