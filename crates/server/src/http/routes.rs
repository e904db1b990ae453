//! Maps HTTP requests to services and files, for every transport that uses HTTP (gitprotocol-http).

use http::StatusCode;

use crate::bundles::{BundleName, LIST_NAME, URI_FOLDER};
use crate::error::ErrorKind;
use crate::service::call::Service;

/// Headers of answers that must not be cached: names in lower case, and values.
pub(crate) const NO_CACHE: [(&str, &str); 3] = [
    ("expires", "Fri, 01 Jan 1980 00:00:00 GMT"),
    ("pragma", "no-cache"),
    ("cache-control", "no-cache, max-age=0, must-revalidate"),
];

impl Service {
    pub(crate) fn advertisement(self) -> &'static str {
        match self {
            Service::UploadPack => "application/x-git-upload-pack-advertisement",
            Service::ReceivePack => "application/x-git-receive-pack-advertisement",
        }
    }

    pub(crate) fn request(self) -> &'static str {
        match self {
            Service::UploadPack => "application/x-git-upload-pack-request",
            Service::ReceivePack => "application/x-git-receive-pack-request",
        }
    }

    pub(crate) fn result(self) -> &'static str {
        match self {
            Service::UploadPack => "application/x-git-upload-pack-result",
            Service::ReceivePack => "application/x-git-receive-pack-result",
        }
    }

    /// Sent before the advertisement in versions 0 and 1.
    pub(crate) fn announcement(self) -> &'static [u8] {
        match self {
            Service::UploadPack => b"001e# service=git-upload-pack\n0000",
            Service::ReceivePack => b"001f# service=git-receive-pack\n0000",
        }
    }
}

/// What a request asks for, and the path of its repository.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Advertise(Service, Vec<u8>),
    Call(Service, Vec<u8>),
    /// A file of the dumb protocol.
    File(File, Vec<u8>),
    /// A bundle, or the list of them, if the server keeps any.
    Bundle(Option<BundleName>, Vec<u8>),
    /// A service that is not offered.
    NotOffered(Vec<u8>),
    /// Only these methods are allowed.
    NotAllowed(&'static str),
    /// Not a request of git.
    Unknown,
}

/// A file of the dumb protocol, or one that is generated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum File {
    /// The target of `HEAD`.
    Head,
    /// All refs and their objects.
    Refs,
    /// The names of all packs.
    Packs,
    /// A list below the object directory, unchanged.
    List(&'static str),
    /// A loose object, by its path below the object directory.
    LooseObject(String),
    /// A pack, or its index, by its name in the directory of packs.
    Pack(String),
    Index(String),
}

impl File {
    pub(crate) fn content_type(&self) -> &'static str {
        match self {
            File::Head | File::Refs | File::List(_) => "text/plain",
            File::Packs => "text/plain; charset=utf-8",
            File::LooseObject(_) => "application/x-git-loose-object",
            File::Pack(_) => "application/x-git-packed-objects",
            File::Index(_) => "application/x-git-packed-objects-toc",
        }
    }

    /// The file at the end of a path, and the repository before it.
    fn at_end_of(path: &[u8]) -> Option<(Self, &[u8])> {
        for (end, file) in [
            ("/HEAD", File::Head),
            ("/objects/info/packs", File::Packs),
            ("/objects/info/alternates", File::List("info/alternates")),
            ("/objects/info/http-alternates", File::List("info/http-alternates")),
        ] {
            if let Some(repository) = path.strip_suffix(end.as_bytes()) {
                return Some((file, repository));
            }
        }
        let (rest, name) = split_name(path)?;
        let (rest, folder) = split_name(rest)?;
        let (repository, objects) = split_name(rest)?;
        if objects != "objects" {
            return None;
        }
        let file = match name.strip_prefix("pack-").filter(|_| folder == "pack") {
            Some(of_pack) if of_pack.strip_suffix(".pack").is_some_and(|id| is_hex(id, &[40, 64])) => {
                File::Pack(name.to_owned())
            }
            Some(of_pack) if of_pack.strip_suffix(".idx").is_some_and(|id| is_hex(id, &[40, 64])) => {
                File::Index(name.to_owned())
            }
            None if is_hex(folder, &[2]) && is_hex(name, &[38, 62]) => {
                File::LooseObject(format!("{folder}/{name}"))
            }
            _ => return None,
        };
        Some((file, repository))
    }
}

