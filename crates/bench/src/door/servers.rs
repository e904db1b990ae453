//! One folder of repositories, and its servers over HTTP, HTTPS and SSH.

use std::fs::Permissions;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use packrace_testkit::certificates::Authority;
use packrace_testkit::peer::Script;
use packrace_testkit::{Bitmap, Git, Random, RepoBuilder, Size, Storage};

use super::clients::{SshDoor, TlsDoor};
use crate::Error;
use crate::args::Args;
use crate::serve::{self, Server};

/// The repository that is cloned.
pub const BIG: &str = "big.git";

/// The repository from which one commit is fetched.
pub const STEADY: &str = "steady.git";

/// Bytes of each file of the first repository; incompressible.
const FILE_BYTES: usize = 1 << 20;

/// Repositories, keys and settings.
pub struct Site {
    folder: tempfile::TempDir,
    /// The packrace to measure.
    pub binary: PathBuf,
    /// The git to measure.
    pub git: Git,
    authority: Authority,
}

impl Site {
    /// Creates everything.
    pub fn new(args: &Args, git: &Git, binary: &Path) -> Result<Self, Error> {
        let folder = tempfile::tempdir()?;
        let authority = Authority::new("packrace-bench");
        let site = Site { folder, binary: binary.to_owned(), git: git.clone(), authority };
        let steady = if args.smoke { Size::Tiny } else { Size::Medium };
        let storage = Storage { bitmap: Bitmap::Plain, ..Storage::default() };
        std::fs::create_dir(site.root())?;
        RepoBuilder::new(steady).storage(storage).build_at(&site.root().join(STEADY), git);
        site.build_big(if args.smoke { 4 } else { 300 });
        site.authority.sign("localhost", &["localhost", "127.0.0.1"]).write(site.folder.path(), "server");
        std::fs::write(site.file("ca.pem"), site.authority.pem())?;
        for name in ["host-key", "key"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-C", "", "-f"]).arg(site.file(name));
            if !keygen.stdin(Stdio::null()).status()?.success() {
                return Err("ssh-keygen makes no key".into());
            }
        }
        let public = std::fs::read_to_string(site.file("key.pub"))?;
        std::fs::write(site.file("keys"), format!("alice {public}"))?;
        std::fs::write(site.file("authorized_keys"), public)?;
        std::fs::write(site.settings(), site.settings_text())?;
        std::fs::write(site.file("clone"), Script::new().raw(&site.clone_of(BIG)).flush().bytes())?;
        Ok(site)
    }

    fn build_big(&self, files: usize) {
        let repo = self.root().join(BIG);
        self.git.run(&self.root(), &["init", "-q", "--bare", BIG]);
        let (mut stream, mut random) = (Vec::new(), Random::new(300));
        for _ in 0..files {
            stream.extend_from_slice(format!("blob\nmark :1\ndata {FILE_BYTES}\n").as_bytes());
            stream.extend_from_slice(&random.bytes(FILE_BYTES));
            stream.extend_from_slice(b"\ncommit refs/heads/main\ncommitter A <a@example.com> 0 +0000\n");
            stream.extend_from_slice(b"data 0\nM 100644 :1 file\n\n");
        }
        let import = ["-c", "core.compression=1", "fast-import", "--quiet", "--depth=0"];
        self.git.run_with_input(&repo, &import, &stream);
        self.git.run(&repo, &["symbolic-ref", "HEAD", "refs/heads/main"]);
        self.git.run(&repo, &["repack", "-adbq", "--window=0"]);
    }

    /// The served folder.
    pub fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    /// A file beside the served folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// packrace's settings file.
    pub fn settings(&self) -> PathBuf {
        self.file("settings.toml")
    }

    fn settings_text(&self) -> String {
        let path = self.folder.path().display();
        format!(
            "[listen]\nhttps = \"127.0.0.1:0\"\nssh = \"127.0.0.1:0\"\nshell = \"{path}/socket\"\n\
             [tls]\ncertificates = [\"{path}/server.pem\"]\nkeys = [\"{path}/server.key\"]\n\
             [ssh]\nhost-keys = [\"{path}/host-key\"]\nuser-keys = \"{path}/keys\"\n\
             [limits]\nrequest-time = \"10m\"\n[log]\nlevel = \"warn\"\n"
        )
    }

    /// A clone request in protocol version 2.
    pub fn clone_of(&self, repository: &str) -> Vec<u8> {
        let tip = self.git.run(&self.root().join(repository), &["rev-parse", "HEAD"]);
        Script::new().fetch_v2("sha1", &[tip.trim()], &[]).bytes().to_vec()
    }

