//! Input: a file of settings of `serve`, as TOML. What is taken is written again and means the same; what is not taken
//! changes nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use packrace_server::serve_config::{ServeConfig, example};

fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let mut config = ServeConfig::default();
    if let Err(why) = config.take_file("f", text) {
        assert!(why.starts_with("f:"), "{why}");
        assert_eq!(example(&config), example(&ServeConfig::default()));
        return;
    }
    let written = example(&config);
    // Values are comments there.
    let mut uncommented = String::new();
    for line in written.lines() {
        uncommented.push_str(line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')).unwrap_or(line));
        uncommented.push('\n');
    }
    let mut again = ServeConfig::default();
    again.take_file("written", &uncommented).expect("what is written is read");
    assert_eq!(example(&again), written);
});
