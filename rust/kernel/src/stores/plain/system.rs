//! The system calls of `plain`, by the standard library, so on every system.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

#[cfg(unix)]
use std::os::unix::fs::{FileExt, OpenOptionsExt};
#[cfg(windows)]
use std::os::windows::fs::{FileExt, MetadataExt, OpenOptionsExt};

/// Opens a link itself, not what it leads to.
#[cfg(windows)]
const OPEN_REPARSE_POINT: u32 = 0x0020_0000;
#[cfg(windows)]
const IS_REPARSE_POINT: u32 = 0x400;

/// Open a file for reading, and refuse a symbolic link; on Windows, other processes may rename and delete the open file.
pub fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    // O_NONBLOCK: otherwise opening a named pipe among the files would block until it has a writer
    #[cfg(unix)]
    options.custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW);
    #[cfg(windows)]
    options.custom_flags(OPEN_REPARSE_POINT);
    options.open(path)
}

/// Read into `room` from `position` on; may read fewer bytes than requested.
pub fn read(file: &File, room: &mut [u8], position: u64) -> io::Result<usize> {
    loop {
        #[cfg(unix)]
        let answer = file.read_at(room, position);
        #[cfg(windows)]
        let answer = file.seek_read(room, position);
        match answer {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// How many bytes an open file has; `None` if it is no regular file.
pub fn size(file: &File) -> io::Result<Option<u64>> {
    let found = file.metadata()?;
    #[cfg(windows)]
    if found.file_attributes() & IS_REPARSE_POINT != 0 {
        return Ok(None);
    }
    Ok(found.is_file().then_some(found.len()))
}
