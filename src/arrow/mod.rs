//! Records and batches as Arrow.
//!
//! | module | what |
//! |---|---|
//! | [`schema`] | the columns there are, in one table |
//! | [`pool`] | 64-byte aligned memory that comes back when a consumer drops a batch |
//! | [`payload`] | keys and values gathered once |
//! | [`views`] | keys and values as views into their source |
//! | [`text`] | strings that are the same for many rows |
//! | [`headers`] | record headers as a list of structs |
//! | [`columns`] | the columns of one record batch in the making |
//! | [`reader`] | planned ranges as a stream of record batches |
//! | [`parallel`] | the same by several threads |
//! | [`batches`] | one row per Kafka batch |
//! | [`encode`] | rows as Kafka batches |
//! | [`append`] | rows, or another log's batches, into a log |
//!
//! Here a bare `RecordBatch` is Arrow's.

pub mod append;
pub mod batches;
pub mod columns;
pub mod encode;
pub mod headers;
pub mod parallel;
pub mod payload;
pub mod pool;
pub mod reader;
pub mod schema;
pub mod text;
mod trusted;
pub mod views;
