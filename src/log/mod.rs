//! One partition folder, and the log dir around it.
//!
//! | module | what |
//! |---|---|
//! | `below` | suggestions for a directory that is not a log dir |
//! | [`cleanable`] | range of offsets that the cleaner may process |
//! | [`config`] | the settings of a topic, by Kafka's names |
//! | [`dir`] | a log dir: folders, checkpoints, identity |
//! | [`epochs`] | the first offset of each leader epoch |
//! | [`gaps`] | offsets missing between segments: compaction, or a lost segment |
//! | `kept` | checkpoints that were read last |
//! | `listing` | selection of the files that make up the log |
//! | [`listed`] | a partition folder as a broker would have it after loading |
//! | [`output`] | places where results may be written: never in log dirs |
//! | [`partition`] | a listed partition that answers while a broker replaces its files |
//! | [`retention`] | selection of the segments that retention deletes |
//! | [`swaps`] | selection of the finished swaps that count |

mod below;
pub(crate) mod cleanable;
pub(crate) mod config;
pub(crate) mod dir;
pub(crate) mod epochs;
pub(crate) mod gaps;
mod kept;
pub(crate) mod listed;
pub(crate) mod listing;
pub(crate) mod output;
pub(crate) mod partition;
pub(crate) mod retention;
pub(crate) mod swaps;
