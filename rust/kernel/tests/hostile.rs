//! Codecs with damaged and hostile data: any input ends in `Ok` or `Err`, soon, and within a limit of memory.
//!
//! `TEGULA_FUZZ_SEED` and `TEGULA_FUZZ_RUNS` (mutations in all) make other or longer runs.

#![allow(clippy::unwrap_used, clippy::panic)] // in what the tests share

mod cases;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::{Duration, Instant};

use tegula_kernel::codecs::{BloscOptions, Codec, Layout as Parts, Number, Options, build};

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

/// Counts the memory that this thread holds, without that of C libraries.
struct Counting;

fn count(change: isize) {
    // a thread that ends has no counters any more
    let _ = HELD.try_with(|held| {
        held.set(held.get() + change);
        let _ = MOST.try_with(|most| most.set(most.get().max(held.get())));
    });
}

// SAFETY: all work is the system allocator's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps to the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps to the contract.
        unsafe { System.dealloc(start, layout) }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        // SAFETY: the caller keeps to the contract.
        unsafe { System.realloc(start, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Return the most memory that `work` has held at any time, in addition to the memory held before.
fn peak(work: impl FnOnce()) -> usize {
    let before = HELD.get();
    MOST.set(before);
    work();
    usize::try_from(MOST.get() - before).unwrap()
}

/// Random numbers (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 16) as usize % bound.max(1)
    }
}

/// A codec, and how it may behave.
struct Subject {
    codec: Box<dyn Codec>,
    /// Memory that decoding may take in addition to its result: that of the Rust code, not of C libraries.
    extra: usize,
    /// Whether data that decodes is the encoded data, as far as a checksum of 32 bits can tell.
    checked: bool,
}

/// All codecs.
fn subjects() -> Vec<Subject> {
    let small = 64 * 1024;
    let bzip2 = 8 << 20; // its tables are of 4 MiB, made by Rust
    let all: Vec<(Options, usize, bool)> = vec![
        (Options::Zstd { level: 3, checksum: true }, small, true),
        (Options::Zstd { level: -5, checksum: false }, small, false),
        (Options::Gzip { level: 5 }, small, true),
        (Options::Zlib { level: 1 }, small, true),
        (Options::Bz2 { level: 1 }, bzip2, true),
        (Options::Lzma { container: 1, check: -1, preset: Some(1) }, small, true),
        (Options::Lzma { container: 2, check: -1, preset: Some(1) }, small, false),
        (Options::Lz4 { acceleration: 1 }, small, false),
        (Options::Crc32c { at_start: false }, small, true),
        (Options::Crc32 { at_start: true }, small, true),
        (Options::Adler32 { at_start: true }, small, false),
        (Options::Fletcher32, small, false),
        (Options::Shuffle { elementsize: 8 }, small, false),
        (Options::Delta { dtype: "<i4".into(), astype: "<i4".into() }, small, false),
        (Options::Delta { dtype: "<i4".into(), astype: ">i8".into() }, small, false),
        (
            Options::FixedScaleOffset {
                offset: Number::Float(0.5),
                scale: Number::Int(2),
                dtype: "<f4".into(),
                astype: "<i8".into(),
            },
            small,
            false,
        ),
        (Options::Quantize { digits: 2, dtype: "<f8".into(), astype: "<f4".into() }, small, false),
        (Options::BitRound { keepbits: 9, dtype: NATIVE.into() }, small, false),
        (Options::PackBits, small, false),
        (blosc("lz4", 1), small + LIMIT, false),
        (blosc("zstd", 2), small + LIMIT, false),
        (blosc("blosclz", 1), small + LIMIT, false),
        (blosc("zlib", 0), small + LIMIT, false),
        (Options::Blpk, small, false),
    ];
    let mut found = Vec::new();
    for (options, extra, checked) in all {
        match build(&options) {
            Ok(codec) => found.push(Subject { codec, extra, checked }),
            Err(error) => panic!("{options:?}: {error}"),
        }
    }
    assert!(found.len() >= 19, "only {} codecs are there", found.len());
    found
}

