//! Parts of blocks decoded, blocks replaced, blocks encoded by several threads.

use tegula_kernel::codecs::{BlockTable, Codec, Layout};

use crate::{Contents, NAMES, codec, decoded, encoded, fixture};

fn table(codec: &dyn Codec, frame: &[u8], size: usize) -> Option<BlockTable> {
    match codec.blocks().unwrap().layout(frame, frame.len() as u64, size).unwrap() {
        Layout::Blocks(table) => Some(table),
        _ => None,
    }
}

/// Decode parts of every block, and compare them with the content.
fn check_parts(codec: &dyn Codec, frame: &[u8], content: &[u8], what: &str) -> usize {
    let Some(table) = table(codec, frame, content.len()) else { return 0 };
    let mut seen = 0;
    for (index, whole) in content.chunks(table.block).enumerate() {
        let (start, end) = table.ranges[index];
        let (data, length) = (&frame[start as usize..end as usize], whole.len());
        let mut ends = vec![0, 1, 17, length / 9, length / 2, length / 2 + 300, length - 1, length];
        ends.retain(|&end| end <= length);
        for (first, stop) in ends.iter().flat_map(|&first| ends.iter().map(move |&stop| (first, stop))) {
            if first > stop {
                continue;
            }
            let mut out = vec![0xa5; length];
            codec.blocks().unwrap().decode_block(&table, index, data, first..stop, &mut out).unwrap();
            assert!(out[first..stop] == whole[first..stop], "{what}: {first}..{stop} of block {index}");
            seen += 1;
        }
        let mut out = vec![0; length];
        assert!(codec.blocks().unwrap().decode_block(&table, index, data, 0..length + 1, &mut out).is_err());
    }
    seen
}

#[test]
fn parts_of_blocks_are_those_of_the_whole() {
    let contents = Contents::new(40_000);
    let mut seen = 0;
    for name in NAMES {
        for shuffle in [0, 1, 2] {
            for (typesize, block) in [(1, 0), (2, 0), (3, 4096), (4, 512), (8, 5000), (16, 0), (17, 2000), (255, 0)] {
                for (kind, size) in [("walk", 40_000), ("walk", 9001), ("zeros", 33_002), ("mixed", 30_000)] {
                    let mixed: Vec<u8> =
                        contents.noise.iter().zip(&contents.zeros).flat_map(|(noise, zero)| [*noise, *zero]).collect();
                    let data = if kind == "mixed" { &mixed[..size] } else { contents.of(kind, size) };
                    let codec = codec(name, 5, shuffle, block, typesize);
                    let what = format!("{name} {shuffle} {typesize} {block} {kind} {size}");
                    seen += check_parts(&*codec, &encoded(&*codec, data), data, &what);
                }
            }
        }
        if name != "snappy" {
            let name = format!("numcodecs_{name}");
            seen += check_parts(&*codec("lz4", 5, 1, 0, 2), &fixture(&name), contents.of("walk", 9000), &name);
        }
    }
    assert!(seen > 50_000, "{seen}");
}

/// Content of which about `parts` per cent can't be compressed.
fn mixed(contents: &Contents, parts: usize) -> Vec<u8> {
    let runs = contents.walk.chunks(4096).zip(contents.noise.chunks(4096)).enumerate();
    runs.flat_map(|(index, (walk, noise))| if index * 37 % 100 < parts { noise } else { walk }).copied().collect()
}

#[test]
fn threads_make_the_same_frame() {
    let contents = Contents::new(3_000_000);
    for (name, level) in [("lz4", 5), ("zstd", 1), ("blosclz", 5), ("zlib", 1), ("snappy", 5), ("lz4hc", 1)] {
        for (shuffle, block, typesize) in [(1, 0, 2), (0, 0, 2), (2, 300_000, 4), (1, 128, 8)] {
            for parts in [0, 50, 97, 99, 100] {
                let data = mixed(&contents, parts);
                // many blocks for each thread, where it is not the share of noise that decides
                for size in if parts == 50 { &[3_000_000, (1 << 20) + 3][..] } else { &[(1 << 20) + 3] } {
                    let codec = codec(name, level, shuffle, block, typesize);
                    let once = encoded(&*codec, &data[..*size]);
                    let mut out = vec![1, 2, 3];
                    codec.encode_by(&data[..*size], 3, &mut out).unwrap();
                    assert!(out == once, "{name} {shuffle} {block} {typesize} {parts} {size}");
                }
            }
        }
    }
}

