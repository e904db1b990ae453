//! ```text
//! spec    = "blob:none" | "blob:limit=" size | "tree:" size | "object:type=" kind | "sparse:oid=" name
//!         | "combine:" *( [encoded] "+" ) [encoded]
//! size    = *space ["+"] ( decimal | "0x" hex | "0" octal ) [ "k" | "m" | "g" ]
//! encoded = a spec with "+", "%" and what is reserved as "%" and two hex digits
//! ```
//!
//! The texts and order of errors are git's, as observed.

use packrace_object::Kind;

use super::{Filter, Patterns};

/// The deepest nesting of `combine`; git itself writes one level.
const MAX_NESTING: usize = 32;

/// The maximum number of combined filters, at all levels together.
const MAX_FILTERS: usize = 1024;

/// The most `sparse:oid` filters; each needs a walk over all paths.
const MAX_SPARSE: usize = 8;

/// Bytes to encode in a combined filter, besides control characters, spaces and non-ASCII bytes.
const RESERVED: &[u8] = b"~`!@#$^&*()[]{}\\;'\",<>?";

/// Why a filter-spec is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadFilter {
    /// The filter is unknown, or its number is invalid.
    #[error("invalid filter-spec '{}'", String::from_utf8_lossy(.0))]
    Unknown(Vec<u8>),
    /// `tree:` without a number.
    #[error("expected 'tree:<depth>'")]
    Depth,
    /// `object:type=` without a kind of object.
    #[error("'{}' for 'object:type=<type>' is not a valid object type", String::from_utf8_lossy(.0))]
    Type(Vec<u8>),
    /// `auto`, which means the filter that a server proposes.
    #[error("'auto' filter not supported by this command")]
    Auto,
    /// `sparse:path=`, which would read any file.
    #[error("sparse:path filters support has been dropped")]
    SparsePath,
    /// `combine:` without a filter.
    #[error("expected something after combine:")]
    EmptyCombine,
    /// A byte in a combined filter is not encoded.
    #[error("must escape char in sub-filter-spec: '{}'", String::from_utf8_lossy(&[*.0]))]
    Reserved(u8),
    /// Too many parts.
    #[error("filter-spec has more than {limit} {what}")]
    TooMany {
        /// What exceeds the limit.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
}

pub(super) fn parse(spec: &[u8]) -> Result<Filter, BadFilter> {
    let mut left = Left { filters: MAX_FILTERS, sparse: MAX_SPARSE };
    parse_one(spec, 0, &mut left)
}

/// How many more are allowed.
struct Left {
    filters: usize,
    sparse: usize,
}

fn parse_one(spec: &[u8], nesting: usize, left: &mut Left) -> Result<Filter, BadFilter> {
    left.filters = take_one(left.filters, "filters", MAX_FILTERS)?;
    if spec == b"blob:none" {
        return Ok(Filter::BlobNone);
    }
    if let Some(limit) = spec.strip_prefix(b"blob:limit=")
        && let Some(limit) = parse_size(limit)
    {
        return Ok(Filter::BlobLimit(limit));
    }
    if let Some(depth) = spec.strip_prefix(b"tree:") {
        return parse_size(depth).map(Filter::Tree).ok_or(BadFilter::Depth);
    }
    if let Some(kind) = spec.strip_prefix(b"object:type=") {
        let kind = Kind::from_name(kind).ok_or_else(|| BadFilter::Type(kind.to_vec()))?;
        return Ok(Filter::ObjectType(kind));
    }
    if let Some(name) = spec.strip_prefix(b"sparse:oid=") {
        left.sparse = take_one(left.sparse, "sparse:oid filters", MAX_SPARSE)?;
        return Ok(Filter::Sparse(Patterns { name: name.to_vec(), blob: None }));
    }
    if spec.starts_with(b"sparse:path=") {
        return Err(BadFilter::SparsePath);
    }
    if spec == b"auto" {
        return Err(BadFilter::Auto);
    }
    match spec.strip_prefix(b"combine:") {
        Some(b"") => Err(BadFilter::EmptyCombine),
        Some(_) if nesting == MAX_NESTING => {
            Err(BadFilter::TooMany { what: "combine filters within each other", limit: MAX_NESTING })
        }
        Some(parts) => parse_parts(parts, nesting + 1, left).map(Filter::Combine),
        None => Err(BadFilter::Unknown(spec.to_vec())),
    }
}

