//! Names and keys in a bucket.
//!
//! ```text
//! v1/<2 hex>/<repository>/head
//! v1/<2 hex>/<repository>/o/<generation>-<token>
//! ```
//!
//! The name of a repository is a single part of a key, so that no repository lies inside another: letters,
//! digits and `-._` are kept; any other byte becomes `=` and two hexadecimal digits. The two digits before it
//! are the first byte of the name's SHA-256: stores spread load by the start of a key.

use packrace_format::head::{ObjectKey, WriteToken};
use sha2::Digest as _;

use crate::error::{Error, ErrorKind};

/// Longest name. A part of a key has at most three times as many bytes, and a key at most 1,024.
const MAX_NAME_BYTES: usize = 255;

const ROOT: &str = "v1/";

/// A bucket, and the prefix of all keys in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketUrl {
    /// Its name.
    pub bucket: String,
    /// The prefix of all keys: empty, or ending in a slash.
    pub prefix: String,
}

impl std::str::FromStr for BucketUrl {
    type Err = String;

    /// Parses `s3://BUCKET` and `s3://BUCKET/PREFIX`.
    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || format!("{text:?} is not s3://BUCKET or s3://BUCKET/PREFIX");
        let rest = text.strip_prefix("s3://").ok_or_else(refused)?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_plain = |text: &str| text.bytes().all(|byte| is_plain(byte) || byte == b'=');
        let prefix = prefix.trim_end_matches('/');
        let is_part = |part: &str| !matches!(part, "" | "." | "..") && is_plain(part);
        let is_good = !bucket.is_empty() && is_plain(bucket) && bucket.len() <= 255 && prefix.len() <= 200;
        if !is_good || !(prefix.is_empty() || prefix.split('/').all(is_part)) {
            return Err(refused());
        }
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        Ok(BucketUrl { bucket: bucket.to_owned(), prefix })
    }
}

/// In the form in which it is given.
impl std::fmt::Display for BucketUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = format!("{}/{}", self.bucket, self.prefix);
        write!(f, "s3://{}", path.trim_end_matches('/'))
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_')
}

/// The name of a repository in a bucket: a path that ends in `.git`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BucketName {
    name: String,
}

impl BucketName {
    /// Accepts a name with or without `.git` at the end; adds it if it is missing.
    pub fn new(text: &str) -> Result<Self, Error> {
        let name = if text.ends_with(".git") { text.to_owned() } else { format!("{text}.git") };
        let parts: Vec<&str> = name.split('/').collect();
        let is_bad = |at: usize, part: &str| {
            let is_last = at + 1 == parts.len();
            let stem = part.strip_suffix(".git").filter(|_| is_last).unwrap_or(part);
            matches!(stem, "" | "." | ".." | "HEAD")
                || part.starts_with('-')
                || part.starts_with(".packrace-")
                || stem.ends_with(".git")
                || stem.ends_with(".lock")
        };
        let why = match () {
            () if name.len() > MAX_NAME_BYTES => "is too long",
            () if name.chars().any(char::is_control) => "has control characters",
            () if parts.iter().enumerate().any(|(at, part)| is_bad(at, part)) => {
                "has a part that is not allowed in a bucket"
            }
            () => return Ok(BucketName { name }),
        };
        Err(Error::new(ErrorKind::Refused, format!("'{}': name {why}", text.escape_debug())))
    }

    /// With `.git` at the end.
    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// The name as one part of a key.
    fn part(&self) -> String {
        let mut part = String::new();
        for byte in self.name.bytes() {
            match byte {
                _ if is_plain(byte) => part.push(char::from(byte)),
                _ => part.push_str(&format!("={byte:02x}")),
            }
        }
        part
    }

    /// Decodes [`part`](Self::part); `None` unless it is the canonical encoding of a valid name.
    fn of_part(part: &str) -> Option<Self> {
        let mut bytes = Vec::new();
        let mut rest = part.as_bytes();
        while let [first, after @ ..] = rest {
            rest = after;
            if *first != b'=' {
                bytes.push(*first);
                continue;
            }
            let (digits, after) = rest.split_first_chunk::<2>()?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            rest = after;
        }
        let name = BucketName::new(&String::from_utf8(bytes).ok()?).ok()?;
        (name.part() == part).then_some(name)
    }

