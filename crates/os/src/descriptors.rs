//! Unix sockets, and descriptors passed between processes over them (`SCM_RIGHTS`, unix(7)).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, recvmsg, sendmsg,
};

/// The number of descriptors in a message: standard input, output and error.
pub const DESCRIPTORS: usize = 3;

/// The queue of connections to be accepted.
const BACKLOG: i32 = 1024;

/// Sends bytes, with descriptors attached to the first, in one non-blocking call.
pub fn send(socket: impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>; DESCRIPTORS]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other("no room for descriptors"));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    match sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags)? {
        sent if sent == bytes.len() => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}

/// Receives bytes and the descriptors sent with them. Fails for more than [`DESCRIPTORS`] and
/// closes all of them.
pub fn receive(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut control, flags)?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    if received.flags.contains(rustix::net::ReturnFlags::CTRUNC) || descriptors.len() > DESCRIPTORS {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "too many descriptors"));
    }
    Ok((received.bytes, descriptors))
}

/// The user at the other end when the connection was made.
#[cfg(target_os = "linux")]
pub fn peer_user(socket: impl AsFd) -> io::Result<u32> {
    Ok(rustix::net::sockopt::socket_peercred(socket)?.uid.as_raw())
}

/// Only supported on Linux.
#[cfg(not(target_os = "linux"))]
pub fn peer_user(_: impl AsFd) -> io::Result<u32> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Whether the user at the other end is this process's user, or root.
pub fn is_peer_trusted(socket: impl AsFd) -> io::Result<bool> {
    let user = peer_user(socket)?;
    Ok(user == 0 || user == crate::process::effective_user())
}

/// Connects to a listening socket. Neither this nor later reads and writes wait longer than `timeout`.
pub fn connect(path: &Path, timeout: Duration) -> io::Result<UnixStream> {
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    let stream = UnixStream::from(socket);
    stream.set_write_timeout(Some(timeout))?;
    stream.set_read_timeout(Some(timeout))?;
    rustix::net::connect(&stream, &SocketAddrUnix::new(path)?)?;
    Ok(stream)
}

/// A listening socket with a name, accessible only to its own user. Dropping it removes the name.
#[derive(Debug)]
pub struct NamedListener {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the name.
    identity: (u64, u64),
}

impl NamedListener {
    /// Listens at `path`. Replaces a socket without a listener; fails if anything else exists.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let in_use = |why: &str| io::Error::new(io::ErrorKind::AddrInUse, why.to_owned());
        match std::fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
            Ok(metadata) if !std::os::unix::fs::FileTypeExt::is_socket(&metadata.file_type()) => {
                return Err(in_use("exists and is not a socket"));
            }
            Ok(_) => match connect(path, Duration::from_secs(1)) {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                _ => return Err(in_use("another server is listening there")),
            },
        }
        // Under a temporary name until complete, so that no other permissions are ever visible.
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}", std::process::id()));
        let new = path.with_file_name(name);
        let _ = std::fs::remove_file(&new);
        let bound = NamedListener::bind_new(&new, path);
        if bound.is_err() {
            let _ = std::fs::remove_file(&new);
        }
        bound
    }

    fn bind_new(new: &Path, path: &Path) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(new)?)?;
        std::fs::set_permissions(new, std::fs::Permissions::from_mode(0o600))?;
        rustix::net::listen(&socket, BACKLOG)?;
        std::fs::rename(new, path)?;
        let metadata = std::fs::symlink_metadata(path)?;
        let identity = (metadata.dev(), metadata.ino());
        Ok(NamedListener { listener: socket.into(), path: path.to_owned(), identity })
    }

    /// The socket, which is non-blocking.
    pub fn listener(&self) -> &UnixListener {
        &self.listener
    }

    /// Its name.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for NamedListener {
    fn drop(&mut self) {
        let identity = std::fs::symlink_metadata(&self.path).map(|metadata| (metadata.dev(), metadata.ino()));
        if identity.is_ok_and(|identity| identity == self.identity) {
            // In a sandbox it may stay: the next process to start replaces it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    #[test]
    fn descriptors_arrive_with_their_bytes() {
        let (sender, receiver) = UnixStream::pair().unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        send(&sender, b"abc", &[writer.as_fd(); 3]).unwrap();
        drop(writer);
        let mut buffer = [0; 8];
        let (length, descriptors) = receive(&receiver, &mut buffer).unwrap();
        assert_eq!((&buffer[..length], descriptors.len()), (&b"abc"[..], 3));
        for descriptor in descriptors {
            let flags = rustix::io::fcntl_getfd(&descriptor).unwrap();
            assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
            std::fs::File::from(descriptor).write_all(b"x").unwrap();
        }
        // No other process has the other end.
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        assert_eq!(read, b"xxx");
        (&sender).write_all(b"d").unwrap();
        assert_eq!(receive(&receiver, &mut buffer).unwrap().1.len(), 0);
        drop(sender);
        assert_eq!(receive(&receiver, &mut buffer).unwrap().0, 0);
        let own = peer_user(&receiver).unwrap();
        assert_eq!(own, crate::process::effective_user());
        assert!(is_peer_trusted(&receiver).unwrap());
    }

    #[test]
    fn more_descriptors_than_wanted_are_all_closed() {
        let (sender, receiver) = UnixStream::pair().unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        let descriptors = [writer.as_fd(); 9];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(9))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
        sendmsg(&sender, &[IoSlice::new(b"abc")], &mut control, SendFlags::empty()).unwrap();
        let error = receive(&receiver, &mut [0; 8]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        drop(writer);
        assert_eq!(reader.read(&mut [0; 8]).unwrap(), 0);
    }

    #[test]
    fn a_name_is_taken_once_and_a_stale_one_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let first = NamedListener::bind(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        let error = NamedListener::bind(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        connect(&path, Duration::from_secs(1)).unwrap();
        assert_eq!(first.path(), path);
        drop(first);
        assert!(!path.exists());

        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let second = NamedListener::bind(&path).unwrap();
        // A name that now belongs to another file stays.
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "").unwrap();
        drop(second);
        assert!(path.exists());
        assert_eq!(NamedListener::bind(&path).unwrap_err().to_string(), "exists and is not a socket");
        let long = folder.path().join("x".repeat(200));
        NamedListener::bind(&long).unwrap_err();
    }
}
