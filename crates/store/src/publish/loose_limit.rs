use crate::config::Config;
use crate::error::Error;

/// Below so many new objects at once, each becomes a file of its own unless the configuration says otherwise.
///
/// Durable on ext4, 3 objects took 4.3 ms loose and 2.8 ms as a pack, 5 took 5.2 and 2.9, 20 took 14.7 and 2.9: each loose one costs
/// a file and a directory, a pack three files and a directory. But each pack makes every look-up slower until the next repack, so
/// the smallest pushes and commits do not make one. Stock git unpacks pushes below 100, and syncs none of them; what it adds
/// itself is always loose.
pub const DEFAULT_LOOSE_LIMIT: u32 = 6;

/// In which form new objects are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Each in a file.
    Loose,
    /// All in one pack; what came in a pack, in that, completed where it is thin.
    Pack,
}

/// How many objects make a pack. Negative settings count as not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LooseLimit(u64);

impl Default for LooseLimit {
    fn default() -> Self {
        LooseLimit(DEFAULT_LOOSE_LIMIT.into())
    }
}

impl LooseLimit {
    /// Below so many objects they are loose.
    pub fn below(objects: u32) -> Self {
        LooseLimit(objects.into())
    }

    /// `packrace.looseLimit`: for what commands make.
    pub fn of(config: &Config) -> Result<Self, Error> {
        Ok(Self::named(config, &["packrace.looseLimit"])?.unwrap_or_default())
    }

    /// For what is pushed into a repository: `receive.unpackLimit`, or else `transfer.unpackLimit` (git-config), or else as for
    /// everything.
    pub fn of_pushes(config: &Config) -> Result<Self, Error> {
        match Self::named(config, &["receive.unpackLimit", "transfer.unpackLimit"])? {
            Some(limit) => Ok(limit),
            None => Self::of(config),
        }
    }

    fn named(config: &Config, names: &[&str]) -> Result<Option<Self>, Error> {
        for name in names {
            if let Some(limit) = config.integer(name)?.and_then(|limit| u64::try_from(limit).ok()) {
                return Ok(Some(LooseLimit(limit)));
            }
        }
        Ok(None)
    }

    /// What becomes of so many objects.
    pub fn form_of(self, objects: u32) -> Form {
        if u64::from(objects) < self.0 { Form::Loose } else { Form::Pack }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ConfigSources;

    /// The last number of objects that is unpacked, if any is.
    fn check(settings: &[(&str, &str)], expect: Option<u32>) {
        let overrides = settings.iter().map(|(name, value)| ((*name).to_owned(), Some((*value).to_owned())));
        let sources = ConfigSources { overrides: overrides.collect(), ..Default::default() };
        let config = Config::outside(&sources).unwrap();
        let last = |limit: LooseLimit| (0..200).rev().find(|objects| limit.form_of(*objects) == Form::Loose);
        assert_eq!(last(LooseLimit::of_pushes(&config).unwrap()), expect, "{settings:?}");
        if settings.iter().all(|(name, _)| name.starts_with("packrace.")) {
            assert_eq!(last(LooseLimit::of(&config).unwrap()), expect, "{settings:?}");
        }
    }

    #[test]
    fn limits() {
        check(&[], Some(5));
        check(&[("receive.unpackLimit", "100")], Some(99));
        check(&[("transfer.unpackLimit", "3")], Some(2));
        check(&[("transfer.unpackLimit", "3"), ("receive.unpackLimit", "7")], Some(6));
        check(&[("receive.unpackLimit", "-1"), ("transfer.unpackLimit", "3")], Some(2));
        check(&[("receive.unpackLimit", "-1")], Some(5));
        check(&[("receive.unpackLimit", "0")], None);
        check(&[("receive.unpackLimit", "1")], Some(0));
        check(&[("receive.unpackLimit", "4g")], Some(199));
        check(&[("packrace.looseLimit", "20")], Some(19));
        check(&[("packrace.looseLimit", "-3")], Some(5));
        check(&[("packrace.looseLimit", "0")], None);
        check(&[("packrace.looseLimit", "20"), ("transfer.unpackLimit", "3")], Some(2));
    }
}
