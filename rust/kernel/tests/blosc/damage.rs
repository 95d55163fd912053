//! Truncated or changed frames, decoded in memory between pages that must not be accessed.

use tegula_kernel::codecs::{Codec, Layout};

use crate::{Contents, NAMES, codec, decoded, encoded, fixture};

/// Memory that ends at a protected page: an access beyond the end kills the process.
#[cfg(unix)]
struct Guarded {
    start: *mut u8,
    mapped: usize,
    place: usize,
    length: usize,
}

#[cfg(unix)]
impl Guarded {
    fn new(most: usize) -> Guarded {
        let page = 1 << 16;
        let mapped = most.next_multiple_of(page) + page;
        // SAFETY: a mapping of its own; its last page is taken away
        let start = unsafe {
            let start = libc::mmap(
                std::ptr::null_mut(),
                mapped,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANON,
                -1,
                0,
            );
            assert_ne!(start, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(start.cast::<u8>().add(mapped - page).cast(), page, libc::PROT_NONE), 0);
            start.cast::<u8>()
        };
        Guarded { start, mapped, place: mapped - page, length: 0 }
    }

    fn of(&mut self, length: usize) -> &mut [u8] {
        assert!(length <= self.place);
        self.length = length;
        // SAFETY: these bytes are mapped, and borrowed from here
        unsafe { std::slice::from_raw_parts_mut(self.start.add(self.place - length), length) }
    }
}

#[cfg(unix)]
impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: nothing is borrowed from it any more
        unsafe { libc::munmap(self.start.cast(), self.mapped) };
    }
}

#[cfg(not(unix))]
struct Guarded(Vec<u8>);

#[cfg(not(unix))]
impl Guarded {
    fn new(_most: usize) -> Guarded {
        Guarded(Vec::new())
    }

    fn of(&mut self, length: usize) -> &mut [u8] {
        self.0.resize(length, 0);
        &mut self.0
    }
}

/// Decode damaged bytes in every way; any result will do, but each call must return.
fn try_damaged(codec: &dyn Codec, bytes: &[u8], size: usize, room: &mut (Guarded, Guarded)) -> bool {
    let data = room.0.of(bytes.len());
    data.copy_from_slice(bytes);
    let whole = codec.decode(data, room.1.of(size)).is_ok();
    let _ = codec.decoded_size(data);
    let mut out = Vec::new();
    let _ = codec.decode_up_to(data, 4 * size, &mut out);
    assert!(out.len() <= 4 * size);
    let blocks = codec.blocks().unwrap();
    if let Ok(Layout::Blocks(table)) = blocks.layout(data, bytes.len() as u64, size) {
        assert!(table.ranges.len() <= size && table.ranges.iter().all(|range| range.1 as usize <= bytes.len()));
        for (index, (start, end)) in table.ranges.iter().enumerate().take(8) {
            let part = &bytes[*start as usize..*end as usize];
            let data = room.0.of(part.len());
            data.copy_from_slice(part);
            let length = table.len(index);
            for needed in [0..length, length / 3..length / 2, 0..1, length - 1..length] {
                let _ = blocks.decode_block(&table, index, data, needed, room.1.of(length));
            }
        }
    }
    whole
}

#[test]
fn damage_is_found_or_does_no_harm() {
    let contents = Contents::new(20_000);
    let mut room = (Guarded::new(1 << 17), Guarded::new(1 << 17));
    let mut state = 12345_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % below
    };
    let mut frames: Vec<(Vec<u8>, usize)> = vec![
        (fixture("zarr1_zstd07"), 12288),
        (fixture("tensorstore_snappy"), 9000),
        (fixture("numcodecs_zlib"), 9000),
    ];
    for name in NAMES {
        for (shuffle, typesize, block, size) in
            [(1, 2, 0, 5000), (2, 4, 512, 5003), (0, 1, 1024, 3000), (2, 3, 0, 3000)]
        {
            let data: Vec<u8> = contents.of("walk", size).iter().map(|byte| byte & 0xf3).collect();
            frames.push((encoded(&*codec(name, 5, shuffle, block, typesize), &data), size));
        }
    }
    let codec = codec("lz4", 5, 1, 0, 1);
    let mut held = 0;
    for (frame, size) in &frames {
        assert!(try_damaged(&*codec, frame, *size, &mut room));
        for end in 0..frame.len() {
            assert!(!try_damaged(&*codec, &frame[..end], *size, &mut room));
            // truncated, with a header that states the shorter length
            if end >= 16 {
                let mut torn = frame[..end].to_vec();
                torn[12..16].copy_from_slice(&(end as u32).to_le_bytes());
                try_damaged(&*codec, &torn, *size, &mut room);
            }
        }
        for _ in 0..ROUNDS {
            let mut damaged = frame.clone();
            for _ in 0..=random(3) {
                // more often in the places of lengths
                let most = if random(2) == 0 { damaged.len() } else { damaged.len().min(64) };
                let value = [0, 1, 0xff, 0x7f, 0x80, random(256) as u8][random(6)];
                damaged[random(most)] = value;
            }
            held += usize::from(!try_damaged(&*codec, &damaged, *size, &mut room));
        }
    }
    assert!(held > frames.len() * ROUNDS / 4, "{held}");
}

const ROUNDS: usize = if cfg!(debug_assertions) { 3000 } else { 30_000 };

#[test]
fn lengths_of_blosclz_do_not_overflow() {
    // a match whose length is encoded as nine million times 255, which exceeds an i32
    let (size, bytes) = (16 << 20, 9 << 20);
    let mut frame = vec![2, 1, 0x10, 1];
    for number in [size, size, 24 + bytes, 20, 4 + bytes] {
        frame.extend((number as u32).to_le_bytes());
    }
    frame.extend([0, 7, 0xe0]);
    frame.resize(24 + bytes as usize, 255);
    frame.extend([0; 4]);
    let length = frame.len() as u32;
    frame[12..16].copy_from_slice(&length.to_le_bytes());
    assert!(decoded(&*codec("blosclz", 5, 1, 0, 1), &frame, size as usize).is_err());
}
