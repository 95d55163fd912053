//! bcolz: every chunk is stored, and the last one holds only the rows of the array, or some more.

use tegula_kernel::Error;
use tegula_kernel::chain::{Chain, Elements, Serializer};
use tegula_kernel::codecs::Options;
use tegula_kernel::plan::ChunkAxis;

use crate::case::{Case, blosc, codec};
use crate::naive::{self, Style};
use crate::random::{Random, seeds};
use crate::selecting::Selection;
use crate::store::{Memory, Reading};
use crate::{WAYS, change, expected, get, put, values};

fn array(random: &mut Random) -> Case {
    let shape: Vec<usize> = (0..1 + random.below(3)).map(|axis| 1 + random.below([900, 6, 4][axis])).collect();
    let size = random.pick(&[1, 2, 4, 8, 12]);
    let chunk = 1 + random.below(shape[0] + 20);
    let mut chunk_axes = vec![ChunkAxis::Regular(chunk as u64)];
    chunk_axes.extend(shape[1..].iter().map(|&length| ChunkAxis::Regular(length as u64)));
    let chain = Chain {
        order: None,
        serializer: Serializer::Elements(Elements { size, swap: 0, text: None }),
        buffers: vec![blosc(random, size), codec(&Options::Blpk)],
    };
    let mut case = Case::of(random, shape, chunk_axes, chain, size);
    case.array.dense = true;
    case.array.keys.first_only = true;
    case.array.keys.is_reversed = false;
    case
}

/// How many rows of a chunk the array has.
fn least(case: &Case, number: usize) -> usize {
    case.edges[0][number + 1].min(case.array.shape[0] as usize) - case.edges[0][number]
}

fn encoded(case: &Case, coords: &[usize], rows: usize, random: &mut Random) -> Vec<u8> {
    let mut shape = case.chunk_shape(coords);
    let content = case.chunk(coords);
    let row = content.len() / shape[0];
    shape[0] = rows;
    let style = Style { fill: &case.array.fill, elide: false };
    naive::encode(&case.array.chain, &shape, &content[..rows * row], &style, random)
}

/// Store the model; return how many rows were stored of each chunk.
fn store(case: &Case, store: &Memory, random: &mut Random) -> Vec<usize> {
    let chunks = case.chunks();
    let stored = chunks.iter().map(|coords| {
        let (least, most) = (least(case, coords[0]), case.chunk_shape(coords)[0]);
        let rows = least + random.below(most - least + 1);
        store.put(&case.key(coords), encoded(case, coords, rows, random));
        rows
    });
    stored.collect()
}

fn check(case: &Case, store: &Memory, rows: &[usize], about: &str) {
    for (coords, &rows) in case.chunks().iter().zip(rows) {
        let mut shape = case.chunk_shape(coords);
        let content = case.chunk(coords);
        let row = content.len() / shape[0];
        shape[0] = rows;
        let data = store.get(&case.key(coords)).unwrap();
        let found = naive::decode(&case.array.chain, &shape, &data, &case.array.fill, &mut |_| {});
        assert!(found == content[..rows * row], "{about}: chunk {coords:?}");
    }
}

fn is_missing(error: &Error) -> bool {
    matches!(error, Error::At(_, inner) if matches!(&**inner, Error::Store { message } if message.contains("missing")))
}

#[test]
fn arrays_of_bcolz_are_read_and_written() {
    for seed in seeds(150) {
        let mut random = Random::new(seed);
        let mut case = array(&mut random);
        let whole = Memory::new(random.pick(&WAYS));
        let rows = store(&case, &whole, &mut random);
        for round in 0..6 {
            let selection = Selection::new(&mut random, &case, false);
            let plan = selection.plan(&mut random, &case);
            for way in WAYS {
                let found = get(&whole.other(way), &case, &selection, &plan, random.pick(&[1, 3])).unwrap();
                assert!(found == expected(&case, &selection), "seed {seed}, {way:?}, {selection:?}");
            }
            let selection =
                if round == 5 { Selection::all(&mut random, &case) } else { Selection::new(&mut random, &case, true) };
            let plan = selection.plan(&mut random, &case);
            let mut values = values(&mut random, &case, &selection);
            put(&whole, &case, &selection, &plan, &mut values, (random.pick(&[1, 3]), false)).unwrap();
            change(&mut case, &selection, &values);
            check(&case, &whole, &rows, &format!("seed {seed}, {selection:?}"));
        }
    }
}

