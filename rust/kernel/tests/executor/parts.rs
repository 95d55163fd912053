//! Chunks so large that reads take only parts of them, or use several threads.

use std::sync::atomic::Ordering;

use tegula_kernel::chain::{Chain, Elements, Serializer};
use tegula_kernel::codecs::{Codec, Layout, Options};
use tegula_kernel::plan::ChunkAxis;

use crate::case::{Case, blosc, blosc_options, codec, elements};
use crate::random::{Random, seeds};
use crate::selecting::{Pick, Selection};
use crate::store::{Memory, Reading};
use crate::{WAYS, change, expected, get, put, values};

fn array(random: &mut Random, bytes: usize, buffers: Vec<Box<dyn Codec>>, elements: Elements) -> Case {
    let size = elements.size;
    let ndim = 1 + random.below(3);
    let side = ((bytes / size) as f64).powf(1.0 / ndim as f64).ceil() as usize + 1;
    let chunk: Vec<usize> = (0..ndim).map(|axis| side + axis).collect();
    let mut order: Vec<usize> = (0..ndim).collect();
    random.shuffle(&mut order);
    let chain =
        Chain { order: random.once_in(2).then_some(order), serializer: Serializer::Elements(elements), buffers };
    let shape = chunk.iter().map(|&length| length + random.below(length / 8 + 1)).collect();
    let chunk_axes = chunk.iter().map(|&length| ChunkAxis::Regular(length as u64)).collect();
    Case::of(random, shape, chunk_axes, chain, size)
}

fn large(random: &mut Random, bytes: usize) -> Case {
    let size = random.pick(&[1, 2, 3, 4, 8, 16]);
    let elements = elements(random, size);
    let buffers = match random.below(5) {
        0 => vec![],
        1 => vec![codec(&Options::Zstd { level: 1, checksum: false })],
        _ => vec![blosc(random, size)],
    };
    array(random, bytes, buffers, elements)
}

/// A few scattered elements, so that the model does not take most of the time.
fn few(random: &mut Random, case: &Case) -> Selection {
    let picks: Vec<Pick> = case
        .shape()
        .into_iter()
        .map(|length| {
            let first = random.below(length);
            match random.below(4) {
                0 => Pick::Index(first),
                1 => Pick::Run { first, step: 1, count: (length - first).min(40) },
                2 => Pick::Run { first, step: -(1 + random.below(9) as i64), count: 1 + first / 9 / 4 },
                _ => Pick::List((0..1 + random.below(6)).map(|_| random.below(length)).collect()),
            }
        })
        .collect();
    Selection { size: case.size, ..Selection::laid_out(random, picks, case.size, false) }
}

#[test]
fn parts_of_large_chunks_are_read_right() {
    for seed in seeds(40) {
        let mut random = Random::new(seed);
        let bytes = if seed % 10 == 9 { (1 << 20) + (1 << 19) } else { 70_000 + random.below(60_000) };
        let mut case = large(&mut random, bytes);
        let whole = Memory::new(Reading::Whole);
        case.store(&whole, &mut random);
        let stores = WAYS.map(|way| whole.other(way));
        for round in 0..8 {
            let selection = if round == 0 { Selection::all(&mut random, &case) } else { few(&mut random, &case) };
            let plan = selection.plan(&mut random, &case);
            let wanted = expected(&case, &selection);
            for store in &stores {
                for threads in [1, 3] {
                    let found = get(store, &case, &selection, &plan, threads).unwrap();
                    assert!(found == wanted, "seed {seed}, {:?}, {threads} threads, {selection:?}", store.reading);
                }
            }
        }
        let selection = few(&mut random, &case);
        let plan = selection.plan(&mut random, &case);
        let mut values = values(&mut random, &case, &selection);
        put(&stores[0], &case, &selection, &plan, &mut values, (3, false)).unwrap();
        change(&mut case, &selection, &values);
        case.check(&stores[0], &format!("seed {seed}"));
    }
}

/// A chunk of more than a megabyte, in the order in which it is stored, whose rows often fit into its blocks.
fn of_rows(random: &mut Random) -> Case {
    let size = random.pick(&[1, 2, 4, 8, 12]);
    let row = random.pick(&[32, 128, 256, 1000, 4096]);
    let inner = if random.once_in(3) { vec![random.pick(&[1, 4, 7])] } else { vec![] };
    let width = row * inner.iter().product::<usize>();
    let rows = (1 << 20) / (width * size) + 2 + random.below(40);
    let buffers = match random.below(4) {
        0 => vec![],
        1 => vec![codec(&Options::Zstd { level: 1, checksum: false })],
        _ => vec![codec(&blosc_options(
            "lz4",
            [1, random.below(3) as i64, random.pick(&[0, 16384, 49152, 65536]), size as i64],
        ))],
    };
    let chain = Chain { order: None, serializer: Serializer::Elements(elements(random, size)), buffers };
    let chunk = [vec![rows, row], inner].concat();
    let shape = chunk.iter().map(|&length| length + random.below(3) * (1 + length / 8)).collect();
    let chunk_axes = chunk.iter().map(|&length| ChunkAxis::Regular(length as u64)).collect();
    Case::of(random, shape, chunk_axes, chain, size)
}

