//! Configuration files: TOML with a table for each group of settings.

use std::ops::Range;

use crate::settings_file::line_and_column;
use toml::de::{DeTable, DeValue};

use super::item::Given;
use super::{ServeConfig, find};

/// Takes all settings of a file, or none and the place of the error.
pub(super) fn take(config: &mut ServeConfig, name: &str, text: &str) -> Result<(), String> {
    let at = |span: Range<usize>, why: String| {
        let (line, column) = line_and_column(text, span.start);
        format!("{name}:{line}:{column}: {why}")
    };
    let parsed = DeTable::parse(text)
        .map_err(|error| at(error.span().unwrap_or_default(), error.message().trim_end().to_owned()))?;
    let mut taken = config.clone();
    for (group, settings) in parsed.get_ref() {
        let DeValue::Table(settings) = settings.get_ref() else {
            let why = format!("{}: unknown setting; settings belong in tables", group.get_ref());
            return Err(at(group.span(), why));
        };
        for (key, value) in settings {
            let key_name = format!("{}.{}", group.get_ref(), key.get_ref());
            let setting =
                find(&key_name).ok_or_else(|| at(key.span(), format!("{key_name}: unknown setting")))?;
            (setting.take)(&mut taken, &given(value.get_ref()))
                .map_err(|why| at(value.span(), format!("{key_name}: {why}")))?;
        }
        if !super::all().iter().any(|setting| setting.table() == group.get_ref().as_ref()) {
            return Err(at(group.span(), format!("{}: unknown table", group.get_ref())));
        }
    }
    *config = taken;
    Ok(())
}

fn given<'a>(value: &'a DeValue<'_>) -> Given<'a> {
    match value {
        DeValue::String(text) => Given::Text(text),
        DeValue::Integer(number) if number.radix() == 10 => Given::Number(number.as_str()),
        DeValue::Boolean(flag) => Given::Flag(*flag),
        DeValue::Array(values) => {
            let texts: Option<Vec<&str>> = values.iter().map(|value| value.get_ref().as_str()).collect();
            texts.map_or(Given::Other("array of mixed types"), Given::List)
        }
        other => Given::Other(other.type_str()),
    }
}
