//! Identity and time in reflogs and commits (git-var, `GIT_COMMITTER_IDENT`; git-commit, "COMMIT
//! INFORMATION").

use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use packrace_store::Config;
use packrace_store::expiry::written::date;

use crate::call::fatal::Fatal;
use crate::call::users;

/// Largest time zone file.
const MAX_ZONE_BYTES: u64 = 1 << 20;

/// A person from the environment: `GIT_COMMITTER_NAME` and so on.
#[derive(Debug, Clone, Default)]
pub struct Person {
    /// `…_NAME`.
    pub name: Option<Vec<u8>>,
    /// `…_EMAIL`.
    pub email: Option<Vec<u8>>,
    /// `…_DATE`.
    pub date: Option<String>,
    /// `EMAIL`, used if no other source has an address.
    pub fallback_email: Option<Vec<u8>>,
    /// `TZ`.
    pub time_zone: Option<String>,
}

/// The role of a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The author of the change.
    Author,
    /// The committer of the change.
    Committer,
}

/// Git's message if the identity is unknown.
const UNKNOWN: &str = "*** Please tell me who you are.\n\n\
    Run\n\n  \
    git config --global user.email \"you@example.com\"\n  \
    git config --global user.name \"Your Name\"\n\n\
    to set your account's default identity.\n\
    Omit --global to set the identity only in this repository.\n";

impl Person {
    /// `Name <mail> seconds zone` of the committer.
    pub fn committer(&self, config: &Config) -> Result<Vec<u8>, Fatal> {
        let (name, email) = self.said(Role::Committer, config);
        // As in git, a name that is said and empty is not the full name of the user.
        let name = match name {
            Some(name) if name.is_empty() => User::of_process().short.into_bytes(),
            Some(name) => name,
            None => User::of_process().name().into_bytes(),
        };
        let email = email.unwrap_or_else(|| User::of_process().email().into_bytes());
        self.line(&name, &email)
    }

    /// The same, but fails if environment, configuration and machine all give no identity.
    pub fn known(&self, role: Role, config: &Config) -> Result<Vec<u8>, Fatal> {
        let (name, email) = self.said(role, config);
        let unknown = |why: String| {
            let who = if role == Role::Author { "Author" } else { "Committer" };
            Fatal::new(why).after(format!("{who} identity unknown\n\n{UNKNOWN}\n"))
        };
        let only_said = config.boolean("user.useConfigOnly")?.unwrap_or(false);
        let email = match email {
            Some(email) => email,
            None if only_said => {
                return Err(unknown("no email was given and auto-detection is disabled".to_owned()));
            }
            None => match User::of_process().email() {
                found if found.ends_with(".(none)") => {
                    return Err(unknown(format!("unable to auto-detect email address (got '{found}')")));
                }
                found => found.into_bytes(),
            },
        };
        let name = match name {
            Some(name) => name,
            None if only_said => {
                return Err(unknown("no name was given and auto-detection is disabled".to_owned()));
            }
            None => User::of_process().name().into_bytes(),
        };
        if name.is_empty() {
            let why = format!("empty ident name (for <{}>) not allowed", String::from_utf8_lossy(&email));
            // Who sets the variable knows how names are set.
            return Err(if self.name.is_some() { Fatal::new(why) } else { unknown(why) });
        }
        if without_crud(&name).is_empty() {
            let name = String::from_utf8_lossy(&name);
            return Err(Fatal::new(format!("name consists only of disallowed characters: {name}")));
        }
        self.line(&name, &email)
    }

    /// The same, with the given name and address for what neither the environment nor the configuration says:
    /// as in git, the machine is not asked then, nor is `EMAIL` read.
    pub fn known_or(
        &self,
        role: Role,
        config: &Config,
        (name, email): (&str, &str),
    ) -> Result<Vec<u8>, Fatal> {
        let mut person = Person { fallback_email: None, ..self.clone() };
        let said = person.said(role, config);
        if said.0.is_none() {
            person.name = Some(name.into());
        }
        if said.1.is_none() {
            person.email = Some(email.into());
        }
        person.known(role, config)
    }

