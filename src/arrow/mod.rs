//! Records and batches as Arrow.
//!
//! | module | what |
//! |---|---|
//! | [`schema`] | the columns there are, in one table |
//! | [`rows`] | records on their way into columns |
//! | [`pool`] | 64-byte aligned memory, reused when a consumer drops a batch |
//! | [`fixed`] | columns of values of one width |
//! | [`payload`] | keys and values that are copied |
//! | [`sources`] | the buffers that views point into |
//! | [`views`] | keys and values as views |
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
pub mod fixed;
pub mod headers;
pub mod parallel;
pub mod payload;
pub mod pool;
pub mod reader;
pub mod rows;
pub mod schema;
pub mod sources;
pub mod text;
pub mod views;
