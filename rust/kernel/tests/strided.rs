//! Strided copies against a naive one, element by element.

use tegula_kernel::strided::{Dim, Offsets, all_equal, copy, fill, swap_in_place};

/// A small generator of numbers.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 11) as usize % limit
    }

    fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            list.swap(i, self.below(i + 1));
        }
    }
}

/// One side of a case: the parameters of its walks, and the size of its memory.
struct Side {
    /// Stride and list of each dimension.
    walks: Vec<(isize, Option<Vec<i64>>)>,
    /// The place of element 0 of all dimensions.
    base: usize,
    bytes: usize,
}

impl Side {
    /// Lay out `counts` in memory, with the dimensions in any order; broadcast some of them if `repeat`.
    fn new(random: &mut Random, counts: &[usize], size: usize, repeat: bool, order: &[usize]) -> Side {
        let mut walks = vec![(0, None); counts.len()];
        let mut step = size;
        let (mut base, mut end) = (0, size);
        for &dim in order {
            let count = counts[dim];
            if repeat && random.below(8) == 0 {
                continue;
            }
            if random.below(6) == 0 {
                // Some with gaps, some backwards, some by a list.
                step += random.below(3) * size + if random.below(3) == 0 { random.below(7) } else { 0 };
            }
            let kind = random.below(8);
            let (stride, list, span) = match kind {
                0 => {
                    base += (count - 1) * step;
                    (-(step as isize), None, count)
                }
                1 => {
                    let mut list: Vec<i64> = (0..count as i64 * 2).collect();
                    random.shuffle(&mut list);
                    list.truncate(count);
                    if random.below(2) == 0 {
                        list.sort_unstable();
                    }
                    (step as isize, Some(list), count * 2)
                }
                2 => {
                    let list: Vec<i64> = (0..count as i64).map(|i| i * 2 + 1).collect();
                    (step as isize, Some(list), count * 2 + 1)
                }
                _ => (step as isize, None, count),
            };
            let last = match &list {
                None => (count - 1) as i64,
                Some(list) => list.iter().copied().max().unwrap_or(0),
            };
            end += last as usize * step;
            walks[dim] = (stride, list);
            step *= span;
        }
        // Memory ends with the last element.
        Side { walks, base, bytes: end }
    }

    fn walk(&self, dim: usize) -> Offsets<'_> {
        match &self.walks[dim] {
            (stride, None) => Offsets::Strided(*stride),
            (stride, Some(list)) => Offsets::Indexed(list, *stride),
        }
    }

    fn place(&self, index: &[usize]) -> usize {
        let mut place = self.base as isize;
        for ((stride, list), i) in self.walks.iter().zip(index) {
            place += stride * list.as_ref().map_or(*i as isize, |list| list[*i] as isize);
        }
        place as usize
    }
}

/// Call `visit` with every index.
fn indices(counts: &[usize], mut visit: impl FnMut(&[usize])) {
    let total: usize = counts.iter().product();
    let mut index = vec![0; counts.len()];
    for _ in 0..total {
        visit(&index);
        for dim in (0..counts.len()).rev() {
            index[dim] += 1;
            if index[dim] < counts[dim] {
                break;
            }
            index[dim] = 0;
        }
    }
}

fn counts(random: &mut Random) -> Vec<usize> {
    let rank = random.below(5);
    // A few large planes, and many small boxes.
    if rank == 2 && random.below(2) == 0 {
        return vec![1 + random.below(150), 1 + random.below(150)];
    }
    let mut count = || {
        let limit = if random.below(3) == 0 { 40 } else { 6 };
        1 + random.below(limit)
    };
    (0..rank).map(|_| count()).collect()
}

fn order(random: &mut Random, rank: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..rank).rev().collect();
    match random.below(4) {
        0 => order.reverse(),
        1 => random.shuffle(&mut order),
        _ => {}
    }
    order
}

fn bytes(random: &mut Random, count: usize) -> Vec<u8> {
    (0..count).map(|_| random.next() as u8).collect()
}

/// Bytes that end at a protected page: an access beyond the end kills the process.
struct Edge {
    start: *mut u8,
    len: usize,
    #[cfg(target_os = "linux")]
    mapping: (*mut libc::c_void, usize),
}