    /// Name and mail from the environment or the configuration.
    fn said(&self, role: Role, config: &Config) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        let section = if role == Role::Author { "author" } else { "committer" };
        let configured = |key: &str| {
            let own = config.string(&format!("{section}.{key}")).filter(|value| !value.is_empty());
            own.or_else(|| config.string(&format!("user.{key}")))
        };
        let fallback = || self.fallback_email.clone().filter(|email| !email.is_empty());
        let name = self.name.clone().or_else(|| configured("name"));
        let email = self.email.clone().or_else(|| configured("email")).or_else(fallback);
        (name, email)
    }

    fn line(&self, name: &[u8], email: &[u8]) -> Result<Vec<u8>, Fatal> {
        let date = self.date()?;
        Ok([&without_crud(name), b" <".as_slice(), &without_crud(email), b"> ", date.as_bytes()].concat())
    }

    fn date(&self) -> Result<String, Fatal> {
        let local = self.time_zone.as_deref();
        let (seconds, zone) = match self.date.as_deref().filter(|date| !date.is_empty()) {
            None => {
                let now = now(local);
                (now.seconds.max(0).unsigned_abs(), now.offset / 60)
            }
            Some(text) => exact(text)
                .or_else(|| {
                    let (seconds, zone) = date(text, |clock| offset_of(local, clock))?;
                    Some((u64::try_from(seconds).ok()?, zone))
                })
                .ok_or_else(|| Fatal::new(format!("invalid date format: {text}")))?,
        };
        let (sign, minutes) = (if zone < 0 { '-' } else { '+' }, zone.abs());
        Ok(format!("{seconds} {sign}{:02}{:02}", minutes / 60, minutes % 60))
    }
}

/// Seconds since 1970 and minutes east of UTC of `@5 +0100`. As in git, neither has a limit.
fn exact(text: &str) -> Option<(u64, i32)> {
    let (seconds, zone) = text.strip_prefix('@')?.split_once(' ')?;
    let digits = zone.strip_prefix(['+', '-']).filter(|digits| digits.len() == 4)?;
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(seconds) || !is_number(digits) {
        return None;
    }
    let number: i32 = digits.parse().ok()?;
    let minutes = number / 100 * 60 + number % 100;
    let seconds = seconds.parse::<u64>().ok().filter(|seconds| *seconds < u64::MAX)?;
    Some((seconds, if zone.starts_with('-') { -minutes } else { minutes }))
}

/// The user of this process, from the system.
struct User {
    short: String,
    full: Option<String>,
}

impl User {
    fn of_process() -> Self {
        let user = users::numbered(packrace_os::process::user());
        let short = user.as_ref().map_or_else(|| "unknown".to_owned(), |user| user.name.clone());
        User { short, full: user.map(|user| user.full_name).filter(|name| !name.is_empty()) }
    }

    fn name(self) -> String {
        self.full.unwrap_or(self.short)
    }

    fn email(self) -> String {
        let host = packrace_os::process::host_name();
        let host = if host.contains('.') { host } else { format!("{host}.(none)") };
        format!("{}@{host}", self.short)
    }
}

/// The current local time. Reads `TZ` or one file; the library alone would list all time zones.
fn now(time_zone: Option<&str>) -> gix_date::Time {
    let now = jiff::Timestamp::now();
    match zone(time_zone) {
        Some(zone) => gix_date::Time::new(now.as_second(), zone.to_offset(now).seconds()),
        None => gix_date::Time::now_local_or_utc(),
    }
}

/// How many seconds east of UTC the local clock is when it shows these seconds since 1970.
fn offset_of(time_zone: Option<&str>, clock: i64) -> Option<i64> {
    let zone = zone(time_zone).unwrap_or_else(|| gix_date::Zoned::now().time_zone().clone());
    let clock = jiff::Timestamp::from_second(clock).ok()?.to_zoned(TimeZone::UTC).datetime();
    Some(zone.to_zoned(clock).ok()?.offset().seconds().into())
}

