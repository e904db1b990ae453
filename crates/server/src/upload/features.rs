//! Features of version 2 that the configuration turns on (git-config, "uploadpack", "transfer", "bundle" and
//! "promisor").

use std::collections::HashSet;

use packrace_object::{HashKind, ObjectId};
use packrace_protocol::message::bundle_uri::Bundles;
use packrace_protocol::message::packfile_uris::PackfileUri;
use packrace_protocol::message::promisor_remote::{self, PromisorRemote};
use packrace_protocol::session::Features;
use packrace_store::Config;

use crate::error::Error;

const BLOB_URI: &str = "uploadpack.blobPackfileUri";

/// The features that the configuration offers. The server may keep bundles of its own. Values of [`blob_uris`] are read only for
/// clients that ask for them.
pub(super) fn features(config: &Config, has_bundles: bool) -> Result<Features, Error> {
    let is_on = |name| config.boolean(name).map(|value| value.unwrap_or(false));
    let promisors = if is_on("promisor.advertise")? { promisor_remotes(config)? } else { Vec::new() };
    Ok(Features {
        ref_in_want: is_on("uploadpack.allowRefInWant")?,
        sideband_all: is_on("uploadpack.allowSidebandAll")?,
        packfile_uris: !config.strings(BLOB_URI).is_empty() && config.need_values(&[BLOB_URI]).is_ok(),
        object_info: is_on("transfer.advertiseObjectInfo")?,
        bundle_uri: has_bundles || is_on("uploadpack.advertiseBundleURIs")?,
        promisor_remote: promisor_remote::write_offer(&promisors),
    })
}

/// `lsrefs.unborn`: whether the capability is advertised, and whether a client that asks gets the answer.
pub(super) fn unborn(config: &Config) -> Result<[bool; 2], Error> {
    match config.string("lsrefs.unborn").as_deref() {
        None | Some(b"advertise") => Ok([true, true]),
        Some(b"allow") => Ok([false, true]),
        Some(b"ignore") => Ok([false, false]),
        Some(other) => {
            let other = String::from_utf8_lossy(other);
            Err(Error::unavailable(format!("invalid value for 'lsrefs.unborn': '{other}'")))
        }
    }
}

/// An object that a client can download elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobUri {
    /// The object.
    pub object: ObjectId,
    /// A pack that holds it.
    pub pack: PackfileUri,
}

/// The values of `uploadpack.blobPackfileUri`: `<object-hash> <pack-hash> <uri>`.
pub fn blob_uris(config: &Config, hash: HashKind) -> Result<Vec<BlobUri>, Error> {
    let mut seen = HashSet::new();
    let parse = |text: Vec<u8>| {
        let shown = String::from_utf8_lossy(&text).into_owned();
        let form =
            "value of uploadpack.blobpackfileuri must be of the form '<object-hash> <pack-hash> <uri>'";
        let parsed = parse_blob_uri(&text, hash);
        let parsed = parsed.ok_or_else(|| Error::unavailable(format!("{form} (got '{shown}')")))?;
        if !seen.insert(parsed.object) {
            let what = "object already configured in another uploadpack.blobpackfileuri";
            return Err(Error::unavailable(format!("{what} (got '{shown}')")));
        }
        Ok(parsed)
    };
    config.need_values(&[BLOB_URI])?;
    config.strings(BLOB_URI).into_iter().map(parse).collect()
}

/// The URIs of packs that hold `left_out`, each once: a pack may hold several of the objects.
pub fn uris_of<'a>(
    known: impl IntoIterator<Item = &'a BlobUri>,
    left_out: &[ObjectId],
) -> Vec<&'a PackfileUri> {
    let left_out: HashSet<_> = left_out.iter().collect();
    let mut sent = HashSet::new();
    let uris = known.into_iter().filter(|uri| left_out.contains(&uri.object) && sent.insert(&uri.pack));
    uris.map(|uri| &uri.pack).collect()
}

