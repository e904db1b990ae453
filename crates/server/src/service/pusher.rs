//! The pusher over HTTP, as git-http-backend reports it, and over SSH.

use super::call::Client;
use crate::receive::Pusher;

/// A client that is not authenticated is `anonymous`. `network` separates name and address.
pub(crate) fn pusher(network: &str, user: Option<&str>, address: Option<&str>) -> Client {
    let name = user.unwrap_or("anonymous").to_owned();
    let address = address.unwrap_or("(none)");
    let pusher = Pusher { email: format!("{name}@{network}.{address}"), name };
    let variables = [
        ("GIT_COMMITTER_NAME", pusher.name.clone()),
        ("GIT_COMMITTER_EMAIL", pusher.email.clone()),
        ("REMOTE_ADDR", address.to_owned()),
    ];
    let variables = variables.into_iter().chain(user.map(|user| ("REMOTE_USER", user.to_owned())));
    let variables = variables.map(|(name, value)| (name.into(), value.into())).collect();
    Client { pusher: Some(pusher), variables }
}
