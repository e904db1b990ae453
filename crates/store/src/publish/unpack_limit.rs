use crate::config::Config;
use crate::error::Error;

/// Below so many objects, what a push brings becomes loose objects unless the configuration says otherwise.
///
/// Durable on ext4, 3 objects took 4.3 ms loose and 2.8 ms as a pack, 5 took 5.2 and 2.9, 20 took 14.7 and 2.9: each loose one costs
/// a file and a directory, a pack three files and a directory. But each pack makes every look-up slower until the next repack, so
/// the smallest pushes do not make one. Stock git has 100 here, and syncs none of them.
pub const DEFAULT_UNPACK_LIMIT: u32 = 6;

/// In which form received objects are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Each in a file.
    Loose,
    /// All in the pack in which they came, completed where it is thin.
    Pack,
}

/// `receive.unpackLimit`, or else `transfer.unpackLimit` (git-config); negative ones count as not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnpackLimit(i64);

impl UnpackLimit {
    /// For what is pushed into a repository.
    pub fn of_pushes(config: &Config) -> Result<Self, Error> {
        for name in ["receive.unpackLimit", "transfer.unpackLimit"] {
            if let Some(limit) = config.integer(name)?.filter(|limit| *limit >= 0) {
                return Ok(UnpackLimit(limit));
            }
        }
        Ok(UnpackLimit(DEFAULT_UNPACK_LIMIT.into()))
    }

    /// What becomes of a pack that announces so many objects.
    pub fn form_of(self, objects: u32) -> Form {
        if i64::from(objects) < self.0 { Form::Loose } else { Form::Pack }
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
        let limit = UnpackLimit::of_pushes(&Config::outside(&sources).unwrap()).unwrap();
        let last = (0..200).rev().find(|objects| limit.form_of(*objects) == Form::Loose);
        assert_eq!(last, expect, "{settings:?}");
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
    }
}
