//! Lines of `authorized_keys` (sshd(8)) that let the users of a server in, each with a forced command.

use std::path::Path;

use jiff::Timestamp;
use packrace_ssh::UserKey;

use super::UserSources;

/// The command that a line forces: `packrace shell`, with the user's name behind it.
#[derive(Debug, Clone)]
pub struct ForcedShell(String);

impl ForcedShell {
    /// The error is for people: a path that cannot be written into the file.
    pub fn new(program: &Path, config: &Path, root: &Path) -> Result<Self, String> {
        let word = |path: &Path| match path.to_str() {
            Some(path) => Ok(shell_word(path)),
            None => Err(format!("cannot be written to authorized_keys: {}", path.display())),
        };
        let words = [&word(program)?, "shell", "--config", &word(config)?, &word(root)?];
        Ok(ForcedShell(words.join(" ")))
    }

    fn line(&self, options: &str, user: &str, key: &UserKey) -> Result<String, String> {
        let command = format!("{} {}", self.0, shell_word(user));
        // Inside quotes sshd supports no other escape, and a line break would end the line.
        if command.contains(['\n', '\r', '\0']) {
            return Err(format!("cannot be written to authorized_keys: {command:?}"));
        }
        let command = command.replace('"', "\\\"");
        Ok([options, "restrict,command=\"", &command, "\" ", &key.line(), "\n"].concat())
    }
}

impl UserSources {
    /// The lines for the key that a client offers (in base64, of any kind), or for all keys; of one user, or of
    /// all. Certificates are only for one user.
    pub fn authorized_keys(
        &self,
        shell: &ForcedShell,
        user: Option<&str>,
        offered: Option<&str>,
    ) -> Result<String, String> {
        let mut lines = String::new();
        match offered {
            Some(base64) => {
                if let Ok(key) = UserKey::parse_blob(base64)
                    && let Some(user) = self.user_of(&key)
                {
                    lines += &shell.line("", &user.name, &key)?;
                }
            }
            None => {
                for (name, key) in self.keys().list(Timestamp::now().as_second()) {
                    if user.is_none_or(|user| user == name) {
                        lines += &shell.line("", name, &key)?;
                    }
                }
            }
        }
        if let Some(user) = user {
            let authorities = self.keys().authorities();
            for authority in authorities.iter().filter(|key| !self.keys().is_revoked(key)) {
                lines += &shell.line(&format!("cert-authority,principals=\"{user}\","), user, authority)?;
            }
        }
        Ok(lines)
    }
}

/// Quotes a word for a shell.
fn shell_word(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+:@".contains(letter);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}
