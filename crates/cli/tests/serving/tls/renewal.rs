//! Certificates are renewed while clients are served.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::*;

#[test]
fn nobody_is_disturbed_by_new_certificates() {
    let served = start("");
    let is_over = AtomicBool::new(false);
    let clones = AtomicUsize::new(0);
    let renew = |common_name: &str| {
        served.authority.sign(common_name, &["localhost", "127.0.0.1"]).write(&served.dir(), "server");
        served.server.signal("-HUP");
    };
    let waits_for = |common_name: &str| {
        served
            .server
            .wait_until("the new certificate", |_| served.connect("localhost").common_name() == common_name);
    };
    std::thread::scope(|scope| {
        for client in 0..3 {
            let (served, is_over, clones) = (&served, &is_over, &clones);
            scope.spawn(move || {
                for number in 0.. {
                    served.git_succeeds(&[], &["clone", "-q", &served.url(), &format!("{client}-{number}")]);
                    clones.fetch_add(1, Ordering::Relaxed);
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                }
            });
        }
        let mut old = served.connect("localhost");
        assert_eq!(old.common_name(), "localhost");
        assert!(old.get("/-/healthz").unwrap().starts_with("HTTP/1.1 200"));
        for number in 0..4 {
            renew(&format!("renewed {number}"));
            waits_for(&format!("renewed {number}"));
        }
        // An invalid file changes nothing, nor does a key that others may read.
        let broken = served.dir().join("server.pem");
        std::fs::write(&broken, "nonsense").unwrap();
        served.server.signal("-HUP");
        let words =
            format!("reload failed, settings unchanged: {}: contains no certificate (PEM)", broken.display());
        served.server.wait_until("the complaint", |server| server.log().contains(&words));
        assert_eq!(served.connect("localhost").common_name(), "renewed 3");
        renew("renewed 4");
        waits_for("renewed 4");
        assert!(old.get("/-/healthz").unwrap().starts_with("HTTP/1.1 200"), "it keeps its certificate");
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(clones.into_inner() >= 3);
    let log = served.server.log();
    assert!(log.contains("TLS certificates: ") && log.contains("server.pem (localhost) until "), "{log}");
}
