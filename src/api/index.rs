//! Indexes: offset, time and transaction, read and written.

pub(crate) use crate::format::entry::{AbortedTxn, OffsetPosition, TimestampOffset};
pub(crate) use crate::format::file_name::base_offset;
pub(crate) use crate::index::entry_index::{EntryIndex, IndexEntry};
pub(crate) use crate::index::offset::{OffsetIndex, WritableOffsetIndex};
pub(crate) use crate::index::time::{TimeIndex, WritableTimeIndex};
pub(crate) use crate::index::txn::{TransactionIndex, WritableTransactionIndex, collect_aborted};
pub(crate) use crate::io::entry_file::EntryFile;
