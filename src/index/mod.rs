//! The indexes of a `.log`: hints that save work; the log decides.
//!
//! | module | what |
//! |---|---|
//! | [`entry_index`] | offset and time index, read and written: what both do |
//! | [`offset`] | from offsets to positions |
//! | [`time`] | from timestamps to offsets |
//! | [`search`] | Kafka's binary search; on unsorted entries it gives Kafka's answer |
//! | [`slots`] | a file that is only read, mapped or copied |
//! | [`txn`] | aborted transactions |
//!
//! # Zero tails
//! While a segment is active, a broker keeps its offset and time index at full length, zeros after the entries; after a
//! crash they stay so. Kafka's classes count every slot as an entry and rely on recovery. So does an index that is
//! written; of one that is only read, `max_entries` is Kafka's count, and `entries` the number actually written.
//!
//! # Mapped or copied
//! Opening an index for reading copies its entries. If the segment is known to be closed, its index may be mapped
//! instead, unless it has a zero tail: a running broker will trim such a file.

pub(crate) mod entry_index;
pub(crate) mod offset;
pub(crate) mod search;
pub(crate) mod slots;
mod spacing;
pub(crate) mod time;
pub(crate) mod txn;

#[cfg(test)]
mod tests;
