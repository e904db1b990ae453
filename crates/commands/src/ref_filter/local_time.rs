//! This machine's time zone.

use jiff::tz::{Dst, TimeZone, TimeZoneOffsetInfo};
use jiff::{SignedDuration, Timestamp};

use super::calendar::Moment;
use crate::call::fatal::Fatal;

/// After so many seconds the calendar repeats itself.
const FOUR_CENTURIES: i64 = 146_097 * 86_400;

/// In which steps, and how many, C's functions look for a time without summer time.
const STEP: SignedDuration = SignedDuration::from_secs(601_200);
const MAX_STEPS: i32 = 446;

/// The time by this machine's clock, and the short name of its time zone.
pub(super) fn local(seconds: u64) -> Result<(Moment, String), Fatal> {
    let signed = i64::try_from(seconds).map_err(|_| too_large(seconds))?;
    let zone = TimeZone::system();
    let here = zone.to_offset_info(within_calendar(signed));
    let minutes = here.offset().seconds() / 60;
    Ok((Moment { seconds, zone: minutes / 60 * 100 + minutes % 60 }, here.abbreviation().to_owned()))
}

pub(super) fn too_large(seconds: u64) -> Fatal {
    Fatal::new(format!("Timestamp too large for this system: {seconds}"))
}

/// When this machine's clock, without summer time, shows so many seconds after 1970 began (mktime(3)).
pub(super) fn standard_time(shown: i64) -> i64 {
    let zone = TimeZone::system();
    let near = within_calendar(shown);
    let clock = TimeZone::UTC.to_datetime(near);
    let near = zone.to_ambiguous_timestamp(clock).compatible().unwrap_or(near);
    let steps = (1..MAX_STEPS).flat_map(|step| [-step, step]);
    let times = steps.filter_map(|step| near.checked_add(STEP * step).ok());
    let is_standard = |there: &TimeZoneOffsetInfo<'_>| there.dst() == Dst::No;
    let found = std::iter::once(near).chain(times).map(|time| zone.to_offset_info(time)).find(is_standard);
    shown - found.map_or(0, |there| i64::from(there.offset().seconds()))
}

/// A time with the same time of the year, in a year that the library knows.
fn within_calendar(seconds: i64) -> Timestamp {
    let beyond = seconds.saturating_sub(Timestamp::MAX.as_second() - 2 * 86_400).max(0);
    let cycles = (beyond as u64).div_ceil(FOUR_CENTURIES as u64) as i64;
    Timestamp::from_second(seconds - cycles * FOUR_CENTURIES).unwrap_or_default()
}
