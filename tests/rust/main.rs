//! The integration binary: properties across modules.
//!
//! | module | what |
//! |---|---|
//! | [`layers`] | imports point down only, and in no circle |
//! | `prose` | doc comments and docstrings in plain English |
//! | [`checks`] | `fn check(&[u8])`: properties on any bytes; `tests/fuzz` uses the same ones |
//! | [`avro`] | payloads of real logs with the answers of fastavro and Java, whole and damaged |
//! | [`beside`] | one writer of an index, threads and processes that read beside it |
//! | [`batches`] | random batches: the fast decoder against the plain one, every codec |
//! | [`locks`] | a log dir's lock between processes, a JVM among them |
//! | [`names`] | a type's name stands for one type |
//! | [`lookups`] | loading and lookups of a whole corpus against Kafka's answers |
//! | [`front_door`] | code of a Rust user, with only the names at the crate's root |
//! | [`index_files`] | indexes, snapshots and checkpoints of a whole corpus, likewise |
//! | [`hostile_schemas`] | schema texts that want to exhaust stack, memory or clock |
//! | [`internal_topics`] | records of internal topics, mutated |
//! | [`plans`] | from topics and bounds to files and positions |
//! | [`producer_states`] | replayed producers against the snapshots Kafka left |
//! | [`json`] | JSON payloads beside Python's reading of them |
//! | [`protobuf`] | Protobuf payloads beside google.protobuf and its JSON |
//! | [`pruning`] | bounds that leave records out, and the reads that they save |
//! | [`committed`] | results of Kafka's `read_committed` consumer, with any state of the files beside the log |
//! | `kept_maps` | the maps that planning leaves to the reader |
//! | [`log_cases`] | whole folders before and after Kafka's own classes, and after ours |
//! | [`pieces`] | ranges cut for several readers against the ranges whole |
//! | [`writing`] | an open log against a plain list, and against disks that fail |
//! | `power` | content of the device after a power failure at any step of writing and recovering |
//! | [`encoding`] | random records into batches and back: builder, validator, Arrow rows |
//! | [`recovery`] | recovery between any two steps, over any bytes; indexes rebuilt |
//! | [`unfinished`] | recovery that an interruption or a fault ends |
//! | [`salvage`] | batches that salvage keeps, against trying every byte |
//! | [`corruption`] | real segments, mutated: no panic, no hang, bounded memory, every flipped bit found |
//!
//! `KAFKALOG_SLOW=1` turns the slow profile on (at least 100,000 mutations); `KAFKALOG_SEED` sets where they begin.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    unreachable_pub,
    reason = "all of it is a test, helpers too"
)]

mod avro;
mod batches;
mod beside;
mod checks;
mod committed;
mod common;
mod corpus;
mod corruption;
mod encoding;
mod front_door;
mod hostile_schemas;
mod index_files;
mod internal_topics;
mod json;
#[cfg(target_os = "linux")]
mod kept_maps;
mod layers;
mod locks;
mod log_cases;
mod lookups;
mod names;
mod pieces;
mod plans;
#[cfg(unix)]
mod power;
mod producer_states;
mod prose;
mod protobuf;
mod pruning;
mod recovery;
mod salvage;
mod unfinished;
mod writing;
