//! Standard input and output as asynchronous streams without a thread of their own, if they
//! are pipes or sockets.

use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{fs::FileTypeExt as _, net::UnixStream as StdUnixStream},
    },
};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{UnixStream, unix::pipe},
};

pub(crate) type Input = Box<dyn AsyncRead + Send + Unpin>;
pub(crate) type Output = Box<dyn AsyncWrite + Send + Unpin>;

/// Standard input. It must be called inside a runtime.
pub(crate) fn input() -> io::Result<Input> {
    Ok(match Kind::of(io::stdin())? {
        Kind::Pipe(file) => Box::new(pipe::Receiver::from_file(file)?),
        Kind::Socket(stream) => Box::new(stream),
        Kind::Other => Box::new(tokio::io::stdin()),
    })
}

/// Standard output. It must be called inside a runtime.
pub(crate) fn output() -> io::Result<Output> {
    Ok(match Kind::of(io::stdout())? {
        Kind::Pipe(file) => Box::new(pipe::Sender::from_file(file)?),
        Kind::Socket(stream) => Box::new(stream),
        Kind::Other => Box::new(tokio::io::stdout()),
    })
}

/// The kind of stream behind a descriptor.
enum Kind {
    Pipe(File),
    Socket(UnixStream),
    /// A file or a terminal, which needs a thread.
    Other,
}

impl Kind {
    fn of(stream: impl AsFd) -> io::Result<Kind> {
        let file = File::from(stream.as_fd().try_clone_to_owned()?);
        let kind = file.metadata()?.file_type();
        if kind.is_fifo() {
            return Ok(Kind::Pipe(file));
        }
        if !kind.is_socket() {
            return Ok(Kind::Other);
        }
        let socket = StdUnixStream::from(OwnedFd::from(file));
        // This is not a Unix socket; a network service may get one of another family.
        if socket.local_addr().is_err() {
            return Ok(Kind::Other);
        }
        socket.set_nonblocking(true)?;
        Ok(Kind::Socket(UnixStream::from_std(socket)?))
    }
}