fn take_one(left: usize, what: &'static str, limit: usize) -> Result<usize, BadFilter> {
    left.checked_sub(1).ok_or(BadFilter::TooMany { what, limit })
}

/// Parses the parts between plus signs, of which empty ones do not count.
fn parse_parts(parts: &[u8], nesting: usize, left: &mut Left) -> Result<Vec<Filter>, BadFilter> {
    let mut filters = Vec::new();
    for part in parts.split(|byte| *byte == b'+').filter(|part| !part.is_empty()) {
        if let Some(byte) =
            part.iter().find(|byte| **byte <= b' ' || !byte.is_ascii() || RESERVED.contains(byte))
        {
            return Err(BadFilter::Reserved(*byte));
        }
        filters.push(parse_one(&decode(part), nesting, left)?);
    }
    if filters.is_empty() {
        // Without a part, git looks into no tree.
        filters.push(Filter::Tree(1));
    }
    Ok(filters)
}

/// Decodes `%xx`, except NUL and invalid hex digits, which stay encoded.
fn decode(part: &[u8]) -> Vec<u8> {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let mut decoded = Vec::with_capacity(part.len());
    let mut at = 0;
    while at < part.len() {
        let code = match (digit(part.get(at + 1)), digit(part.get(at + 2))) {
            (Some(high), Some(low)) if part[at] == b'%' => (high * 16 + low) as u8,
            _ => 0,
        };
        decoded.push(if code == 0 { part[at] } else { code });
        at += if code == 0 { 1 } else { 3 };
    }
    decoded
}

