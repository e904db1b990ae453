//! Credentials for a bucket from the files that `aws configure` writes, if the environment has none
//! ("Configuration and credential file settings" of the AWS CLI).

use std::path::Path;

use configparser::ini::Ini;
use packrace_os::count::Role;

use crate::error::{Error, ErrorKind};

/// Largest file that is read.
const MAX_BYTES: u64 = 1 << 20;

/// Keys of secrets, and their variables.
const SECRETS: [(&str, &str); 3] = [
    ("aws_access_key_id", "AWS_ACCESS_KEY_ID"),
    ("aws_secret_access_key", "AWS_SECRET_ACCESS_KEY"),
    ("aws_session_token", "AWS_SESSION_TOKEN"),
];
const PLACES: [(&str, &str); 2] = [("region", "AWS_REGION"), ("endpoint_url", "AWS_ENDPOINT_URL")];

/// Other sources of credentials. A profile that has nothing else cannot be used.
const UNKNOWN_WAYS: [&str; 5] =
    ["credential_process", "role_arn", "sso_session", "sso_start_url", "web_identity_token_file"];

/// Variables that are sources of credentials: if one is set, credentials in files are ignored.
const OWN_WAYS: [&str; 4] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
];

/// Adds the values of a profile's files for which no variable is set.
pub fn with_files(
    mut variables: Vec<(String, String)>,
    home: Option<&Path>,
) -> Result<Vec<(String, String)>, Error> {
    // An empty variable counts as unset, as in the AWS CLI.
    variables.retain(|(_, value)| !value.is_empty());
    let of = |name: &str| variables.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone());
    let has_own = OWN_WAYS.iter().any(|name| of(name).is_some());
    let read_at = |name: &str, below_home: &str| match of(name) {
        Some(path) => read(Path::new(&path), true),
        None => home.map_or_else(|| Ok(Ini::new_cs()), |home| read(&home.join(below_home), !has_own)),
    };
    let credentials = read_at("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials")?;
    let config = read_at("AWS_CONFIG_FILE", ".aws/config")?;
    let (named, profile) = (of("AWS_PROFILE"), of("AWS_PROFILE").unwrap_or_else(|| "default".to_owned()));
    let mut section = format!("profile {profile}");
    if profile == "default" && !config.sections().contains(&section) {
        section.clone_from(&profile);
    }
    let said = |key: &str| {
        let said = credentials.get(&profile, key).or_else(|| config.get(&section, key));
        said.filter(|value| !value.is_empty())
    };
    let is_there = credentials.sections().contains(&profile) || config.sections().contains(&section);
    if named.is_some() && !is_there {
        return Err(refused(format!("AWS_PROFILE: no such profile: '{profile}'")));
    }
    let takes_key = !has_own && said("aws_access_key_id").is_some();
    let mut found = Vec::new();
    if takes_key {
        found.extend(SECRETS.iter().filter_map(|(key, name)| Some(((*name).to_owned(), said(key)?))));
    } else if !has_own && let Some(way) = UNKNOWN_WAYS.iter().find(|way| said(way).is_some()) {
        return Err(refused(format!(
            "profile '{profile}': {way} is not supported; use access keys or environment variables"
        )));
    }
    let has_place = |name: &str| match name {
        "AWS_REGION" => of("AWS_REGION").or(of("AWS_DEFAULT_REGION")).is_some(),
        _ => of("AWS_ENDPOINT_URL_S3").or(of("AWS_ENDPOINT_URL")).or(of("AWS_ENDPOINT")).is_some(),
    };
    for (key, name) in PLACES.iter().filter(|(_, name)| !has_place(name)) {
        found.extend(said(key).map(|value| ((*name).to_owned(), value)));
    }
    // Other secrets must come from the same source as the key: with the token of another key, every request
    // would be refused.
    variables.retain(|(name, _)| !takes_key || SECRETS.iter().all(|(_, secret)| secret != name));
    variables.extend(found);
    Ok(variables)
}

fn refused(why: String) -> Error {
    Error::new(ErrorKind::Refused, why)
}

