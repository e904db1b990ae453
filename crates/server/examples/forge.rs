//! A forge with its own users and pages, and Git beside them: `cargo run -p packrace-server --example forge -- FOLDER`

use std::path::Path;

use axum::{Router, routing};
use packrace_server::access::*;
use packrace_server::embed::Git;

/// A real forge keeps hashes of passwords in a database.
#[derive(Debug)]
struct Users(Vec<(&'static str, &'static str)>);

impl AccessPolicy for Users {
    fn identify(&self, offer: &Offer<'_>) -> Result<Principal, NotIdentified> {
        match offer.credentials()? {
            None => Ok(Principal::anonymous()),
            Some(Credentials::Basic { user, password }) if self.0.contains(&(&user, &password)) => {
                Ok(Principal::named(&user))
            }
            Some(_) => Err(NotIdentified::Refused("wrong password".to_owned())),
        }
    }

    /// Everybody reads. Users push below their own name, and never rewrite history.
    fn decide(&self, principal: &Principal, path: &[u8], ask: Ask<'_>) -> Decision {
        let is_owner = |name: &str| path.starts_with(format!("{name}/").as_bytes());
        match (ask, principal.name()) {
            (Ask::Read, _) => Decision::Allow,
            (_, None) => Decision::Authenticate,
            (Ask::Ref(change), _) if change.kind == ChangeKind::Force => {
                Decision::Forbid("history is not rewritten here".to_owned())
            }
            (Ask::Push | Ask::Ref(_), Some(name)) if is_owner(name) => Decision::Allow,
            _ => Decision::Forbid("not yours".to_owned()),
        }
    }
}

/// The repositories below a folder, for these users.
pub fn git(root: &Path) -> std::io::Result<Git> {
    Git::builder(root).access(Users(vec![("alice", "wonder"), ("bob", "builder")])).build()
}

/// Everything that is not Git's.
pub fn pages() -> Router {
    Router::new().route("/", routing::get(async || "A forge.\n"))
}

fn main() -> std::io::Result<()> {
    let git = git(Path::new(&std::env::args().nth(1).unwrap_or_else(|| ".".to_owned())))?;
    tokio::runtime::Runtime::new()?.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        println!("http://{}/", listener.local_addr()?);
        git.serve(listener, pages()).await;
        Ok(())
    })
}
