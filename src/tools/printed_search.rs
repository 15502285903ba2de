//! Search in records as they are printed: in the JSON of decoded keys and values.

use std::sync::Arc;

use arrow_array::RecordBatch;

use super::record_cells::Cell;
use crate::arrow::schema::Column;
use crate::error::Result;
use crate::records::search::{RecordSearch, Searcher};

/// Search in the rows of record batches.
#[derive(Debug)]
pub(crate) struct PrintedSearch {
    /// Names of its fields are names of columns; a batch without one has nothing there.
    pub(crate) search: Arc<RecordSearch>,
    /// Decoded keys and values are JSON text, and not of the type of a schema.
    pub(crate) is_json_text: bool,
}

impl PrintedSearch {
    /// The rows that are wanted.
    ///
    /// # Errors
    /// `InvalidArgument` for columns that are not printed.
    pub(crate) fn rows(&self, batch: &RecordBatch) -> Result<Vec<usize>> {
        let cell = |column: Column, is_searched: bool| {
            let array = batch.column_by_name(column.name()).filter(|_| is_searched);
            array
                .map(|array| Cell::try_new(column, array, self.is_json_text))
                .transpose()
        };
        let fields = self.search.fields();
        let payloads = [
            cell(Column::Value, fields.value)?,
            cell(Column::Key, fields.key)?,
        ];
        let headers = cell(Column::Headers, fields.headers)?;
        let mut searcher = Searcher::new(Arc::clone(&self.search));
        let (mut rows, mut buffer) = (Vec::new(), Vec::new());
        for row in 0..batch.num_rows() {
            let mut is_found = payloads
                .iter()
                .flatten()
                .any(|cell| searcher.is_match(cell.printed(row, &mut buffer)));
            if let (false, Some(Cell::Headers(headers))) = (is_found, &headers) {
                is_found = headers.of(row).any(|(name, value)| {
                    searcher.is_match(Some(name.as_bytes())) || searcher.is_match(value)
                });
            }
            if is_found != self.search.is_inverted() {
                rows.push(row);
            }
        }
        Ok(rows)
    }
}