#[test]
fn rows_of_large_chunks_are_read_piece_by_piece() {
    for seed in seeds(8) {
        let mut random = Random::new(seed);
        let mut case = of_rows(&mut random);
        let whole = Memory::new(Reading::Whole);
        case.store(&whole, &mut random);
        let stores = WAYS.map(|way| whole.other(way));
        for round in 0..6 {
            let mut selection = Selection::all(&mut random, &case);
            if round > 0 {
                let mut picks = selection.picks;
                let length = case.shape()[0];
                let (first, step) = (random.below(9), 1 + random.below(3) as i64);
                let count = 1 + (length - 1 - first) / step as usize;
                picks[0] = match random.below(4) {
                    0 => Pick::List((0..length / 2).map(|_| random.below(length)).collect()),
                    1 => Pick::Run { first: first + (count - 1) * step as usize, step: -step, count },
                    _ => Pick::Run { first, step, count },
                };
                if random.once_in(2) {
                    let length = case.shape()[1];
                    let first = random.below(length);
                    picks[1] = Pick::Run { first, step: 1, count: 1 + random.below(length - first) };
                }
                selection = Selection { size: case.size, ..Selection::laid_out(&mut random, picks, case.size, false) };
            }
            let plan = selection.plan(&mut random, &case);
            let wanted = expected(&case, &selection);
            for store in &stores {
                for threads in [1, 3] {
                    let found = get(store, &case, &selection, &plan, threads).unwrap();
                    assert!(found == wanted, "seed {seed}, {:?}, {threads} threads, round {round}", store.reading);
                }
            }
        }
    }
}

#[test]
fn a_large_chunk_that_is_too_short_or_too_long_is_an_error() {
    for seed in seeds(14) {
        let mut random = Random::new(seed);
        let mut case = of_rows(&mut random);
        let whole = Memory::new(Reading::Whole);
        case.store(&whole, &mut random);
        let keys = whole.keys();
        if keys.is_empty() {
            continue; // all elements are the fill value
        }
        let key = keys[random.below(keys.len())].clone();
        let mut data = whole.get(&key).unwrap().to_vec();
        data.truncate(data.len() - 1 - random.below(data.len() / 2));
        if random.once_in(3) && case.array.chain.buffers.is_empty() {
            data = [whole.get(&key).unwrap().to_vec(), vec![0; 1 + random.below(9)]].concat();
        }
        whole.put(&key, data);
        let selection = Selection::all(&mut random, &case);
        let plan = selection.plan(&mut random, &case);
        for way in WAYS {
            for threads in [1, 3] {
                assert!(get(&whole.other(way), &case, &selection, &plan, threads).is_err(), "seed {seed}, {way:?}");
            }
        }
    }
}

#[test]
fn few_bytes_are_read_for_few_elements() {
    let mut random = Random::new(7);
    for buffers in [vec![], vec![blosc_of_noise()]] {
        let elements = Elements { size: 4, swap: 0, text: None };
        let chain = Chain { order: None, serializer: Serializer::Elements(elements), buffers };
        let mut case = Case::of(&mut random, vec![1 << 18], vec![ChunkAxis::Regular(1 << 18)], chain, 4);
        case.model.iter_mut().for_each(|byte| *byte = random.next() as u8);
        for way in [Reading::Parts(1 << 14, 1 << 18), Reading::Ranges(1 << 14, 1 << 18)] {
            let store = Memory::new(way);
            let data = case.encoded(&[0], &mut random);
            store.put(&case.key(&[0]), data);
            let picks = vec![Pick::Index(100_000)];
            let selection = Selection { size: 4, ..Selection::laid_out(&mut random, picks, 4, false) };
            let plan = selection.plan(&mut random, &case);
            assert_eq!(get(&store, &case, &selection, &plan, 1).unwrap(), expected(&case, &selection));
            let bytes = store.bytes.load(Ordering::Relaxed);
            assert!(bytes < 100_000, "{bytes} bytes by {way:?}");
        }
    }
}

fn blosc_of_noise() -> Box<dyn Codec> {
    let options = blosc_options("lz4", [1, 1, 16384, 4]);
    codec(&options)
}