fn parse_blob_uri(text: &[u8], hash: HashKind) -> Option<BlobUri> {
    let (object, pack) = text.split_at_checked(hash.len_in_hex())?;
    let object = ObjectId::from_hex(object).ok()?;
    let pack = PackfileUri::parse(pack.strip_prefix(b" ")?)?;
    // A control character would end the line early.
    let is_plain = pack.uri.iter().all(|byte| *byte > b' ' && *byte != 0x7f);
    (is_plain && pack.pack_hash.len() == hash.len_in_hex() && pack.fits()).then_some(BlobUri { object, pack })
}

/// All of `bundle.*`, in the order of the files, if the configuration offers it. (git prints `(null)` for a name
/// without a value; we leave it out.)
pub(super) fn configured_bundles(config: &Config) -> Result<Bundles, Error> {
    if config.boolean("uploadpack.advertiseBundleURIs")? != Some(true) {
        return Ok(Bundles::new());
    }
    let entries = config.section("bundle");
    Ok(entries.filter_map(|(name, value)| Some((name.to_vec(), value?.to_vec()))).collect())
}

/// The remotes that the repository itself borrows objects from. Those without a URL are left out.
fn promisor_remotes(config: &Config) -> Result<Vec<PromisorRemote>, Error> {
    const KNOWN: [&str; 2] = ["partialCloneFilter", "token"];
    let names = config.promisor_remotes()?;
    let fields = config.string("promisor.sendFields").unwrap_or_default();
    let fields = String::from_utf8_lossy(&fields);
    let fields: Vec<&str> = fields.split([',', ' ', '\t', '\n']).filter(|field| !field.is_empty()).collect();
    let is_sent = |field: &str| fields.iter().any(|sent| sent.eq_ignore_ascii_case(field));
    for field in fields.iter().filter(|field| !KNOWN.iter().any(|known| known.eq_ignore_ascii_case(field))) {
        tracing::warn!("unsupported field '{field}' in 'promisor.sendFields' config");
    }
    let remote = |name: String| {
        let value = |key: &str| {
            let values = config.strings(&format!("remote.{name}.{key}"));
            values.into_iter().next_back().filter(|value| !value.is_empty())
        };
        let url = value("url")?;
        let known = KNOWN.into_iter().filter(|field| is_sent(field));
        let fields = known.filter_map(|field| Some((field.to_owned(), value(field)?))).collect();
        Some(PromisorRemote { name: name.clone().into_bytes(), url, fields })
    };
    Ok(names.into_iter().filter_map(remote).collect())
}

#[cfg(test)]
mod tests {
    use packrace_protocol::message::promisor_remote::parse_offer;
    use packrace_store::{ConfigSources, OpenOptions, Repository};
    use packrace_testkit::{RepoBuilder, Size};

    use super::*;

    fn repository(config: &[(&str, Option<&str>)]) -> (Repository, packrace_testkit::Repo) {
        let repo = RepoBuilder::new(Size::Tiny).build();
        let overrides =
            config.iter().map(|(name, value)| (name.to_string(), value.map(str::to_owned))).collect();
        let config = ConfigSources { overrides, ..ConfigSources::default() };
        let options = OpenOptions { config, ..OpenOptions::default() };
        (Repository::open(repo.path(), &options).unwrap(), repo)
    }

    #[test]
    fn nothing_is_offered_by_default() {
        let (repository, _repo) = repository(&[
            ("bundle.version", Some("1")),
            ("remote.a.promisor", None),
            ("remote.a.url", Some("https://a")),
        ]);
        assert_eq!(features(repository.config(), false).unwrap(), Features::default());
        assert!(configured_bundles(repository.config()).unwrap().is_empty());
        assert!(features(repository.config(), true).unwrap().bundle_uri);
    }

    #[test]
    fn bundles_in_the_order_of_the_files() {
        let (repository, _repo) = repository(&[
            ("uploadpack.advertiseBundleURIs", Some("true")),
            ("bundle.version", Some("1")),
            ("bundle.B.uri", Some("https://b")),
            ("bundle.a.URI", Some("https://a=b")),
            ("bundle.heuristic", None),
            ("bundle.mode", Some("")),
        ]);
        assert!(features(repository.config(), false).unwrap().bundle_uri);
        let bundles = configured_bundles(repository.config()).unwrap();
        let lines: Vec<String> = bundles
            .iter()
            .map(|(key, value)| {
                format!("{}={}", String::from_utf8_lossy(key), String::from_utf8_lossy(value))
            })
            .collect();
        assert_eq!(
            lines,
            ["bundle.version=1", "bundle.B.uri=https://b", "bundle.a.uri=https://a=b", "bundle.mode="]
        );
    }

