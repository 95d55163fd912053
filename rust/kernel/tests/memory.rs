//! Reused memory.

use std::sync::Mutex;

use tegula_kernel::memory::{Block, trim, with_scratch};
use tegula_kernel::{Error, Result};

/// The tests that look at cached memory run one after the other.
static KEPT: Mutex<()> = Mutex::new(());

fn turn() -> std::sync::MutexGuard<'static, ()> {
    KEPT.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[test]
fn scratch_is_aligned_nested_and_used_again() {
    for size in [0, 1, 63, 4096, 100_000, 3 << 20, 80 << 20] {
        let first = with_scratch(size, |outer| {
            assert_eq!((outer.len(), outer.as_ptr() as usize % 64), (size, 0));
            outer.fill(1);
            with_scratch(size, |inner| {
                inner.fill(2);
                Ok(())
            })?;
            assert!(outer.iter().all(|byte| *byte == 1));
            Ok(outer.as_ptr() as usize)
        })
        .unwrap();
        if size > 0 && size < 64 << 20 {
            let kept: Vec<usize> =
                (0..4).map(|_| with_scratch(size, |data| Ok(data.as_ptr() as usize)).unwrap()).collect();
            assert!(kept.iter().all(|place| *place == kept[0]), "{size}");
            let _ = first;
        }
    }
}

#[test]
fn scratch_survives_errors_and_panics() {
    let place = with_scratch(5000, |data| Ok(data.as_ptr() as usize)).unwrap();
    let result: Result<()> = with_scratch(5000, |_| Err(Error::Conflict));
    assert!(matches!(result, Err(Error::Conflict)));
    let caught = std::panic::catch_unwind(|| with_scratch(5000, |_| -> Result<()> { panic!("inside") }));
    assert!(caught.is_err());
    assert_eq!(with_scratch(5000, |data| Ok(data.as_ptr() as usize)).unwrap(), place);
}

#[test]
fn too_much_is_an_error() {
    for size in [usize::MAX, isize::MAX as usize, usize::MAX / 4] {
        assert!(matches!(with_scratch(size, |_| Ok(())), Err(Error::Memory { .. })));
        assert!(matches!(Block::new(size), Err(Error::Memory { .. })));
    }
}

#[test]
fn blocks_can_be_written_whole() {
    let _turn = turn();
    for size in [0, 1, 100, 5000, 300 << 10, (1 << 20) - 1, 1 << 20, (5 << 20) + 3] {
        for round in 0..3 {
            let block = Block::new(size).unwrap();
            assert_eq!((block.size(), block.start() as usize % 64), (size, 0));
            // SAFETY: the block is owned here, and this large.
            unsafe { block.start().write_bytes(round, size) };
            // SAFETY: all of it was written.
            let data = unsafe { std::slice::from_raw_parts(block.start(), size) };
            assert!(data.iter().all(|byte| *byte == round));
        }
    }
}

#[test]
fn blocks_are_used_again() {
    let _turn = turn();
    trim();
    let first = Block::new(8 << 20).unwrap();
    let place = first.start() as usize;
    drop(first);
    let again = Block::new((8 << 20) - 100).unwrap();
    assert_eq!((again.start() as usize, again.size()), (place, (8 << 20) - 100));
    let other = Block::new(8 << 20).unwrap();
    assert_ne!(other.start() as usize, place);
    drop(again);
    // Much smaller blocks do not take a large one.
    let small = Block::new(2 << 20).unwrap();
    assert_ne!(small.start() as usize, place);
    trim();
}

#[cfg(target_os = "linux")]
#[test]
fn what_is_kept_is_bounded_and_given_back() {
    let _turn = turn();
    trim();
    let before = mapped();
    for round in 0..100 {
        // No block fits the place of another.
        let block = Block::new((64 << 20) << (round % 4)).unwrap();
        drop(block);
    }
    let many: Vec<Block> = (0..40).map(|_| Block::new(64 << 20).unwrap()).collect();
    drop(many);
    assert!(mapped().saturating_sub(before) <= (1 << 30) + (64 << 20));
    assert!(mapped() > before);
    trim();
    assert!(mapped() < before + (64 << 20));
}

/// Return the bytes of this process's address space.
#[cfg(target_os = "linux")]
fn mapped() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').next().and_then(|pages| pages.parse::<usize>().ok());
    pages.unwrap_or(0) * 4096
}
