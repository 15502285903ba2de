//! The only code that opens, maps or reads files.
//!
//! | module | what |
//! |---|---|
//! | [`mod@file`] | a stretch of a file |
//! | [`mapping`] | read-only maps, and the contract that makes them sound |
//! | [`words`] | reads that cost one comparison |
//! | [`region`] | shared bytes, mapped or on the heap, that columns can point into |

pub mod file;
pub mod mapping;
pub mod region;
pub mod words;
