//! `OffsetIndex` and `TimeIndex`, operation for operation: answers, the object's state and the file's length after
//! each, the file's bytes at the end.

use std::fmt::Display;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use kafkalog::internal::error::{Error, Refusal, Result};
use kafkalog::internal::format::entry::{OffsetPosition, TimestampOffset};
use kafkalog::internal::index::offset::WritableOffsetIndex;
use kafkalog::internal::index::time::WritableTimeIndex;
use kafkalog::internal::io::disk::Disk;
use serde_json::{Value, json};

use super::{Case, Outcome, run_all};

/// Finds out why Kafka's own object is broken after this error. From there on it answers with exceptions out of that
/// state, and its file holds bytes in wrong places.
fn breaks(is_time: bool, op: &Value, kafka: &Value) -> Option<&'static str> {
    let (error, size) = (kafka.get("error")?, kafka["file_size"].as_i64()?);
    match (op["op"].as_str()?, class(error)) {
        ("resize", "IllegalArgumentException") => Some(
            "a resize below the entries: Kafka cuts the file, then throws, and its entries reach beyond the file; here it \
             is refused and nothing changes",
        ),
        ("append", "IndexOffsetOverflowException") if is_time => Some(
            "an offset that does not fit: Kafka has written the timestamp by then and continues eight bytes off; here \
             nothing is written and the next append is in its place",
        ),
        ("append", "BufferOverflowException") if is_time && size % 12 >= 8 => Some(
            "an append into room for a timestamp but not for an entry: Kafka has written that by then and goes \
             on eight bytes off; here nothing is written",
        ),
        ("resize" | "reset" | "truncate", "NullPointerException") => Some(
            "a closed index: Kafka has changed its counters, or made an empty file, before it finds that out; here it is \
             refused and nothing changes",
        ),
        _ => None,
    }
}

enum Index {
    Offset(WritableOffsetIndex),
    Time(WritableTimeIndex),
}

/// The same call on either index.
macro_rules! on {
    ($index:expr, $it:ident => $call:expr) => {
        match $index {
            Index::Offset($it) => $call,
            Index::Time($it) => $call,
        }
    };
}

fn of_offset(entry: OffsetPosition) -> Value {
    json!({"offset": entry.offset, "position": entry.position})
}

fn of_time(entry: TimestampOffset) -> Value {
    json!({"timestamp": entry.timestamp, "offset": entry.offset})
}

fn number<T: TryFrom<i64>>(value: &Value) -> T {
    let number = value.as_i64().unwrap_or_else(|| panic!("{value}"));
    T::try_from(number).unwrap_or_else(|_| panic!("{value}"))
}

/// An entry that Kafka's class refuses to give where there is none.
fn there<E>(entry: Option<E>) -> Result<E> {
    entry.ok_or_else(|| Error::InvalidArgument("no such entry".into()))
}

/// A number of entries or bytes; a negative one is too many.
fn count(value: &Value) -> usize {
    usize::try_from(value.as_i64().unwrap()).unwrap_or(usize::MAX)
}

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.map(byte).collect()
}

impl Index {
    /// Opens an index for writing: one that Kafka opened for reading (`"writable": false`) answers the same, up to the
    /// exception of an append.
    fn open(time: bool, path: &Path, base: i64, size: usize) -> Result<Self> {
        let disk = Disk::default();
        Ok(if time {
            Self::Time(WritableTimeIndex::open_writable(&disk, path, base, size)?)
        } else {
            Self::Offset(WritableOffsetIndex::open_writable(&disk, path, base, size)?)
        })
    }

    fn state(&self) -> Value {
        let mut state = on!(self, it => json!({
            "entries": it.entries(), "max_entries": it.max_entries(), "length": it.length(),
            "size_in_bytes": it.size_in_bytes(), "is_full": it.is_full(),
        }));
        match self {
            Self::Offset(it) => state["last_offset"] = json!(it.last_offset()),
            Self::Time(it) => state["last_entry"] = of_time(it.last_entry()),
        }
        state
    }

    fn step(&mut self, op: &Value) -> Result<Option<Value>> {
        let size = || count(&op["size"]);
        let offset = || number::<i64>(&op["offset"]);
        Ok(Some(match op["op"].as_str().unwrap() {
            "append" => {
                match self {
                    Self::Offset(it) => it.append(offset(), number(&op["position"]))?,
                    Self::Time(it) => {
                        let skip = op["skip_full_check"].as_bool().unwrap_or(false);
                        it.maybe_append(number(&op["timestamp"]), offset(), skip)?;
                    }
                }
                return Ok(None);
            }
            "lookup" => match self {
                Self::Offset(it) => of_offset(it.lookup(number(&op["target"]))?),
                Self::Time(it) => of_time(it.lookup(number(&op["target"]))?),
            },
            "entry" => match self {
                Self::Offset(it) => of_offset(there(it.get(count(&op["n"]))?)?),
                Self::Time(it) => of_time(there(it.get(count(&op["n"]))?)?),
            },
            "upper_bound" => {
                let Self::Offset(it) = self else {
                    panic!("{op}")
                };
                let position = number(&op["position"]);
                let from = OffsetPosition {
                    offset: offset(),
                    position,
                };
                it.fetch_upper_bound(from, number(&op["fetch_size"]))?
                    .map_or(Value::Null, of_offset)
            }
            "resize" => json!(on!(self, it => it.resize(size()))?),
            "sanity_check" => {
                on!(self, it => it.sanity_check())?;
                json!("ok")
            }
            "can_append_offset" => json!(on!(self, it => it.can_append_offset(offset()))),
            "relative_offset" => json!(on!(self, it => it.relative_offset(offset()))?),
            "delete" => {
                on!(self, it => it.close_handler());
                json!(fs::remove_file(on!(self, it => it.path())).is_ok())
            }
            other => {
                match other {
                    "truncate_to" => on!(self, it => it.truncate_to(offset()))?,
                    "truncate" => on!(self, it => it.truncate())?,
                    "reset" => on!(self, it => it.reset())?,
                    "trim" => on!(self, it => it.trim_to_valid_size())?,
                    "flush" => on!(self, it => it.flush())?,
                    "close" => on!(self, it => it.close())?,
                    "close_handler" => on!(self, it => it.close_handler()),
                    _ => panic!("{op}"),
                }
                return Ok(None);
            }
        }))
    }
}