/// Options of Blosc, which holds one block in addition.
fn blosc(compressor: &str, shuffle: i64) -> Options {
    Options::Blosc(BloscOptions { compressor: compressor.into(), level: 5, shuffle, blocksize: 0, typesize: 4 })
}

/// Small contents whose encoded data has all possible parts.
fn contents() -> Vec<Vec<u8>> {
    let mut random = Random(5);
    vec![
        (0..400u32).flat_map(|index| (index * index / 3).to_le_bytes()).collect(),
        vec![7; 4096],
        (0..64).map(|_| random.next() as u8).collect(),
        vec![1; 8],
    ]
}

/// The most bytes that data may decode to if its size is unknown.
const LIMIT: usize = 100_000;
/// The kernel rounds numbers in the machine's own order of bytes.
const NATIVE: &str = if cfg!(target_endian = "big") { ">f4" } else { "<f4" };

/// The longest time of one call, even on a busy machine.
const SOON: Duration = Duration::from_secs(5);

/// Decode in every way, and check the results.
fn attack(subject: &Subject, data: &[u8], content: &[u8], out: &mut Vec<u8>) {
    let codec = &*subject.codec;
    let start = Instant::now();
    let _ = codec.decoded_size(data);
    for size in [content.len(), content.len() / 2, content.len() + 8] {
        let mut exact = vec![0; size];
        let mut found = Ok(());
        let held = peak(|| found = codec.decode(data, &mut exact));
        assert!(held <= subject.extra, "{}: {held} bytes of memory to decode {data:02x?}", codec.name());
        if found.is_ok() && subject.checked {
            assert!(exact == content, "{}: other content of {data:02x?}", codec.name());
        }
    }
    for limit in [0, content.len() / 2, content.len(), LIMIT] {
        *out = Vec::new();
        let mut found = Ok(());
        let held = peak(|| found = codec.decode_up_to(data, limit, out));
        assert!(held <= limit + subject.extra, "{}: {held} bytes for up to {limit} of {data:02x?}", codec.name());
        assert!(found.is_err() || out.len() <= limit, "{}: more than {limit} bytes of {data:02x?}", codec.name());
    }
    let reported = codec.decoded_size(data).ok().flatten().filter(|size| *size <= LIMIT);
    for size in [Some(content.len()), reported].into_iter().flatten() {
        attack_blocks(codec, data, size);
    }
    assert!(start.elapsed() < SOON, "{}: {:?} for {data:02x?}", codec.name(), start.elapsed());
}

/// Decode the blocks that the data states.
fn attack_blocks(codec: &dyn Codec, data: &[u8], content: usize) {
    let Some(blocks) = codec.blocks() else { return };
    let head = &data[..data.len().min(blocks.head_size(content))];
    let _ = blocks.layout(head, data.len() as u64, content);
    let Ok(Parts::Blocks(table)) = blocks.layout(data, data.len() as u64, content) else { return };
    for (index, &(start, end)) in table.ranges.iter().enumerate() {
        if let Some(part) = data.get(start as usize..end as usize) {
            let _ = blocks.decode_block(&table, index, part, 0..table.len(index), &mut vec![0; table.len(index)]);
        }
    }
}

