use crate::config::Config;
use crate::error::Error;

/// Fewer new objects than this are stored loose unless configured otherwise.
///
/// Durable on ext4, 3 objects took 4.3 ms loose and 2.8 ms as a pack, 5 took 5.2 and 2.9, 20 took 14.7 and
/// 2.9: each loose object costs a file and a directory, a pack three files and a directory. But each pack
/// slows every lookup until the next repack, so the smallest pushes and commits do not create one. Stock
/// git unpacks pushes below 100 objects and syncs none of them; objects that its commands create are
/// always loose.
pub const DEFAULT_LOOSE_LIMIT: u32 = 6;

/// The form in which new objects are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Each in its own file.
    Loose,
    /// All in one pack; a received pack is kept, completed if thin.
    Pack,
}

const PUSH_SETTINGS: [&str; 2] = ["receive.unpackLimit", "transfer.unpackLimit"];

/// Git's, without a setting.
const GIT_PUSH_LIMIT: LooseLimit = LooseLimit(100);

/// The number of objects at which a pack is made. Negative settings count as unset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LooseLimit(u64);

impl Default for LooseLimit {
    fn default() -> Self {
        LooseLimit(DEFAULT_LOOSE_LIMIT.into())
    }
}

impl LooseLimit {
    /// Fewer objects than this are loose.
    pub fn below(objects: u32) -> Self {
        LooseLimit(objects.into())
    }

    /// `packrace.looseLimit`: for objects that commands create.
    pub fn of(config: &Config) -> Result<Self, Error> {
        Ok(Self::named(config, &["packrace.looseLimit"])?.unwrap_or_default())
    }

    /// For pushes: `receive.unpackLimit`, or else `transfer.unpackLimit` (git-config), or else the
    /// general limit.
    pub fn of_pushes(config: &Config) -> Result<Self, Error> {
        match Self::named(config, &PUSH_SETTINGS)? {
            Some(limit) => Ok(limit),
            None => Self::of(config),
        }
    }

    /// The number of objects of a push at which git makes a pack.
    pub fn of_pushes_to_git(config: &Config) -> Result<Self, Error> {
        Ok(Self::named(config, &PUSH_SETTINGS)?.unwrap_or(GIT_PUSH_LIMIT))
    }

    fn named(config: &Config, names: &[&str]) -> Result<Option<Self>, Error> {
        for name in names {
            if let Some(limit) = config.integer(name)?.and_then(|limit| u64::try_from(limit).ok()) {
                return Ok(Some(LooseLimit(limit)));
            }
        }
        Ok(None)
    }

    /// The form for this number of objects.
    pub fn form_of(self, objects: u32) -> Form {
        if u64::from(objects) < self.0 { Form::Loose } else { Form::Pack }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ConfigSources;

    /// Checks the largest number of objects that is unpacked, if any.
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
