//! Boolean environment variables (git, "ENVIRONMENT VARIABLES"): a wrong value ends the commands that read it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;

use packrace_store::parse_boolean;

use crate::call::fatal::Fatal;

/// The variables that are checked.
const NAMES: [&str; 12] = [
    "GIT_ADVICE",
    "GIT_ATTR_NOSYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_NO_LAZY_FETCH",
    "GIT_PAGER_IN_USE",
    "GIT_REF_PARANOIA",
    PATHSPECS[0],
    PATHSPECS[1],
    PATHSPECS[2],
    PATHSPECS[3],
];

/// Those about pathspecs, which are read if there are any, in the order in which git reports them.
const PATHSPECS: [&str; 4] =
    ["GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS", "GIT_ICASE_PATHSPECS", "GIT_NOGLOB_PATHSPECS"];

/// Variables with values that are no booleans.
#[derive(Debug, Clone, Default)]
pub struct BadBooleans(Vec<(&'static str, OsString)>);

impl BadBooleans {
    /// Reads the variables with `get`.
    pub fn from_lookup(get: &dyn Fn(&str) -> Option<OsString>) -> Self {
        let set = NAMES.into_iter().filter_map(|name| Some((name, get(name)?)));
        BadBooleans(set.filter(|(_, value)| parse_boolean(value.as_bytes()).is_none()).collect())
    }

    /// Fails if one about pathspecs is among them.
    pub fn check_pathspecs(&self) -> Result<(), Fatal> {
        self.check(&PATHSPECS)
    }

    /// Fails if one of these is among them.
    pub fn check(&self, names: &[&str]) -> Result<(), Fatal> {
        let Some((name, value)) = self.0.iter().find(|(name, _)| names.contains(name)) else { return Ok(()) };
        let value = value.to_string_lossy();
        Err(Fatal::new(format!("bad boolean environment value '{value}' for '{name}'")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_values_are_refused_where_they_are_read() {
        let check = |value: &str, expect: Option<&str>| {
            let get = |name: &str| (name == "GIT_REF_PARANOIA").then(|| OsString::from(value));
            let found = BadBooleans::from_lookup(&get);
            assert!(found.check(&["GIT_NO_LAZY_FETCH"]).is_ok());
            let error = found.check(&["GIT_NO_LAZY_FETCH", "GIT_REF_PARANOIA"]).err();
            assert_eq!(error.map(|error| error.message).as_deref(), expect, "{value}");
        };
        let all = BadBooleans::from_lookup(&|name: &str| name.ends_with("B_PATHSPECS").then(|| "x".into()));
        let error = all.check_pathspecs().unwrap_err();
        assert_eq!(error.message, "bad boolean environment value 'x' for 'GIT_GLOB_PATHSPECS'");
        check("x", Some("bad boolean environment value 'x' for 'GIT_REF_PARANOIA'"));
        for good in ["", "0", "1", "7k", "No", "true"] {
            check(good, None);
        }
    }
}
