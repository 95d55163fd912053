//! Measurements: `cargo test --release --test executor -- --ignored --nocapture speed`.

use std::time::Duration;

use tegula_kernel::chain::{Chain, Elements, Serializer};
use tegula_kernel::plan::ChunkAxis;

use crate::case::{Case, blosc_options, codec};
use crate::random::Random;
use crate::selecting::{Pick, Selection};
use crate::store::{Memory, Reading};
use crate::{get, put};

/// An array of one chunk of 16-bit numbers that change by small steps.
fn array(random: &mut Random, count: usize, (name, level, shuffle): (&str, i64, i64), slow: bool) -> Case {
    let elements = Elements { size: 2, swap: 0, text: None };
    let options = blosc_options(name, [level, shuffle, 0, 2]);
    let chain = Chain { order: None, serializer: Serializer::Elements(elements), buffers: vec![codec(&options)] };
    let mut case = Case::of(random, vec![count], vec![ChunkAxis::Regular(count as u64)], chain, 2);
    let mut value = 1000_u16;
    for element in case.model.chunks_exact_mut(2) {
        if !slow || random.once_in(50) {
            value = value.wrapping_add(random.below(16) as u16).wrapping_sub(7);
        }
        element.copy_from_slice(&value.to_le_bytes());
    }
    case
}

fn selection(random: &mut Random, pick: Pick) -> Selection {
    let mut selection = Selection { size: 2, ..Selection::laid_out(random, vec![pick], 2, false) };
    while selection.strides[0] != 2 {
        selection = Selection { size: 2, ..Selection::laid_out(random, selection.picks, 2, false) };
    }
    selection
}

/// The time of a clock.
fn clock(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the answer is written there
    unsafe { libc::clock_gettime(clock, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The shortest time of several rounds of `count` calls.
fn least(rounds: usize, count: usize, id: libc::clockid_t, mut work: impl FnMut(usize)) -> f64 {
    let once = |_| {
        let start = clock(id);
        (0..count).for_each(&mut work);
        (clock(id) - start).as_secs_f64() * 1e6 / count as f64
    };
    (0..rounds).map(once).fold(f64::MAX, f64::min)
}

const CPU: libc::clockid_t = libc::CLOCK_THREAD_CPUTIME_ID;
const WALL: libc::clockid_t = libc::CLOCK_MONOTONIC;
const KINDS: [(&str, i64, i64); 3] = [("lz4", 5, 1), ("zstd", 5, 2), ("lz4", 5, 0)];

#[test]
#[ignore = "a measurement"]
fn speed() {
    for (bytes, slow) in [(8 << 10, false), (2 << 20, false), (2 << 20, true), (32 << 20, false)] {
        for kind in KINDS {
            if bytes > 2 << 20 && kind.2 == 0 {
                continue;
            }
            let mut random = Random::new(1);
            let case = array(&mut random, bytes / 2, kind, slow);
            let whole = Memory::new(Reading::Whole);
            whole.put(&case.key(&[0]), case.encoded(&[0], &mut random));
            let store = whole.other(Reading::Parts(4096, 1 << 18));
            let mut line = format!("{bytes}{} {kind:?}: ", if slow { " slow" } else { "" });
            let picks = |random: &mut Random, width: usize| -> Vec<_> {
                let middle = width == 1 && bytes < 1 << 20;
                let one = |_| {
                    let first = if middle { bytes / 4 } else { random.below(bytes / 2 - width) };
                    let selection = selection(random, Pick::Run { first, step: 1, count: width });
                    let plan = selection.plan(random, &case);
                    (selection, plan)
                };
                (0..40).map(one).collect()
            };
            for width in [1, 100] {
                let list = picks(&mut random, width);
                let read = |index: usize| drop(get(&store, &case, &list[index].0, &list[index].1, 1).unwrap());
                line += &format!("read {width}: {:.1} us, ", least(15, list.len(), CPU, read));
                for threads in if bytes > 1 << 20 { 1..3 } else { 1..2 } {
                    let change = |index: usize| {
                        let mut values = vec![index as u8; list[index].0.bytes];
                        put(&store, &case, &list[index].0, &list[index].1, &mut values, (threads, false)).unwrap();
                    };
                    let rounds = if bytes > 2 << 20 { 2 } else { 5 };
                    let count = if bytes > 2 << 20 { 6 } else { 40 };
                    let id = if threads > 1 { WALL } else { CPU };
                    line += &format!("change ({threads}): {:.1}, ", least(rounds, count, id, change));
                }
            }
            let all = selection(&mut random, Pick::Run { first: 0, step: 1, count: bytes / 2 });
            let plan = all.plan(&mut random, &case);
            let mut buffer = vec![0; all.bytes];
            for threads in [1, 2] {
                let rounds = if bytes > 2 << 20 { 4 } else { 30 };
                let mut read = |_| {
                    let work = all.work(&mut buffer);
                    // SAFETY: the plan is that of the selection, the buffer was laid out for it.
                    crate::call(threads, false, |call| unsafe {
                        tegula_kernel::read::read(&whole, &case.array, &plan, work, call).unwrap();
                    });
                };
                for (id, what) in [(WALL, "wall"), (CPU, "caller")] {
                    line += &format!("read all ({threads}, {what}): {:.0} us, ", least(rounds, 1, id, &mut read));
                }
                let mut values = case.model.clone();
                let mut write = |_| put(&whole, &case, &all, &plan, &mut values, (threads, false)).unwrap();
                for (id, what) in [(WALL, "wall"), (CPU, "caller")] {
                    line += &format!("write all ({threads}, {what}): {:.0}, ", least(rounds, 1, id, &mut write));
                }
            }
            println!("{line}");
        }
    }
}
