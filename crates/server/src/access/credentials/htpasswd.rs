//! Users and hashes of their passwords, one per line, as `htpasswd -B` writes them: `name:hash`.
//!
//! Accepts bcrypt (`$2y$`, `$2b$`, `$2a$`) and argon2 (`$argon2id$`, `$argon2i$`). Everything weaker (MD5,
//! SHA-1, `crypt`, plain text) is refused when the file is read.

use std::collections::HashMap;
use std::path::Path;

use argon2::Argon2;
use argon2::password_hash::{PasswordHash, PasswordHasher as _, PasswordVerifier as _, SaltString};

use super::super::secret_file::{self, LoadError};

/// The most rounds of bcrypt, as a power of two: some 4 s.
const MAX_BCRYPT_COST: u32 = 16;

/// The most memory for one argon2 hash, in KiB.
const MAX_ARGON2_KIB: u32 = 256 << 10;

/// The most passes over that memory.
const MAX_ARGON2_PASSES: u32 = 16;

/// The users of a file.
#[derive(Debug, Default)]
pub(in super::super) struct PasswordFile {
    hashes: HashMap<Box<str>, Box<str>>,
    /// A hash of the most common kind: verified for users that do not exist, so that they take as long as most.
    typical: Option<Box<str>>,
}

impl PasswordFile {
    pub(in super::super) fn load(path: &Path) -> Result<Self, LoadError> {
        PasswordFile::parse(path, &secret_file::read_secret(path)?)
    }

    pub(in super::super) fn parse(path: &Path, text: &str) -> Result<Self, LoadError> {
        let mut file = PasswordFile::default();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim_end();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let refused = |why: &str| LoadError::at_line(path, number + 1, why);
            let (user, hash) = line.split_once(':').ok_or_else(|| refused("expected name:hash"))?;
            if user.is_empty() || user.chars().any(char::is_control) {
                return Err(refused("user name is empty or has a control character"));
            }
            check_hash(hash).map_err(|why| refused(&format!("{user}: {why}")))?;
            if file.hashes.insert(user.into(), hash.into()).is_some() {
                return Err(refused(&format!("duplicate user {user}")));
            }
        }
        file.typical = of_most_common_kind(&file.hashes);
        Ok(file)
    }

    /// Whether this is the password of this user. Takes as long for unknown users.
    pub(in super::super) fn verify(&self, user: &str, password: &str) -> bool {
        match self.hashes.get(user) {
            Some(hash) => verify(hash, password),
            None => {
                let verified = self.typical.as_deref().is_some_and(|hash| verify(hash, password));
                std::hint::black_box(verified);
                false
            }
        }
    }
}

/// A line of a user file for this user and password: argon2id (RFC 9106) with parameters that OWASP
/// recommends for servers.
pub fn hash_password(user: &str, password: &str) -> Result<String, String> {
    if user.is_empty() || user.contains(':') || user.chars().any(char::is_control) {
        return Err(format!(
            "{user:?} is not a valid user name: it is empty, or has a colon or a control character"
        ));
    }
    if password.is_empty() || password.chars().any(char::is_control) {
        return Err("password is empty or has a control character".to_owned());
    }
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| error.to_string())?;
    let salt = SaltString::encode_b64(&random).map_err(|error| error.to_string())?;
    let hash =
        Argon2::default().hash_password(password.as_bytes(), &salt).map_err(|error| error.to_string())?;
    Ok(format!("{user}:{hash}"))
}

fn of_most_common_kind(hashes: &HashMap<Box<str>, Box<str>>) -> Option<Box<str>> {
    let mut counts = HashMap::new();
    for hash in hashes.values() {
        counts.entry(kind(hash)).or_insert((0, hash)).0 += 1;
    }
    // Of equally common kinds, always the same one.
    let most = counts.into_iter().max_by_key(|(kind, (count, _))| (*count, *kind));
    most.map(|(_, (_, hash))| hash.clone())
}

/// The part of a hash that determines how long verification takes: algorithm and cost.
fn kind(hash: &str) -> &str {
    // `$2y$<cost>$<salt and hash>`, `$argon2id$v=<version>$<cost>$<salt>$<hash>`.
    let parts = if is_bcrypt(hash) { 2 } else { 3 };
    let end = hash.match_indices('$').nth(parts).map_or(hash.len(), |(at, _)| at);
    &hash[..end]
}

fn is_bcrypt(hash: &str) -> bool {
    ["$2y$", "$2b$", "$2a$"].iter().any(|prefix| hash.starts_with(prefix))
}