/// Change some blocks of a frame's content, and replace them.
fn replaced(codec: &dyn Codec, frame: &[u8], content: &mut [u8], blocks: &[usize], new: &[u8]) -> Option<Vec<u8>> {
    let table = table(codec, frame, content.len())?;
    let mut part = vec![0xa5; content.len()];
    for block in blocks {
        let range = block * table.block..block * table.block + table.len(*block);
        content[range.clone()].copy_from_slice(&new[range.clone()]);
        part[range.clone()].copy_from_slice(&new[range]);
    }
    let (mut out, mut other) = (vec![7], Vec::new());
    let joined = codec.replace(frame, &table, blocks, &part, 1, &mut out).unwrap()?.concat();
    let again = codec.replace(frame, &table, blocks, &part, 3, &mut other).unwrap()?.concat();
    assert!(joined == again, "threads make no difference");
    Some(joined)
}

#[test]
fn replaced_blocks_are_in_the_frame_and_others_stay() {
    let contents = Contents::new(120_003);
    let mut seen = 0;
    for name in NAMES {
        for shuffle in [0, 1, 2] {
            for (typesize, block) in [(1, 3000), (2, 9000), (4, 1024), (17, 20_000)] {
                let codec = codec(name, 5, shuffle, block, typesize);
                let mut content = contents.of("walk", 120_003).to_vec();
                // every other run is of zeros, so that there is something to compress in any case
                content.chunks_mut(500).step_by(2).for_each(|run| run.fill(0));
                let mut frame = encoded(&*codec, &content);
                for kind in ["zeros", "noise", "walk"] {
                    let before = table(&*codec, &frame, content.len()).unwrap();
                    let last = before.ranges.len() - 1;
                    let blocks = [0, 1, last];
                    let Some(made) =
                        replaced(&*codec, &frame, &mut content, &blocks[..last.min(3)], contents.of(kind, 120_003))
                    else {
                        panic!("{name} {shuffle} {typesize} {kind}")
                    };
                    assert_eq!(decoded(&*codec, &made, content.len()).unwrap(), content);
                    check_parts(&*codec, &made, &content, kind);
                    let after = table(&*codec, &made, content.len()).unwrap();
                    for block in (0..=last).filter(|block| !blocks.contains(block)) {
                        let [old, new] = [(&before, &frame), (&after, &made)].map(|(table, frame)| {
                            let (start, stop) = table.ranges[block];
                            &frame[start as usize..stop as usize]
                        });
                        assert_eq!(old, new);
                        seen += 1;
                    }
                    frame = made;
                }
                // replacing all blocks gives the same bytes as encoding
                let all: Vec<usize> = (0..table(&*codec, &frame, content.len()).unwrap().ranges.len()).collect();
                let mut new = contents.of("walk", 120_003).to_vec();
                new.chunks_mut(700).step_by(2).for_each(|run| run.fill(1));
                assert!(replaced(&*codec, &frame, &mut content, &all, &new).unwrap() == encoded(&*codec, &new));
            }
        }
    }
    assert!(seen > 100, "{seen}");
}

#[test]
fn frames_that_another_codec_would_make_are_not_changed() {
    let contents = Contents::new(120_000);
    let walk = contents.of("walk", 120_000);
    let this = codec("lz4", 5, 1, 10_000, 2);
    let frame = encoded(&*this, walk);
    let try_with = |name, level, shuffle, block, typesize, new: &[u8]| {
        let codec = codec(name, level, shuffle, block, typesize);
        replaced(&*codec, &frame, &mut walk.to_vec(), &[1], new).is_some()
    };
    let zeros = contents.of("zeros", 120_000);
    assert!(try_with("lz4", 5, 1, 10_000, 2, zeros));
    assert!(try_with("lz4hc", 5, 1, 10_000, 2, zeros), "the same format");
    for (name, level, shuffle, block, typesize) in [
        ("zstd", 5, 1, 10_000, 2),
        ("lz4", 0, 1, 10_000, 2),
        ("lz4", 5, 0, 10_000, 2),
        ("lz4", 5, 2, 10_000, 2),
        ("lz4", 5, 1, 50_000, 2),
        ("lz4", 5, 1, 10_000, 4),
    ] {
        assert!(!try_with(name, level, shuffle, block, typesize, zeros), "{name} {level} {shuffle} {block} {typesize}");
    }
    // a frame must not be longer than its content and a header
    let noise = contents.of("noise", 120_000);
    let mut tight = walk.to_vec();
    let count = table(&*this, &frame, 120_000).unwrap().ranges.len();
    let all: Vec<usize> = (0..count).collect();
    assert!(replaced(&*this, &frame, &mut tight, &all, noise).is_none());
    // numbers of blocks that do not exist
    let table = table(&*this, &frame, 120_000).unwrap();
    assert!(this.replace(&frame, &table, &[count], walk, 1, &mut Vec::new()).unwrap().is_none());
}
