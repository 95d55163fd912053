//! Stores that fail, values that change under the reader, and many writers at once.

use std::sync::atomic::Ordering;

use tegula_kernel::Error;
use tegula_kernel::chain::Serializer;

use crate::case::{Case, content};
use crate::naive::{self, Style};
use crate::random::{Random, seeds};
use crate::selecting::{Pick, Selection};
use crate::store::{Memory, Reading};
use crate::{WAYS, change, get, is_panic, put, values};

#[test]
fn a_store_that_fails_ends_the_call_with_its_error() {
    for seed in seeds(60) {
        let mut random = Random::new(seed);
        let mut case = Case::new(&mut random);
        let whole = Memory::new(Reading::Whole);
        case.store(&whole, &mut random);
        let selection = Selection::new(&mut random, &case, false);
        let plan = selection.plan(&mut random, &case);
        for way in WAYS {
            let store = whole.other(way);
            get(&store, &case, &selection, &plan, 1).unwrap();
            for nth in 1..=store.calls.load(Ordering::Relaxed).min(12) {
                let store = whole.other(way);
                store.fails.store(nth, Ordering::Relaxed);
                let error = get(&store, &case, &selection, &plan, random.pick(&[1, 3])).unwrap_err();
                let reported = matches!(&error, Error::At(_, inner) if matches!(&**inner, Error::Store { .. }));
                assert!(reported, "seed {seed}, {way:?}: {error}");
            }
        }
    }
}

#[test]
fn a_write_that_fails_leaves_each_chunk_as_it_was_or_as_it_should_be() {
    for seed in seeds(60) {
        let mut random = Random::new(seed);
        let mut case = Case::new(&mut random);
        let whole = Memory::new(Reading::Whole);
        case.store(&whole, &mut random);
        let selection = Selection::new(&mut random, &case, true);
        let plan = selection.plan(&mut random, &case);
        let mut values = values(&mut random, &case, &selection);
        let before: Vec<Vec<u8>> = case.chunks().iter().map(|coords| case.chunk(coords)).collect();
        change(&mut case, &selection, &values);
        for nth in 1..10 {
            let store = whole.other(Reading::Whole);
            store.fails.store(nth, Ordering::Relaxed);
            if let Err(error) = put(&store, &case, &selection, &plan, &mut values, (random.pick(&[1, 3]), false)) {
                assert!(!is_panic(&error), "seed {seed}: {error}");
            } else if store.calls.load(Ordering::Relaxed) >= nth {
                panic!("seed {seed}: the error of call {nth} was lost");
            }
            for (coords, before) in case.chunks().iter().zip(&before) {
                let found = case.stored(&store, coords, &mut |_| {});
                assert!(found == *before || found == case.chunk(coords), "seed {seed}, call {nth}, chunk {coords:?}");
            }
        }
    }
}

#[test]
fn what_is_read_of_a_shard_belongs_together() {
    let mut shards = 0;
    for seed in seeds(150) {
        let mut random = Random::new(seed);
        let mut case = Case::new(&mut random);
        if !matches!(case.array.chain.serializer, Serializer::Shard(_)) {
            continue;
        }
        shards += 1;
        let coords = case.chunks()[0].clone();
        let picks: Vec<Pick> = (0..coords.len())
            .map(|axis| Pick::Run {
                first: 0,
                step: 1,
                count: case.edges[axis][1].min(case.array.shape[axis] as usize),
            })
            .collect();
        let selection = Selection { size: case.size, ..Selection::laid_out(&mut random, picks, case.size, false) };
        let plan = selection.plan(&mut random, &case);
        let store = Memory::new(Reading::Ranges(0, 1));
        let mut wanted = Vec::new();
        for _ in 0..3 {
            let shape = case.chunk_shape(&coords);
            let content = content(&mut random, shape.iter().product(), &case.array.fill);
            case.set_chunk(&coords, &content);
            let style = Style { fill: &case.array.fill, elide: true };
            let data = naive::encode(&case.array.chain, &shape, &content, &style, &mut random);
            store.versions.lock().unwrap().push(data.clone());
            store.put(&case.key(&coords), data);
            wanted.push(crate::expected(&case, &selection));
        }
        store.churn.store(random.below(40), Ordering::Relaxed);
        let found = get(&store, &case, &selection, &plan, random.pick(&[1, 3])).unwrap();
        assert!(wanted.contains(&found), "seed {seed}: parts of several versions");
        store.churn.store(usize::MAX, Ordering::Relaxed);
    }
    assert!(shards > 10);
}

#[test]
fn writers_at_once_lose_nothing() {
    for seed in seeds(24) {
        let mut random = Random::new(seed);
        let mut case = Case::new(&mut random);
        let Some(&length) = case.shape().first() else { continue };
        let mut store = Memory::new(Reading::Whole);
        store.pause = std::time::Duration::from_micros(20);
        if random.once_in(2) {
            case.model = case.array.fill.repeat(case.padded.iter().product());
        } else {
            case.store(&store, &mut random);
        }
        // each writer has its own rows of every chunk
        let mut jobs = Vec::new();
        for writer in 0..4.min(length) {
            let mut picks: Vec<Pick> =
                case.shape().into_iter().map(|length| Pick::Run { first: 0, step: 1, count: length }).collect();
            picks[0] = Pick::Run { first: writer, step: 4, count: (length - writer).div_ceil(4) };
            for _ in 0..3 {
                let selection =
                    Selection { size: case.size, ..Selection::laid_out(&mut random, picks.clone(), case.size, true) };
                let values = values(&mut random, &case, &selection);
                let plan = selection.plan(&mut random, &case);
                change(&mut case, &selection, &values);
                jobs.push((writer, selection, plan, values));
            }
        }
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let (jobs, store, case) = (&jobs, &store, &case);
                scope.spawn(move || {
                    for (_, selection, plan, values) in jobs.iter().filter(|job| job.0 == writer) {
                        put(store, case, selection, plan, &mut values.clone(), (1 + writer % 2, false)).unwrap();
                    }
                });
            }
        });
        case.check(&store, &format!("seed {seed}"));
    }
}
