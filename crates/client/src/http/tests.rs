use super::connector::offers_basic;
use super::*;

#[test]
fn redirects_lead_to_repositories_and_stay_encrypted() {
    let check = |url: &str, location: &str, expect: Option<&str>| {
        let to = redirected(&Url::parse(url).unwrap(), Some(location)).map(|url| url.base()).ok();
        assert_eq!(to.as_deref(), expect, "{url}: {location}");
    };
    let url = "http://a:80/b.git";
    check(url, "/c.git/info/refs?service=git-upload-pack", Some("http://a:80/c.git"));
    check(url, "http://a/c/info/refs?service=git-upload-pack", Some("http://a/c"));
    check(url, "http://b/c/info/refs?service=git-upload-pack", Some("http://b/c"));
    check(url, "//b/c/info/refs?service=git-upload-pack", Some("http://b/c"));
    check(url, "https://a/c/info/refs?service=git-upload-pack", Some("https://a/c"));
    for location in ["git://a:80/c/info/refs?service=git-upload-pack", "/login", ""] {
        check(url, location, None);
    }
    let url = "https://a/b.git";
    check(url, "/c/info/refs?service=git-upload-pack", Some("https://a/c"));
    check(url, "http://a/c/info/refs?service=git-upload-pack", None);
    assert!(redirected(&Url::parse(url).unwrap(), None).is_err());
}

#[test]
fn passwords_are_for_those_who_ask_for_them() {
    for challenges in ["Basic realm=\"x\"", "basic", "Digest realm=\"a, b\", nonce=c, Basic realm=\"x\""] {
        assert!(offers_basic(challenges), "{challenges}");
    }
    for challenges in ["", "Digest realm=basic", "Negotiate", "Bearer realm=\"Basic\"", "NTLM, Negotiate"] {
        assert!(!offers_basic(challenges), "{challenges}");
    }
}