/// A non-negative number in the format of configuration files (git-config, "Values", integer).
fn parse_size(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii_start();
    // The vertical tab is a space in C but not in Rust; no client writes one.
    let text = text.strip_prefix(b"+").unwrap_or(text);
    let (radix, digits) = match text {
        [b'0', b'x' | b'X', rest @ ..] if rest.first().is_some_and(u8::is_ascii_hexdigit) => (16, rest),
        [b'0', ..] => (8, text),
        _ => (10, text),
    };
    let end = digits.iter().position(|byte| !char::from(*byte).is_digit(radix)).unwrap_or(digits.len());
    let number = u64::from_str_radix(std::str::from_utf8(&digits[..end]).ok()?, radix).ok()?;
    let unit: u64 = match &digits[end..] {
        b"" => 1,
        b"k" | b"K" => 1 << 10,
        b"m" | b"M" => 1 << 20,
        b"g" | b"G" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(spec: &str, expect: Result<Filter, &str>) {
        let parsed = Filter::parse(spec.as_bytes()).map_err(|error| error.to_string());
        assert_eq!(parsed, expect.map_err(str::to_string), "{spec}");
    }

    fn sparse(name: &str) -> Filter {
        Filter::Sparse(Patterns { name: name.into(), blob: None })
    }

    #[test]
    fn each_kind() {
        check("blob:none", Ok(Filter::BlobNone));
        check("object:type=commit", Ok(Filter::ObjectType(Kind::Commit)));
        check("object:type=tree", Ok(Filter::ObjectType(Kind::Tree)));
        check("object:type=blob", Ok(Filter::ObjectType(Kind::Blob)));
        check("object:type=tag", Ok(Filter::ObjectType(Kind::Tag)));
        check("sparse:oid=main:a b", Ok(sparse("main:a b")));
        check("sparse:oid=", Ok(sparse("")));
    }

    #[test]
    fn numbers_are_those_of_configuration() {
        for (text, number) in [
            ("0", 0),
            ("1k", 1024),
            ("2M", 2 << 20),
            ("3g", 3 << 30),
            ("0x10", 16),
            ("0X1f", 31),
            ("010", 8),
            (" 5", 5),
            ("\n\t+5", 5),
            ("18446744073709551615", u64::MAX),
            ("16777216g", 1 << 54),
        ] {
            check(&format!("blob:limit={text}"), Ok(Filter::BlobLimit(number)));
            check(&format!("tree:{text}"), Ok(Filter::Tree(number)));
        }
        for text in [
            "",
            "x",
            "k",
            "1q",
            "-1",
            "5-",
            "1 k",
            "1kb",
            "0x",
            "0xk",
            "08",
            "18446744073709551616",
            "17179869184g",
        ] {
            let spec = format!("blob:limit={text}");
            check(&spec, Err(&format!("invalid filter-spec '{spec}'")));
            check(&format!("tree:{text}"), Err("expected 'tree:<depth>'"));
        }
    }

    #[test]
    fn what_is_malformed() {
        for spec in [
            "",
            "foo",
            "blob:non",
            "blob:none ",
            "blob:limit",
            "tree",
            "object:type",
            "sparse:oid",
            "combine",
        ] {
            check(spec, Err(&format!("invalid filter-spec '{spec}'")));
        }
        check("object:type=any", Err("'any' for 'object:type=<type>' is not a valid object type"));
        check("auto", Err("'auto' filter not supported by this command"));
        check("sparse:path=x", Err("sparse:path filters support has been dropped"));
    }

    #[test]
    fn combined_filters() {
        let two = || vec![Filter::BlobNone, Filter::Tree(1)];
        check("combine:blob:none", Ok(Filter::Combine(vec![Filter::BlobNone])));
        check("combine:blob:none+tree%3a1", Ok(Filter::Combine(two())));
        check("combine:%62lob:none+tree:%31", Ok(Filter::Combine(two())));
        check("combine:blob:limit=%2B5", Ok(Filter::Combine(vec![Filter::BlobLimit(5)])));
        let nested = Filter::Combine(vec![Filter::Combine(two()), sparse("a b+c")]);
        check("combine:combine:blob:none%2Btree:1+sparse:oid=a%20b%2bc", Ok(nested));
        check("combine:", Err("expected something after combine:"));
        check("combine:++blob:none++tree:1+", Ok(Filter::Combine(two())));
        check("combine:+", Ok(Filter::Combine(vec![Filter::Tree(1)])));
        for (spec, part) in [
            ("foo+a(b", "foo"),
            ("blob%3", "blob%3"),
            ("blob%zznone", "blob%zznone"),
            ("blob%00none", "blob%00none"),
            ("%%", "%%"),
        ] {
            check(&format!("combine:{spec}"), Err(&format!("invalid filter-spec '{part}'")));
        }
        for (spec, byte) in
            [("b lob", " "), ("a(b", "("), ("a'b", "'"), ("é", "\u{fffd}"), ("blob:none+a~", "~")]
        {
            check(&format!("combine:{spec}"), Err(&format!("must escape char in sub-filter-spec: '{byte}'")));
        }
    }

    #[test]
    fn limits() {
        let nested = |depth| format!("{}blob:none", "combine:".repeat(depth));
        assert!(Filter::parse(nested(MAX_NESTING).as_bytes()).is_ok());
        let error = "filter-spec has more than 32 combine filters within each other";
        check(&nested(MAX_NESTING + 1), Err(error));
        check(&nested(8000), Err(error));
        let many = |count| format!("combine:{}", vec!["tree:1"; count].join("+"));
        assert!(Filter::parse(many(MAX_FILTERS - 1).as_bytes()).is_ok());
        check(&many(MAX_FILTERS), Err("filter-spec has more than 1024 filters"));
        let many = |count| format!("combine:{}", vec!["sparse:oid=a"; count].join("+"));
        assert!(Filter::parse(many(MAX_SPARSE).as_bytes()).is_ok());
        check(&many(MAX_SPARSE + 1), Err("filter-spec has more than 8 sparse:oid filters"));
    }

    #[test]
    fn any_bytes() {
        let mut random = packrace_testkit::Random::new(7);
        let alphabet = b"combine:+%2bltre01kgsparse:oid=x~\0\xff ";
        for _ in 0..20_000 {
            let length = random.below(40);
            let spec: Vec<u8> = (0..length).map(|_| alphabet[random.below(alphabet.len())]).collect();
            let spec = [&b"combine:"[..], &spec].concat();
            let _ = Filter::parse(&spec);
        }
    }
}
