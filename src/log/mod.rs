//! One partition folder, and the log dir around it.
//!
//! | module | what |
//! |---|---|
//! | `below` | what a directory that is no log dir is instead |
//! | [`cleanable`] | which offsets the cleaner may look at |
//! | [`config`] | the settings of a topic, by Kafka's names |
//! | [`dir`] | a log dir: folders, checkpoints, identity |
//! | [`epochs`] | the first offset of each leader epoch |
//! | [`gaps`] | offsets missing between segments: compaction, or a lost segment |
//! | `kept` | checkpoints that were read last |
//! | `listing` | which files of a partition folder make up the log |
//! | [`listed`] | a partition folder as a broker would have it after loading |
//! | [`output`] | where results may be written: never among logs |
//! | [`partition`] | a listed partition that stays askable while a broker replaces its files |
//! | [`retention`] | which segments retention deletes |
//! | [`swaps`] | which finished swaps count |

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
