//! Files: opening, reading, mapping, writing and locking.
//!
//! | module | what |
//! |---|---|
//! | [`appender`] | the writing end of a `.log`, and when it is synced |
//! | [`atomic`] | small files replaced whole |
//! | [`disk`] | every change to the file system, and injected failures |
//! | [`entry_file`] | index files, wherever they are |
//! | [`mod@file`] | a range of a file |
//! | [`folder`] | folders on a disk |
//! | [`index_file`] | index files on a disk, mapped, under a writer |
//! | [`interrupt`] | cancellation |
//! | [`kept_map`] | maps opened during planning, reused by the reader |
//! | [`links`] | files with several names |
//! | [`lock`] | a log dir's `.lock` |
//! | [`mapping`] | closed files and their read-only maps, and the contract that makes these sound |
//! | [`objects`] | folders and files in object stores |
//! | [`overlay`] | a folder in a plan: a base, and the actions planned over it |
//! | [`pool`] | memory that is reused |
//! | [`provider`] | what an object store must answer |
//! | [`storage`] | folders and their files, wherever they are |
//! | [`stored_index`] | index files in any storage |
//! | `syncing` | syncs beside the work |
//! | [`url`] | paths that are written as URLs |
//! | [`unaligned`] | reads that cost one comparison |
//! | [`region`] | shared bytes, mapped or on the heap, that columns can point into |

pub(crate) mod appender;
pub(crate) mod atomic;
pub(crate) mod disk;
pub(crate) mod entry_file;
pub(crate) mod file;
pub(crate) mod folder;
pub(crate) mod index_file;
pub(crate) mod interrupt;
pub(crate) mod kept_map;
pub(crate) mod links;
pub(crate) mod lock;
pub(crate) mod mapping;
pub(crate) mod objects;
pub(crate) mod overlay;
pub(crate) mod pool;
pub(crate) mod provider;
pub(crate) mod region;
pub(crate) mod storage;
pub(crate) mod stored_index;
mod syncing;
pub(crate) mod threads;
pub(crate) mod unaligned;
pub(crate) mod url;