#[test]
fn a_missing_chunk_is_an_error_unless_it_is_replaced() {
    for seed in seeds(60) {
        let mut random = Random::new(seed);
        let mut case = array(&mut random);
        let memory = Memory::new(Reading::Whole);
        let mut rows = store(&case, &memory, &mut random);
        let lost = case.chunks().pop().unwrap();
        memory.remove(&case.key(&lost));
        let all = Selection::all(&mut random, &case);
        let plan = all.plan(&mut random, &case);
        assert!(is_missing(&get(&memory, &case, &all, &plan, 1).unwrap_err()));
        let mut values = values(&mut random, &case, &all);
        put(&memory, &case, &all, &plan, &mut values, (1, false)).unwrap();
        change(&mut case, &all, &values);
        rows[lost[0]] = least(&case, lost[0]);
        check(&case, &memory, &rows, &format!("seed {seed}"));
    }
}

#[test]
fn a_chunk_with_too_few_rows_is_an_error_unless_it_is_replaced() {
    for seed in seeds(60) {
        let mut random = Random::new(seed);
        let mut case = array(&mut random);
        let memory = Memory::new(Reading::Whole);
        let mut rows = store(&case, &memory, &mut random);
        let last = case.chunks().pop().unwrap();
        let needed = least(&case, last[0]);
        if needed == case.chunk_shape(&last)[0] {
            continue; // no part lies beyond the array, so the chunk is replaced without reading it
        }
        match random.below(3) {
            0 => memory.put(&case.key(&last), encoded(&case, &last, needed - 1, &mut random)),
            1 => memory.put(&case.key(&last), b"no chunk".to_vec()),
            _ => {
                let mut data = encoded(&case, &last, needed, &mut random);
                data[20] ^= 1; // more or fewer bytes than whole rows
                data[24] ^= 1;
                memory.put(&case.key(&last), data);
            }
        }
        let all = Selection::all(&mut random, &case);
        let plan = all.plan(&mut random, &case);
        assert!(get(&memory, &case, &all, &plan, 1).is_err());
        let mut values = values(&mut random, &case, &all);
        put(&memory, &case, &all, &plan, &mut values, (1, false)).unwrap();
        change(&mut case, &all, &values);
        rows[last[0]] = needed;
        check(&case, &memory, &rows, &format!("seed {seed}"));
    }
}

#[test]
fn a_chunk_that_says_it_has_more_rows_is_replaced_by_those_of_the_array() {
    let mut random = Random::new(3);
    let chain = Chain {
        order: None,
        serializer: Serializer::Elements(Elements { size: 1, swap: 0, text: None }),
        buffers: vec![blosc(&mut random, 1), codec(&Options::Blpk)],
    };
    let mut case = Case::of(&mut random, vec![500], vec![ChunkAxis::Regular(800)], chain, 1);
    case.array.dense = true;
    let memory = Memory::new(Reading::Whole);
    let mut data = encoded(&case, &[0], 500, &mut random);
    data[16 + 4] += 1;
    memory.put(&case.key(&[0]), data);
    let all = Selection::all(&mut random, &case);
    let plan = all.plan(&mut random, &case);
    assert!(get(&memory, &case, &all, &plan, 1).is_err());
    let mut values = values(&mut random, &case, &all);
    put(&memory, &case, &all, &plan, &mut values, (1, false)).unwrap();
    change(&mut case, &all, &values);
    check(&case, &memory, &[500], "one row more");
}
