//! Bundles of a repository: files from which clients start, so that they fetch only what is newer
//! (technical/bundle-uri; docs/decisions/0055-bundles.md).
//!
//! ```text
//! caretaker ─▶ upkeep ─▶ packrace-bundles/<token>-full.bundle, <token>-increment.bundle
//!                          │ files: the latest full one, and all increments after it
//!                          ▼
//! bundle-uri, GET …/bundles/… ─▶ offer: nothing, unless refs still reach everything in them
//! ```

mod files;
mod making;
mod offer;
mod tips;
mod upkeep;

use std::fmt;
use std::str::FromStr;

use http::Uri;
use packrace_store::Config;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

use crate::error::Error;

pub(crate) use files::BundleName;
pub(crate) use offer::{OfferedBundles, list_file, uri_list};
pub(crate) use upkeep::{BundleStep, BundleUpkeep};

/// The folder of bundles in URIs, below that of the repository.
pub(crate) const URI_FOLDER: &str = "bundles";

/// The list of bundles in it.
pub(crate) const LIST_NAME: &str = "list";

/// The characters that are escaped in a path: all but slashes and the unreserved ones (RFC 3986, 2.3).
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Which bundles a server keeps. Plain data; all may change while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleRules {
    /// Whether it keeps and offers any. Default: no.
    pub keep: bool,
    /// Where clients of git:// and SSH reach the served folder over HTTP.
    pub base_url: Option<BundleBaseUrl>,
    /// No bundles are made of repositories whose packs are larger. Default: 16 GiB.
    pub max_bytes: u64,
}

impl Default for BundleRules {
    fn default() -> Self {
        BundleRules { keep: false, base_url: None, max_bytes: 16 << 30 }
    }
}

/// How the bundles that a server keeps are offered in a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptBundles {
    /// Which there are.
    pub(crate) rules: BundleRules,
    /// What their URIs begin with.
    pub(crate) uri_prefix: String,
}

impl KeptBundles {
    /// For a client that requested a repository by this path; `None` if no URI would lead to bundles.
    pub(crate) fn of(rules: &BundleRules, path: &[u8], is_http: bool) -> Option<Self> {
        let uri_prefix = match &rules.base_url {
            _ if !rules.keep => return None,
            // Relative to the URL of the repository that the client uses.
            _ if is_http => format!("{URI_FOLDER}/"),
            Some(BundleBaseUrl(base)) => {
                format!(
                    "{base}{}/{URI_FOLDER}/",
                    percent_encode(path.strip_suffix(b"/").unwrap_or(path), ESCAPED)
                )
            }
            None => return None,
        };
        Some(KeptBundles { rules: rules.clone(), uri_prefix })
    }
}

impl BundleRules {
    /// Whether bundles of a repository with this configuration are kept. The repository may forbid it, or
    /// name bundles of its own.
    fn apply_to(&self, config: &Config) -> Result<bool, Error> {
        let is_refused = config.boolean("uploadpack.advertiseBundleURIs")? == Some(false);
        Ok(self.keep && !is_refused && config.section("bundle").next().is_none())
    }
}

/// An absolute URL without a slash at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleBaseUrl(String);

impl FromStr for BundleBaseUrl {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let url: Uri = text.parse().map_err(drop)?;
        let authority = url.authority().ok_or(())?;
        let is_http = matches!(url.scheme_str(), Some("http" | "https"));
        if !is_http || authority.as_str().contains('@') || url.query().is_some() {
            return Err(());
        }
        Ok(BundleBaseUrl(text.trim_end_matches('/').to_owned()))
    }
}

impl fmt::Display for BundleBaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(base_url: Option<&str>) -> BundleRules {
        let base_url = base_url.map(|url| url.parse().unwrap());
        BundleRules { keep: true, base_url, ..BundleRules::default() }
    }

    #[test]
    fn prefixes_of_uris() {
        let check = |base_url, is_http, path: &str, expect: Option<&str>| {
            let kept = KeptBundles::of(&rules(base_url), path.as_bytes(), is_http);
            assert_eq!(kept.map(|kept| kept.uri_prefix).as_deref(), expect, "{base_url:?} {path}");
        };
        check(None, true, "/a.git", Some("bundles/"));
        check(None, false, "/a.git", None);
        let base = Some("https://git.example/x/");
        check(base, true, "/a.git", Some("bundles/"));
        check(base, false, "/a.git", Some("https://git.example/x/a.git/bundles/"));
        check(base, false, "/b/ä c/", Some("https://git.example/x/b/%C3%A4%20c/bundles/"));
        check(base, false, "/", Some("https://git.example/x/bundles/"));
        assert_eq!(KeptBundles::of(&BundleRules::default(), b"/a.git", true), None);
    }

    #[test]
    fn base_urls() {
        let check = |text: &str, expect: Option<&str>| {
            let url = text.parse::<BundleBaseUrl>().ok().map(|url| url.to_string());
            assert_eq!(url.as_deref(), expect, "{text}");
        };
        check("http://a", Some("http://a"));
        check("https://a:1/b//", Some("https://a:1/b"));
        for bad in ["", "a", "/a", "git://a", "https://u@a", "https://a/?b", "https://a b", "https://"] {
            check(bad, None);
        }
    }
}