    /// A fetch request for the newest commit.
    pub fn fetch_of(&self, repository: &str) -> Vec<u8> {
        let tip = |name: &str| self.git.run(&self.root().join(repository), &["rev-parse", name]);
        let (newest, before) = (tip("HEAD"), tip("HEAD~1"));
        Script::new().fetch_v2("sha1", &[newest.trim()], &[before.trim()]).bytes().to_vec()
    }

    /// Starts a new packrace.
    pub fn packrace(&self) -> io::Result<Server> {
        Server::packrace_as(&self.binary, &self.root(), None, Some(&self.settings()))
    }

    /// The TLS client for this address.
    pub fn tls(&self, address: Option<SocketAddr>) -> io::Result<TlsDoor> {
        TlsDoor::new(address.ok_or_else(|| io::Error::other("no HTTPS"))?, self.authority.pem())
    }

    /// The SSH client for `listen.ssh`.
    pub fn ssh(&self, address: Option<SocketAddr>, is_idle: bool) -> io::Result<SshDoor> {
        let address = address.ok_or_else(|| io::Error::other("no SSH"))?;
        SshDoor::new(address, "git", &self.file("key"), "git-upload-pack '/", is_idle)
    }

    /// The SSH client for sshd.
    pub fn system_ssh(&self, address: SocketAddr) -> io::Result<SshDoor> {
        SshDoor::new(address, &login()?, &self.file("key"), &self.upload_pack(), false)
    }

    /// The command for sshd, before the name of a repository.
    fn upload_pack(&self) -> String {
        let programs = self.git.run(&self.root(), &["--exec-path"]);
        format!("{}/git-upload-pack '{}/", programs.trim(), self.root().display())
    }

    /// OpenSSH's client, cloning the big repository; its input is in the file `clone`.
    pub fn openssh(&self, address: SocketAddr, is_packrace: bool) -> io::Result<Command> {
        let (user, command) = match is_packrace {
            true => ("git".to_owned(), format!("git-upload-pack '/{BIG}'")),
            false => (login()?, format!("{}{BIG}'", self.upload_pack())),
        };
        let mut ssh = Command::new("ssh");
        packrace_testkit::clean_environment(&mut ssh);
        ssh.env("GIT_PROTOCOL", "version=2").args(["-F", "none", "-i"]).arg(self.file("key"));
        ssh.args(["-p", &address.port().to_string(), "-c", "aes256-gcm@openssh.com"]);
        for option in [
            "BatchMode=yes",
            "IdentitiesOnly=yes",
            "StrictHostKeyChecking=no",
            "UserKnownHostsFile=/dev/null",
            "LogLevel=ERROR",
            "SendEnv=GIT_PROTOCOL",
        ] {
            ssh.args(["-o", option]);
        }
        ssh.arg(format!("{user}@{}", address.ip())).arg(command);
        ssh.stdin(std::fs::File::open(self.file("clone"))?).stdout(Stdio::piped());
        Ok(ssh)
    }

    /// Starts sshd; `None` if it is missing.
    pub fn sshd(&self) -> io::Result<Option<Server>> {
        let Some(program) = found(&["/usr/sbin/sshd", "/usr/local/sbin/sshd"]) else { return Ok(None) };
        let address = free_address()?;
        let path = self.folder.path().display();
        let config = format!(
            "ListenAddress {address}\nHostKey {path}/host-key\nPidFile none\nStrictModes no\nUseDNS no\nUsePAM no\n\
             AuthorizedKeysFile {path}/authorized_keys\nPasswordAuthentication no\nPermitRootLogin yes\n\
             AcceptEnv GIT_PROTOCOL\nCiphers aes256-gcm@openssh.com\nMaxStartups 256\n"
        );
        std::fs::write(self.file("sshd_config"), config)?;
        // Only root needs it, and may create it.
        let _ = std::fs::create_dir_all("/run/sshd");
        let mut sshd = Command::new(program);
        sshd.args(["-D", "-f"]).arg(self.file("sshd_config"));
        Server::started(vec![sshd], address).map(Some)
    }

