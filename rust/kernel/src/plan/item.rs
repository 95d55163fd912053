//! The plan itself, and its items: the selection in one chunk.

use super::axis::{ChunkAxis, Part, Row};
use super::list::List;
use super::points::{Group, Points};
use super::run::Run;

/// The selection along one axis: a row for each chunk that it touches.
#[derive(Clone, Debug)]
pub enum Table {
    /// An int or a slice.
    Run(Run),
    /// An index array.
    List(List),
}

impl Table {
    /// Return the number of rows.
    pub fn len(&self) -> usize {
        match self {
            Table::Run(run) => run.rows,
            Table::List(list) => list.numbers.len(),
        }
    }

    /// Return whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Return the row at an index.
    pub fn row(&self, index: usize) -> Row<'_> {
        match self {
            Table::Run(run) => run.row(index as u64),
            Table::List(list) => list.row(index),
        }
    }
}

/// A plan: one table for each axis, and a table of points.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The table of each axis; `None` for the axes of the points.
    pub axes: Vec<Option<Table>>,
    /// The points, if the selection has any.
    pub points: Option<Points>,
}

/// The selection in one chunk.
#[derive(Clone, Debug)]
pub struct Item<'p> {
    /// Grid coordinates of the chunk.
    pub coords: Vec<u64>,
    /// The selection along each axis; `None` for the axes of the points.
    pub parts: Vec<Option<Part<'p>>>,
    /// The points in the chunk.
    pub group: Option<Group<'p>>,
}

impl Plan {
    /// Return the number of chunks that the plan touches.
    pub fn len(&self) -> usize {
        let boxes = self.axes.iter().flatten().map(Table::len).fold(1, usize::saturating_mul);
        self.points.as_ref().map_or(boxes, |points| boxes.saturating_mul(points.whole.len()))
    }

    /// Return whether the plan touches no chunk.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Return whether all selected indices lie within `shape`, for an array with these chunks.
    pub fn lies_within(&self, shape: &[u64], chunk_axes: &[ChunkAxis]) -> bool {
        let inside = |axis: usize, number: u64, offsets: &[i64]| {
            let left = shape[axis].saturating_sub(chunk_axes[axis].start(number));
            offsets.iter().all(|&offset| (offset as u64) < left)
        };
        let tables = self.axes.iter().enumerate().all(|(axis, table)| match table {
            None => true,
            Some(Table::Run(run)) => run.end() <= shape[axis],
            Some(Table::List(list)) => (list.numbers.iter().zip(list.bounds.windows(2)))
                .all(|(&number, bounds)| inside(axis, number, &list.offsets[bounds[0]..bounds[1]])),
        });
        let mut groups =
            self.points.iter().flat_map(|points| (0..points.whole.len()).map(move |index| Group { points, index }));
        tables
            && groups.all(|group| {
                let each = group.axes().iter().zip(group.numbers()).zip(group.offsets());
                each.into_iter().all(|((&axis, &number), offsets)| inside(axis, number, offsets))
            })
    }

    /// Return the item of chunk number `index` of the plan.
    pub fn item(&self, mut index: usize) -> Item<'_> {
        let mut coords = vec![0; self.axes.len()];
        let mut parts = vec![None; self.axes.len()];
        for (axis, table) in self.axes.iter().enumerate().rev() {
            if let Some(table) = table {
                let length = table.len();
                let row = if length == 1 { table.row(0) } else { table.row(index % length) };
                index /= length;
                coords[axis] = row.number;
                parts[axis] = Some(row.part);
            }
        }
        let group = self.points.as_ref().map(|points| Group { points, index });
        if let Some(group) = &group {
            for (&axis, &number) in group.axes().iter().zip(group.numbers()) {
                coords[axis] = number;
            }
        }
        Item { coords, parts, group }
    }
}

impl Item<'_> {
    /// Return whether the selection holds every element of the chunk that lies within the array.
    pub fn covers(&self) -> bool {
        self.parts.iter().flatten().all(|part| part.whole) && self.group.is_none_or(|group| group.whole())
    }

    /// Return the number of selected elements.
    pub fn count(&self) -> usize {
        let points = self.group.map_or(1, |group| group.count());
        self.parts.iter().flatten().map(Part::count).fold(points, usize::saturating_mul)
    }
}