#[test]
fn blosc_around_blosc_is_two_codecs() {
    for seed in seeds(20) {
        let mut random = Random::new(seed);
        let buffers = vec![blosc(&mut random, 4), blosc(&mut random, 1)];
        let mut case = array(&mut random, 80_000, buffers, Elements { size: 4, swap: 0, text: None });
        let whole = Memory::new(Reading::Whole);
        case.store(&whole, &mut random);
        let selection = few(&mut random, &case);
        let plan = selection.plan(&mut random, &case);
        for way in WAYS {
            let found = get(&whole.other(way), &case, &selection, &plan, 3).unwrap();
            assert!(found == expected(&case, &selection), "seed {seed}, {way:?}");
        }
    }
}

#[test]
fn text_is_checked_where_it_is_read() {
    for seed in seeds(30) {
        let mut random = Random::new(seed);
        let size = 4 * (1 + random.below(3));
        let swap = random.pick(&[0, 4]);
        let big = random.once_in(2);
        // blocks that end within a character
        let options = blosc_options("zstd", [1, 0, 250, 1]);
        let buffers = if random.once_in(3) { vec![] } else { vec![codec(&options)] };
        let mut case = array(&mut random, 80_000, buffers, Elements { size, swap, text: Some(big) });
        // characters below 256
        for unit in case.model.chunks_exact_mut(4) {
            let low = random.next() as u8;
            unit.copy_from_slice(&if big { [0, 0, 0, low] } else { [low, 0, 0, 0] });
        }
        let store = |case: &Case, random: &mut Random| {
            let memory = Memory::new(Reading::Whole);
            case.chunks().iter().for_each(|coords| memory.put(&case.key(coords), case.encoded(coords, random)));
            memory
        };
        let whole = store(&case, &mut random);
        let selection = few(&mut random, &case);
        let plan = selection.plan(&mut random, &case);
        for way in WAYS {
            for threads in [1, 3] {
                let found = get(&whole.other(way), &case, &selection, &plan, threads).unwrap();
                assert!(found == expected(&case, &selection), "seed {seed}, {way:?}");
            }
        }
        // one of the characters that are read is not valid
        let mut bad = 0;
        selection.each(|index, _| bad = crate::flat(&case.padded, index));
        let at = bad * size + 4 * random.below(size / 4) + if big { 0 } else { 3 };
        case.model[at] = 1;
        let damaged = store(&case, &mut random);
        for way in WAYS {
            for threads in [1, 3] {
                let error = get(&damaged.other(way), &case, &selection, &plan, threads).unwrap_err();
                assert!(error.to_string().contains("no Unicode"), "seed {seed}, {way:?}: {error}");
            }
        }
        let selection = few(&mut random, &case);
        let plan = selection.plan(&mut random, &case);
        let covers = (0..plan.len()).any(|index| plan.item(index).covers());
        let mut values = vec![0; selection.bytes];
        let coords: Vec<usize> = (0..case.edges.len()).map(|axis| locate(&case, axis, bad)).collect();
        let touched =
            (0..plan.len()).any(|index| plan.item(index).coords.iter().map(|&c| c as usize).eq(coords.clone()));
        if touched && !covers {
            let error = put(&damaged, &case, &selection, &plan, &mut values, (1, false)).unwrap_err();
            assert!(error.to_string().contains("no Unicode"), "seed {seed}: {error}");
        }
    }
}

/// The number of the chunk along an axis that has an element of the model.
fn locate(case: &Case, axis: usize, element: usize) -> usize {
    let after: usize = case.padded[axis + 1..].iter().product();
    let index = element / after % case.padded[axis];
    case.edges[axis].iter().rposition(|&start| start <= index).unwrap()
}

/// An array of one chunk of 20 blocks, whose content changes slowly.
fn of_blocks(random: &mut Random, contained: bool) -> Case {
    let options = blosc_options("lz4", [5, 1, 16384, 4]);
    let mut buffers = vec![codec(&options)];
    if contained {
        buffers.push(codec(&Options::Blpk));
    }
    let count = 20 * (1 << 14);
    let elements = Elements { size: 4, swap: 0, text: None };
    let chain = Chain { order: None, serializer: Serializer::Elements(elements), buffers };
    let mut case = Case::of(random, vec![count], vec![ChunkAxis::Regular(count as u64)], chain, 4);
    case.array.fill = vec![3, 0, 0, 0];
    let mut value = 0_u32;
    for element in case.model.chunks_exact_mut(4) {
        value += random.below(3) as u32;
        element.copy_from_slice(&value.to_le_bytes());
    }
    case
}

