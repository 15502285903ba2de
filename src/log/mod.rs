//! One partition folder, and the log dir around it.
//!
//! | module | what |
//! |---|---|
//! | [`config`] | the settings of a topic, by Kafka's names |
//! | [`dir`] | a log dir: folders, checkpoints, identity |
//! | [`epochs`] | the first offset of each leader epoch |
//! | `listing` | which files of a partition folder make up the log |
//! | `live` | questions to a partition whose files a broker replaces in the meantime |
//! | [`partition`] | a partition folder as a broker would have it after loading |

pub mod config;
pub mod dir;
pub mod epochs;
pub(crate) mod listing;
mod live;
pub mod partition;
