//! The bundles that clients may download now.

use std::sync::Arc;

use packrace_pack::{NoProgress, RequestObjects};
use packrace_protocol::message::bundle_uri::Bundles;
use packrace_store::Repository;

use super::BundleRules;
use super::files::{BundleFiles, BundleName};
use super::tips::{BundleTips, PREFIXES};
use crate::error::Error;
use crate::host::Host;
use crate::repository_cache::Chunk;

/// The bundles of a repository that clients may have.
#[derive(Debug)]
pub(crate) struct OfferedBundles {
    pub(crate) files: BundleFiles,
}

impl OfferedBundles {
    /// Whether the server keeps bundles of the repository. It may find later that none can be offered.
    pub(crate) fn may_exist(repository: &Repository, rules: &BundleRules) -> Result<bool, Error> {
        if !rules.apply_to(repository.config())? {
            return Ok(false);
        }
        // Clients can do without.
        let files =
            BundleFiles::list(repository).inspect_err(|why| tracing::warn!("no bundles offered: {why}"));
        Ok(files.is_ok_and(|files| !files.current.is_empty()))
    }

    /// Those that can be offered; `None` if there are none. Any program may have changed refs since they were
    /// made: while anything in them can no longer be reached, none is offered.
    pub(crate) fn of(
        repository: &Arc<Repository>,
        host: &Host,
        rules: &BundleRules,
    ) -> Result<Option<Self>, Error> {
        if !rules.apply_to(repository.config())? {
            return Ok(None);
        }
        let files = BundleFiles::list(repository)?;
        if files.current.is_empty() || !are_reached(repository, host, &files)? {
            return Ok(None);
        }
        Ok(Some(OfferedBundles { files }))
    }
}

/// Whether refs reach everything in these bundles. The answer is kept until a ref changes.
fn are_reached(repository: &Arc<Repository>, host: &Host, files: &BundleFiles) -> Result<bool, Error> {
    let names: Vec<String> = files.current.iter().map(ToString::to_string).collect();
    let question = format!("bundles {}", names.join(" ")).into_bytes();
    if let Some(answer) = host.ref_advertisements.find(repository, &question) {
        return Ok(answer.chunks().iter().any(|chunk| chunk.bytes() == b"yes"));
    }
    let (refs, stamp) = repository.refs().stamped_snapshot(&PREFIXES)?;
    let request_objects = Arc::new(RequestObjects::new(repository.cached_snapshot()?));
    let tips = BundleTips::of(repository, &refs, &request_objects)?;
    let are_reached = tips.reach(&files.headers()?, &request_objects, &NoProgress)?;
    if tips.has_read_all {
        let answer: &[u8] = if are_reached { b"yes" } else { b"no" };
        host.ref_advertisements.keep(repository, &question, stamp, vec![Chunk::new(answer.to_vec(), 0)]);
    }
    Ok(are_reached)
}

/// What a list of bundles says of all of them (technical/bundle-uri, "Bundle Lists").
const OF_ALL: [(&str, &str); 3] = [("version", "1"), ("mode", "all"), ("heuristic", "creationToken")];

/// A list for the wire; the URIs begin with `prefix`. git expects keys in lower case.
pub(crate) fn uri_list(bundles: &[BundleName], prefix: &str) -> Bundles {
    let of_all = OF_ALL.map(|(key, value)| (format!("bundle.{key}"), value.to_owned()));
    let of_one = |name: &BundleName| {
        let id = name.id();
        let uri = (format!("bundle.{id}.uri"), format!("{prefix}{name}"));
        [uri, (format!("bundle.{id}.creationtoken"), name.token.to_string())]
    };
    let list = of_all.into_iter().chain(bundles.iter().flat_map(of_one));
    list.map(|(key, value)| (key.into_bytes(), value.into_bytes())).collect()
}

/// The same list as a file in the form of git's configuration, whose URIs are relative to its own.
pub(crate) fn list_file(bundles: &[BundleName]) -> String {
    let mut text = "[bundle]\n".to_owned();
    OF_ALL.iter().for_each(|(key, value)| text.push_str(&format!("\t{key} = {value}\n")));
    for name in bundles {
        let BundleName { token, .. } = name;
        text.push_str(&format!("[bundle \"{}\"]\n\turi = {name}\n\tcreationToken = {token}\n", name.id()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        let names = ["7-full.bundle", "8-increment.bundle"].map(|name| BundleName::parse(name).unwrap());
        let lines: Vec<String> = uri_list(&names, "p/")
            .iter()
            .map(|(key, value)| {
                format!("{}={}", String::from_utf8_lossy(key), String::from_utf8_lossy(value))
            })
            .collect();
        assert_eq!(
            lines,
            [
                "bundle.version=1",
                "bundle.mode=all",
                "bundle.heuristic=creationToken",
                "bundle.7-full.uri=p/7-full.bundle",
                "bundle.7-full.creationtoken=7",
                "bundle.8-increment.uri=p/8-increment.bundle",
                "bundle.8-increment.creationtoken=8",
            ]
        );
        assert_eq!(
            list_file(&names[..1]),
            "[bundle]\n\tversion = 1\n\tmode = all\n\theuristic = creationToken\n\
             [bundle \"7-full\"]\n\turi = 7-full.bundle\n\tcreationToken = 7\n"
        );
    }
}
