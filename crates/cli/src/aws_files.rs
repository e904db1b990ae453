//! Credentials of a bucket from the files that `aws configure` writes, where the environment has none
//! ("Configuration and credential file settings" of the AWS CLI).

use std::path::{Path, PathBuf};

use configparser::ini::Ini;
use packrace_commands::Fatal;
use packrace_os::count::Role;

/// Longest of these files.
const MAX_BYTES: u64 = 1 << 20;

/// The variable that each key stands for.
const SECRETS: [(&str, &str); 3] = [
    ("aws_access_key_id", "AWS_ACCESS_KEY_ID"),
    ("aws_secret_access_key", "AWS_SECRET_ACCESS_KEY"),
    ("aws_session_token", "AWS_SESSION_TOKEN"),
];
const PLACES: [(&str, &str); 2] = [("region", "AWS_REGION"), ("endpoint_url", "AWS_ENDPOINT_URL")];

/// Other ways to credentials. A profile that has nothing else cannot be used.
const UNKNOWN_WAYS: [&str; 5] =
    ["credential_process", "role_arn", "sso_session", "sso_start_url", "web_identity_token_file"];

/// Adds to the variables what the files of a profile say and no variable does.
pub fn with_files(
    mut variables: Vec<(String, String)>,
    home: Option<&Path>,
) -> Result<Vec<(String, String)>, Fatal> {
    let of = |name: &str| variables.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone());
    let (named, profile) = (of("AWS_PROFILE"), of("AWS_PROFILE").unwrap_or_else(|| "default".to_owned()));
    let place =
        |name: &str, below_home: &str| of(name).map(PathBuf::from).or(home.map(|home| home.join(below_home)));
    let credentials = read(place("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials").as_deref())?;
    let config = read(place("AWS_CONFIG_FILE", ".aws/config").as_deref())?;
    let section = if profile == "default" { profile.clone() } else { format!("profile {profile}") };
    let said = |key: &str| credentials.get(&profile, key).or_else(|| config.get(&section, key));
    let is_there = credentials.sections().contains(&profile) || config.sections().contains(&section);
    if named.is_some() && !is_there {
        return Err(Fatal::new(format!("AWS_PROFILE: there is no profile '{profile}'")));
    }
    // Those of a profile belong together, and a variable with a key means that none of them counts.
    let has_own =
        ["AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"]
            .iter()
            .chain(&["AWS_CONTAINER_CREDENTIALS_FULL_URI"])
            .any(|name| of(name).is_some());
    let mut found = Vec::new();
    if !has_own && said("aws_access_key_id").is_some() {
        found.extend(SECRETS.iter().filter_map(|(key, name)| Some(((*name).to_owned(), said(key)?))));
    } else if !has_own && let Some(way) = UNKNOWN_WAYS.iter().find(|way| said(way).is_some()) {
        return Err(Fatal::new(format!(
            "profile '{profile}': {way} is not supported; give a key, or variables"
        )));
    }
    let has_place = |name: &str| match name {
        "AWS_REGION" => of("AWS_REGION").or(of("AWS_DEFAULT_REGION")).is_some(),
        _ => of("AWS_ENDPOINT_URL_S3").or(of("AWS_ENDPOINT_URL")).or(of("AWS_ENDPOINT")).is_some(),
    };
    for (key, name) in PLACES.iter().filter(|(_, name)| !has_place(name)) {
        found.extend(said(key).map(|value| ((*name).to_owned(), value)));
    }
    variables.extend(found);
    Ok(variables)
}

/// A file, if it is there.
fn read(path: Option<&Path>) -> Result<Ini, Fatal> {
    let mut ini = Ini::new_cs();
    let Some(path) = path else { return Ok(ini) };
    // What is wrong with it is not told: it would be shown.
    let failed = |why: &str| Fatal::new(format!("{}: {why}", path.display()));
    match packrace_os::read_file(path, Role::Config, MAX_BYTES) {
        Ok(bytes) => {
            let text = String::from_utf8(bytes).map_err(|_| failed("it is no text"))?;
            ini.read(text).map_err(|_| failed("it is no file of sections, keys and values"))?;
        }
        Err(error) if packrace_os::is_absent(&error) => {}
        Err(error) => return Err(failed(&error.to_string())),
    }
    Ok(ini)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of these variables and files.
    fn found(
        variables: &[(&str, &str)],
        credentials: &str,
        config: &str,
    ) -> Result<Vec<(String, String)>, String> {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join(".aws")).unwrap();
        for (name, text) in [("credentials", credentials), ("config", config)] {
            if !text.is_empty() {
                std::fs::write(home.path().join(".aws").join(name), text).unwrap();
            }
        }
        let variables: Vec<(String, String)> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let count = variables.len();
        let all = with_files(variables, Some(home.path())).map_err(|fatal| fatal.message)?;
        Ok(all[count..].to_vec())
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
        // Keys may stand in the configuration, too.
        check(&[], "", KEYS, &pair);
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

    #[test]
    fn what_cannot_be_used_is_told_without_secrets() {
        let said = |variables: &[(&str, &str)], credentials: &str, config: &str| {
            found(variables, credentials, config).unwrap_err()
        };
        assert_eq!(said(&[("AWS_PROFILE", "none")], KEYS, CONFIG), "AWS_PROFILE: there is no profile 'none'");
        let role = "[default]\nrole_arn = arn:aws:iam::1:role/x\n";
        assert!(said(&[], "", role).contains("role_arn is not supported"));
        check(&[("AWS_ACCESS_KEY_ID", "ENV")], "", role, &[]);
        let bad = said(&[], "[default\nsecret\n", "");
        assert!(
            bad.ends_with("it is no file of sections, keys and values") && !bad.contains("secret"),
            "{bad}"
        );
    }
}
