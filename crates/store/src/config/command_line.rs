//! Settings of the command line (`-c`), and their names, which git checks.

use crate::error::{Error, Reason};

/// An override as text of a configuration file, so that one parser validates names and values.
pub(super) fn write_override(name: &str, value: Option<&str>, text: &mut String) -> Result<(), Error> {
    let bad = |why: &str| {
        let place = "unable to parse command-line config".to_owned();
        Error::from(Reason::Setting { why: format!("{why}: {name}"), place })
    };
    let (section, rest) = match name.split_once('.') {
        Some((section, rest)) if !section.is_empty() => (section, rest),
        _ => return Err(bad("key does not contain a section")),
    };
    let (subsection, key) = match rest.rsplit_once('.') {
        Some((subsection, key)) => (Some(subsection), key),
        None => (None, rest),
    };
    let is_word = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if key.is_empty() {
        return Err(bad("key does not contain variable name"));
    }
    if !is_word(section) || !is_word(key) || !key.starts_with(|first: char| first.is_ascii_alphabetic()) {
        return Err(bad("invalid key"));
    }
    if rest.contains('\n') {
        return Err(bad("invalid key (newline)"));
    }
    match subsection {
        Some(subsection) => {
            let escaped = subsection.replace('\\', "\\\\").replace('"', "\\\"");
            text.push_str(&format!("[{section} \"{escaped}\"]\n"));
        }
        None => text.push_str(&format!("[{section}]\n")),
    }
    match value {
        Some(value) => text.push_str(&format!("{key} = {}\n", quoted(value))),
        None => text.push_str(&format!("{key}\n")),
    }
    Ok(())
}

fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\t', "\\t");
    format!("\"{escaped}\"")
}
