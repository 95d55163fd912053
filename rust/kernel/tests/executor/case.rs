//! Random arrays and their elements.

use tegula_kernel::array::{Array, Keys};
use tegula_kernel::chain::{Chain, Elements, Serializer, Sharding};
use tegula_kernel::codecs::{BloscOptions, Codec, Options, build};
use tegula_kernel::last_chunk::LastChunk;
use tegula_kernel::plan::ChunkAxis;

use crate::naive::{self, Style, flat, indices};
use crate::random::Random;
use crate::store::Memory;

pub struct Case {
    pub array: Array,
    /// Where the chunks of each axis begin, and the last ends.
    pub edges: Vec<Vec<usize>>,
    /// Where the last chunks end: the shape of `model`.
    pub padded: Vec<usize>,
    pub model: Vec<u8>,
    pub size: usize,
}

pub fn blosc_options(name: &str, [level, shuffle, blocksize, typesize]: [i64; 4]) -> Options {
    Options::Blosc(BloscOptions { compressor: name.into(), level, shuffle, blocksize, typesize })
}

pub fn blosc(random: &mut Random, size: usize) -> Box<dyn Codec> {
    let name = random.pick(&["lz4", "blosclz", "zstd", "zlib", "snappy", "lz4hc"]);
    let block = random.pick(&[0, 0, 128, 250, 1024, 5000]);
    let level = random.pick(&[0, 1, 5]);
    codec(&blosc_options(name, [level, random.below(3) as i64, block, size as i64]))
}

pub fn codec(options: &Options) -> Box<dyn Codec> {
    build(options).unwrap()
}

fn any_codec(random: &mut Random, size: usize) -> Box<dyn Codec> {
    match random.below(6) {
        0..=2 => blosc(random, size),
        3 => codec(&Options::Zstd { level: 1, checksum: random.once_in(2) }),
        4 => codec(&Options::Crc32c { at_start: random.once_in(2) }),
        _ => codec(&Options::Gzip { level: 1 }),
    }
}

pub fn buffers(random: &mut Random, size: usize) -> Vec<Box<dyn Codec>> {
    let count = random.pick(&[0, 0, 1, 1, 1, 2]);
    (0..count).map(|_| any_codec(random, size)).collect()
}

pub fn elements(random: &mut Random, size: usize) -> Elements {
    let units: Vec<usize> = [2, 4, 8, 16].into_iter().filter(|unit| size % unit == 0).collect();
    let swap = if units.is_empty() || random.once_in(2) { 0 } else { random.pick(&units) };
    Elements { size, swap, text: None }
}

fn order(random: &mut Random, ndim: usize) -> Option<Vec<usize>> {
    let mut order: Vec<usize> = (0..ndim).collect();
    random.shuffle(&mut order);
    (ndim > 0 && random.once_in(2)).then_some(order)
}

fn index_chain(random: &mut Random) -> Chain {
    let swap = if random.once_in(3) { 8 } else { 0 };
    let elements = Elements { size: 8, swap, text: None };
    let buffers = if random.once_in(2) { vec![codec(&Options::Crc32c { at_start: false })] } else { Vec::new() };
    Chain { order: None, serializer: Serializer::Elements(elements), buffers }
}

/// A chain for chunks of `shape`, shards within shards up to `depth`.
fn chain(random: &mut Random, shape: &[usize], size: usize, depth: usize) -> Chain {
    let order = order(random, shape.len());
    if depth == 0 {
        let elements = elements(random, size);
        return Chain { order, serializer: Serializer::Elements(elements), buffers: buffers(random, size) };
    }
    let stored: Vec<usize> =
        order.as_ref().map_or(shape.to_vec(), |order| order.iter().map(|&axis| shape[axis]).collect());
    let inner: Vec<usize> = stored.iter().map(|&length| divisor(random, length)).collect();
    let sharding = Sharding {
        inner_shape: inner.iter().map(|&length| length as u64).collect(),
        inner: chain(random, &inner, size, depth - 1),
        index: index_chain(random),
        at_start: random.once_in(2),
    };
    let buffers = if random.once_in(5) { vec![any_codec(random, 1)] } else { Vec::new() };
    Chain { order, serializer: Serializer::Shard(Box::new(sharding)), buffers }
}

fn divisor(random: &mut Random, length: usize) -> usize {
    let all: Vec<usize> = (1..=length).filter(|part| length % part == 0).collect();
    random.pick(&all)
}

fn keys(random: &mut Random, first_only: bool) -> Keys {
    let is_reversed = random.once_in(3);
    let separator = random.pick(&["/", "."]).to_owned();
    Keys { prefix: "a/c".into(), separator, suffix: String::new(), scalar: "a/c".into(), first_only, is_reversed }
}

/// Few different elements, in runs, often the fill value.
pub fn content(random: &mut Random, count: usize, fill: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(count * fill.len());
    while out.len() < count * fill.len() {
        let run = 1 + random.below(1 + count / 3);
        let element: Vec<u8> = match random.below(3) {
            0 => fill.to_vec(),
            _ => (0..fill.len()).map(|_| random.below(5) as u8).collect(),
        };
        (0..run).for_each(|_| out.extend_from_slice(&element));
    }
    out.truncate(count * fill.len());
    if random.once_in(2) {
        let noise = random.below(out.len().max(1));
        out[noise..].iter_mut().for_each(|byte| *byte = random.next() as u8);
    }
    out
}

