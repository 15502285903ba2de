//! Index of a row's value in a column that does not hold one for each row: a dictionary, runs, or one inside the other.
//!
//! Values are looked up row by row and never written out, which could take any number of times their memory.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int16Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{NullBuffer, RunEndBuffer};

#[derive(Debug)]
enum PlaceStep {
    /// For each row the value's number, and where rows are null.
    Dictionary(Vec<usize>, Option<NullBuffer>),
    /// End of each value's run.
    ShortRuns(RunEndBuffer<i16>),
    Runs(RunEndBuffer<i32>),
    LongRuns(RunEndBuffer<i64>),
}

impl PlaceStep {
    /// The step for this array's layout, and the array that it leads to.
    fn of(array: &ArrayRef) -> Option<(Self, ArrayRef)> {
        if let Some(dictionary) = array.as_any_dictionary_opt() {
            let values = dictionary.values();
            // Without a value there is none to number.
            let keys = if values.is_empty() {
                Vec::new()
            } else {
                dictionary.normalized_keys()
            };
            let nulls = dictionary.keys().nulls().cloned();
            return Some((Self::Dictionary(keys, nulls), values.clone()));
        }
        if let Some(runs) = array.as_run_opt::<Int16Type>() {
            return Some((
                Self::ShortRuns(runs.run_ends().clone()),
                runs.values().clone(),
            ));
        }
        if let Some(runs) = array.as_run_opt::<Int32Type>() {
            return Some((Self::Runs(runs.run_ends().clone()), runs.values().clone()));
        }
        let runs = array.as_run_opt::<Int64Type>()?;
        Some((
            Self::LongRuns(runs.run_ends().clone()),
            runs.values().clone(),
        ))
    }

    #[inline]
    fn find(&self, row: usize) -> Option<usize> {
        match self {
            Self::Dictionary(keys, nulls) => {
                let is_null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
                keys.get(row).copied().filter(|_| !is_null)
            }
            Self::ShortRuns(ends) => Some(ends.get_physical_index(row)),
            Self::Runs(ends) => Some(ends.get_physical_index(row)),
            Self::LongRuns(ends) => Some(ends.get_physical_index(row)),
        }
    }
}

/// The way from a row to its value.
#[derive(Debug)]
pub(super) struct Places {
    steps: Vec<PlaceStep>,
    values: usize,
}

impl Places {
    /// The array that holds the values, and the way there where rows have none of their own.
    pub(super) fn of(array: &ArrayRef) -> (Option<Self>, ArrayRef) {
        let mut array = array.clone();
        let mut steps = Vec::new();
        while let Some((step, values)) = PlaceStep::of(&array) {
            steps.push(step);
            array = values;
        }
        let values = array.len();
        let places = (!steps.is_empty()).then_some(Self { steps, values });
        (places, array)
    }

    /// The number of the row's value; `None` for null. The value may be null as well.
    #[inline]
    pub(super) fn find(&self, row: usize) -> Option<usize> {
        let mut at = row;
        for step in &self.steps {
            at = step.find(at)?;
        }
        // Arrays that came through a C pointer were not validated: runs may end too early.
        (at < self.values).then_some(at)
    }
}

/// The number of the row's value in a column that may hold one for each.
#[inline]
pub(super) fn find(places: Option<&Places>, row: usize) -> Option<usize> {
    places.map_or(Some(row), |places| places.find(row))
}