impl Edge {
    #[cfg(target_os = "linux")]
    fn new(bytes: &[u8]) -> Edge {
        let room = bytes.len().next_multiple_of(4096);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, of which the last page is closed; the bytes fit before that.
        unsafe {
            let found =
                libc::mmap(std::ptr::null_mut(), room + 4096, access, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
            assert_ne!(found, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(found.byte_add(room), 4096, libc::PROT_NONE), 0);
            let start = found.cast::<u8>().add(room - bytes.len());
            start.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            Edge { start, len: bytes.len(), mapping: (found, room + 4096) }
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn new(bytes: &[u8]) -> Edge {
        let bytes = Box::leak(bytes.to_vec().into_boxed_slice());
        Edge { start: bytes.as_mut_ptr(), len: bytes.len() }
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: made of as many bytes.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

#[cfg(target_os = "linux")]
impl Drop for Edge {
    fn drop(&mut self) {
        // SAFETY: the mapping made by `new`.
        unsafe { libc::munmap(self.mapping.0, self.mapping.1) };
    }
}

fn check_copy(random: &mut Random) {
    let counts = counts(random);
    let size = match random.below(3) {
        0 => 1 + random.below(40),
        _ => [1, 2, 4, 8, 16][random.below(5)],
    };
    let units: Vec<usize> = (1..=size).filter(|unit| size % unit == 0).collect();
    let swap = if random.below(3) == 0 { units[random.below(units.len())] } else { 0 };
    let orders = (order(random, counts.len()), order(random, counts.len()));
    let from = Side::new(random, &counts, size, true, &orders.0);
    let to = Side::new(random, &counts, size, false, &orders.1);
    let offsets = (random.below(64), random.below(64));
    let source = bytes(random, offsets.0 + from.bytes);
    let before = bytes(random, offsets.1 + to.bytes);
    let mut expected = before.clone();
    indices(&counts, |index| {
        let mut element = source[offsets.0 + from.place(index)..][..size].to_vec();
        if swap > 1 {
            element.chunks_mut(swap).for_each(<[u8]>::reverse);
        }
        expected[offsets.1 + to.place(index)..][..size].copy_from_slice(&element);
    });
    let mut dims: Vec<Dim<'_>> =
        (0..counts.len()).map(|dim| Dim { count: counts[dim], source: from.walk(dim), target: to.walk(dim) }).collect();
    random.shuffle(&mut dims);
    let from_edge = Edge::new(&source);
    for bypass_cache in [false, true] {
        let found = Edge::new(&before);
        // SAFETY: both sides are as large as their walks need.
        unsafe {
            let (start, end) = (from_edge.start.add(offsets.0 + from.base), found.start.add(offsets.1 + to.base));
            copy(start, end, &dims, size, swap, bypass_cache);
        }
        assert!(found.bytes() == expected, "size {size}, swap {swap}, bypass_cache {bypass_cache}: {dims:?}");
    }
}

#[test]
fn copies_are_those_of_a_naive_copy() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let rounds = if cfg!(debug_assertions) { 1500 } else { 8000 };
    for _ in 0..rounds {
        check_copy(&mut random);
    }
}

#[test]
fn fills_are_those_of_a_naive_fill() {
    let mut random = Random(77);
    for _ in 0..4000 {
        let counts = counts(&mut random);
        let size = 1 + random.below(40);
        let order = order(&mut random, counts.len());
        let to = Side::new(&mut random, &counts, size, true, &order);
        let value = if random.below(3) == 0 { vec![7; size] } else { bytes(&mut random, size) };
        let before = bytes(&mut random, to.bytes);
        let mut expected = before.clone();
        indices(&counts, |index| expected[to.place(index)..][..size].copy_from_slice(&value));
        let mut dims: Vec<Dim<'_>> = (0..counts.len())
            .map(|dim| Dim { count: counts[dim], source: Offsets::Strided(1 << 40), target: to.walk(dim) })
            .collect();
        random.shuffle(&mut dims);
        let found = Edge::new(&before);
        // SAFETY: as large as the walks need.
        unsafe { fill(found.start.add(to.base), &dims, &value) };
        assert!(found.bytes() == expected, "size {size}: {dims:?}");
    }
}

#[test]
fn nothing_happens_without_elements() {
    let dims = [
        Dim { count: 3, source: Offsets::Strided(8), target: Offsets::Strided(8) },
        Dim { count: 0, source: Offsets::Indexed(&[], 8), target: Offsets::Strided(24) },
    ];
    let mut target = [1_u8; 24];
    // SAFETY: there is nothing to copy.
    unsafe {
        copy([0_u8; 24].as_ptr(), target.as_mut_ptr(), &dims, 8, 0, true);
        fill(target.as_mut_ptr(), &dims, &[0; 8]);
    }
    assert_eq!(target, [1; 24]);
}

#[test]
fn swaps_in_place_reverse_each_unit() {
    let mut random = Random(5);
    for unit in [0, 1, 2, 3, 4, 5, 8, 12, 16, 40] {
        for count in [0, 1, 2, 3, 7, 64, 65, 1000] {
            let data = bytes(&mut random, count * unit.max(1));
            let mut expected = data.clone();
            expected.chunks_mut(unit.max(1)).for_each(<[u8]>::reverse);
            let mut found = data;
            swap_in_place(&mut found, unit);
            assert_eq!(found, expected, "{unit} {count}");
        }
    }
}

#[test]
fn any_difference_is_seen() {
    let mut random = Random(6);
    for size in [1, 2, 3, 4, 8, 12, 16, 33] {
        for count in [0, 1, 2, 5, 100, 1000] {
            let value = bytes(&mut random, size);
            let mut data = value.repeat(count);
            assert!(all_equal(&data, &value));
            for _ in 0..20 {
                if data.is_empty() {
                    break;
                }
                let place = random.below(data.len());
                data[place] ^= 1 << random.below(8);
                assert!(!all_equal(&data, &value), "{size} {count} {place}");
                data[place] = value[place % size];
            }
        }
    }
    let mut other = [0_u8; 8];
    assert!(all_equal(&other.repeat(9), &other));
    other[7] = 0x80;
    assert!(!all_equal(&0.0_f64.to_le_bytes().repeat(3), &other), "minus zero is another value, bit for bit");
}
