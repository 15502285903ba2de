//! The only code that opens, maps, reads or writes files.
//!
//! | module | what |
//! |---|---|
//! | [`appender`] | the writing end of a `.log`, and when it is synced |
//! | [`atomic`] | small files replaced whole |
//! | [`disk`] | every change to the file system, and failures to order |
//! | [`mod@file`] | a stretch of a file |
//! | [`index_file`] | index files under a writer and its readers |
//! | [`interrupt`] | whether the answer is still wanted |
//! | [`lock`] | a log dir's `.lock` |
//! | [`mapping`] | read-only maps, and the contract that makes them sound |
//! | [`pool`] | memory that is used again |
//! | [`words`] | reads that cost one comparison |
//! | [`region`] | shared bytes, mapped or on the heap, that columns can point into |

pub mod appender;
pub mod atomic;
pub mod disk;
pub mod file;
pub mod index_file;
pub mod interrupt;
pub mod lock;
pub mod mapping;
pub mod pool;
pub mod region;
pub mod words;
