//! Errors of this crate; the Python module converts them to the exceptions of `tegula.errors`.

use std::any::Any;
use std::fmt;

/// The error type of every function of this crate that can fail.
#[derive(Debug)]
pub enum Error {
    /// Encoded bytes are damaged, or do not match the shape of the chunk.
    Codec {
        /// The codec's name.
        codec: String,
        /// The problem, as a sentence without a full stop.
        message: String,
    },
    /// A codec, an option or a kind of frame that this crate does not support.
    Unsupported {
        /// The codec's name.
        codec: String,
        /// The unsupported feature.
        message: String,
    },
    /// A store failed.
    Store {
        /// The operation, and the message of the system.
        message: String,
    },
    /// A system call of a store failed.
    System {
        /// The operation, and the message of the system.
        message: String,
        /// The error number of the system.
        errno: i32,
    },
    /// A value has changed since its generation was read.
    Conflict,
    /// The node has changed, so that the operation has to be repeated; see `Store::check`.
    Changed,
    /// The key has no value.
    Absent,
    /// A chunk is not stored, and the read does not use the fill value in its place. These are its coordinates; those of an
    /// inner chunk come first, followed by those of the chunks around it.
    NotStored(Vec<Vec<u64>>),
    /// The key needs the store's general implementation (symbolic links, case-insensitive names, ...).
    Unusual,
    /// The system refused memory.
    Memory {
        /// The size of the request, in bytes.
        bytes: usize,
    },
    /// An error of a store outside this crate, passed through unchanged.
    Foreign(Box<dyn Any + Send>),
    /// An error with the key of the chunk in which it occurred.
    At(String, Box<Error>),
}

/// The result type of every function of this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Make the error for damaged bytes.
    #[cold]
    pub fn codec(codec: impl Into<String>, message: impl Into<String>) -> Error {
        Error::Codec { codec: codec.into(), message: message.into() }
    }

    /// Make the error for an unsupported feature.
    #[cold]
    pub fn unsupported(codec: impl Into<String>, message: impl Into<String>) -> Error {
        Error::Unsupported { codec: codec.into(), message: message.into() }
    }

    /// Make the error for data whose length does not match the shape of the chunk.
    #[cold]
    pub fn wrong_size(codec: impl Into<String>, found: usize, expected: usize) -> Error {
        Error::codec(codec, format!("there are {found} bytes where the chunk takes {expected}"))
    }

    /// Whether it is `Changed`, perhaps with the key of a chunk.
    pub fn is_change(&self) -> bool {
        match self {
            Error::At(_, inner) => inner.is_change(),
            other => matches!(other, Error::Changed),
        }
    }

    /// Add the coordinates of the chunk around an inner chunk that is not stored.
    pub(crate) fn inside(self, coords: &[u64]) -> Error {
        match self {
            Error::NotStored(mut inner) => {
                inner.push(coords.to_vec());
                Error::NotStored(inner)
            }
            other => other,
        }
    }

    /// Add the key of the chunk, unless the error has one already.
    #[cold]
    pub fn at(self, key: &str) -> Error {
        match self {
            Error::At(..) => self,
            other => Error::At(key.to_owned(), Box::new(other)),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Codec { codec, message } | Error::Unsupported { codec, message } => {
                write!(out, "{codec}: {message}")
            }
            Error::Store { message } | Error::System { message, .. } => out.write_str(message),
            Error::Conflict => out.write_str("the value kept changing"),
            Error::Changed => out.write_str("the node kept changing"),
            Error::Absent => out.write_str("there is no value"),
            Error::NotStored(coords) => write!(out, "the chunk {coords:?} is not stored"),
            Error::Unusual => out.write_str("the key needs the store's general implementation"),
            Error::Memory { bytes } => write!(out, "there is not enough memory for {bytes} bytes"),
            Error::Foreign(_) => out.write_str("a store failed"),
            Error::At(key, error) => write!(out, "{error} (key {key:?})"),
        }
    }
}

impl std::error::Error for Error {}