fn check_hash(hash: &str) -> Result<(), String> {
    if is_bcrypt(hash) {
        let parts: bcrypt::HashParts = hash.parse().map_err(|_| "invalid bcrypt hash")?;
        return match parts.get_cost() {
            4..=MAX_BCRYPT_COST => Ok(()),
            cost => Err(format!("bcrypt cost {cost} is not supported; use 4 to {MAX_BCRYPT_COST}")),
        };
    }
    if hash.starts_with("$argon2id$") || hash.starts_with("$argon2i$") {
        let parsed = PasswordHash::new(hash).map_err(|error| format!("invalid argon2 hash: {error}"))?;
        let params = argon2::Params::try_from(&parsed).map_err(|error| format!("argon2: {error}"))?;
        if parsed.hash.is_none() || parsed.salt.is_none() {
            return Err("argon2 hash lacks its salt or its value".to_owned());
        }
        if params.m_cost() > MAX_ARGON2_KIB || params.t_cost() > MAX_ARGON2_PASSES {
            return Err(format!(
                "argon2 hash needs more than {MAX_ARGON2_KIB} KiB or {MAX_ARGON2_PASSES} passes"
            ));
        }
        return Ok(());
    }
    Err("hash is neither bcrypt nor argon2; create it with htpasswd -B or packrace access hash".to_owned())
}

fn verify(hash: &str, password: &str) -> bool {
    if is_bcrypt(hash) {
        return bcrypt::verify(password, hash).unwrap_or(false);
    }
    let verified = |hash| Argon2::default().verify_password(password.as_bytes(), &hash).is_ok();
    PasswordHash::new(hash).is_ok_and(verified)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<PasswordFile, String> {
        PasswordFile::parse(Path::new("users"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn passwords_of_both_kinds() {
        let bcrypt = bcrypt::hash("open sesame", 4).unwrap();
        let argon2 = hash_password("b", "sesame, open").unwrap();
        let file = parse(&format!("# users\na:{bcrypt}\n\n{argon2}\r\n"));
        let file = file.unwrap();
        assert!(file.verify("a", "open sesame"));
        assert!(!file.verify("a", "open sesam"));
        assert!(!file.verify("a", ""));
        assert!(file.verify("b", "sesame, open"));
        assert!(!file.verify("b", "open sesame"));
        assert!(!file.verify("c", "open sesame"));
        assert!(!PasswordFile::default().verify("a", ""));
    }

    /// Otherwise the response time would reveal which users exist.
    #[test]
    fn users_that_do_not_exist_take_as_long_as_most() {
        let argon2 = |user: &str, cost: &str| {
            format!("{user}:$argon2id$v=19${cost}$c29tZXNhbHQ$ljFpLeKdQRz1dvgvQzbmTtnZAM6tNbQMMrb0trBOgcQ\n")
        };
        let bcrypt = |user: &str| format!("{user}:{}\n", bcrypt::hash("x", 4).unwrap());
        let typical = |text: String| kind(&parse(&text).unwrap().typical.unwrap()).to_owned();
        let (cheap, dear) = ("m=64,t=1,p=1", "m=128,t=2,p=1");
        assert_eq!(typical(bcrypt("a") + &bcrypt("b") + &argon2("c", cheap)), "$2b$04");
        assert_eq!(
            typical(bcrypt("a") + &argon2("b", cheap) + &argon2("c", cheap) + &argon2("d", dear)),
            format!("$argon2id$v=19${cheap}")
        );
        assert!(parse("").unwrap().typical.is_none());
    }

    #[test]
    fn weak_and_damaged_hashes_are_refused() {
        let check = |line: &str, expect: &str| {
            let error = parse(&format!("# one\n{line}\n")).unwrap_err();
            assert!(error.starts_with("users:2: ") && error.contains(expect), "{line}: {error}");
        };
        check("a", "expected name:hash");
        check(":x", "user name is empty");
        check("a:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=", "neither bcrypt nor argon2");
        check("a:$apr1$r31.....$HqJZimcKQFAMYayBlzkrA/", "neither bcrypt nor argon2");
        check("a:secret", "neither bcrypt nor argon2");
        check("a:$2y$05$short", "invalid bcrypt hash");
        check("a:$2y$31$XZ0QjYUHdQqLIyqwDvmbfeS7dKyKyhaLoMmYbWpaTgOBUV3Yq0Dka", "cost 31");
        check(
            "a:$argon2id$v=19$m=99999999,t=1,p=1$c29tZXNhbHQ$ljFpLeKdQRz1dvgvQzbmTtnZAM6tNbQMMrb0trBOgcQ",
            "argon2",
        );
        check("a:$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHQ", "lacks its salt or its value");
        let twice = format!("a:{0}\na:{0}\n", bcrypt::hash("x", 4).unwrap());
        assert!(parse(&twice).unwrap_err().contains("users:2: duplicate user a"));
    }
}
