//! Gives up unneeded rights: new privileges and, with Landlock, access to all files but some (landlock(7)).

use std::io;
use std::path::PathBuf;

/// Files, and directories with everything below them, that stay accessible after [`enter`]. Paths that do not
/// exist then stay inaccessible, even if created later.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reach {
    /// Paths to read and to run programs from.
    pub read: Vec<PathBuf>,
    /// Paths to write as well.
    pub write: Vec<PathBuf>,
}

/// How much the kernel enforces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enforced {
    /// Everything that this code requests.
    Fully,
    /// Less: the kernel is older and still allows some changes to files that cannot be read (truncating,
    /// ioctl of devices).
    Partly,
    /// Nothing: it has no Landlock, or Landlock is disabled.
    NotAtAll,
}

/// Applies permanently to the calling thread and all that it starts from now on: call it before other
/// threads exist.
#[cfg(target_os = "linux")]
pub fn enter(reach: &Reach) -> io::Result<Enforced> {
    use landlock::{
        ABI, Access as _, AccessFs, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _,
        RulesetCreatedAttr as _, RulesetError, RulesetStatus, path_beneath_rules,
    };
    /// Of Linux 6.10. An older kernel does what it can; newer ones add restrictions of sockets and signals.
    const NEWEST: ABI = ABI::V5;
    // Otherwise set-user-ID programs could escape; useful without Landlock too.
    rustix::thread::set_no_new_privs(true)?;
    let restrict = || -> Result<_, RulesetError> {
        Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(NEWEST))?
            .create()?
            .add_rules(path_beneath_rules(&reach.read, AccessFs::from_read(NEWEST)))?
            .add_rules(path_beneath_rules(&reach.write, AccessFs::from_all(NEWEST)))?
            .restrict_self()
    };
    let status = restrict().map_err(io::Error::other)?;
    Ok(match status.ruleset {
        RulesetStatus::FullyEnforced => Enforced::Fully,
        RulesetStatus::PartiallyEnforced => Enforced::Partly,
        RulesetStatus::NotEnforced => Enforced::NotAtAll,
    })
}

/// Landlock is only on Linux.
#[cfg(not(target_os = "linux"))]
pub fn enter(_: &Reach) -> io::Result<Enforced> {
    Ok(Enforced::NotAtAll)
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    use super::*;

    /// Names the directory of a process that [`only_what_is_named_can_be_reached`] starts: the process enters the
    /// sandbox, tests do not.
    const DIRECTORY: &str = "PACKRACE_TEST_SANDBOX";

    #[test]
    fn only_what_is_named_can_be_reached() {
        if let Some(dir) = std::env::var_os(DIRECTORY) {
            return inside(Path::new(&dir));
        }
        let dir = tempfile::tempdir().unwrap();
        for name in ["read", "write", "other"] {
            fs::create_dir(dir.path().join(name)).unwrap();
            fs::write(dir.path().join(name).join("file"), name).unwrap();
        }
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "sandbox::tests::only_what_is_named_can_be_reached", "--nocapture"]);
        let output = command.env(DIRECTORY, dir.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        if said.contains("NOT TESTED") {
            eprintln!("NOT TESTED: this kernel has no Landlock");
        } else {
            assert!(said.contains("seen to hold"), "{said}");
        }
        assert_eq!(fs::read(dir.path().join("other/file")).unwrap(), b"other");
    }

    fn inside(dir: &Path) {
        // Each test runs on a thread of its own, so that this one affects no other.
        let reach =
            Reach { read: vec![dir.join("read"), dir.join("missing")], write: vec![dir.join("write")] };
        if enter(&reach).unwrap() == Enforced::NotAtAll {
            return eprintln!("NOT TESTED: this kernel has no Landlock");
        }
        let denied = |result: io::Result<()>| {
            assert_eq!(result.unwrap_err().raw_os_error(), Some(rustix::io::Errno::ACCESS.raw_os_error()));
        };
        let look = |dir: &Path| {
            assert_eq!(fs::read(dir.join("read/file")).unwrap(), b"read");
            denied(fs::write(dir.join("read/file"), b"x"));
            denied(fs::remove_file(dir.join("read/file")));
            fs::write(dir.join("write/new"), b"x").unwrap();
            fs::rename(dir.join("write/new"), dir.join("write/newer")).unwrap();
            denied(fs::read(dir.join("other/file")).map(drop));
            denied(fs::write(dir.join("other/new"), b"x"));
            denied(fs::read_dir(dir.join("other")).map(drop));
            denied(fs::create_dir(dir.join("missing")));
        };
        look(dir);
        // Threads and programs started later are restricted, too.
        std::thread::scope(|scope| scope.spawn(|| look(dir)).join().unwrap());
        let status = fs::read_to_string("/proc/self/status");
        denied(status.map(drop));
        denied(Command::new("/bin/true").status().map(drop));
        assert!(rustix::thread::no_new_privs().unwrap());
        eprintln!("seen to hold");
    }
}