/// The places of the blocks of a chunk.
fn ranges(case: &Case, data: &[u8]) -> Vec<std::ops::Range<usize>> {
    match case.array.chain.blocks().unwrap().layout(data, data.len() as u64, case.model.len()).unwrap() {
        Layout::Blocks(table) => table.ranges.iter().map(|range| range.0 as usize..range.1 as usize).collect(),
        other => panic!("{other:?}"),
    }
}

fn pick(random: &mut Random, first: usize, count: usize) -> Selection {
    let picks = vec![Pick::Run { first, step: 1, count }];
    Selection { size: 4, ..Selection::laid_out(random, picks, 4, false) }
}

#[test]
fn only_blocks_that_change_are_encoded() {
    for (seed, contained) in [(1, false), (2, true)] {
        let mut random = Random::new(seed);
        let mut case = of_blocks(&mut random, contained);
        let store = Memory::new(Reading::Whole);
        let key = case.key(&[0]);
        store.put(&key, case.encoded(&[0], &mut random));
        let old = store.get(&key).unwrap();
        let before = ranges(&case, &old);
        assert_eq!(before.len(), 20);
        // a byte of block 3 is damaged: a change of another block neither reads nor changes block 3
        let mut damaged = old.to_vec();
        damaged[before[3].start + 20..][..30].fill(0xff);
        store.put(&key, damaged.clone());
        for (first, count) in [(100_000, 1), (5 << 14, 1 << 14), ((7 << 14) - 5, (2 << 14) + 9), (0, 77)] {
            let selection = pick(&mut random, first, count);
            let plan = selection.plan(&mut random, &case);
            let mut values: Vec<u8> = (0..selection.bytes).map(|_| random.next() as u8).collect();
            put(&store, &case, &selection, &plan, &mut values, (random.pick(&[1, 3]), false)).unwrap();
            change(&mut case, &selection, &values);
        }
        let new = store.get(&key).unwrap();
        let after = ranges(&case, &new);
        let touched = [6, 5, 7, 8, 9, 0];
        for block in (0..20).filter(|block| !touched.contains(block)) {
            assert!(new[after[block].clone()] == damaged[before[block].clone()], "block {block}");
        }
        for block in touched {
            assert!(new[after[block].clone()] != damaged[before[block].clone()], "block {block}");
        }
        // with that block repaired, all elements are as expected
        let mut repaired = new.to_vec();
        repaired[after[3].clone()].copy_from_slice(&old[before[3].clone()]);
        store.put(&key, repaired);
        case.check(&store, "repaired");
    }
}

#[test]
fn a_chunk_of_blocks_is_left_out_once_it_is_empty() {
    for (seed, keep_empty) in [(1, false), (2, true)] {
        let mut random = Random::new(seed);
        let mut case = of_blocks(&mut random, seed == 2);
        let store = Memory::new(Reading::Whole);
        let key = case.key(&[0]);
        let fill = case.array.fill.clone();
        case.model = fill.repeat(case.model.len() / 4);
        let full = case.model.len() / 4;
        // changes in two blocks, undone one by one
        for at in [100_000, 200_000] {
            case.model[4 * at] = 1;
        }
        store.put(&key, case.encoded(&[0], &mut random));
        for (at, left) in [(100_000, true), (full - 1, true), (200_000, keep_empty)] {
            let selection = pick(&mut random, at, 1);
            let plan = selection.plan(&mut random, &case);
            let mut values = fill.clone();
            put(&store, &case, &selection, &plan, &mut values, (3, keep_empty)).unwrap();
            change(&mut case, &selection, &values);
            case.check(&store, &format!("seed {seed}, {at}"));
            assert_eq!(store.get(&key).is_some(), left, "{at}");
        }
    }
}

#[test]
fn large_chunks_are_changed_right() {
    for seed in seeds(4) {
        let mut random = Random::new(seed);
        let size = random.pick(&[2, 3, 4, 8]);
        let elements = elements(&mut random, size);
        let buffers = vec![blosc(&mut random, size)];
        let mut case = array(&mut random, 1_200_000, buffers, elements);
        let store = Memory::new(random.pick(&WAYS));
        case.store(&store, &mut random);
        for round in 0..6 {
            let selection = if round == 4 { Selection::all(&mut random, &case) } else { few(&mut random, &case) };
            let plan = selection.plan(&mut random, &case);
            let mut values = values(&mut random, &case, &selection);
            let how = (random.pick(&[1, 3]), random.once_in(2));
            put(&store, &case, &selection, &plan, &mut values, how).unwrap();
            change(&mut case, &selection, &values);
            case.check(&store, &format!("seed {seed}, round {round}, {selection:?}"));
        }
    }
}
