//! Kinds of values: how each is written, and what is accepted.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::access::{ForwardAuthUrl, ForwardedHeader};
use crate::bundles::BundleBaseUrl;
use crate::limits::AddressRange;
use crate::maintenance::MaintenanceMode;
use crate::settings::{Admin, Hosts};
use packrace_remote::BucketUrl;
use packrace_store::HooksFrom;

use super::{Format, Level};

/// A value as it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Given<'a> {
    /// A word of the environment or the command line, whose kind is unknown.
    Word(&'a str),
    /// A number in a file.
    Number(&'a str),
    /// Text in a file.
    Text(&'a str),
    /// True or false in a file.
    Flag(bool),
    /// A list in a file.
    List(Vec<&'a str>),
    /// Anything else, with the name of its type.
    Other(&'a str),
}

impl Given<'_> {
    fn refuse<T>(&self, expect: &str) -> Result<T, String> {
        let shown = match self {
            Given::Word(text) | Given::Text(text) => format!("{text:?}"),
            Given::Number(text) => (*text).to_owned(),
            Given::Flag(flag) => flag.to_string(),
            Given::List(_) => "a list".to_owned(),
            Given::Other(kind) => format!("a {kind}"),
        };
        Err(format!("{shown} is not {expect}"))
    }

    fn text(&self) -> Option<&str> {
        match self {
            Given::Word(text) | Given::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// A kind of value.
pub(super) trait ConfigValue: Sized {
    /// What is expected, after "is not".
    const EXPECTED: &'static str;

    /// Reads a value; `None` if it is not what is expected.
    fn read(given: &Given<'_>) -> Option<Self>;

    /// The value as it is written in a file.
    fn write(&self) -> String;

    /// Reads a value, or says why it is none.
    fn take(given: &Given<'_>) -> Result<Self, String> {
        Self::read(given).map_or_else(|| given.refuse(Self::EXPECTED), Ok)
    }
}

/// Splits a number from the unit behind it.
fn split(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

fn number(given: &Given<'_>) -> Option<u64> {
    match given {
        Given::Word(text) | Given::Number(text) => {
            split(text).filter(|(_, unit)| unit.is_empty()).map(|(number, _)| number)
        }
        _ => None,
    }
}

/// A count, without units.
impl ConfigValue for usize {
    const EXPECTED: &'static str = "a whole number";

    fn read(given: &Given<'_>) -> Option<Self> {
        usize::try_from(number(given)?).ok()
    }

    fn write(&self) -> String {
        self.to_string()
    }
}

/// A number of bytes, in an integer of any kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct ByteCount(pub(super) u64);

impl ConfigValue for ByteCount {
    const EXPECTED: &'static str =
        "a size: a whole number of bytes, or one with k, m or g (1024, 1024², 1024³)";

    fn read(given: &Given<'_>) -> Option<Self> {
        if let Given::Number(_) = given {
            return number(given).map(ByteCount);
        }
        let (number, unit) = split(given.text()?)?;
        let factor = match unit {
            "" => 1,
            "k" | "K" => 1 << 10,
            "m" | "M" => 1 << 20,
            "g" | "G" => 1 << 30,
            _ => return None,
        };
        number.checked_mul(factor).map(ByteCount)
    }

    fn write(&self) -> String {
        let units = [(30, "g"), (20, "m"), (10, "k")];
        let unit = units.into_iter().find(|(bits, _)| self.0 > 0 && self.0.trailing_zeros() >= *bits);
        match unit {
            Some((bits, unit)) => format!("\"{}{unit}\"", self.0 >> bits),
            None => self.0.to_string(),
        }
    }
}

impl ConfigValue for Duration {
    const EXPECTED: &'static str = "a duration: a whole number of seconds, or one with ms, s, m, h or d";

    fn read(given: &Given<'_>) -> Option<Self> {
        if let Given::Number(_) = given {
            return number(given).map(Duration::from_secs);
        }
        let (number, unit) = split(given.text()?)?;
        let seconds = match unit {
            "ms" => return Some(Duration::from_millis(number)),
            "" | "s" => 1,
            "m" => 60,
            "h" => 3600,
            "d" => 86_400,
            _ => return None,
        };
        number.checked_mul(seconds).map(Duration::from_secs)
    }

    fn write(&self) -> String {
        let seconds = self.as_secs();
        match self.subsec_millis() {
            0 if seconds > 0 && seconds.is_multiple_of(60) => format!("\"{}m\"", seconds / 60),
            0 => format!("\"{seconds}s\""),
            _ => format!("\"{}ms\"", self.as_millis()),
        }
    }
}

impl ConfigValue for bool {
    const EXPECTED: &'static str = "true or false";

    fn read(given: &Given<'_>) -> Option<Self> {
        match given {
            Given::Flag(flag) => Some(*flag),
            Given::Word("true") => Some(true),
            Given::Word("false") => Some(false),
            _ => None,
        }
    }

    fn write(&self) -> String {
        self.to_string()
    }
}

/// Reads a value that may be left out.
fn text_or_none<T: FromStr>(given: &Given<'_>) -> Option<Option<T>> {
    match given.text()? {
        "none" => Some(None),
        text => text.parse().ok().map(Some),
    }
}

/// Writes it. Rust's escapes of text are those of TOML, except for characters that no such value has.
fn written_or_none(value: &Option<impl ToString>) -> String {
    value.as_ref().map_or("\"none\"".to_owned(), |value| format!("{:?}", value.to_string()))
}

/// What [`listening_address`] takes.
pub const LISTENING_ADDRESSES: &str =
    "an address with a port (127.0.0.1:8417, [::1]:8417, localhost:8417), or a port (:8417, 8417)";

/// An address to listen at. A port alone, and `localhost`, are at 127.0.0.1: nobody else reaches it.
pub fn listening_address(text: &str) -> Option<SocketAddr> {
    let port = text.strip_prefix("localhost:").or_else(|| text.strip_prefix(':')).unwrap_or(text);
    let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    match port.parse().ok().filter(|_| is_port) {
        Some(port) => Some(SocketAddr::from(([127, 0, 0, 1], port))),
        None => text.parse().ok(),
    }
}

impl ConfigValue for Option<SocketAddr> {
    const EXPECTED: &'static str = "an address with a port (127.0.0.1:8417, [::1]:8417, localhost:8417), a port (:8417, 8417), or \"none\"";

    fn read(given: &Given<'_>) -> Option<Self> {
        match given {
            Given::Word("none") | Given::Text("none") => Some(None),
            Given::Word(text) | Given::Text(text) | Given::Number(text) => listening_address(text).map(Some),
            _ => None,
        }
    }

    fn write(&self) -> String {
        written_or_none(self)
    }
}

impl ConfigValue for Admin {
    const EXPECTED: &'static str = "\"http\", an address with a port, or \"none\"";

    fn read(given: &Given<'_>) -> Option<Self> {
        match given.text()? {
            "http" => Some(Admin::OnHttp),
            "none" => Some(Admin::Nowhere),
            text => listening_address(text).map(Admin::At),
        }
    }

    fn write(&self) -> String {
        match self {
            Admin::OnHttp => "\"http\"".to_owned(),
            Admin::Nowhere => "\"none\"".to_owned(),
            Admin::At(address) => format!("\"{address}\""),
        }
    }
}

impl ConfigValue for MaintenanceMode {
    const EXPECTED: &'static str = "\"auto\", \"on\" or \"off\"";

    fn read(given: &Given<'_>) -> Option<Self> {
        match given.text()? {
            "auto" => Some(MaintenanceMode::Auto),
            "on" => Some(MaintenanceMode::On),
            "off" => Some(MaintenanceMode::Off),
            _ => None,
        }
    }

    fn write(&self) -> String {
        let name = match self {
            MaintenanceMode::Auto => "auto",
            MaintenanceMode::On => "on",
            MaintenanceMode::Off => "off",
        };
        format!("\"{name}\"")
    }
}

impl ConfigValue for Vec<AddressRange> {
    const EXPECTED: &'static str = "a list of addresses and address ranges (10.0.0.0/8, ::1)";

    fn read(given: &Given<'_>) -> Option<Self> {
        let parse = |text: &str| text.trim().parse().ok();
        match given {
            Given::List(texts) => texts.iter().map(|text| parse(text)).collect(),
            Given::Word("") => Some(Vec::new()),
            Given::Word(text) => text.split(',').map(parse).collect(),
            _ => None,
        }
    }

    fn write(&self) -> String {
        let ranges: Vec<String> = self.iter().map(|range| format!("\"{range}\"")).collect();
        format!("[{}]", ranges.join(", "))
    }
}

impl ConfigValue for Option<PathBuf> {
    const EXPECTED: &'static str = "an absolute path, or \"none\"";

    fn read(given: &Given<'_>) -> Option<Self> {
        match given.text()? {
            "none" => Some(None),
            text => Some(PathBuf::from(text)).filter(|path| path.is_absolute()).map(Some),
        }
    }

    fn write(&self) -> String {
        written_or_none(&self.as_ref().map(|path| path.display()))
    }
}

impl ConfigValue for Vec<PathBuf> {
    const EXPECTED: &'static str = "a list of absolute paths";

    fn read(given: &Given<'_>) -> Option<Self> {
        let absolute = |text: &str| Some(PathBuf::from(text)).filter(|path| path.is_absolute());
        match given {
            Given::List(texts) => texts.iter().map(|text| absolute(text)).collect(),
            Given::Word("") => Some(Vec::new()),
            Given::Word(text) => text.split(',').map(absolute).collect(),
            _ => None,
        }
    }

    fn write(&self) -> String {
        let paths: Vec<String> =
            self.iter().map(|path| format!("{:?}", path.display().to_string())).collect();
        format!("[{}]", paths.join(", "))
    }
}

impl ConfigValue for Vec<String> {
    const EXPECTED: &'static str = "a list of variable names";

    fn read(given: &Given<'_>) -> Option<Self> {
        let name = |text: &str| {
            let is_good = !text.is_empty() && !text.contains(['=', '\0', ',', '"']);
            is_good.then(|| text.to_owned())
        };
        match given {
            Given::List(texts) => texts.iter().map(|text| name(text)).collect(),
            Given::Word("") => Some(Vec::new()),
            Given::Word(text) => text.split(',').map(name).collect(),
            _ => None,
        }
    }

    fn write(&self) -> String {
        let names: Vec<String> = self.iter().map(|name| format!("{name:?}")).collect();
        format!("[{}]", names.join(", "))
    }
}

impl ConfigValue for Option<ForwardAuthUrl> {
    const EXPECTED: &'static str = "an http:// URL without a user, or \"none\"";

    fn read(given: &Given<'_>) -> Option<Self> {
        text_or_none(given)
    }

    fn write(&self) -> String {
        written_or_none(self)
    }
}

impl ConfigValue for Option<BundleBaseUrl> {
    const EXPECTED: &'static str = "an http:// or https:// URL without a user and a query, or \"none\"";

    fn read(given: &Given<'_>) -> Option<Self> {
        text_or_none(given)
    }

    fn write(&self) -> String {
        written_or_none(self)
    }
}

impl ConfigValue for Option<BucketUrl> {
    const EXPECTED: &'static str = "s3://BUCKET/PREFIX, or \"none\"";

    fn read(given: &Given<'_>) -> Option<Self> {
        text_or_none(given)
    }

    fn write(&self) -> String {
        written_or_none(self)
    }
}

/// The name of a user or of a header.
impl ConfigValue for String {
    const EXPECTED: &'static str = "a name";

    fn read(given: &Given<'_>) -> Option<Self> {
        given.text().filter(|text| !text.contains(['\0', ':', '\n'])).map(str::to_owned)
    }

    fn write(&self) -> String {
        format!("{self:?}")
    }
}

impl ConfigValue for HooksFrom {
    const EXPECTED: &'static str = "\"repository\", \"none\", or an absolute path";

    fn read(given: &Given<'_>) -> Option<Self> {
        match given.text()? {
            "repository" => Some(HooksFrom::Repository),
            "none" => Some(HooksFrom::Nowhere),
            text => Some(PathBuf::from(text)).filter(|path| path.is_absolute()).map(HooksFrom::Dir),
        }
    }

    fn write(&self) -> String {
        match self {
            HooksFrom::Repository => "\"repository\"".to_owned(),
            HooksFrom::Nowhere => "\"none\"".to_owned(),
            HooksFrom::Dir(path) => format!("{:?}", path.display().to_string()),
        }
    }
}

impl ConfigValue for Hosts {
    const EXPECTED: &'static str = "\"auto\", \"any\", or a list of names and addresses without ports";

    fn read(given: &Given<'_>) -> Option<Self> {
        let name = |text: &str| {
            let is_name = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
            let is_good = !text.is_empty() && (is_name || text.parse::<IpAddr>().is_ok());
            is_good.then(|| text.to_owned())
        };
        match given {
            Given::Word("auto") | Given::Text("auto") => Some(Hosts::Auto),
            Given::Word("any") | Given::Text("any") => Some(Hosts::Any),
            Given::List(names) => {
                names.iter().map(|text| name(text)).collect::<Option<_>>().map(Hosts::Named)
            }
            Given::Word(text) => text.split(',').map(name).collect::<Option<_>>().map(Hosts::Named),
            _ => None,
        }
    }

    fn write(&self) -> String {
        match self {
            Hosts::Auto => "\"auto\"".to_owned(),
            Hosts::Any => "\"any\"".to_owned(),
            Hosts::Named(names) => {
                let names: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
                format!("[{}]", names.join(", "))
            }
        }
    }
}

/// A value that is one of a few words.
macro_rules! words {
    ($kind:ty, $expected:literal, $($word:literal = $value:path),*) => {
        impl ConfigValue for $kind {
            const EXPECTED: &'static str = $expected;

            fn read(given: &Given<'_>) -> Option<Self> {
                match given.text()? {
                    $($word => Some($value),)*
                    _ => None,
                }
            }

            fn write(&self) -> String {
                match self {
                    $($value => concat!("\"", $word, "\"").to_owned(),)*
                }
            }
        }
    };
}

words!(
    Level,
    "one of off, error, warn, info and debug",
    "off" = Level::Off,
    "error" = Level::Error,
    "warn" = Level::Warn,
    "info" = Level::Info,
    "debug" = Level::Debug
);
words!(
    ForwardedHeader,
    "X-Forwarded-For, Forwarded or none",
    "X-Forwarded-For" = ForwardedHeader::XForwardedFor,
    "Forwarded" = ForwardedHeader::Forwarded,
    "none" = ForwardedHeader::None
);
words!(Format, "text or json", "text" = Format::Text, "json" = Format::Json);

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: ConfigValue>(given: &Given<'_>, expect: Option<&str>) {
        let read = T::read(given);
        assert_eq!(read.map(|value| value.write()).as_deref(), expect, "{given:?}");
    }

    #[test]
    fn values_of_each_kind() {
        use Given::{Flag, List, Number, Text, Word};
        check::<usize>(&Number("32"), Some("32"));
        check::<usize>(&Word("0"), Some("0"));
        for bad in [Text("32"), Word("3k"), Word(""), Word("-1"), Number("-1"), Number("1_000"), Flag(true)] {
            check::<usize>(&bad, None);
        }
        check::<ByteCount>(&Number("1024"), Some("\"1k\""));
        check::<ByteCount>(&Text("10m"), Some("\"10m\""));
        check::<ByteCount>(&Word("3G"), Some("\"3g\""));
        check::<ByteCount>(&Word("1025"), Some("1025"));
        check::<ByteCount>(&Number("0"), Some("0"));
        for bad in [Text("1t"), Text("k"), Text("1.5m"), Text("18446744073709551615k"), Text("")] {
            check::<ByteCount>(&bad, None);
        }
        check::<Duration>(&Number("90"), Some("\"90s\""));
        check::<Duration>(&Text("5m"), Some("\"5m\""));
        check::<Duration>(&Word("1d"), Some("\"1440m\""));
        check::<Duration>(&Text("250ms"), Some("\"250ms\""));
        check::<Duration>(&Text("0"), Some("\"0s\""));
        for bad in [Text("5 m"), Text("5w"), Text("m"), Flag(false)] {
            check::<Duration>(&bad, None);
        }
        check::<bool>(&Flag(true), Some("true"));
        check::<bool>(&Word("false"), Some("false"));
        check::<bool>(&Text("true"), None);
        check::<bool>(&Word("yes"), None);
        check::<Option<SocketAddr>>(&Text("[::1]:80"), Some("\"[::1]:80\""));
        check::<Option<SocketAddr>>(&Text("none"), Some("\"none\""));
        let local = Some("\"127.0.0.1:80\"");
        for given in [Text("localhost:80"), Word(":80"), Word("80"), Text("80"), Number("80")] {
            check::<Option<SocketAddr>>(&given, local);
        }
        for text in ["localhost", "127.0.0.1", "", ":", "::1", "65536", "+80", "host:80", "localhost:+1"] {
            check::<Option<SocketAddr>>(&Text(text), None);
        }
        check::<Admin>(&Word("127.0.0.1:9"), Some("\"127.0.0.1:9\""));
        check::<Admin>(&Word("http"), Some("\"http\""));
        check::<Admin>(&Word("https"), None);
        check::<Vec<AddressRange>>(&List(vec!["10.0.0.0/8"]), Some("[\"10.0.0.0/8\"]"));
        check::<Vec<AddressRange>>(&Word(""), Some("[]"));
        check::<Vec<AddressRange>>(&Word("10.0.0.0/8,x"), None);
        check::<Option<PathBuf>>(&Text("/a \"b"), Some("\"/a \\\"b\""));
        check::<Option<PathBuf>>(&Text("a"), None);
        check::<Vec<PathBuf>>(&Word("/a,/b"), Some("[\"/a\", \"/b\"]"));
        check::<Vec<PathBuf>>(&List(vec!["/a", "b"]), None);
        check::<HooksFrom>(&Text("repository"), Some("\"repository\""));
        check::<HooksFrom>(&Word("none"), Some("\"none\""));
        check::<HooksFrom>(&Text("/srv/hooks"), Some("\"/srv/hooks\""));
        check::<HooksFrom>(&Text("hooks"), None);
        check::<Hosts>(&Text("auto"), Some("\"auto\""));
        check::<Hosts>(&Word("a.example,::1"), Some("[\"a.example\", \"::1\"]"));
        check::<Hosts>(&List(vec!["a.example:80"]), None);
        check::<Hosts>(&Text("a.example"), None);
        check::<Option<BucketUrl>>(&Text("s3://git/a/"), Some("\"s3://git/a\""));
        check::<Option<BucketUrl>>(&Word("none"), Some("\"none\""));
        check::<Option<BucketUrl>>(&Text("git"), None);
        check::<Level>(&Text("debug"), Some("\"debug\""));
        check::<Level>(&Text("trace"), None);
        check::<Format>(&Text("json"), Some("\"json\""));
    }
}
