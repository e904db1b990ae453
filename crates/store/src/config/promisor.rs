//! Where a partial clone finds the objects that it lacks.

use super::Config;
use crate::error::Error;

impl Config {
    /// The names of promisor remotes, in the order in which they are asked (technical/partial-clone, "Using many promisor
    /// remotes"): `extensions.partialClone` names the last one.
    pub fn promisor_remotes(&self) -> Result<Vec<String>, Error> {
        let mut names: Vec<String> = Vec::new();
        for (name, _) in self.section("remote") {
            let Ok(name) = std::str::from_utf8(&name[b"remote.".len()..]) else { continue };
            let remote = match name.rsplit_once('.') {
                Some((remote, "partialclonefilter")) => remote,
                Some((remote, "promisor")) if self.boolean(&format!("remote.{name}"))? == Some(true) => {
                    remote
                }
                _ => continue,
            };
            if !names.iter().any(|known| known == remote) {
                names.push(remote.to_owned());
            }
        }
        if let Some(last) =
            self.string("extensions.partialClone").and_then(|name| String::from_utf8(name).ok())
        {
            names.retain(|name| *name != last);
            names.push(last);
        }
        Ok(names)
    }
}
