//! Damaged and hostile chunks: every call ends in `Ok` or `Err`, and writes only within its buffer.

use std::time::{Duration, Instant};

use tegula_kernel::chain::EMPTY;

use crate::case::Case;
use crate::random::{Random, seeds};
use crate::selecting::Selection;
use crate::store::{Memory, Reading};
use crate::{WAYS, get, is_panic, put, values};

fn mutate(random: &mut Random, data: &mut Vec<u8>) {
    for _ in 0..1 + random.below(4) {
        if data.is_empty() {
            data.push(random.next() as u8);
        }
        let near = if random.once_in(2) { data.len() } else { data.len().min(64) };
        let at = if random.once_in(3) { data.len() - 1 - random.below(near) } else { random.below(near) };
        match random.below(8) {
            0 => data[at] ^= 1 << random.below(8),
            1 => data[at] = random.pick(&[0, 1, 0x7F, 0x80, 0xFF]),
            2 => data.truncate(at),
            3 => data.extend_from_within(at..),
            4 => {
                let number = random.pick(&[0, 1, 255, 1 << 16, i32::MAX as u32, 1 << 31, u32::MAX]).to_le_bytes();
                data.iter_mut().skip(at / 4 * 4).zip(number).for_each(|(byte, new)| *byte = new);
            }
            5 => {
                let most = i64::MAX as u64;
                let number = random.pick(&[0, 1, EMPTY, EMPTY - 1, most, most - 7, 1 << 62, 1 << 40, 1 << 32]);
                let number = if random.once_in(2) { number } else { random.next() % (2 * data.len() as u64) };
                data.iter_mut().skip(at / 8 * 8).zip(number.to_le_bytes()).for_each(|(byte, new)| *byte = new);
            }
            6 => data[at..].rotate_left(1),
            _ => data[at..].iter_mut().take(1 + random.below(16)).for_each(|byte| *byte = random.next() as u8),
        }
    }
}

/// Read a selection; all memory around the selected elements must stay unchanged.
fn read_somehow(random: &mut Random, case: &Case, store: &Memory, about: &str) {
    let selection = Selection::new(random, case, false);
    let plan = selection.plan(random, case);
    let threads = random.pick(&[1, 1, 3]);
    let begun = Instant::now();
    match get(store, case, &selection, &plan, threads) {
        Err(error) => assert!(!is_panic(&error), "{about}: {error}"),
        Ok(mut found) => {
            selection.each(|_, at| found[at..at + selection.size].fill(0xAA));
            assert!(found.iter().all(|&byte| byte == 0xAA), "{about}: something else was written");
        }
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "{about}: took {:?}", begun.elapsed());
}

#[test]
fn damaged_chunks_are_errors_or_other_values() {
    for seed in seeds(400) {
        let mut random = Random::new(seed);
        let mut case = Case::new(&mut random);
        let whole = Memory::new(Reading::Whole);
        case.store(&whole, &mut random);
        for round in 0..8 {
            let mut store = whole.other(random.pick(&WAYS));
            for key in store.keys() {
                let mut data = store.get(&key).unwrap().to_vec();
                mutate(&mut random, &mut data);
                store.put(&key, data);
            }
            if random.once_in(4) {
                store.lie = random.pick(&[1, 16, 1 << 31, 1 << 40, u64::MAX]);
            } else if random.once_in(4) {
                store.shrunk = random.pick(&[1, 8, 100]);
            }
            let about = format!("seed {seed}, round {round}, {:?}", store.reading);
            read_somehow(&mut random, &case, &store, &about);
            if round % 2 == 0 {
                let selection = Selection::new(&mut random, &case, true);
                let plan = selection.plan(&mut random, &case);
                let mut values = values(&mut random, &case, &selection);
                if let Err(error) = put(&store, &case, &selection, &plan, &mut values, (1, random.once_in(2))) {
                    assert!(!is_panic(&error), "{about}: {error}");
                }
            }
        }
    }
}

#[test]
fn a_damaged_chunk_can_be_replaced() {
    for seed in seeds(150) {
        let mut random = Random::new(seed);
        let mut case = Case::new(&mut random);
        let store = Memory::new(Reading::Whole);
        case.store(&store, &mut random);
        for key in store.keys() {
            // no chain accepts this as a chunk
            store.put(&key, vec![0xFF]);
        }
        let fill = case.array.fill.repeat(case.padded.iter().product());
        let one = case.array.fill.len() == 1 && case.chunks().len() == case.model.len();
        if one {
            continue; // a chunk of one byte may have any value
        }
        case.model = fill;
        let all = Selection::all(&mut random, &case);
        let plan = all.plan(&mut random, &case);
        let mut values = values(&mut random, &case, &all);
        put(&store, &case, &all, &plan, &mut values, (random.pick(&[1, 3]), false)).unwrap();
        crate::change(&mut case, &all, &values);
        case.check(&store, &format!("seed {seed}"));
    }
}

#[test]
fn a_shard_that_was_cut_off_is_no_more_accepted_for_a_copy_than_to_be_written_anew() {
    let mut refused = 0;
    for seed in seeds(600) {
        let mut random = Random::new(seed);
        let mut case = Case::new(&mut random);
        let whole = Memory::new(Reading::Whole);
        case.store(&whole, &mut random);
        if !case.array.chain.sharding().is_some_and(|sharding| sharding.at_start) {
            continue;
        }
        for key in whole.keys() {
            let mut data = whole.get(&key).unwrap().to_vec();
            data.truncate(data.len() - data.len().min(1 + random.below(8)));
            whole.put(&key, data);
        }
        for _ in 0..6 {
            let selection = Selection::new(&mut random, &case, true);
            let plan = selection.plan(&mut random, &case);
            let mut values = values(&mut random, &case, &selection);
            let [anew, copied] = [false, true].map(|shares| {
                let mut store = whole.other(Reading::Whole);
                store.shares = shares;
                put(&store, &case, &selection, &plan, &mut values, (1, false)).is_ok()
            });
            assert_eq!(anew, copied, "seed {seed}");
            refused += usize::from(!anew);
        }
    }
    assert!(refused > 100, "{refused} writes refused");
}
