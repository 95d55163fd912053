//! What a machine can do in each regime of the benchmark: the least work there is, on two threads, with no array library.
//!
//! Every line of the input is a job in JSON; every line of the output is its answer: `{"seconds": …}` for one time, or
//! `{"error": …}`. The files read are those of the other contenders, and what is written is as atomic as with them: a
//! temporary file that is renamed. It checks nothing that it does not need, and trusts what it reads.

mod array;
mod codecs;
mod documents;
mod files;
mod memory;
mod pair;
mod read;
mod tiles;
mod worker;
mod write;

use array::{Area, Array};
use files::File;
use memory::Block;
use read::Crew;
use serde::Deserialize;
use std::error::Error;
use std::io::{self, BufRead, Write};
use std::time::Instant;
use write::Values;

#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
enum Job {
    /// Open the array that later jobs are about.
    Open { array: Array },
    /// Load what is to be written.
    Values { path: String },
    /// Read areas one after the other, each into memory used before, or into new memory.
    Read { areas: Vec<[usize; 4]>, fresh: bool, times: usize, save: Option<String> },
    /// Read points in one go.
    Points { points: Vec<[usize; 2]>, times: usize, save: Option<String> },
    /// Open the array and read its first element.
    First { times: usize },
    /// Write rows from … to …, block after block; after each the document if the array grows by them.
    Write { blocks: Vec<[usize; 2]>, grows: bool, times: usize },
    /// Set areas to a value, one after the other.
    Update { areas: Vec<[usize; 4]>, value: Vec<u8>, times: usize },
    /// Change the length of the array and nothing else.
    Grow { times: usize },
    /// Halve the array.
    Shrink,
    /// Count the members of a group.
    List { path: String, document: Option<String>, times: usize },
    /// Find a member in a consolidated document.
    Member { path: String, document: String, name: String, times: usize },
}

type Outcome = Result<f64, Box<dyn Error>>;

struct Program {
    crew: Crew,
    open: Option<(Array, File)>,
    values: Option<Values>,
    result: Block,
}

fn timed(times: usize, mut work: impl FnMut() -> io::Result<()>) -> Outcome {
    let start = Instant::now();
    for _ in 0..times {
        work()?;
    }
    Ok(start.elapsed().as_secs_f64() / times as f64)
}

fn area(edges: &[usize; 4]) -> Area {
    Area { rows: [edges[0], edges[1]], columns: [edges[2], edges[3]] }
}

impl Program {
    fn array(&self) -> Result<(&Array, &File), Box<dyn Error>> {
        self.open.as_ref().map(|(array, root)| (array, root)).ok_or_else(|| "no array is open".into())
    }

    fn run(&mut self, job: Job) -> Outcome {
        match job {
            Job::Open { array } => {
                let root = files::open_directory(&array.path)?;
                self.open = Some((array, root));
                Ok(0.0)
            }
            Job::Values { path } => {
                let bytes = std::fs::read(path)?;
                let mut block = Block::new(bytes.len())?;
                block.bytes_mut().copy_from_slice(&bytes);
                self.values = Some(Values { bytes: block });
                Ok(0.0)
            }
            Job::Read { areas, fresh, times, save } => self.read(&areas, fresh, times, save),
            Job::Points { points, times, save } => {
                let size = points.len() * self.array()?.0.item;
                self.result.at_least(size)?;
                let to = self.result.start();
                let (array, root) = self.array()?;
                let seconds = timed(times, || read::points(&self.crew, array, root, &points, to))?;
                self.save(save, size)?;
                Ok(seconds)
            }
            Job::First { times } => {
                let (array, _) = self.array()?;
                let first = Area { rows: [0, 1], columns: [0, 1] };
                timed(times, || {
                    let root = files::open_directory(&array.path)?;
                    documents::read(&root, &array.document)?;
                    read::area(&self.crew, array, &root, &first, self.result.start(), array.item)
                })
            }
            Job::Write { blocks, grows, times } => {
                let (array, root) = self.array()?;
                let values = self.values.as_ref().ok_or("there is nothing to write")?;
                timed(times, || {
                    for block in &blocks {
                        write::rows(&self.crew, array, root, values, *block)?;
                        if grows {
                            documents::rewrite(root, &array.document)?;
                        }
                    }
                    Ok(())
                })
            }
            Job::Update { areas, value, times } => {
                let (array, root) = self.array()?;
                timed(times, || {
                    areas.iter().try_for_each(|edges| write::update(&self.crew, array, root, &area(edges), &value))
                })
            }
            Job::Grow { times } => {
                let (array, root) = self.array()?;
                timed(times, || documents::rewrite(root, &array.document))
            }
            Job::Shrink => {
                let (array, root) = self.array()?;
                timed(1, || documents::shrink(array, root))
            }
            Job::List { path, document, times } => {
                timed(times, || documents::list(&path, document.as_deref()).map(|_| ()))
            }
            Job::Member { path, document, name, times } => {
                timed(times, || documents::member(&path, &document, &name).map(|_| ()))
            }
        }
    }

    fn read(&mut self, areas: &[[usize; 4]], fresh: bool, times: usize, save: Option<String>) -> Outcome {
        let item = self.array()?.0.item;
        let sizes: Vec<usize> = areas.iter().map(|edges| area(edges).elements() * item).collect();
        let total = if save.is_some() { sizes.iter().sum() } else { sizes.iter().copied().max().unwrap_or(0) };
        let mut new = None;
        if !fresh {
            self.result.at_least(total)?;
        }
        let (array, root) = self.array()?;
        let seconds = timed(times, || {
            let to = if fresh { new.insert(Block::new(total)?).start() } else { self.result.start() };
            let mut offset = 0;
            for (edges, size) in areas.iter().zip(&sizes) {
                let area = area(edges);
                // SAFETY: there is room for all areas if they are to be saved, and for each of them else.
                let place = unsafe { to.add(offset) };
                read::area(&self.crew, array, root, &area, place, area.width() * item)?;
                offset += if save.is_some() { *size } else { 0 };
            }
            Ok(())
        })?;
        if let (Some(path), Some(block)) = (&save, &new) {
            std::fs::write(path, &block.bytes()[..total])?;
        } else {
            self.save(save, total)?;
        }
        Ok(seconds)
    }

    /// Write what was read to a file, for whoever wants to compare.
    fn save(&self, path: Option<String>, size: usize) -> io::Result<()> {
        path.map_or(Ok(()), |path| std::fs::write(path, &self.result.bytes()[..size]))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut program = Program { crew: Crew::new()?, open: None, values: None, result: Block::new(1 << 20)? };
    let mut output = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let answer = serde_json::from_str(&line?).map_err(Into::into).and_then(|job| program.run(job));
        let answer = match answer {
            Ok(seconds) => serde_json::json!({ "seconds": seconds }),
            Err(error) => serde_json::json!({ "error": error.to_string() }),
        };
        writeln!(output, "{answer}")?;
        output.flush()?;
    }
    Ok(())
}
