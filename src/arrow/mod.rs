//! Records and batches as Arrow.
//!
//! | module | what |
//! |---|---|
//! | [`schema`] | the table of all columns |
//! | [`layout`] | types of keys, values, strings and timestamps |
//! | [`rows`] | records on their way into columns |
//! | [`value_column`] | the trait of all columns of records |
//! | [`pool`] | 64-byte aligned memory, reused when a consumer drops a batch |
//! | [`fixed`] | columns of values of one width |
//! | [`payload`] | byte strings that are copied |
//! | [`sources`] | the buffers that views point into |
//! | [`views`] | byte strings as views |
//! | [`payload_column`] | keys and values |
//! | [`decoded`] | keys and values that are decoded |
//! | [`text`] | strings that are the same for many rows |
//! | [`headers`] | record headers as a list of structs |
//! | [`columns`] | builder of the columns of one record batch |
//! | [`reader`] | planned ranges as a stream of record batches |
//! | [`parallel`] | the same by several threads |
//! | [`batches`] | one row per Kafka batch |
//! | [`lost`] | what reading past damage left out |
//! | [`encode`] | rows as Kafka batches |
//! | [`append`] | rows, or another log's batches, into a log |
//!
//! Here a bare `RecordBatch` is Arrow's.

pub(crate) mod append;
pub(crate) mod batches;
pub(crate) mod columns;
mod decoded;
pub(crate) mod encode;
pub(crate) mod fixed;
pub(crate) mod headers;
pub(crate) mod layout;
pub(crate) mod lost;
pub(crate) mod parallel;
pub(crate) mod payload;
pub(crate) mod payload_column;
pub(crate) mod pool;
pub(crate) mod reader;
pub(crate) mod rows;
pub(crate) mod schema;
pub(crate) mod sources;
pub(crate) mod text;
pub(crate) mod value_column;
pub(crate) mod views;
