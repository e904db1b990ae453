use super::*;

fn shown(config: &ServeConfig) -> Vec<(String, String)> {
    all().iter().map(|setting| (setting.key(), (setting.show)(config))).collect()
}

#[test]
fn the_example_says_what_counts_anyway() {
    let example = example(&ServeConfig::default());
    let mut uncommented = String::new();
    for line in example.lines() {
        let setting = line.strip_prefix('#').filter(|rest| !rest.starts_with(' '));
        uncommented.push_str(setting.unwrap_or(line));
        uncommented.push('\n');
    }
    for setting in all() {
        let line = format!("\n{} = ", setting.name());
        assert!(uncommented.contains(&line), "{} is not in the example", setting.key());
        assert!(
            setting.doc.len() > 20 && setting.doc.ends_with('.') || setting.doc.contains(':'),
            "{}",
            setting.key()
        );
    }
    for text in [example, uncommented] {
        let mut config = ServeConfig::default();
        config.take_file("example", &text).unwrap();
        assert_eq!(shown(&config), shown(&ServeConfig::default()));
    }
}

#[test]
fn names_are_unique_in_every_form() {
    let mut keys: Vec<_> = all().iter().flat_map(|setting| [setting.key(), setting.variable()]).collect();
    let count = keys.len();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), count);
}

#[test]
fn files_are_taken_whole_or_not_at_all() {
    let mut config = ServeConfig::default();
    config
        .take_file("f", "[limits]\ndrain-time = \"1m\"\nstall-bytes = 10\n[listen]\ngit = \"[::1]:0\"\n")
        .unwrap();
    assert_eq!(config.limits.drain_time.as_secs(), 60);
    assert_eq!(config.limits.stall_bytes, 10);
    let before = shown(&config);
    let mut check = |text: &str, expect: &str| {
        assert_eq!(config.take_file("dir/f.toml", text).unwrap_err(), expect, "{text}");
        assert_eq!(shown(&config), before, "{text}");
    };
    check(
        "[limits]\nstall-bytes = 11\ndrain-time = \"5 parsecs\"\n",
        "dir/f.toml:3:14: limits.drain-time: \"5 parsecs\" is not a duration: \
         a whole number of seconds, or one with ms, s, m, h or d",
    );
    check("[limits]\ndrain-tim = 5\n", "dir/f.toml:2:1: limits.drain-tim: unknown setting");
    check("[limit]\n", "dir/f.toml:1:2: limit: unknown table");
    check("http = 1\n", "dir/f.toml:1:1: http: unknown setting; settings belong in tables");
    check("[push]\nallowed = \"yes\"\n", "dir/f.toml:2:11: push.allowed: \"yes\" is not true or false");
    check("[limits]\nmax-requests = -1\n", "dir/f.toml:2:16: limits.max-requests: -1 is not a whole number");
    check(
        "[limits]\nmax-requests = 1.5\n",
        "dir/f.toml:2:16: limits.max-requests: a float is not a whole number",
    );
    for (text, place) in
        [("[limits]\nstall-bytes = 1\nstall-bytes = 2\n", "3:1"), ("[limits\n", "1:8"), ("\n ä = [\n", "2:7")]
    {
        let error = config.take_file("f", text).unwrap_err();
        assert!(error.starts_with(&format!("f:{place}: ")), "{text}: {error}");
    }
}

#[test]
fn variables_and_assignments() {
    let mut config = ServeConfig::default();
    config.take_variable("PACKRACE_SERVE_LIMITS_DRAIN_TIME", "30s").unwrap();
    config.take_assignment("listen.admin=127.0.0.1:1").unwrap();
    config.take_assignment("limits.exempt-addresses=10.0.0.0/8,::1").unwrap();
    let changed: Vec<_> = config.differences(&ServeConfig::default()).map(Setting::key).collect();
    assert_eq!(changed, ["listen.admin", "limits.exempt-addresses", "limits.drain-time"]);
    let mut running =
        ServeConfig { log: Log { level: Level::Debug, format: Format::Text }, ..ServeConfig::default() };
    let (done, stay) = running.reload(config.clone());
    let keys = |settings: Vec<&Setting>| settings.iter().map(|setting| setting.key()).collect::<Vec<_>>();
    assert_eq!(keys(done), ["limits.exempt-addresses", "limits.drain-time", "log.level"]);
    assert_eq!(keys(stay), ["listen.admin"]);
    assert_eq!((running.limits.drain_time.as_secs(), running.listen.admin), (30, Admin::OnHttp));
    let check = |result: Result<(), String>, expect: &str| assert_eq!(result.unwrap_err(), expect);
    check(config.take_variable("PACKRACE_SERVE_X", "1"), "PACKRACE_SERVE_X: unknown setting");
    check(
        config.take_variable("PACKRACE_SERVE_LOG_FORMAT", "xml"),
        "PACKRACE_SERVE_LOG_FORMAT: \"xml\" is not text or json",
    );
    check(config.take_assignment("a.b"), "--set a.b: missing '='");
    check(config.take_assignment("a.b=c"), "--set a.b=c: unknown setting a.b");
    check(config.take_assignment("push.allowed=1"), "--set push.allowed=1: \"1\" is not true or false");
}
