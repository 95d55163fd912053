//! Plans carried out on a store in memory, compared with a model that works element by element.
//!
//! `TEGULA_FUZZ_SEED` and `TEGULA_FUZZ_RUNS` (times the usual number) make other or longer runs.

#![allow(clippy::unwrap_used, clippy::panic)] // in what the tests share

mod case;
mod dense;
mod faults;
mod hostile;
mod naive;
mod parts;
mod random;
mod selecting;
#[cfg(unix)]
mod speed;
mod store;

use std::sync::atomic::{AtomicBool, Ordering};

use tegula_kernel::plan::Plan;
use tegula_kernel::read::{Call, read};
use tegula_kernel::stores::Store;
use tegula_kernel::write::{create, write};
use tegula_kernel::{Error, Result};

use case::{Case, content};
use naive::flat;
use random::{Random, seeds};
use selecting::Selection;
use store::{Memory, Reading};

const WAYS: [Reading; 4] =
    [Reading::Whole, Reading::Parts(64, 4096), Reading::Ranges(64, 4096), Reading::Ranges(1 << 15, 1 << 23)];

fn call<T>(threads: usize, keep_empty: bool, work: impl FnOnce(Call<'_>) -> T) -> T {
    work(Call { threads, keep_empty, poll: &mut || Ok(()), absent: &AtomicBool::new(false), strict: false })
}

/// Read a selection into a buffer that was filled with 0xAA.
fn get(store: &dyn Store, case: &Case, selection: &Selection, plan: &Plan, threads: usize) -> Result<Vec<u8>> {
    let mut buffer = vec![0xAA; selection.bytes];
    let work = selection.work(&mut buffer);
    // SAFETY: the plan is that of the selection, the buffer was laid out for it.
    call(threads, false, |call| unsafe { read(store, &case.array, plan, work, call) })?;
    Ok(buffer)
}

fn put(
    store: &dyn Store,
    case: &Case,
    selection: &Selection,
    plan: &Plan,
    values: &mut [u8],
    (threads, keep_empty): (usize, bool),
) -> Result<()> {
    let work = selection.work(values);
    // SAFETY: the plan is that of the selection, the buffer was laid out for it.
    call(threads, keep_empty, |call| unsafe { write(store, &case.array, plan, work, call) })
}

/// The expected result of reading a selection.
fn expected(case: &Case, selection: &Selection) -> Vec<u8> {
    let mut buffer = vec![0xAA; selection.bytes];
    selection.each(|index, at| {
        let from = flat(&case.padded, index) * case.size + selection.offset;
        buffer[at..at + selection.size].copy_from_slice(&case.model[from..from + selection.size]);
    });
    buffer
}

/// Change the model as writing a selection should.
fn change(case: &mut Case, selection: &Selection, values: &[u8]) {
    let (padded, size) = (case.padded.clone(), case.size);
    selection.each(|index, at| {
        let to = flat(&padded, index) * size + selection.offset;
        case.model[to..to + selection.size].copy_from_slice(&values[at..at + selection.size]);
    });
}

fn values(random: &mut Random, case: &Case, selection: &Selection) -> Vec<u8> {
    let mut values = content(random, selection.bytes.div_ceil(case.size), &case.array.fill);
    values.truncate(selection.bytes);
    if random.once_in(4) {
        selection.each(|_, at| {
            values[at..at + selection.size].copy_from_slice(&case.array.fill[selection.offset..][..selection.size]);
        });
    }
    values
}

/// Whether a panic was caught; for any input that is an error of the kernel.
fn is_panic(error: &Error) -> bool {
    match error {
        Error::At(_, inner) => is_panic(inner),
        Error::Codec { codec, .. } => codec == "kernel",
        _ => false,
    }
}

#[test]
fn what_is_read_is_what_is_stored() {
    for seed in seeds(400) {
        let mut random = Random::new(seed);
        let mut case = Case::new(&mut random);
        let whole = Memory::new(Reading::Whole);
        case.store(&whole, &mut random);
        let stores = WAYS.map(|way| whole.other(way));
        for round in 0..6 {
            let selection =
                if round == 0 { Selection::all(&mut random, &case) } else { Selection::new(&mut random, &case, false) };
            let plan = selection.plan(&mut random, &case);
            let expected = expected(&case, &selection);
            for store in &stores {
                for threads in [1, 3] {
                    let found = get(store, &case, &selection, &plan, threads).unwrap_or_else(|error| {
                        panic!("seed {seed}, {:?}, {threads} threads: {error}\n{selection:?}", store.reading)
                    });
                    assert!(found == expected, "seed {seed}, {:?}, {threads} threads, {selection:?}", store.reading);
                }
            }
        }
    }
}

#[test]
fn what_is_stored_is_what_was_written() {
    let mut shared = 0;
    for seed in seeds(300) {
        let mut random = Random::new(seed);
        let mut case = Case::new(&mut random);
        let mut store = Memory::new(random.pick(&WAYS));
        store.shares = random.once_in(2);
        case.store(&store, &mut random);
        for round in 0..8 {
            let selection = match round {
                7 => Selection::all(&mut random, &case),
                _ => Selection::new(&mut random, &case, true),
            };
            let plan = selection.plan(&mut random, &case);
            let mut values = values(&mut random, &case, &selection);
            let how = (random.pick(&[1, 3]), random.once_in(3));
            put(&store, &case, &selection, &plan, &mut values, how).unwrap();
            change(&mut case, &selection, &values);
            let about = format!("seed {seed}, round {round}, {how:?}, {selection:?}");
            case.check(&store, &about);
            for index in 0..plan.len() {
                let coords: Vec<usize> = plan.item(index).coords.iter().map(|&coord| coord as usize).collect();
                check_presence(&case, &store, &coords, how.1, &about);
            }
        }
        shared += store.shared.load(Ordering::Relaxed);
    }
    assert!(shared > 100, "{shared} writes into copies");
}

/// A written chunk is stored if it holds other elements than the fill value, or if all chunks are kept; no others are
/// stored.
fn check_presence(case: &Case, store: &Memory, coords: &[usize], keep_empty: bool, about: &str) {
    let empty = case.chunk(coords).chunks_exact(case.size).all(|element| element == case.array.fill);
    let there = store.get(&case.key(coords)).is_some();
    if keep_empty || !empty {
        assert!(there, "{about}: chunk {coords:?} is missing");
    } else if case.array.chain.sharding().is_none() {
        assert!(!there, "{about}: chunk {coords:?} was kept");
    }
}

#[test]
fn created_chunks_are_those_that_a_write_stores_and_replace_none() {
    let mut created = 0;
    for seed in seeds(200) {
        let mut random = Random::new(seed);
        let case = Case::new(&mut random);
        let all = Selection::all(&mut random, &case);
        let plan = all.plan(&mut random, &case);
        let mut values = values(&mut random, &case, &all);
        let (threads, store) = (random.pick(&[1, 3]), Memory::new(random.pick(&WAYS)));
        // SAFETY: the plan is that of the selection, the buffer was laid out for it.
        let mut create =
            || call(threads, true, |call| unsafe { create(&store, &case.array, &plan, all.work(&mut values), call) });
        let found = create();
        let whole = case.chunks().iter().all(|coords| {
            let coords: Vec<u64> = coords.iter().map(|&number| number as u64).collect();
            !case.array.overhangs(&coords)
        });
        if !whole {
            assert!(
                matches!(found, Err(Error::At(_, error)) if matches!(*error, Error::Unsupported { .. })),
                "seed {seed}"
            );
            continue;
        }
        // a chunk that exists is kept
        let chunks = case.chunks();
        let kept = case.key(&chunks[random.below(chunks.len())]);
        store.put(&kept, b"kept".to_vec());
        let again = create();
        assert!(matches!(again, Err(Error::At(_, error)) if matches!(*error, Error::Conflict)), "seed {seed}");
        assert_eq!(*store.get(&kept).unwrap(), b"kept");
        // the stored chunks are those of a write
        let written = Memory::new(Reading::Whole);
        put(&written, &case, &all, &plan, &mut values, (1, true)).unwrap();
        store.put(&kept, written.get(&kept).unwrap().to_vec());
        let stored =
            |memory: &Memory| memory.keys().into_iter().map(|key| memory.get(&key).unwrap()).collect::<Vec<_>>();
        assert!(written.keys() == store.keys() && stored(&written) == stored(&store), "seed {seed}");
        assert_eq!(found.unwrap(), stored(&written).iter().map(|data| data.len() as u64).sum::<u64>(), "seed {seed}");
        created += 1;
    }
    assert!(created > 20, "{created} arrays");
}

#[test]
fn shards_leave_out_empty_chunks_unless_keep_empty_is_set() {
    for seed in seeds(200) {
        let mut random = Random::new(seed);
        let case = Case::new(&mut random);
        if case.array.chain.sharding().is_none() {
            continue;
        }
        for keep_empty in [false, true] {
            let store = Memory::new(Reading::Whole);
            let selection = Selection::new(&mut random, &case, true);
            let plan = selection.plan(&mut random, &case);
            let mut values = values(&mut random, &case, &selection);
            put(&store, &case, &selection, &plan, &mut values, (1, keep_empty)).unwrap();
            for coords in case.chunks() {
                let mut any = false;
                case.stored(&store, &coords, &mut |inner| {
                    any = true;
                    let empty =
                        inner.is_none_or(|part| part.chunks_exact(case.size).all(|part| part == case.array.fill));
                    assert!(inner.is_some() == (keep_empty || !empty), "seed {seed}, keep {keep_empty}, {selection:?}");
                });
                assert_eq!(any, store.get(&case.key(&coords)).is_some());
            }
        }
    }
}
