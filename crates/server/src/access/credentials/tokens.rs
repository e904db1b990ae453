//! Tokens: long random secrets of users; a file (TOML) has their SHA-256.
//!
//! ```toml
//! [[token]]
//! user = "alice"
//! sha256 = "…"
//! expires = "2027-01-01T00:00:00Z"   # or never
//! scope = "read"                     # or "write", the default
//! repositories = ["team/**"]         # or all
//! ```

use std::collections::HashMap;
use std::path::Path;

use jiff::Timestamp;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::super::rules::Pattern;
use super::super::secret_file::{self, LoadError};
use super::super::{CredentialScope, Principal};

/// The prefix of tokens: scanners for secrets find them, and they differ from passwords.
const PREFIX: &str = "prt_";

/// Random bytes of a token.
const RANDOM_BYTES: usize = 32;

type TokenHash = [u8; 32];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokensToml {
    #[serde(default, rename = "token")]
    tokens: Vec<toml::Spanned<TokenEntry>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenEntry {
    user: String,
    sha256: String,
    expires: Option<String>,
    #[serde(default)]
    scope: TokenScope,
    repositories: Option<Vec<String>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum TokenScope {
    Read,
    #[default]
    Write,
}

#[derive(Debug)]
struct Token {
    principal: Principal,
    expires: Option<Timestamp>,
}

/// The tokens of a file.
#[derive(Debug, Default)]
pub(in super::super) struct TokenFile(HashMap<TokenHash, Token>);

impl TokenFile {
    pub(in super::super) fn load(path: &Path) -> Result<Self, LoadError> {
        TokenFile::parse(path, &secret_file::read_secret(path)?)
    }

    pub(in super::super) fn parse(path: &Path, text: &str) -> Result<Self, LoadError> {
        let at = |byte: usize, why: &str| LoadError::at_byte(path, text, byte, why);
        let parsed: TokensToml = toml::from_str(text)
            .map_err(|error| at(error.span().unwrap_or_default().start, error.message()))?;
        let mut tokens = HashMap::new();
        for entry in parsed.tokens {
            let start = entry.span().start;
            let (hash, token) = entry.into_inner().into_token().map_err(|why| at(start, &why))?;
            if tokens.insert(hash, token).is_some() {
                return Err(at(start, "duplicate token"));
            }
        }
        Ok(TokenFile(tokens))
    }

    /// The principal with this token, at this time. Unknown and expired tokens have none.
    pub(in super::super) fn find(&self, secret: &str, now: Timestamp) -> Result<Principal, String> {
        // Hashes are compared, so that the time reveals nothing about the token.
        let token = self.0.get(&hash(secret)).ok_or("unknown token")?;
        match token.expires {
            Some(expires) if expires <= now => {
                Err(format!("a token of {} expired at {expires}", token.principal.name().unwrap_or_default()))
            }
            _ => Ok(token.principal.clone()),
        }
    }
}

impl TokenEntry {
    fn into_token(self) -> Result<(TokenHash, Token), String> {
        if self.user.is_empty() || self.user.chars().any(char::is_control) {
            return Err("user: is empty or has a control character".to_owned());
        }
        let hash = parse_hex(&self.sha256).ok_or("sha256: is not 64 hexadecimal digits")?;
        let expires =
            self.expires.map(|text| text.parse().map_err(|error| format!("expires: {error}"))).transpose()?;
        let patterns = |texts: Vec<String>| texts.iter().map(|text| Pattern::of_repositories(text)).collect();
        let repositories = self.repositories.map(patterns).transpose()?;
        let scope = CredentialScope { is_read_only: self.scope == TokenScope::Read, repositories };
        Ok((hash, Token { principal: Principal::named(&self.user).within(scope), expires }))
    }
}

/// Whether a secret has the form of a token.
pub(in super::super) fn is_token(secret: &str) -> bool {
    secret.starts_with(PREFIX)
}

/// Refuses what the server would refuse in a file of tokens.
pub fn check_tokens(path: &Path, text: &str) -> Result<(), LoadError> {
    TokenFile::parse(path, text).map(drop)
}

/// A new token, and its SHA-256 in hexadecimal digits.
pub fn new_token() -> std::io::Result<(String, String)> {
    let mut random = [0; RANDOM_BYTES];
    getrandom::fill(&mut random).map_err(std::io::Error::other)?;
    let secret = format!("{PREFIX}{}", hex(&random));
    let digest = hex(&hash(&secret));
    Ok((secret, digest))
}

fn hash(secret: &str) -> TokenHash {
    Sha256::digest(secret).into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn parse_hex(text: &str) -> Option<TokenHash> {
    let digits: Vec<u8> = text.chars().map(|digit| Some(digit.to_digit(16)? as u8)).collect::<Option<_>>()?;
    let bytes: Vec<u8> = digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
    (digits.len() == 64).then(|| bytes.try_into().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-06-01T00:00:00Z".parse().unwrap()
    }

    fn parse(text: &str) -> Result<TokenFile, String> {
        TokenFile::parse(Path::new("tokens"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_token_has_a_user_a_scope_and_an_end() {
        let (token, digest) = new_token().unwrap();
        assert!(is_token(&token) && token.len() == PREFIX.len() + 64, "{token}");
        let entry = format!("[[token]]\nuser = \"alice\"\nsha256 = \"{digest}\"\n");
        let found = parse(&entry).unwrap().find(&token, now()).unwrap();
        assert_eq!((found.name(), &found.scope), (Some("alice"), &CredentialScope::default()));
        let found = parse(&format!("{entry}scope = \"read\"\nexpires = \"2026-06-01T00:00:01Z\"\n"));
        assert!(found.unwrap().find(&token, now()).unwrap().scope.is_read_only);
        let expired = parse(&format!("{entry}expires = \"2026-06-01T00:00:00Z\"\n")).unwrap();
        let why = expired.find(&token, now()).unwrap_err();
        assert_eq!(why, "a token of alice expired at 2026-06-01T00:00:00Z");
        assert_eq!(expired.find(&format!("{token}0"), now()).unwrap_err(), "unknown token");
        assert_ne!(new_token().unwrap().0, token);
    }

    #[test]
    fn damaged_entries_are_refused_with_their_line() {
        let digest = "0".repeat(64);
        let check = |text: String, expect: &str| {
            let error = parse(&text).unwrap_err();
            assert!(error.starts_with("tokens:") && error.contains(expect), "{text}: {error}");
        };
        check("x".to_owned(), ":1:");
        check(format!("[[token]]\nuser = \"\"\nsha256 = \"{digest}\"\n"), "user: is empty");
        check("[[token]]\nuser = \"a\"\nsha256 = \"ab\"\n".to_owned(), "64 hexadecimal digits");
        check(format!("[[token]]\nuser = \"a\"\nsha256 = \"{digest}\"\nexpires = \"soon\"\n"), "expires: ");
        check(format!("[[token]]\nuser = \"a\"\nsha256 = \"{digest}\"\nscope = \"all\"\n"), ":4:9: ");
        check(format!("[[token]]\nuser = \"a\"\nsha256 = \"{digest}\"\nsecret = \"x\"\n"), "unknown field");
        check(format!("[[token]]\nuser = \"a\"\nsha256 = \"{digest}\"\n").repeat(2), "duplicate token");
    }
}