    fn check_uri(values: &[&str], expect: Result<usize, &str>) {
        let values: Vec<_> =
            values.iter().map(|value| ("uploadpack.blobPackfileUri", Some(*value))).collect();
        let (repository, _repo) = repository(&values);
        let found = blob_uris(repository.config(), HashKind::Sha1);
        match expect {
            Ok(count) => assert_eq!(found.unwrap().len(), count, "{values:?}"),
            Err(words) => {
                let message = found.unwrap_err().to_string();
                assert!(message.contains(words), "{values:?}: {message}");
            }
        }
    }

    #[test]
    fn blob_uris_have_three_fields() {
        let (blob, pack) = ("a".repeat(40), "b".repeat(40));
        check_uri(&[], Ok(0));
        check_uri(&[&format!("{blob} {pack} https://x")], Ok(1));
        check_uri(&[&format!("{blob} {pack} https://x"), &format!("{pack} {pack} https://x")], Ok(2));
        let twice = format!("{blob} {pack} https://x");
        check_uri(&[&twice, &twice], Err("object already configured in another uploadpack.blobpackfileuri"));
        let longest = format!("{blob} {pack} https://{}", "x".repeat(65_465));
        check_uri(&[&longest], Ok(1));
        for bad in [
            "",
            &blob,
            &format!("{blob} {pack}"),
            &format!("{blob} {pack} "),
            &format!("{blob}  {pack} https://x"),
            &format!("{blob} {pack} https://x y"),
            &format!("{blob} {pack} https://x\ny"),
            &format!("{blob} {pack}b https://x"),
            &format!("{blob} {pack}{} https://x", "b".repeat(24)),
            &format!("{blob}a {pack} https://x"),
            &format!("x{} {pack} https://x", &blob[1..]),
            &format!("{longest}x"),
        ] {
            check_uri(&[bad], Err("must be of the form '<object-hash> <pack-hash> <uri>' (got '"));
        }
    }

    #[test]
    fn promisor_remotes_in_the_order_in_which_they_are_tried() {
        let mut config = vec![
            ("promisor.advertise", Some("true")),
            ("extensions.partialClone", Some("origin")),
            ("remote.origin.url", Some("https://o")),
            ("remote.origin.promisor", Some("true")),
            ("remote.lop.url", Some("https://l;,")),
            ("remote.lop.promisor", None),
            ("remote.lop.partialCloneFilter", Some("blob:limit=1k")),
            ("remote.lop.token", Some("secret")),
            ("remote.no.url", Some("https://n")),
            ("remote.no.promisor", Some("false")),
            ("remote.plain.url", Some("https://p")),
            ("remote.nowhere.promisor", Some("true")),
            ("remote.by.filter.partialCloneFilter", Some("tree:0")),
            ("remote.by.filter.url", Some("u")),
        ];
        let offer = |config: &[(&str, Option<&str>)]| {
            let (repository, _repo) = repository(config);
            let offer = features(repository.config(), false).unwrap().promisor_remote.unwrap();
            let shown = |remote: PromisorRemote| {
                let fields = remote
                    .fields
                    .iter()
                    .map(|(name, value)| format!(" {name}={}", String::from_utf8_lossy(value)));
                let (name, url) =
                    (String::from_utf8_lossy(&remote.name), String::from_utf8_lossy(&remote.url));
                format!("{name} {url}{}", fields.collect::<String>())
            };
            parse_offer(&offer).unwrap().into_iter().map(shown).collect::<Vec<_>>()
        };
        assert_eq!(offer(&config), ["lop https://l;,", "by.filter u", "origin https://o"]);
        config.push(("promisor.sendFields", Some("partialCloneFilter, token,url")));
        assert_eq!(
            offer(&config),
            [
                "lop https://l;, partialCloneFilter=blob:limit=1k token=secret",
                "by.filter u partialCloneFilter=tree:0",
                "origin https://o"
            ]
        );
    }
}