/// Change a few bytes, mostly near the start, where the headers are.
fn mutate(random: &mut Random, data: &mut Vec<u8>) {
    for _ in 0..=random.below(3) {
        let reach = if random.below(2) == 0 { 24 } else { data.len() };
        let place = random.below(reach.min(data.len()));
        let Some(byte) = data.get_mut(place) else { return };
        match random.below(7) {
            0 => *byte = 0,
            1 => *byte = 0xff,
            2 => *byte ^= 1 << random.below(8),
            3 => *byte = random.next() as u8,
            4 => data.truncate(place),
            5 => data.insert(place, random.next() as u8),
            _ => {
                let end = (place + 1 + random.below(16)).min(data.len());
                data.extend_from_within(place..end);
            }
        }
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

/// Make valid input of a codec: a container for Blosc holds a Blosc frame.
fn prepared(codec: &dyn Codec, content: &[u8]) -> Vec<u8> {
    let mut frame = content.to_vec();
    if codec.name() == "blpk" {
        let inner = build(&blosc("lz4", 1)).unwrap();
        inner.encode(content, &mut frame).unwrap();
    }
    frame
}

#[test]
fn damaged_data() {
    let subjects = subjects();
    let contents = contents();
    let runs = setting("TEGULA_FUZZ_RUNS", 20_000) as usize / (subjects.len() * contents.len());
    let mut random = Random(setting("TEGULA_FUZZ_SEED", 1).max(1));
    let mut out = Vec::new();
    for subject in &subjects {
        for content in &contents {
            let content = &prepared(&*subject.codec, content);
            let mut encoded = Vec::new();
            subject.codec.encode(content, &mut encoded).unwrap();
            let mut back = vec![0; content.len()];
            subject.codec.decode(&encoded, &mut back).unwrap();
            let step = encoded.len().div_ceil(120); // every length of short data
            for end in (0..encoded.len()).filter(|end| *end < 40 || end % step == 0) {
                attack(subject, &encoded[..end], content, &mut out);
            }
            for _ in 0..runs {
                let mut damaged = encoded.clone();
                mutate(&mut random, &mut damaged);
                attack(subject, &damaged, content, &mut out);
            }
            let noise: Vec<u8> = (0..random.below(200)).map(|_| random.next() as u8).collect();
            attack(subject, &noise, content, &mut out);
        }
    }
}

/// Headers that state far more than the data holds.
#[test]
fn promises() {
    let mut out = Vec::new();
    let huge: [(Options, Vec<u8>); 5] = [
        // a frame of 2^62 bytes with an empty block
        (
            Options::Zstd { level: 1, checksum: false },
            [&[0x28, 0xb5, 0x2f, 0xfd, 0xe0][..], &(1u64 << 62).to_le_bytes(), &[1, 0, 0]].concat(),
        ),
        // the same with blocks that repeat a byte 2^17 times each
        (
            Options::Zstd { level: 1, checksum: false },
            [&[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x88][..], &[2, 0, 0x10, 7].repeat(4000), &[1, 0, 0]].concat(),
        ),
        (Options::Lz4 { acceleration: 1 }, [&0x7fff_ffffu32.to_le_bytes()[..], &[0xff; 40]].concat()),
        // a dictionary of 4 GiB
        (
            Options::Lzma { container: 2, check: -1, preset: None },
            [&[0x5d, 0xff, 0xff, 0xff, 0xff][..], &[0xff; 8], &[0; 30]].concat(),
        ),
        // members that are empty, one after the other
        (
            Options::Gzip { level: 5 },
            [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 3, 0][..], &[0; 8]].concat().repeat(3000),
        ),
    ];
    for (options, data) in huge {
        let subject = Subject { codec: build(&options).unwrap(), extra: 64 * 1024, checked: false };
        attack(&subject, &data, &[0; 1000], &mut out);
    }
}

/// Damaged data of other implementations.
#[test]
fn damaged_data_of_others() {
    let mut random = Random(setting("TEGULA_FUZZ_SEED", 1).max(1));
    let mut out = Vec::new();
    let compressed = ["zstd", "gzip", "zlib", "bz2", "lzma", "lz4"];
    let cases: Vec<_> = cases::cases()
        .into_iter()
        .filter(|case| !case.encodes && compressed.contains(&case.name.as_str()) && case.given.len() < 700)
        .collect();
    assert!(cases.len() > 100);
    let runs = setting("TEGULA_FUZZ_RUNS", 20_000) as usize / (8 * cases.len());
    for case in &cases {
        let extra = if case.name == "bz2" { 8 << 20 } else { 64 * 1024 };
        let subject = Subject { codec: build(&case.options).unwrap(), extra, checked: false };
        for _ in 0..runs {
            let mut damaged = case.given.clone();
            mutate(&mut random, &mut damaged);
            attack(&subject, &damaged, case.wanted.as_deref().unwrap_or_default(), &mut out);
        }
    }
}
