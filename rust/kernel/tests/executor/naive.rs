//! Chunks as they are stored, made and taken apart element by element.

use tegula_kernel::chain::{Chain, EMPTY, Serializer};

use crate::random::Random;

/// Call `visit` with every index of a box, in C order.
pub fn indices(shape: &[usize], mut visit: impl FnMut(&[usize])) {
    let mut index = vec![0; shape.len()];
    for _ in 0..shape.iter().product::<usize>() {
        visit(&index);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            if index[axis] < shape[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
}

/// The place of an index in a box, in elements.
pub fn flat(shape: &[usize], index: &[usize]) -> usize {
    shape.iter().zip(index).fold(0, |flat, (length, index)| flat * length + index)
}

fn order(chain: &Chain, ndim: usize) -> Vec<usize> {
    chain.order.clone().unwrap_or_else(|| (0..ndim).collect())
}

fn swap(data: &mut [u8], unit: usize) {
    if unit > 1 {
        data.chunks_exact_mut(unit).for_each(<[u8]>::reverse);
    }
}

fn sizes(shape: &[u64]) -> Vec<usize> {
    shape.iter().map(|&length| length as usize).collect()
}

/// The parameters for encoding a chunk, besides its chain.
pub struct Style<'s> {
    pub fill: &'s [u8],
    /// Whether inner chunks that hold only the fill value are left out.
    pub elide: bool,
}

fn block(content: &[u8], shape: &[usize], start: &[usize], inner: &[usize], size: usize) -> Vec<u8> {
    let mut out = Vec::new();
    indices(inner, |index| {
        let place: Vec<usize> = start.iter().zip(index).map(|(start, index)| start + index).collect();
        let at = flat(shape, &place) * size;
        out.extend_from_slice(&content[at..at + size]);
    });
    out
}

/// Encode a chunk of `shape`; inner chunks are in any order, with gaps between them.
pub fn encode(chain: &Chain, shape: &[usize], content: &[u8], style: &Style<'_>, random: &mut Random) -> Vec<u8> {
    let size = style.fill.len();
    let order = order(chain, shape.len());
    let stored: Vec<usize> = order.iter().map(|&axis| shape[axis]).collect();
    let mut turned = vec![0; content.len()];
    indices(&stored, |index| {
        let mut logical = vec![0; shape.len()];
        order.iter().zip(index).for_each(|(&axis, &index)| logical[axis] = index);
        let (from, to) = (flat(shape, &logical) * size, flat(&stored, index) * size);
        turned[to..to + size].copy_from_slice(&content[from..from + size]);
    });
    let mut data = match &chain.serializer {
        Serializer::Elements(elements) => {
            swap(&mut turned, elements.swap);
            turned
        }
        Serializer::Shard(sharding) => {
            let inner = sizes(&sharding.inner_shape);
            let grid: Vec<usize> = stored.iter().zip(&inner).map(|(stored, inner)| stored / inner).collect();
            let index_size = sharding.index.encoded_size(16 * grid.iter().product::<usize>()).unwrap();
            let mut pieces = Vec::new();
            indices(&grid, |coords| {
                let start: Vec<usize> = coords.iter().zip(&inner).map(|(coord, inner)| coord * inner).collect();
                let part = block(&turned, &stored, &start, &inner, size);
                let empty = style.elide && part.chunks_exact(size).all(|element| element == style.fill);
                pieces.push((!empty).then(|| encode(&sharding.inner, &inner, &part, style, random)));
            });
            let mut table = vec![(EMPTY, EMPTY); pieces.len()];
            let mut places: Vec<usize> = (0..pieces.len()).collect();
            random.shuffle(&mut places);
            let mut body = Vec::new();
            let base = if sharding.at_start { index_size } else { 0 };
            for number in places {
                if let Some(piece) = &pieces[number] {
                    body.resize(body.len() + random.below(3) * random.below(40), 0xEE);
                    table[number] = ((base + body.len()) as u64, piece.len() as u64);
                    body.extend_from_slice(piece);
                }
            }
            let mut raw: Vec<u8> = Vec::new();
            for (offset, length) in table {
                raw.extend([offset.to_le_bytes(), length.to_le_bytes()].concat());
            }
            let Serializer::Elements(numbers) = &sharding.index.serializer else { panic!("no index of numbers") };
            swap(&mut raw, numbers.swap);
            let index = wrap(&sharding.index, raw);
            if sharding.at_start { [index, body].concat() } else { [body, index].concat() }
        }
    };
    data = wrap(chain, data);
    data
}

fn wrap(chain: &Chain, mut data: Vec<u8>) -> Vec<u8> {
    for codec in &chain.buffers {
        let mut out = Vec::new();
        codec.encode(&data, &mut out).unwrap();
        data = out;
    }
    data
}

fn unwrap(chain: &Chain, data: &[u8]) -> Vec<u8> {
    let mut data = data.to_vec();
    for codec in chain.buffers.iter().rev() {
        let mut out = Vec::new();
        codec.decode_up_to(&data, 1 << 28, &mut out).unwrap();
        data = out;
    }
    data
}

/// Decode a chunk; call `seen` with each inner chunk: whether it is stored, and its content.
pub fn decode(
    chain: &Chain,
    shape: &[usize],
    data: &[u8],
    fill: &[u8],
    seen: &mut dyn FnMut(Option<&[u8]>),
) -> Vec<u8> {
    let size = fill.len();
    let order = order(chain, shape.len());
    let stored: Vec<usize> = order.iter().map(|&axis| shape[axis]).collect();
    let data = unwrap(chain, data);
    let content = match &chain.serializer {
        Serializer::Elements(elements) => {
            let mut content = data;
            assert_eq!(content.len(), stored.iter().product::<usize>() * size);
            swap(&mut content, elements.swap);
            content
        }
        Serializer::Shard(sharding) => {
            let inner = sizes(&sharding.inner_shape);
            let grid: Vec<usize> = stored.iter().zip(&inner).map(|(stored, inner)| stored / inner).collect();
            let count = grid.iter().product::<usize>();
            let index_size = sharding.index.encoded_size(16 * count).unwrap();
            let raw = if sharding.at_start { &data[..index_size] } else { &data[data.len() - index_size..] };
            let mut raw = unwrap(&sharding.index, raw);
            let Serializer::Elements(numbers) = &sharding.index.serializer else { panic!("no index of numbers") };
            swap(&mut raw, numbers.swap);
            let table: Vec<u64> =
                raw.chunks_exact(8).map(|number| u64::from_le_bytes(number.try_into().unwrap())).collect();
            let mut content = vec![0; stored.iter().product::<usize>() * size];
            let mut number = 0;
            indices(&grid, |coords| {
                let (offset, length) = (table[2 * number], table[2 * number + 1]);
                number += 1;
                let part = if offset == EMPTY {
                    seen(None);
                    fill.repeat(inner.iter().product())
                } else {
                    let piece = &data[offset as usize..][..length as usize];
                    let part = decode(&sharding.inner, &inner, piece, fill, &mut |_| {});
                    seen(Some(&part));
                    part
                };
                let mut from = 0;
                indices(&inner, |index| {
                    let place: Vec<usize> =
                        (0..index.len()).map(|axis| coords[axis] * inner[axis] + index[axis]).collect();
                    let to = flat(&stored, &place) * size;
                    content[to..to + size].copy_from_slice(&part[from..from + size]);
                    from += size;
                });
            });
            content
        }
    };
    let mut out = vec![0; content.len()];
    indices(&stored, |index| {
        let mut logical = vec![0; shape.len()];
        order.iter().zip(index).for_each(|(&axis, &index)| logical[axis] = index);
        let (to, from) = (flat(shape, &logical) * size, flat(&stored, index) * size);
        out[to..to + size].copy_from_slice(&content[from..from + size]);
    });
    out
}
