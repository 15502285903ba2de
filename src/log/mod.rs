//! One partition folder, and the log dir around it.
//!
//! | module | what |
//! |---|---|
//! | [`batches`] | the batches of a planned segment |
//! | [`bounds`] | first and last offsets of partitions |
//! | [`checkpoints`] | the offset checkpoints of a log dir, after its logs were loaded |
//! | [`config`] | the settings of a topic, by Kafka's names |
//! | [`dir`] | a log dir: folders, checkpoints, identity |
//! | [`divide`] | a planned range in parts |
//! | [`epochs`] | which leader epoch wrote from which offset on |
//! | `exchanged` | what became of a planned file that a broker exchanged meanwhile |
//! | `listing` | which files of a partition folder make up the log |
//! | [`load`] | a partition folder loaded as a broker does, as a plan |
//! | `live` | questions that outlast a broker's exchanges |
//! | [`partition`] | a partition folder as a broker would have it after loading |
//! | [`pieces`] | ranges cut for readers side by side |
//! | [`plan`] | what is to be read: topics, partitions and offsets to files and positions |
//! | [`planned`] | the planned segments, opened in turn |
//! | [`producer_state`] | producers: sequences, epochs, transactions, snapshots |
//! | [`range`] | the plan as plain values |
//! | [`reader`] | the records of planned ranges |
//! | [`storage`] | log dirs opened for writing |
//! | [`transactions`] | which were aborted, and up to where all are decided |
//! | [`verbatim`] | the batches of a planned range, byte for byte |
//! | [`mod@write`] | a partition log open for writing |
//! | [`writer`] | one partition of a log dir, open for writing |

pub mod batches;
pub mod bounds;
pub mod checkpoints;
pub mod config;
pub mod dir;
pub mod divide;
pub mod epochs;
mod exchanged;
mod listing;
mod live;
pub mod load;
pub mod partition;
pub mod pieces;
pub mod plan;
pub mod planned;
pub mod producer_state;
pub mod range;
pub mod reader;
pub mod storage;
pub mod transactions;
pub mod verbatim;
pub mod write;
pub mod writer;
