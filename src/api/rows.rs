//! Rows: the layout of those that are read, and how those to be written become batches.

pub(crate) use crate::arrow::encode::{check_schema, first_too_large, partition_for_key};
pub(crate) use crate::arrow::lost::{lost_batch, lost_schema};
pub(crate) use crate::arrow::schema::{Column, ColumnOptions, Layout, TimestampUnit};
pub(crate) use crate::records::search::RecordSearch;
pub(crate) use crate::scan::latest::Latest;
pub(crate) use crate::scan::lost::LostRange;
pub(crate) use crate::segment::filter::HeaderBounds;
pub(crate) use crate::segment::reader::ReadOptions;
pub(crate) use crate::segment::skipping::{OnCorrupt, is_damage};
