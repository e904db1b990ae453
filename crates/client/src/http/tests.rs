use super::*;

#[test]
fn redirects_stay_on_the_host() {
    let url = Url::parse("http://a:80/b.git").unwrap();
    let to = |location: &str| redirected(&url, Some(location)).map(|url| url.base()).ok();
    assert_eq!(to("/c.git/info/refs?service=git-upload-pack").as_deref(), Some("http://a:80/c.git"));
    assert_eq!(to("http://a/c/info/refs?service=git-upload-pack").as_deref(), Some("http://a/c"));
    for location in [
        "http://b/c/info/refs?service=git-upload-pack",
        "http://a:81/c/info/refs?service=git-upload-pack",
        "//a/c/info/refs?service=git-upload-pack",
        "https://a/c/info/refs?service=git-upload-pack",
        "git://a:80/c/info/refs?service=git-upload-pack",
        "/login",
        "",
    ] {
        assert_eq!(to(location), None, "{location}");
    }
    assert!(redirected(&url, None).is_err());
}