impl Case {
    pub fn new(random: &mut Random) -> Case {
        let ndim = random.pick(&[0, 1, 1, 2, 2, 3, 4]);
        let most = [1, 60, 14, 8, 5][ndim];
        let shape: Vec<usize> = (0..ndim).map(|_| 1 + random.below(most)).collect();
        let size = random.pick(&[1, 2, 3, 4, 8, 16, 12]);
        let depth = if ndim == 0 { 0 } else { random.pick(&[0, 0, 0, 1, 1, 2]) };
        let mut chunk_axes = Vec::new();
        let mut longest = Vec::new();
        for &length in &shape {
            let chunk = 1 + random.below(length + 3);
            longest.push(chunk);
            if random.once_in(4) {
                // all shards have the same inner chunks, so their lengths are multiples of one length
                let mut starts = vec![0];
                while starts[starts.len() - 1] < length as u64 {
                    let times = if depth > 0 { 1 + random.below(2) } else { 1 };
                    let next = if depth > 0 { chunk * times } else { 1 + random.below(chunk) };
                    starts.push(starts[starts.len() - 1] + next as u64);
                }
                chunk_axes.push(ChunkAxis::Varying(starts.into()));
            } else {
                chunk_axes.push(ChunkAxis::Regular(chunk as u64));
            }
        }
        let chain = chain(random, &longest, size, depth);
        Case::of(random, shape, chunk_axes, chain, size)
    }

    /// An array of a given form with random elements.
    pub fn of(random: &mut Random, shape: Vec<usize>, chunk_axes: Vec<ChunkAxis>, chain: Chain, size: usize) -> Case {
        let fill: Vec<u8> = (0..size).map(|_| random.below(2) as u8).collect();
        let edges: Vec<Vec<usize>> = chunk_axes
            .iter()
            .zip(&shape)
            .map(|(chunk_axis, &length)| match chunk_axis {
                ChunkAxis::Regular(chunk) => {
                    (0..=length.div_ceil(*chunk as usize)).map(|n| n * *chunk as usize).collect()
                }
                ChunkAxis::Varying(starts) => starts.iter().map(|&start| start as usize).collect(),
            })
            .collect();
        let padded: Vec<usize> = edges.iter().map(|edges| edges[edges.len() - 1]).collect();
        let model = content(random, padded.iter().product(), &fill);
        let shape = shape.into_iter().map(|length| length as u64).collect();
        let array = Array {
            shape,
            chunk_axes,
            keys: keys(random, false),
            chain,
            fill,
            dense: false,
            last: LastChunk::default(),
        };
        Case { array, edges, padded, model, size }
    }

    pub fn shape(&self) -> Vec<usize> {
        self.array.shape.iter().map(|&length| length as usize).collect()
    }

    /// The grid positions of all chunks.
    pub fn chunks(&self) -> Vec<Vec<usize>> {
        let counts: Vec<usize> = self.edges.iter().map(|edges| edges.len() - 1).collect();
        let mut found = Vec::new();
        indices(&counts, |coords| found.push(coords.to_vec()));
        found
    }

    pub fn key(&self, coords: &[usize]) -> String {
        self.array.keys.encode(&coords.iter().map(|&coord| coord as u64).collect::<Vec<_>>())
    }

    pub fn chunk_shape(&self, coords: &[usize]) -> Vec<usize> {
        self.edges.iter().zip(coords).map(|(edges, &coord)| edges[coord + 1] - edges[coord]).collect()
    }

    fn places(&self, coords: &[usize], mut visit: impl FnMut(usize)) {
        indices(&self.chunk_shape(coords), |index| {
            let place: Vec<usize> = (0..index.len()).map(|axis| self.edges[axis][coords[axis]] + index[axis]).collect();
            visit(flat(&self.padded, &place) * self.size);
        });
    }

    /// The elements of a chunk in the model.
    pub fn chunk(&self, coords: &[usize]) -> Vec<u8> {
        let mut out = Vec::new();
        self.places(coords, |at| out.extend_from_slice(&self.model[at..at + self.size]));
        out
    }

    pub fn set_chunk(&mut self, coords: &[usize], content: &[u8]) {
        let mut places = Vec::new();
        self.places(coords, |at| places.push(at));
        for (at, element) in places.into_iter().zip(content.chunks_exact(self.size)) {
            self.model[at..at + self.size].copy_from_slice(element);
        }
    }

    pub fn encoded(&self, coords: &[usize], random: &mut Random) -> Vec<u8> {
        let style = Style { fill: &self.array.fill, elide: random.once_in(2) };
        naive::encode(&self.array.chain, &self.chunk_shape(coords), &self.chunk(coords), &style, random)
    }

    /// Store the model, except for some chunks, which then hold the fill value.
    pub fn store(&mut self, store: &Memory, random: &mut Random) {
        for coords in self.chunks() {
            if random.once_in(4) {
                let content = self.array.fill.repeat(self.chunk_shape(&coords).iter().product());
                self.set_chunk(&coords, &content);
            } else {
                store.put(&self.key(&coords), self.encoded(&coords, random));
            }
        }
    }

    /// The value of a chunk in a store.
    pub fn stored(&self, store: &Memory, coords: &[usize], seen: &mut dyn FnMut(Option<&[u8]>)) -> Vec<u8> {
        let shape = self.chunk_shape(coords);
        match store.get(&self.key(coords)) {
            None => self.array.fill.repeat(shape.iter().product()),
            Some(data) => naive::decode(&self.array.chain, &shape, &data, &self.array.fill, seen),
        }
    }

    pub fn check(&self, store: &Memory, about: &str) {
        for coords in self.chunks() {
            let found = self.stored(store, &coords, &mut |_| {});
            assert!(found == self.chunk(&coords), "{about}: chunk {coords:?}");
        }
    }
}
