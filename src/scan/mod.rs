//! Reading: from paths and bounds to files, positions and records.
//!
//! | module | what |
//! |---|---|
//! | [`plan`] | from topics, partitions and offsets to files and positions |
//! | [`range`] | the plan as plain values |
//! | [`transactions`] | aborted transactions and the last stable offset |
//! | [`latest`] | the latest record of each key |
//! | [`offset_map`] | the last offset of each key, in bounded memory |
//! | [`bounds`] | first and last offsets of partitions, without a plan |
//! | [`pieces`] | ranges divided for parallel readers |
//! | [`divide`] | a planned range, divided into parts |
//! | [`planned`] | the planned segments, opened in turn |
//! | `replaced_segments` | a planned file that a broker replaced in the meantime |
//! | [`lost`] | what reading past damage leaves out |
//! | [`reader`] | the records of planned ranges |
//! | [`batches`] | the batches of a planned segment, header by header |
//! | [`raw_batches`] | the batches of a planned range, byte for byte |

pub(crate) mod batches;
pub(crate) mod bounds;
pub(crate) mod divide;
pub(crate) mod latest;
pub(crate) mod lost;
pub(crate) mod offset_map;
pub(crate) mod pieces;
pub(crate) mod plan;
pub(crate) mod planned;
pub(crate) mod range;
pub(crate) mod raw_batches;
pub(crate) mod reader;
mod replaced_segments;
pub(crate) mod transactions;
