//! One partition folder, and the log dir around it.
//!
//! | module | what |
//! |---|---|
//! | [`config`] | the settings of a topic, by Kafka's names |
//! | [`dir`] | a log dir: folders, checkpoints, identity |
//! | [`epochs`] | the first offset of each leader epoch |
//! | `listing` | which files of a partition folder make up the log |
//! | [`listed`] | a partition folder as a broker would have it after loading |
//! | [`output`] | where results may be written: never among logs |
//! | [`partition`] | a listed partition that stays askable while a broker replaces its files |

pub mod config;
pub mod dir;
pub mod epochs;
pub mod listed;
pub(crate) mod listing;
pub mod output;
pub mod partition;
