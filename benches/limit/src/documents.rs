//! Metadata documents: read, written anew, and found among many.

use crate::array::Array;
use crate::files::{self, File};
use std::io;

/// Write a document's own bytes anew, as resizing does.
pub fn rewrite(root: &File, name: &str) -> io::Result<()> {
    let bytes = read(root, name)?;
    files::replace(root, 0, name, &[&bytes])
}

pub fn read(root: &File, name: &str) -> io::Result<Vec<u8>> {
    let file = files::open(root, name)?;
    let mut bytes = vec![0; 8192];
    let mut size = file.read_at(&mut bytes, 0)?;
    if size == bytes.len() {
        let all = file.size()?;
        bytes.resize(all, 0);
        size += file.read_at(&mut bytes[size..], size)?;
    }
    bytes.truncate(size);
    Ok(bytes)
}

/// Halve the array along its first axis: the files below the half go, and the document changes.
pub fn shrink(array: &Array, root: &File) -> io::Result<()> {
    rewrite(root, &array.document)?;
    let file = array.file();
    for row in array.shape[0] / 2 / file[0]..array.shape[0] / file[0] {
        for column in 0..array.shape[1] / file[1] {
            files::remove(root, &array.name([row, column]))?;
        }
    }
    Ok(())
}

/// Read the documents of all members of a group, or only their names, and return how many there are.
pub fn list(path: &str, document: Option<&str>) -> io::Result<usize> {
    let root = files::open_directory(path)?;
    let mut count = 0;
    for entry in std::fs::read_dir(path)? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        if name.starts_with('.') || name.ends_with(".json") {
            continue;
        }
        if let Some(document) = document {
            read(&root, &format!("{name}/{document}"))?;
        }
        count += 1;
    }
    Ok(count)
}

/// Find where a consolidated document speaks of a member.
pub fn member(path: &str, document: &str, name: &str) -> io::Result<usize> {
    let root = files::open_directory(path)?;
    let bytes = read(&root, document)?;
    let key = format!("\"{name}\"");
    // SAFETY: both are readable memory of those lengths.
    let found = unsafe { libc::memmem(bytes.as_ptr().cast(), bytes.len(), key.as_ptr().cast(), key.len()) };
    if found.is_null() { Err(io::ErrorKind::NotFound.into()) } else { Ok(found.addr() - bytes.as_ptr().addr()) }
}
