//! Tools for whole files and folders of a log, beyond reading its records.
//!
//! | module | what |
//! |---|---|
//! | [`query`] | one query on many partitions |
//! | [`cat`] | records as text, by kcat's formats |
//! | [`compact`] | Kafka's log cleaner: keeps the last record of each key |
//! | [`dump`] | `kafka-dump-log`'s text for any file of a partition folder |
//! | [`explain`] | reasons why each segment still exists, and until when |
//! | [`printed_search`] | search in records as they are printed |
//! | [`progress`] | their progress |
//! | [`rebuild`] | indexes rebuilt, for a version of Kafka |
//! | [`recover`] | recovery of a log dir or partition folder after a crash |
//! | [`retain`] | a copy without what retention deletes |
//! | [`rewrite`] | a copy without some records, or with another codec |
//! | [`row_text`] | rows of any table as JSON lines or CSV |
//! | `threads` | pieces of work for several threads, in order |
//! | [`verify`] | faults in any file of a log dir |

pub(crate) mod cat;
mod cell_text;
pub(crate) mod compact;
pub(crate) mod dump;
pub(crate) mod explain;
pub(crate) mod printed_search;
pub(crate) mod progress;
pub(crate) mod query;
pub(crate) mod rebuild;
mod record_cells;
pub(crate) mod recover;
pub(crate) mod retain;
pub(crate) mod rewrite;
pub(crate) mod row_text;
mod threads;
pub(crate) mod verify;
