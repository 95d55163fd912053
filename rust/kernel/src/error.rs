//! What can go wrong, in terms that Python turns into the errors of `tegula.errors`.

use std::any::Any;
use std::fmt;

/// The error of every function of this crate that can fail.
#[derive(Debug)]
pub enum Error {
    /// Bytes are damaged, or not those of a chunk of the shape expected.
    Codec {
        /// The codec's name.
        codec: String,
        /// What is wrong, as a sentence without a full stop.
        message: String,
    },
    /// A codec, an option or a kind of frame that this crate does not know.
    Unsupported {
        /// The codec's name.
        codec: String,
        /// What is not supported.
        message: String,
    },
    /// A store failed.
    Store {
        /// What was tried and what the system said to that.
        message: String,
    },
    /// The system refused something to a store.
    System {
        /// What was tried and what the system said to that.
        message: String,
        /// The number of what it said.
        errno: i32,
    },
    /// A value has changed since its generation was read.
    Conflict,
    /// There turns out to be no value.
    Absent,
    /// This operation on this key needs the store's own, slower way (symbolic links, case-insensitive names, ...).
    Unusual,
    /// Memory could not be had.
    Memory {
        /// How many bytes were asked for.
        bytes: usize,
    },
    /// An error of a store that lives outside of this crate, to be handed back as it is.
    Foreign(Box<dyn Any + Send>),
    /// An error with the key of the chunk it is about.
    At(String, Box<Error>),
}

/// The result of every function of this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Make the error for damaged bytes.
    #[cold]
    pub fn codec(codec: impl Into<String>, message: impl Into<String>) -> Error {
        Error::Codec { codec: codec.into(), message: message.into() }
    }

    /// Make the error for what this crate does not know.
    #[cold]
    pub fn unsupported(codec: impl Into<String>, message: impl Into<String>) -> Error {
        Error::Unsupported { codec: codec.into(), message: message.into() }
    }

    /// Make the error for data of another length than the chunk's shape says.
    #[cold]
    pub fn wrong_size(codec: impl Into<String>, found: usize, expected: usize) -> Error {
        Error::codec(codec, format!("there are {found} bytes where the chunk takes {expected}"))
    }

    /// Add the key, unless one is there already.
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
            Error::Absent => out.write_str("there is no value"),
            Error::Unusual => out.write_str("this needs the store's own way"),
            Error::Memory { bytes } => write!(out, "there is not enough memory for {bytes} bytes"),
            Error::Foreign(_) => out.write_str("a store failed"),
            Error::At(key, error) => write!(out, "{error} (key {key:?})"),
        }
    }
}

impl std::error::Error for Error {}