    /// A TLS web server before git http-backend, with its name: nginx with fcgiwrap, else lighttpd.
    pub fn web(&self) -> io::Result<Option<(&'static str, Server)>> {
        let address = free_address()?;
        let nginx = found(&["/usr/sbin/nginx", "/usr/bin/nginx", "/usr/local/bin/nginx"]);
        let wrap = found(&["/usr/sbin/fcgiwrap", "/usr/bin/fcgiwrap", "/usr/local/bin/fcgiwrap"]);
        if let (Some(nginx), Some(wrap)) = (nginx, wrap) {
            std::fs::write(self.file("nginx.conf"), self.nginx_config(address))?;
            let mut workers = Command::new(wrap);
            workers.args(["-c", "8", "-s"]).arg(format!("unix:{}", self.file("fcgi").display()));
            let mut nginx = Command::new(nginx);
            nginx.arg("-p").arg(self.folder.path()).arg("-c").arg(self.file("nginx.conf"));
            nginx.arg("-e").arg(self.file("nginx.log"));
            // fcgiwrap does not wait for its children, so the system does not count their time.
            let backend = format!(
                "#!/bin/bash\n'{}'\ntimes >>'{}'\n",
                self.backend().display(),
                self.file("times").display()
            );
            std::fs::write(self.file("backend"), backend)?;
            std::fs::set_permissions(self.file("backend"), Permissions::from_mode(0o755))?;
            // The socket of an earlier server.
            let _ = std::fs::remove_file(self.file("fcgi"));
            let server = Server::started(vec![workers, nginx], address)?;
            serve::wait_until("fcgiwrap", || self.file("fcgi").exists())?;
            let server = server.with_times_in(self.file("times"));
            return Ok(Some(("nginx, fcgiwrap, git http-backend", server)));
        }
        let Some(lighttpd) = serve::lighttpd() else { return Ok(None) };
        let path = self.folder.path().display();
        let config = serve::lighttpd_config(address, self.folder.path(), &self.backend(), &self.root());
        let tls = format!(
            "server.modules += (\"mod_openssl\")\nssl.engine = \"enable\"\nssl.pemfile = \"{path}/server.pem\"\n\
             ssl.privkey = \"{path}/server.key\"\n"
        );
        std::fs::write(self.file("lighttpd.conf"), config + &tls)?;
        let mut command = Command::new(lighttpd);
        command.arg("-D").arg("-f").arg(self.file("lighttpd.conf"));
        Ok(Server::started(vec![command], address).ok().map(|server| ("lighttpd, git http-backend", server)))
    }

    fn backend(&self) -> PathBuf {
        PathBuf::from(self.git.run(&self.root(), &["--exec-path"]).trim()).join("git-http-backend")
    }

    /// Responses are buffered in memory, not in a temporary file.
    fn nginx_config(&self, address: SocketAddr) -> String {
        let (path, root) = (self.folder.path().display(), self.root());
        let (root, backend) = (root.display(), self.file("backend"));
        let variables = [
            ("SCRIPT_FILENAME", backend.display().to_string()),
            ("GIT_PROJECT_ROOT", root.to_string()),
            ("GIT_HTTP_EXPORT_ALL", "1".to_owned()),
            ("PATH_INFO", "$uri".to_owned()),
            ("QUERY_STRING", "$query_string".to_owned()),
            ("REQUEST_METHOD", "$request_method".to_owned()),
            ("CONTENT_TYPE", "$content_type".to_owned()),
            ("CONTENT_LENGTH", "$content_length".to_owned()),
            ("SERVER_PROTOCOL", "$server_protocol".to_owned()),
            ("REMOTE_ADDR", "$remote_addr".to_owned()),
            ("GIT_PROTOCOL", "$http_git_protocol".to_owned()),
        ];
        let variables = variables.map(|(name, value)| format!("fastcgi_param {name} {value};\n")).concat();
        format!(
            "daemon off;\nuser root;\nworker_processes 2;\npid {path}/nginx.pid;\nevents {{ worker_connections 2048; }}\n\
             http {{ access_log off; client_max_body_size 0;\n\
             client_body_temp_path {path}/body; fastcgi_temp_path {path}/answers; proxy_temp_path {path}/proxied;\n\
             server {{ listen {address} ssl http2; ssl_certificate {path}/server.pem; ssl_certificate_key {path}/server.key;\n\
             ssl_protocols TLSv1.3; location / {{ fastcgi_pass unix:{path}/fcgi;\n{variables}\
             fastcgi_buffer_size 64k; fastcgi_buffers 64 64k; fastcgi_busy_buffers_size 1m; fastcgi_max_temp_file_size 0;\n\
             fastcgi_read_timeout 600; }} }} }}\n"
        )
    }
}

/// An address that was free a moment ago.
fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

fn found(places: &[&'static str]) -> Option<&'static str> {
    places.iter().copied().find(|place| Path::new(place).exists())
}

/// The name of the current user.
fn login() -> io::Result<String> {
    let id = Command::new("id").arg("-un").output()?;
    Ok(String::from_utf8_lossy(&id.stdout).trim().to_owned())
}