/// Reads a file, if it exists. One that is not `needed` need not be readable: services may have no access to
/// home directories.
fn read(path: &Path, is_needed: bool) -> Result<Ini, Error> {
    let mut ini = Ini::new_cs();
    // The error has no details: they could show secrets.
    let failed = |why: &str| refused(format!("{}: {why}", path.display()));
    match packrace_os::read_file(path, Role::Config, MAX_BYTES) {
        Ok(bytes) => {
            let text = String::from_utf8(bytes).map_err(|_| failed("not UTF-8"))?;
            ini.read(text).map_err(|_| failed("not an INI file (sections, keys and values)"))?;
        }
        Err(error) if packrace_os::is_absent(&error) => {}
        Err(error) if !is_needed && error.kind() == std::io::ErrorKind::PermissionDenied => {}
        Err(error) => return Err(failed(&error.to_string())),
    }
    Ok(ini)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The variables that these variables and files yield.
    fn found(
        variables: &[(&str, &str)],
        credentials: &str,
        config: &str,
    ) -> Result<Vec<(String, String)>, String> {
        let home = packrace_testkit::scratch_dir();
        std::fs::create_dir(home.path().join(".aws")).unwrap();
        for (name, text) in [("credentials", credentials), ("config", config)] {
            if !text.is_empty() {
                std::fs::write(home.path().join(".aws").join(name), text).unwrap();
            }
        }
        let variables: Vec<(String, String)> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let all = with_files(variables.clone(), Some(home.path())).map_err(|error| error.to_string())?;
        Ok(all.into_iter().filter(|variable| !variables.contains(variable)).collect())
    }

    #[track_caller]
    fn check(variables: &[(&str, &str)], credentials: &str, config: &str, expect: &[(&str, &str)]) {
        let expect: Vec<(String, String)> =
            expect.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        assert_eq!(found(variables, credentials, config).unwrap(), expect);
    }

    const KEYS: &str = "[default]\naws_access_key_id = ID\naws_secret_access_key=a/b+c=\n\n[other]\naws_access_key_id=OTHER\naws_secret_access_key=x\naws_session_token=t\n";
    const CONFIG: &str = "[default]\nregion = eu-central-1\noutput = json\n[profile other]\nregion=us-east-1\nendpoint_url = https://s3.example\n";

    #[test]
    fn profiles() {
        let pair = [("AWS_ACCESS_KEY_ID", "ID"), ("AWS_SECRET_ACCESS_KEY", "a/b+c=")];
        check(&[], KEYS, "", &pair);
        check(&[], KEYS, CONFIG, &[&pair[..], &[("AWS_REGION", "eu-central-1")]].concat());
        let other = [
            ("AWS_ACCESS_KEY_ID", "OTHER"),
            ("AWS_SECRET_ACCESS_KEY", "x"),
            ("AWS_SESSION_TOKEN", "t"),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ENDPOINT_URL", "https://s3.example"),
        ];
        check(&[("AWS_PROFILE", "other")], KEYS, CONFIG, &other);
        check(&[], "", "", &[]);
        // Keys may also be in the configuration file.
        check(&[], "", KEYS, &pair);
        let long = "[profile default]\nregion = here\n[default]\nregion = there\n";
        check(&[], "", long, &[("AWS_REGION", "here")]);
        check(&[], "[default]\naws_access_key_id = ID\naws_session_token =\n", "", &pair[..1]);
    }

    #[test]
    fn variables_count_more() {
        let own =
            [("AWS_ACCESS_KEY_ID", "ENV"), ("AWS_REGION", "here"), ("AWS_ENDPOINT_URL_S3", "http://here")];
        check(&own, KEYS, CONFIG, &[]);
        check(
            &[("AWS_WEB_IDENTITY_TOKEN_FILE", "/t"), ("AWS_PROFILE", "other"), ("AWS_REGION", "here")],
            KEYS,
            CONFIG,
            &[("AWS_ENDPOINT_URL", "https://s3.example")],
        );
    }

    /// A token belongs to the key beside it, and an empty variable counts as unset.
    #[test]
    fn keys_of_files_and_of_variables_are_not_mixed() {
        let expect = [("AWS_ACCESS_KEY_ID", "ID"), ("AWS_SECRET_ACCESS_KEY", "a/b+c=")];
        let left = [("AWS_SESSION_TOKEN", "old"), ("AWS_SECRET_ACCESS_KEY", "old")];
        check(&left, KEYS, "", &expect);
        check(&[("AWS_ACCESS_KEY_ID", ""), ("AWS_PROFILE", "")], KEYS, "", &expect);
        let home = packrace_testkit::scratch_dir();
        std::fs::create_dir(home.path().join(".aws")).unwrap();
        std::fs::write(home.path().join(".aws/credentials"), KEYS).unwrap();
        let left = left.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let all = with_files(left, Some(home.path())).map_err(|error| error.to_string()).unwrap();
        assert!(all.iter().all(|(_, value)| value != "old"), "{all:?}");
    }

    /// If variables suffice, files in an unreadable home directory are ignored.
    #[test]
    fn a_home_that_is_closed() {
        use std::os::unix::fs::PermissionsExt as _;
        let home = packrace_testkit::scratch_dir();
        let dir = home.path().join(".aws");
        std::fs::create_dir(&dir).unwrap();
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o000)).unwrap();
        // Root can read it anyway, and finds nothing.
        let is_closed = std::fs::read_dir(&dir).is_err();
        let own = vec![("AWS_ACCESS_KEY_ID".to_owned(), "ENV".to_owned())];
        assert_eq!(with_files(own.clone(), Some(home.path())).ok(), Some(own));
        assert_eq!(with_files(Vec::new(), Some(home.path())).is_err(), is_closed);
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o700)).unwrap();
    }

    #[test]
    fn what_cannot_be_used_is_told_without_secrets() {
        let said = |variables: &[(&str, &str)], credentials: &str, config: &str| {
            found(variables, credentials, config).unwrap_err()
        };
        assert_eq!(said(&[("AWS_PROFILE", "none")], KEYS, CONFIG), "AWS_PROFILE: no such profile: 'none'");
        let role = "[default]\nrole_arn = arn:aws:iam::1:role/x\n";
        assert!(said(&[], "", role).contains("role_arn is not supported"));
        check(&[("AWS_ACCESS_KEY_ID", "ENV")], "", role, &[]);
        let bad = said(&[], "[default\nsecret\n", "");
        assert!(
            bad.ends_with("not an INI file (sections, keys and values)") && !bad.contains("secret"),
            "{bad}"
        );
    }
}
