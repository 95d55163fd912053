//! Plans: the chunks that a selection touches, and for each of them the selected elements and their place in the work
//! buffer. The Python module makes them; `read` and `write` go through their chunks.
//!
//! A plan has one table for each axis, and one table of points. The product of the axes is never stored: the tables'
//! lengths are divisors of the number of a chunk. The rows of a run are computed on demand too, so that a plan takes no
//! memory proportional to its chunks, only a few words for each index that was given. [`Item::refine`] makes the plan
//! for the inner chunks of a shard from the part of the shard that is selected.

mod axis;
mod item;
mod list;
mod points;
mod refine;
mod run;

pub use axis::{ChunkAxis, Part, Place, Row, Select};
pub use item::{Item, Plan, Table};
pub use list::List;
pub use points::{Group, Points, covers_box};
pub use run::Run;
