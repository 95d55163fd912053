//! System calls on files below an open directory, without more of them than needed.

use std::ffi::CString;
use std::io;

/// An open file or directory, closed when dropped.
pub struct File(pub libc::c_int);

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: the descriptor is ours.
        unsafe {
            libc::close(self.0);
        }
    }
}

fn c_string(name: &str) -> io::Result<CString> {
    CString::new(name).map_err(io::Error::other)
}

fn checked(value: isize) -> io::Result<usize> {
    usize::try_from(value).map_err(|_| io::Error::last_os_error())
}

pub fn open_directory(path: &str) -> io::Result<File> {
    let path = c_string(path)?;
    // SAFETY: `path` is a C string.
    let fd = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC) };
    checked(fd as isize).map(|_| File(fd))
}

pub fn open(directory: &File, name: &str) -> io::Result<File> {
    let name = c_string(name)?;
    // SAFETY: `name` is a C string.
    let fd = unsafe { libc::openat(directory.0, name.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    checked(fd as isize).map(|_| File(fd))
}

impl File {
    /// Read at most as many bytes as there is room for.
    pub fn read_at(&self, into: &mut [u8], offset: usize) -> io::Result<usize> {
        let mut done = 0;
        while done < into.len() {
            let rest = &mut into[done..];
            // SAFETY: `rest` is writable memory of that length.
            let got =
                unsafe { libc::pread(self.0, rest.as_mut_ptr().cast(), rest.len(), (offset + done) as libc::off_t) };
            let got = checked(got)?;
            done += got;
            // a file that fits leaves room, and one more read would only say so
            if got < rest_of(into.len(), done, got) {
                break;
            }
        }
        Ok(done)
    }

    /// Fill the buffer, or fail.
    pub fn read_exact_at(&self, into: &mut [u8], offset: usize) -> io::Result<()> {
        if self.read_at(into, offset)? == into.len() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    pub fn size(&self) -> io::Result<usize> {
        // SAFETY: moving the offset of our own descriptor, which is read with offsets only.
        let end = unsafe { libc::lseek(self.0, 0, libc::SEEK_END) };
        checked(end as isize)
    }
}

/// How many bytes the last read had room for.
fn rest_of(total: usize, done: usize, got: usize) -> usize {
    total - (done - got)
}

/// Write the parts into a temporary file and rename it over `name`.
pub fn replace(directory: &File, thread: usize, name: &str, parts: &[&[u8]]) -> io::Result<()> {
    let temporary = c_string(&format!(".limit-{thread}"))?;
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC;
    // SAFETY: `temporary` is a C string.
    let fd = unsafe { libc::openat(directory.0, temporary.as_ptr(), flags, 0o644) };
    checked(fd as isize)?;
    let file = File(fd);
    for part in parts {
        let mut rest = *part;
        while !rest.is_empty() {
            // SAFETY: `rest` is readable memory of that length.
            let put = checked(unsafe { libc::write(file.0, rest.as_ptr().cast(), rest.len()) })?;
            rest = &rest[put..];
        }
    }
    drop(file);
    let name = c_string(name)?;
    // SAFETY: both names are C strings.
    let moved = unsafe { libc::renameat(directory.0, temporary.as_ptr(), directory.0, name.as_ptr()) };
    checked(moved as isize).map(|_| ())
}

pub fn make_directory(directory: &File, name: &str) -> io::Result<()> {
    let name = c_string(name)?;
    // SAFETY: `name` is a C string.
    let made = unsafe { libc::mkdirat(directory.0, name.as_ptr(), 0o755) };
    match checked(made as isize) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other.map(|_| ()),
    }
}

pub fn remove(directory: &File, name: &str) -> io::Result<()> {
    let name = c_string(name)?;
    // SAFETY: `name` is a C string.
    checked(unsafe { libc::unlinkat(directory.0, name.as_ptr(), 0) } as isize).map(|_| ())
}