/// An exception's class, without its package.
fn class(error: &Value) -> &str {
    error["class"].as_str().unwrap().rsplit('.').next().unwrap()
}

/// Returns whether an error of ours is Kafka's. Exceptions out of a closed object, or out of its buffer, are crashes of
/// its own: any error of ours will do.
fn is_same(kafka: &Value, ours: &Error) -> bool {
    match class(kafka) {
        "NullPointerException"
        | "BufferOverflowException"
        | "IndexOutOfBoundsException"
        | "ReadOnlyBufferException" => true,
        "IllegalArgumentException" => {
            ours.refusal() == Some(Refusal::IndexFull) || matches!(ours, Error::InvalidArgument(_))
        }
        "InvalidOffsetException" => ours.refusal() == Some(Refusal::OffsetsOutOfOrder),
        "IllegalStateException" => ours.refusal() == Some(Refusal::TimestampsOutOfOrder),
        "IndexOffsetOverflowException" => ours.refusal() == Some(Refusal::SegmentOffsetOverflow),
        "CorruptIndexException" => matches!(ours, Error::CorruptIndex(_)),
        _ => false,
    }
}

/// The file's length, -1 where there is none.
fn file_size(path: &Path) -> i64 {
    fs::metadata(path).map_or(-1, |file| i64::try_from(file.len()).unwrap())
}

/// Compares every operation's outcome with Kafka's.
fn run(case: &Case, folder: &Path) -> Outcome {
    let path: PathBuf = folder.join(case.config["file"].as_str().unwrap());
    let is_time = case.config["index"] == "time";
    let mut base: i64 = number(&case.config["base_offset"]);
    let mut size = case.config["max_index_size"].as_i64().unwrap_or(0);
    let mut index: Option<Index> = None;
    let mut outcome = Outcome::default();
    assert_eq!(case.input.len(), case.result.len());
    for (op, kafka) in case.input.iter().zip(&case.result) {
        let i = kafka["i"].as_u64().unwrap();
        let mut differ = |what: &str, kafka: &dyn Display, ours: &dyn Display| {
            let line = format!("{i} {op}: {what}: Kafka {kafka}, here {ours}");
            outcome.differences.push(line);
        };
        let edited = || {
            OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
        };
        let answer = match (op["op"].as_str().unwrap(), &mut index) {
            ("open", slot) => {
                base = op["base_offset"].as_i64().unwrap_or(base);
                size = op["max_index_size"].as_i64().unwrap_or(size);
                // A size below 0 stands for one that is not given; of a new file it is as useless as 0.
                let size = usize::try_from(size).unwrap_or(0);
                *slot = None;
                Index::open(is_time, &path, base, size).map(|opened| {
                    *slot = Some(opened);
                    None
                })
            }
            ("file_write", _) => {
                let at = op["at"].as_u64().unwrap_or(0);
                let bytes = bytes_of(op["hex"].as_str().unwrap());
                let file = edited().unwrap();
                std::os::unix::fs::FileExt::write_all_at(&file, &bytes, at).unwrap();
                Ok(None)
            }
            ("file_length", _) => {
                edited()
                    .unwrap()
                    .set_len(op["length"].as_u64().unwrap())
                    .unwrap();
                Ok(None)
            }
            (_, None) => {
                if kafka["skipped"] != "not open" {
                    differ("index", kafka, &"not open");
                }
                Ok(None)
            }
            (_, Some(index)) => index.step(op),
        };
        let broken = breaks(is_time, op, kafka);
        match (&answer, kafka.get("error")) {
            (Ok(result), None) => {
                let expected = kafka.get("result");
                if expected != result.as_ref() {
                    let expected = expected.unwrap_or(&Value::Null);
                    differ("result", expected, result.as_ref().unwrap_or(&Value::Null));
                }
            }
            (Err(ours), Some(error)) if is_same(error, ours) => {}
            // Both refuse; what Kafka says of it depends on how far it came.
            (Err(_), Some(_)) if broken.is_some() => {}
            (Err(ours), Some(error)) => differ("error", error, ours),
            (Err(ours), None) => differ("error", &"none", ours),
            (Ok(_), Some(error)) => differ("error", error, &"none"),
        }
        if let Some(why) = broken {
            outcome.broken = Some((i, why));
            return outcome;
        }
        let length = file_size(&path);
        if kafka["file_size"] != length {
            differ("file size", &kafka["file_size"], &length);
        }
        let state = index.as_ref().map(Index::state);
        if kafka.get("state") != state.as_ref() {
            differ("state", &kafka["state"], &state.unwrap_or_default());
        }
    }
    drop(index);
    outcome.differences.extend(case.compare_tree(folder));
    outcome
}

#[test]
fn index_ops() {
    run_all("index-ops", run);
}
