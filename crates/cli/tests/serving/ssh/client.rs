//! An SSH client, and git on top of it where no `ssh` is installed.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::sync::Arc;

use russh::client::{AuthResult, Config, Handle, Handler, Msg, connect};
use russh::keys::{Certificate, PrivateKey, PrivateKeyWithHashAlg, PublicKeyOrCertificate};
use russh::{Channel, ChannelMsg, Preferred};
use tokio::runtime::Runtime;

use super::*;

/// Trusts any host.
struct Believing;

impl Handler for Believing {
    type Error = russh::Error;

    async fn check_server_key(&mut self, _: &PublicKeyOrCertificate) -> Result<bool, Self::Error> {
        Ok(true)
    }
}

/// A connection.
pub struct SshClient {
    runtime: Runtime,
    handle: Handle<Believing>,
}

/// The result of a session.
#[derive(Debug, Default)]
pub struct Ran {
    pub out: Vec<u8>,
    pub err: String,
    pub code: Option<u32>,
}

impl SshClient {
    /// Connects without authenticating.
    pub fn connect(address: SocketAddr) -> Result<Self, russh::Error> {
        SshClient::connect_with(address, Preferred::DEFAULT)
    }

    pub fn connect_with(address: SocketAddr, preferred: Preferred) -> Result<Self, russh::Error> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let config = Config { preferred, ..Config::default() };
        let handle = runtime.block_on(connect(Arc::new(config), address, Believing))?;
        Ok(SshClient { runtime, handle })
    }

    /// Whether a key is accepted.
    pub fn shows(&mut self, login: &str, key: &PrivateKey) -> bool {
        let key = PrivateKeyWithHashAlg::new(Arc::new(key.clone()), None);
        let shown = self.runtime.block_on(self.handle.authenticate_publickey(login, key));
        shown.is_ok_and(|shown| shown.success())
    }

    pub fn shows_certificate(&mut self, login: &str, key: &PrivateKey, certificate: Certificate) -> bool {
        let shown = self.handle.authenticate_openssh_cert(login, Arc::new(key.clone()), certificate);
        self.runtime.block_on(shown).is_ok_and(|shown| shown.success())
    }

    /// The responses to other methods.
    pub fn tries_others(&mut self) -> [AuthResult; 2] {
        let SshClient { runtime, handle } = self;
        let none = runtime.block_on(handle.authenticate_none("git")).unwrap();
        let password = runtime.block_on(handle.authenticate_password("git", "secret")).unwrap();
        [none, password]
    }

    /// Begins a session; without a command, a shell.
    pub fn begin(
        &self,
        protocol: Option<&str>,
        command: Option<&[u8]>,
    ) -> Result<Channel<Msg>, russh::Error> {
        self.runtime.block_on(async {
            let channel = self.handle.channel_open_session().await?;
            if let Some(protocol) = protocol {
                channel.set_env(false, "GIT_PROTOCOL", protocol).await?;
            }
            match command {
                Some(command) => channel.exec(true, command).await?,
                None => channel.request_shell(true).await?,
            }
            Ok(channel)
        })
    }

    /// Sends all input, and receives output until the session has ended.
    pub fn finish(&self, mut channel: Channel<Msg>, input: &[u8]) -> Ran {
        let mut ran = Ran::default();
        self.runtime.block_on(async {
            // The session may have ended already.
            let _ = channel.data_bytes(input.to_vec()).await;
            let _ = channel.eof().await;
            while let Some(message) = channel.wait().await {
                match message {
                    ChannelMsg::Data { data } => ran.out.extend_from_slice(&data),
                    ChannelMsg::ExtendedData { data, .. } => ran.err += &String::from_utf8_lossy(&data),
                    ChannelMsg::ExitStatus { exit_status } => ran.code = Some(exit_status),
                    _ => {}
                }
            }
        });
        ran
    }

    /// Receives this many bytes.
    pub fn take(&self, channel: &mut Channel<Msg>, bytes: usize) -> Vec<u8> {
        let mut taken = Vec::new();
        self.runtime.block_on(async {
            while taken.len() < bytes {
                if let ChannelMsg::Data { data } = channel.wait().await.expect("there is more") {
                    taken.extend_from_slice(&data);
                }
            }
        });
        taken
    }

    pub fn run(&self, protocol: Option<&str>, command: &[u8], input: &[u8]) -> Ran {
        self.finish(self.begin(protocol, Some(command)).unwrap(), input)
    }
}

/// Stock git, whose `ssh` is a script that passes everything through pipes to this client.
pub fn git(client: &SshClient, folder: &Path, args: &[&str]) -> Output {
    let pipes = tempfile::tempdir().unwrap();
    let path = |name: &str| pipes.path().join(name);
    for name in ["command", "protocol", "up", "down", "code"] {
        assert!(Command::new("mkfifo").arg(path(name)).status().unwrap().success());
    }
    let script = format!(
        "#!/bin/sh\nfor last; do :; done\ncd '{}'\nprintf '%s' \"$last\" >command\nprintf '%s' \"$GIT_PROTOCOL\" >protocol\n\
         cat <down &\nexec >/dev/null\ncat >up\nwait\nexit $(cat code)\n",
        pipes.path().display()
    );
    packrace_testkit::write_program(&path("ssh"), &script);
    let mut git = Git::stock().command(folder);
    git.env("GIT_SSH", path("ssh")).env("GIT_SSH_VARIANT", "ssh").args(args);
    git.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let git = git.spawn().unwrap();
    let [command, protocol] = ["command", "protocol"].map(|name| std::fs::read(path(name)).unwrap());
    let protocol = String::from_utf8(protocol).unwrap();
    let channel =
        client.begin(Some(protocol.as_str()).filter(|text| !text.is_empty()), Some(&command)).unwrap();
    let (mut reader, writer) = channel.split();
    let mut down = File::options().write(true).open(path("down")).unwrap();
    let mut up = File::open(path("up")).unwrap();
    let handle = client.runtime.handle().clone();
    let sending = std::thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        loop {
            match up.read(&mut buffer).unwrap() {
                0 => return drop(handle.block_on(writer.eof())),
                length => drop(handle.block_on(writer.data_bytes(buffer[..length].to_vec()))),
            }
        }
    });
    let mut code = 255;
    while let Some(message) = client.runtime.block_on(reader.wait()) {
        match message {
            // git may have left already.
            ChannelMsg::Data { data } => drop(down.write_all(&data)),
            ChannelMsg::ExtendedData { data, .. } => eprint!("{}", String::from_utf8_lossy(&data)),
            ChannelMsg::ExitStatus { exit_status } => code = exit_status,
            _ => {}
        }
    }
    drop(down);
    std::fs::write(path("code"), code.to_string()).unwrap();
    let ended = git.wait_with_output().unwrap();
    sending.join().unwrap();
    ended
}
