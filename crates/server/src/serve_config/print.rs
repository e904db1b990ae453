//! The example that `--print-config` prints: every setting with its default, commented out.

use std::fmt::Write as _;

use super::{ServeConfig, VARIABLE_PREFIX, all};

/// The longest line of a comment.
const WIDTH: usize = 100;

/// A file that changes none of `defaults`.
pub fn example(defaults: &ServeConfig) -> String {
    let mut text = String::new();
    let head = format!(
        "Configuration of packrace serve (packrace serve --config FILE ROOT), with every setting and its \
         default. Sizes are bytes, or a number with k, m or g; times are seconds, or a number with ms, s, m, \
         h or d. An environment variable, {VARIABLE_PREFIX} with table and key in capitals \
         ({VARIABLE_PREFIX}LIMITS_DRAIN_TIME=30s), overrides this file, and --set limits.drain-time=30s \
         overrides both. SIGHUP reloads this file; settings marked (restart) need a restart. Settings of a \
         single repository belong in its git configuration."
    );
    comment(&head, &mut text);
    let mut group = "";
    for setting in all() {
        if setting.group != group {
            group = setting.group;
            // Writing to a String cannot fail, here and below.
            let _ = write!(text, "\n[{}]\n", setting.table());
        }
        let restart = if setting.is_reloaded { "" } else { " (restart)" };
        text.push('\n');
        comment(&format!("{}{restart}", setting.doc), &mut text);
        let _ = writeln!(text, "#{} = {}", setting.name(), (setting.show)(defaults));
    }
    text
}

fn comment(doc: &str, text: &mut String) {
    let mut line = String::from("#");
    for word in doc.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            text.push_str(&line);
            text.push('\n');
            line = String::from("#");
        }
        line.push(' ');
        line.push_str(word);
    }
    text.push_str(&line);
    text.push('\n');
}