    fn dir(&self) -> String {
        let digest = sha2::Sha256::digest(self.name.as_bytes());
        format!("{ROOT}{:02x}/{}", digest[0], self.part())
    }

    /// The key of the head.
    pub(crate) fn head_key(&self) -> String {
        format!("{}/head", self.dir())
    }

    /// The key of an object that the head names.
    pub(crate) fn object_key(&self, key: &ObjectKey) -> String {
        format!("{}/o/{:016x}-{}", self.dir(), key.generation, key.token)
    }

    /// The prefix of the keys of those objects.
    pub(crate) fn object_prefix(&self) -> String {
        format!("{}/o/", self.dir())
    }

    /// Parses the key of an object of this repository.
    pub(crate) fn of_object_key(&self, key: &str) -> Option<ObjectKey> {
        let (generation, token) = key.strip_prefix(&self.object_prefix())?.split_once('-')?;
        let generation = u64::from_str_radix(generation, 16).ok()?;
        let found =
            ObjectKey { generation, token: WriteToken(u128::from_str_radix(token, 16).ok()?.to_be_bytes()) };
        (self.object_key(&found) == key).then_some(found)
    }

    /// Parses the key of a head.
    pub(crate) fn of_head_key(key: &str) -> Option<Self> {
        let part = key.strip_prefix(ROOT)?.strip_suffix("/head")?.split_once('/')?.1;
        Self::of_part(part).filter(|name| name.head_key() == key)
    }

    /// The prefix of the keys of all repositories.
    pub(crate) fn root() -> &'static str {
        ROOT
    }
}

#[cfg(test)]
mod tests {
    use packrace_format::head::WriteToken;

    use super::*;

    #[test]
    fn urls() {
        let check = |text: &str, expect: Option<(&str, &str)>| {
            let url = text.parse::<BucketUrl>().ok();
            assert_eq!(url.as_ref().map(|url| (url.bucket.as_str(), url.prefix.as_str())), expect, "{text}");
            if let Some(url) = url {
                assert_eq!(url.to_string(), text.trim_end_matches('/'));
            }
        };
        check("s3://git", Some(("git", "")));
        check("s3://git/", Some(("git", "")));
        check("s3://git/a/b", Some(("git", "a/b/")));
        check("s3://git/a/b/", Some(("git", "a/b/")));
        for bad in ["", "git", "s3://", "s3:///a", "https://git", "s3://git//a", "s3://git/../a", "s3://g t"]
        {
            check(bad, None);
        }
    }

    #[test]
    fn names_and_keys() {
        let check = |text: &str, expect: &str| {
            let name = BucketName::new(text).unwrap();
            let key = name.head_key();
            assert_eq!(key.split_at(6).1, format!("{expect}/head"), "{text}");
            assert_eq!(BucketName::of_head_key(&key), Some(name));
        };
        check("a", "a.git");
        check("a.git", "a.git");
        check("team/tool", "team=2ftool.git");
        check("ä=b", "=c3=a4=3db.git");
        for bad in
            ["", ".git", "a/", "/a", "a//b", "../a", "a/../b", "a.git/b", "-a", "a.git.git", "a\n", "HEAD"]
        {
            assert_eq!(BucketName::new(bad).unwrap_err().kind(), ErrorKind::Refused, "{bad:?}");
        }
        BucketName::new(&"x".repeat(252)).unwrap_err();
        for other in ["v1/00/a.git/head", "v1/a.git/head", "v1/5d/=zz.git/head", "v2/5d/a.git/head", ""] {
            assert_eq!(BucketName::of_head_key(other), None, "{other}");
        }
    }

    #[test]
    fn keys_of_objects() {
        let key = ObjectKey { generation: 31, token: WriteToken([0xab; 16]) };
        let found = BucketName::new("a").unwrap().object_key(&key);
        assert_eq!(found.split_at(6).1, format!("a.git/o/000000000000001f-{}", "ab".repeat(16)));
        assert_eq!(BucketName::of_head_key(&found), None);
        let name = BucketName::new("a").unwrap();
        assert_eq!(name.of_object_key(&found), Some(key));
        for other in
            [found.replace("/o/", "/p/"), found.to_uppercase(), found.replace("f-", "f-0"), name.head_key()]
        {
            assert_eq!(name.of_object_key(&other), None, "{other}");
        }
        assert_eq!(BucketName::new("b").unwrap().of_object_key(&found), None);
    }
}