/// The time zone in `TZ` (tzset(3)): a name, a path or a rule, with an optional colon; without `TZ`, the
/// machine's.
fn zone(name: Option<&str>) -> Option<TimeZone> {
    let read = |path: PathBuf| {
        let bytes = packrace_os::read_file(&path, packrace_os::count::Role::Config, MAX_ZONE_BYTES).ok()?;
        TimeZone::tzif("local", &bytes).ok()
    };
    match name.map(|name| name.strip_prefix(':').unwrap_or(name)) {
        None => read("/etc/localtime".into()),
        Some("" | "UTC" | "UTC0" | "GMT") => Some(TimeZone::UTC),
        // `join` keeps an absolute path as it is.
        Some(name) => {
            read(Path::new("/usr/share/zoneinfo").join(name)).or_else(|| TimeZone::posix(name).ok())
        }
    }
}

/// Removes characters that reflog and commit lines forbid, and punctuation at both ends.
fn without_crud(text: &[u8]) -> Vec<u8> {
    let is_crud = |byte: &u8| *byte <= b' ' || b",:;<>\"\\'".contains(byte);
    let start = text.iter().position(|byte| !is_crud(byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !is_crud(byte)).map_or(start, |at| at + 1);
    text[start..end].iter().copied().filter(|byte| !matches!(byte, b'\n' | b'<' | b'>')).collect()
}

#[cfg(test)]
mod tests {
    use packrace_store::ConfigSources;

    use super::*;

    fn person(name: &str, email: &str, date: &str) -> Person {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let bytes = |text: &str| some(text).map(String::into_bytes);
        Person { name: bytes(name), email: bytes(email), date: some(date), ..Person::default() }
    }

    #[test]
    fn environment_and_configuration() {
        let check = |person: &Person, config: &[(&str, &str)], expect: &str| {
            let overrides = config.iter().map(|(k, v)| (k.to_string(), Some(v.to_string()))).collect();
            let sources = ConfigSources { overrides, ..ConfigSources::default() };
            let config = Config::outside(&sources).unwrap();
            let found = String::from_utf8(person.committer(&config).unwrap()).unwrap();
            assert_eq!(found, expect);
        };
        check(&person("A U Thor", "a@b", "1112912053 -0730"), &[], "A U Thor <a@b> 1112912053 -0730");
        check(&person(" A <U>., ", "<a@b>", "@7 +0100"), &[], "A U. <a@b> 7 +0100");
        let both = [("user.name", "U"), ("user.email", "u@x"), ("committer.name", "C")];
        check(&person("", "", "2026-01-31 00:00:00 +0000"), &both, "C <u@x> 1769817600 +0000");
        check(&person("N", "", "@1 +0000"), &both, "N <u@x> 1 +0000");
        let fallback = Person { fallback_email: Some("f@x".into()), ..person("N", "", "@1 +0000") };
        check(&fallback, &[], "N <f@x> 1 +0000");
    }

    #[test]
    fn time_zones() {
        let check = |name: &str, at: i64, expect: Option<i32>| {
            let at = jiff::Timestamp::from_second(at).unwrap();
            assert_eq!(zone(Some(name)).map(|zone| zone.to_offset(at).seconds()), expect, "{name}");
        };
        check("", 0, Some(0));
        check("UTC", 0, Some(0));
        check("EST5EDT,M3.2.0,M11.1.0", 1_700_000_000, Some(-5 * 3600));
        check(":<+0530>-5:30", 0, Some(5 * 3600 + 1800));
        check("no such zone", 0, None);
        assert!((now(Some("JST-9")).seconds - now(None).seconds).abs() < 5);
        assert_eq!(now(Some("JST-9")).offset, 9 * 3600);
    }

    #[test]
    fn dates() {
        let check = |text: &str, expect: &str| {
            let person = Person { time_zone: Some("EST5".into()), ..person("a", "b", text) };
            assert_eq!(person.date().unwrap_or_else(|error| error.message), expect, "{text}");
        };
        check("@1 +9999", "1 +10039");
        check("@1 -0090", "1 -0130");
        check("@9223372036854775808 +0000", "9223372036854775808 +0000");
        check("1112911993 +0060", "1112911993 -0500");
        check("2005-04-07T22:13:13", "1112929993 -0500");
        check("2005-04-07T22:13:13 PDT", "1112937193 -0700");
        for text in
            ["what", "1 +0000", "-1 +0000", "@-1 +0000", "@ +0000", "@1 +000", "@18446744073709551615 +0000"]
        {
            check(text, &format!("invalid date format: {text}"));
        }
    }
}
