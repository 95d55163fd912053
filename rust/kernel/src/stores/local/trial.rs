//! A trial of the store in a directory of its own, for systems where it is used only after it has shown there what it
//! promises: macOS, on which it was never tested.

use std::fs;
use std::path::{MAIN_SEPARATOR, Path, PathBuf};
use std::sync::OnceLock;

use super::LocalFiles;
use super::system::{self, AsFd, DIRECTORY};
use crate::stores::{Expected, Store};
use crate::{Error, Result};

const FIRST: &[u8] = b"the first value";
const SECOND: &[u8] = b"another value";

/// Whether the kernel may open files by itself in this process: on macOS once it has passed the trial in the directory for
/// temporary files.
pub fn is_passed() -> bool {
    static PASSED: OnceLock<bool> = OnceLock::new();
    !cfg!(target_os = "macos") || *PASSED.get_or_init(|| passes(&std::env::temp_dir()))
}

/// Whether the store keeps its promises in a new directory below `place`, which is removed again.
pub fn passes(place: &Path) -> bool {
    let Ok(number) = system::random() else { return false };
    let Ok(place) = fs::canonicalize(place) else { return false };
    let root = place.join(format!("tegula-trial-{number:016x}"));
    if fs::create_dir(&root).is_err() {
        return false;
    }
    let passed = tried(&root);
    fs::remove_dir_all(&root).is_ok() && passed.unwrap_or(false)
}

fn tried(root: &Path) -> Result<bool> {
    let made = root.to_owned();
    let prepare = move |parent: &str| {
        let done = fs::create_dir_all(made.join(parent));
        done.map(|()| true).map_err(|error| Error::Store { message: error.to_string() })
    };
    let base = PathBuf::from(format!("{}{MAIN_SEPARATOR}", root.display()));
    let files = LocalFiles::new(base, true, Box::new(prepare));
    let session = files.session("", FIRST.len());
    let holds = |key: &str, bytes: &[u8]| -> Result<bool> {
        let Some(value) = session.open(key)? else { return Ok(false) };
        let mut same = false;
        value.with_all(&mut |found| {
            same = found == bytes;
            Ok(())
        })?;
        let mut end = [0; 4];
        let count = value.read_at(bytes.len() as u64 - 3, &mut end)?;
        Ok(same && end[..count] == bytes[bytes.len() - 3..] && value.size()? == bytes.len() as u64)
    };
    let refused = |answer: Result<()>| matches!(answer, Err(Error::Conflict));

    // a value is there once it was stored, in all its parts, and no other is
    let (head, tail) = FIRST.split_at(5);
    session.set("c/0/0", &[head, tail], Some(&Expected::Absent))?;
    if !holds("c/0/0", FIRST)? || session.open("c/0/1")?.is_some() || session.open("c/1/0")?.is_some() {
        return Ok(false);
    }
    // it is replaced only in the state that is expected, and who has it open keeps the old one
    let Some(old) = session.open("c/0/0")? else { return Ok(false) };
    let state = old.generation()?;
    if !refused(session.set("c/0/0", &[SECOND], Some(&Expected::Absent))) {
        return Ok(false);
    }
    let told = session.replace("c/0/0", SECOND, &state)?;
    let mut kept = vec![0; FIRST.len()];
    if old.read_at(0, &mut kept)? != FIRST.len() || kept != FIRST || !holds("c/0/0", SECOND)? {
        return Ok(false);
    }
    let now = session.open("c/0/0")?.map(|value| value.generation()).transpose()?;
    if !matches!((told, now), (Some(told), Some(Expected::File(now))) if told == now)
        || !refused(session.set("c/0/0", &[FIRST], Some(&state)))
        || !refused(session.delete("c/0/0", Some(&state)))
    {
        return Ok(false);
    }
    // a lock keeps others out, names are as they were given, and nothing else is left in the directory
    let open = || system::open_at(system::anywhere(), &[root.as_os_str().as_encoded_bytes(), b"/c/0"], DIRECTORY);
    let (Ok(one), Ok(other)) = (open(), open()) else { return Ok(false) };
    let Ok(lock) = system::lock_directory(one.as_fd()) else { return Ok(false) };
    let is_kept_out = system::lock_directory(other.as_fd()).is_err();
    system::unlock_directory(lock);
    let Ok(again) = system::lock_directory(other.as_fd()) else { return Ok(false) };
    system::unlock_directory(again);
    let listed = system::names(other.as_fd(), |_| true).ok().flatten();
    if !is_kept_out || listed != Some(vec![b"0".to_vec()]) {
        return Ok(false);
    }
    drop((old, one, other));
    Ok(spells_and_links(root, &session)? && goes(root, &session)?)
}

/// Whether names are found as they are stored, and nothing is reached through a link.
fn spells_and_links(root: &Path, session: &super::Session<'_>) -> Result<bool> {
    let Ok(place) = system::open_at(system::anywhere(), &[root.as_os_str().as_encoded_bytes()], DIRECTORY) else {
        return Ok(false);
    };
    let spelled = |name: &[u8]| system::spelling(place.as_fd(), name);
    if !matches!(spelled(b"c"), Ok(Some(name)) if name == b"c") || !matches!(spelled(b"d"), Ok(None)) {
        return Ok(false);
    }
    #[cfg(unix)]
    if std::os::unix::fs::symlink("c", root.join("link")).is_err()
        || !matches!(session.open("link/0/0"), Err(Error::Unusual))
    {
        return Ok(false);
    }
    Ok(session.open("c/0/0")?.is_some())
}

/// Whether a deleted value is gone, and with it the directories that hold nothing else.
fn goes(root: &Path, session: &super::Session<'_>) -> Result<bool> {
    session.delete("c/0/0", None)?;
    Ok(session.open("c/0/0")?.is_none() && !root.join("c").exists())
}