/// The bundle at the end of a path, or `None` for the list, and the repository before it.
fn bundle_at_end_of(path: &[u8]) -> Option<(Option<BundleName>, &[u8])> {
    let (rest, name) = split_name(path)?;
    let wanted = if name == LIST_NAME { None } else { Some(BundleName::parse(name)?) };
    let (repository, folder) = split_name(rest)?;
    (folder == URI_FOLDER).then_some((wanted, repository))
}

/// Splits off the text after the last slash; `None` if that is not UTF-8.
fn split_name(path: &[u8]) -> Option<(&[u8], &str)> {
    let at = path.iter().rposition(|byte| *byte == b'/')?;
    Some((&path[..at], std::str::from_utf8(&path[at + 1..]).ok()?))
}

fn is_hex(text: &str, lengths: &[usize]) -> bool {
    lengths.contains(&text.len()) && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The route of a request; `path` is percent-decoded.
pub(crate) fn route(method: &str, path: &[u8], query: &str) -> Route {
    let is_get = matches!(method, "GET" | "HEAD");
    if let Some(repository) = path.strip_suffix(b"/info/refs") {
        return match parameter(query, b"service") {
            _ if !is_get => Route::NotAllowed("GET, HEAD"),
            None => Route::File(File::Refs, rooted(repository)),
            Some(name) => match Service::named(&name) {
                Some(service) => Route::Advertise(service, rooted(repository)),
                None => Route::NotOffered(rooted(repository)),
            },
        };
    }
    for (end, service) in [
        (&b"/git-upload-pack"[..], Some(Service::UploadPack)),
        (b"/git-receive-pack", Some(Service::ReceivePack)),
        (b"/git-upload-archive", None),
    ] {
        match (path.strip_suffix(end), service) {
            (None, _) => {}
            (Some(_), _) if method != "POST" => return Route::NotAllowed("POST"),
            (Some(repository), Some(service)) => return Route::Call(service, rooted(repository)),
            (Some(repository), None) => return Route::NotOffered(rooted(repository)),
        }
    }
    if let Some((wanted, repository)) = bundle_at_end_of(path) {
        return match is_get {
            true => Route::Bundle(wanted, rooted(repository)),
            false => Route::NotAllowed("GET, HEAD"),
        };
    }
    match File::at_end_of(path) {
        Some(_) if !is_get => Route::NotAllowed("GET, HEAD"),
        Some((file, repository)) => Route::File(file, rooted(repository)),
        None => Route::Unknown,
    }
}

/// The status for a call that failed before anything was sent.
pub(crate) fn status_of(failure: ErrorKind) -> StatusCode {
    match failure {
        ErrorKind::PeerFault | ErrorKind::PeerGone => StatusCode::BAD_REQUEST,
        ErrorKind::Busy => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// The folder itself can be a repository.
fn rooted(path: &[u8]) -> Vec<u8> {
    if path.is_empty() { b"/".to_vec() } else { path.to_vec() }
}

/// A parameter of a query, percent-decoded: as in git, the last of several.
fn parameter(query: &str, name: &[u8]) -> Option<Vec<u8>> {
    let decoded = |text: &str| percent_decode(text).unwrap_or_else(|| text.as_bytes().to_vec());
    let mut pairs = query.rsplit('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.find(|(key, _)| decoded(key) == name).map(|(_, value)| decoded(value))
}

/// Percent-decodes a part of a URL.
pub(crate) fn percent_decode(text: &str) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || (bytes.next()? as char).to_digit(16);
        decoded.push((digit()? << 4 | digit()?) as u8);
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: &str, target: &str, expect: &Route) {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let path = percent_decode(path).unwrap();
        assert_eq!(route(method, &path, query), *expect, "{method} {target}");
    }

    #[test]
    fn services() {
        let advertise = |path: &str| Route::Advertise(Service::UploadPack, path.into());
        let not_offered = || Route::NotOffered(b"/a".to_vec());
        check("GET", "/a/b.git/info/refs?service=git-upload-pack", &advertise("/a/b.git"));
        check("HEAD", "/info/refs?x=y&service=git-upload-pack", &advertise("/"));
        check("GET", "/a%20b%C3%A4/info/refs?service=git-upload-pack", &advertise("/a bä"));
        let push = Route::Advertise(Service::ReceivePack, b"/a".to_vec());
        check("GET", "/a/info/refs?service=git-receive-pack", &push);
        check("GET", "/a/info/refs?service=git-upload-archive", &not_offered());
        check("GET", "/a/info/refs?s%65rvice=git%2Dupload%2dpack", &advertise("/a"));
        check("GET", "/a/info/refs?service=git-upload-pack&&service=git-receive-pack&x", &push);
        for bad in ["git%zzupload-pack", "git-upload-pack%", "git-upload-pack%00", "git%252Dupload-pack", ""]
        {
            check("GET", &format!("/a/info/refs?service={bad}"), &not_offered());
        }
        check("GET", "/a/info/refs?service%3Dgit-upload-pack", &Route::File(File::Refs, b"/a".to_vec()));
        check("POST", "/a/info/refs?service=git-upload-pack", &Route::NotAllowed("GET, HEAD"));
        check("POST", "/a/git-upload-pack", &Route::Call(Service::UploadPack, b"/a".to_vec()));
        check("GET", "/a/git-upload-pack", &Route::NotAllowed("POST"));
        check("POST", "/a/git-receive-pack", &Route::Call(Service::ReceivePack, b"/a".to_vec()));
        check("GET", "/a/git-receive-pack", &Route::NotAllowed("POST"));
        check("POST", "/a/git-upload-archive", &not_offered());
        check("GET", "/a/README", &Route::Unknown);
        check("GET", "/", &Route::Unknown);
        check("GET", "", &Route::Unknown);
    }

    #[test]
    fn files() {
        let file = |file| Route::File(file, b"/a".to_vec());
        check("GET", "/a/info/refs", &file(File::Refs));
        check("GET", "/a/HEAD", &file(File::Head));
        check("HEAD", "/HEAD", &Route::File(File::Head, b"/".to_vec()));
        check("POST", "/a/HEAD", &Route::NotAllowed("GET, HEAD"));
        check("GET", "/a/objects/info/packs", &file(File::Packs));
        check("GET", "/a/objects/info/http-alternates", &file(File::List("info/http-alternates")));
        for digits in [40, 64] {
            let name = format!("pack-{}", "0f".repeat(digits / 2));
            let (pack, index) = (format!("{name}.pack"), format!("{name}.idx"));
            check("GET", &format!("/a/objects/pack/{pack}"), &file(File::Pack(pack)));
            check("GET", &format!("/a/objects/pack/{index}"), &file(File::Index(index)));
            check("GET", &format!("/a/objects/pack/{name}.rev"), &Route::Unknown);
            check("GET", &format!("/a/objects/12/{name}.pack"), &Route::Unknown);
            let loose = format!("ab/{}", "0f".repeat(digits / 2 - 1));
            check("GET", &format!("/a/objects/{loose}"), &file(File::LooseObject(loose.clone())));
            check("GET", &format!("/a/objects/{}", loose.to_uppercase()), &Route::Unknown);
            check("GET", &format!("/a/object/{loose}"), &Route::Unknown);
        }
        check("GET", "/a/objects/pack/pack-12.pack", &Route::Unknown);
        check("GET", "/a/objects/x/34", &Route::Unknown);
        check("GET", "/objects/pack", &Route::Unknown);
    }

    #[test]
    fn bundles() {
        let bundle = |name: Option<&str>, path: &str| {
            Route::Bundle(name.map(|name| BundleName::parse(name).unwrap()), path.as_bytes().to_vec())
        };
        check("GET", "/a/bundles/list", &bundle(None, "/a"));
        check("HEAD", "/bundles/list", &bundle(None, "/"));
        check("GET", "/a/bundles/7-full.bundle", &bundle(Some("7-full.bundle"), "/a"));
        check("GET", "/bundles/7-increment.bundle", &bundle(Some("7-increment.bundle"), "/"));
        check("POST", "/a/bundles/list", &Route::NotAllowed("GET, HEAD"));
        for other in [
            "/a/bundles/7-full.bundle/",
            "/a/7-full.bundle",
            "/a/bundles/x",
            "/a/bundles",
            "/a/bundles/",
            "/a/list",
        ] {
            check("GET", other, &Route::Unknown);
        }
    }

    #[test]
    fn percent_signs() {
        let check =
            |text, expect: Option<&[u8]>| assert_eq!(percent_decode(text).as_deref(), expect, "{text}");
        check("/a%20%C3%A4b", Some("/a äb".as_bytes()));
        check("/%zz/info/refs", None);
        check("/%4", None);
        check("/%", None);
    }
}
