//! Names of files that the store makes for itself.

use std::cell::Cell;

use super::errno::Outcome;

/// Prefix of the names of the store's own files.
pub const HIDDEN: &str = ".tegula-";

thread_local! {
    static LAST_NUMBER: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Make a name that no other file has; `random` draws a number.
pub fn temporary_name(random: impl FnOnce() -> Outcome<u64>) -> Outcome<Vec<u8>> {
    Ok(format!("{HIDDEN}{}-{:016x}.tmp", std::process::id(), next_number(random)?).into_bytes())
}

/// Return a number for a name: each thread draws the first one at random and then counts on.
pub fn next_number(random: impl FnOnce() -> Outcome<u64>) -> Outcome<u64> {
    let last = LAST_NUMBER.get().map_or_else(random, Ok)?;
    let next = last.wrapping_add(0x9e37_79b9_7f4a_7c15);
    LAST_NUMBER.set(Some(next));
    Ok(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_names_differ_and_are_hidden() {
        let names: std::collections::HashSet<_> = (0..1000).map(|_| temporary_name(|| Ok(7)).unwrap()).collect();
        assert_eq!(names.len(), 1000);
        let start = format!(".tegula-{}-", std::process::id());
        for name in names {
            let name = String::from_utf8(name).unwrap();
            let digits = name.strip_prefix(&start).unwrap().strip_suffix(".tmp").unwrap();
            assert!(digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        }
    }
}
