//! Whole partition folders, mutated in any file: after `salvage` the log loads, is read to the end, and holds as many
//! batches at least as were left untouched.

use std::fs;
use std::path::{Path, PathBuf};

use kafkalog::internal::error::Error;
use kafkalog::internal::format::file_name::base_offset;
use kafkalog::internal::io::kept_map::KeptMap;
use kafkalog::internal::io::storage::Folder;
use kafkalog::internal::load::Note;
use kafkalog::internal::scan::range::{PartitionRange, SegmentRange};
use kafkalog::internal::segment::filter::TimestampBounds;
use kafkalog::internal::segment::reader::ReadOptions;
use kafkalog::internal::segment::resync::Reason;
use kafkalog::internal::tools::recover::{OnLoss, RecoverySettings, recover};

use kafkalog::internal::arrow::reader::RangeReader;
use kafkalog::internal::arrow::schema::Layout;

use super::{Seed, columns, drain, first_seed};
use crate::common::{Chance, files, has_extension, pick, root, seal};

const NOW_MS: i64 = 1_760_000_000_000;
/// Files of the log dir that salvage may not believe either.
const CHECKPOINTS: [&str; 2] = [
    "log-start-offset-checkpoint",
    "recovery-point-offset-checkpoint",
];

/// A partition folder whose every `.log` is whole.
struct Partition {
    name: String,
    files: Vec<(String, Vec<u8>)>,
    /// The bytes of every batch, and the file it lies in.
    batches: Vec<(usize, Vec<u8>)>,
}

impl Partition {
    fn read(folder: &Path) -> Option<Self> {
        let name = folder.file_name()?.to_str()?.to_owned();
        let mut partition = Self {
            name,
            files: Vec::new(),
            batches: Vec::new(),
        };
        for path in files(folder, "") {
            if path.parent() != Some(folder) {
                return None;
            }
            let data = fs::read(&path).unwrap();
            let name = path.file_name()?.to_str()?.to_owned();
            if has_extension(&name, "log") && !data.is_empty() {
                let seed = Seed::read(&path)?;
                let number = partition.files.len();
                let batches = seed.batches.iter();
                partition.batches.extend(
                    batches.map(|(at, header)| (number, data[*at..at + header.size].to_vec())),
                );
            }
            partition.files.push((name, data));
        }
        let size: usize = partition.files.iter().map(|(_, data)| data.len()).sum();
        let is_partition = partition.name.rsplit_once('-')?.1.parse::<u32>().is_ok();
        let is_metadata = partition.name.starts_with("__cluster_metadata");
        let counts = is_partition && !is_metadata && size <= 64 << 10;
        (counts && partition.batches.len() > 1).then_some(partition)
    }
}

fn partitions() -> Vec<Partition> {
    let golden = root().join("tests/golden");
    let mut folders: Vec<PathBuf> = files(&golden, ".log")
        .iter()
        .filter(|path| !path.starts_with(golden.join("corrupt")))
        .filter(|path| {
            !path.starts_with(golden.join("log")) || path.to_string_lossy().contains("_base")
        })
        .map(|path| path.parent().unwrap().to_path_buf())
        .collect();
    folders.sort();
    folders.dedup();
    let all: Vec<_> = folders.iter().filter_map(|f| Partition::read(f)).collect();
    assert!(all.len() > 20, "{} partitions", all.len());
    all
}

/// One change of a file's bytes, in one of the ways disks, crashes and tools make.
fn mutate(data: &mut Vec<u8>, other: &[u8], chance: &mut Chance) {
    if data.is_empty() {
        data.extend((0..chance.below(60)).map(|_| chance.byte()));
        return;
    }
    let at = chance.below(data.len());
    let end = (at + 1 + chance.below(64)).min(data.len());
    match chance.below(9) {
        0 | 1 => data[at] ^= 1 << chance.below(8),
        2 => data[at..end].fill(0),
        3 => data[at..end]
            .iter_mut()
            .for_each(|byte| *byte = chance.byte()),
        4 => data.truncate(at),
        5 => drop(data.drain(at..end)),
        6 => {
            let noise: Vec<u8> = (at..end).map(|_| chance.byte()).collect();
            data.splice(at..at, noise);
        }
        7 if !other.is_empty() => {
            let from = chance.below(other.len());
            let to = (from + 1 + chance.below(200)).min(other.len());
            data.splice(at..at, other[from..to].iter().copied());
        }
        // As if by a faulty writer: damage under a checksum that is right.
        _ => {
            data[at] = chance.byte();
            reseal(data);
        }
    }
}

fn reseal(data: &mut [u8]) {
    let mut at = 0;
    while let Some(length) = data.get(at + 8..at + 12) {
        let length = i32::from_be_bytes(length.try_into().unwrap());
        let Some(batch) = usize::try_from(length)
            .ok()
            .filter(|&length| length >= 14)
            .and_then(|length| data.get_mut(at..at + 12 + length))
        else {
            return;
        };
        seal(batch);
        at += batch.len();
    }
}

/// Reads the partition to the end.
fn scan(folder: &Path) -> Result<usize, Error> {
    let mut logs: Vec<_> = files(folder, ".log")
        .into_iter()
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (
                base_offset(&name).unwrap(),
                name,
                fs::metadata(path).unwrap().len(),
            )
        })
        .collect();
    logs.sort();
    let segments = logs.iter().enumerate().map(|(n, (base, name, size))| {
        let next = logs.get(n + 1).map(|next| next.0);
        SegmentRange {
            base_offset: *base,
            file_name: name.clone(),
            size: *size,
            is_active: next.is_none(),
            start_position: 0,
            next_base_offset: next,
            aborted: None,
            start_offset: *base,
            version: None,
            end: None,
            map: KeptMap::default(),
        }
    });
    let range = PartitionRange {
        folder: Folder::at(folder),
        topic: "t".into(),
        partition: 0,
        start_offset: logs[0].0,
        end_offset: None,
        timestamps: TimestampBounds::default(),
        chosen: None,
        segments: segments.collect(),
    };
    let columns = columns(Layout::View, true);
    let mut reader = RangeReader::try_new(vec![range], ReadOptions::default(), columns)?;
    drain(|| reader.next_batch(), false).map(|offsets| offsets.len())
}

/// Batches of the folder, by their lengths.
fn count(folder: &Path) -> usize {
    let mut batches = 0;
    for path in files(folder, ".log") {
        let data = fs::read(path).unwrap();
        let mut at = 0;
        while let Some(length) = data.get(at + 8..at + 12) {
            at += 12 + usize::try_from(i32::from_be_bytes(length.try_into().unwrap())).unwrap();
            batches += 1;
        }
    }
    batches
}

/// Places of the bytes of these batches in a file, one after the other: no byte counts for two.
fn found<'a>(data: &[u8], batches: impl Iterator<Item = &'a [u8]>) -> Vec<(usize, usize)> {
    let mut from = 0;
    let found = batches.filter_map(|batch| {
        let mut windows = data[from..].windows(batch.len());
        let at = from + windows.position(|window| window == batch)?;
        from = at + batch.len();
        Some((at, from))
    });
    found.collect()
}

/// Returns whether a batch that begins before `at`, and ends after it, has a right checksum: what lies in it is its
/// own, whatever its magic, as Kafka reads all above 1 alike (`FileLogInputStream.nextBatch`).
fn is_enclosed(data: &[u8], at: usize) -> bool {
    (0..at).any(|begin| {
        let length = data[begin + 8..].first_chunk().copied();
        let length = usize::try_from(i32::from_be_bytes(length.unwrap_or_default())).ok();
        let end = length.and_then(|length| (begin + 12).checked_add(length));
        let Some(batch) = end
            .filter(|&end| end > at && end >= begin + 26)
            .and_then(|end| data.get(begin..end))
        else {
            return false;
        };
        let mut sealed = batch.to_vec();
        seal(&mut sealed);
        sealed == batch
    })
}

#[test]
fn a_salvaged_log_loads_and_is_read() {
    let partitions = partitions();
    let memory = Path::new("/dev/shm");
    let rounds = pick(200, 750, 60_000);
    let mut named = 0;
    for number in first_seed()..first_seed() + rounds {
        let mut chance = Chance(number);
        let work = if memory.is_dir() {
            tempfile::tempdir_in(memory).unwrap()
        } else {
            tempfile::tempdir().unwrap()
        };
        let (seed, other) = (chance.pick(&partitions), chance.pick(&partitions));
        let folder = work.path().join(&seed.name);
        fs::create_dir(&folder).unwrap();
        let mut all = seed.files.clone();
        let mut context = format!("KAFKALOG_SEED={number}, {}", seed.name);
        let more = chance.below(2);
        for _ in 0..=more {
            let target = chance.below(all.len());
            let (name, data) = &mut all[target];
            mutate(data, &chance.pick(&other.files).1, &mut chance);
            context = format!("{context}, {name}");
        }
        for (name, data) in &all {
            fs::write(folder.join(name), data).unwrap();
        }
        for checkpoint in CHECKPOINTS {
            let text = match chance.below(4) {
                0 => format!(
                    "0\n1\n{} {}\n",
                    seed.name.replace('-', " "),
                    chance.below(2000)
                ),
                1 => "0\n7\n?".to_owned(),
                _ => continue,
            };
            fs::write(work.path().join(checkpoint), text).unwrap();
        }
        let untouched: Vec<_> = (0..all.len())
            .flat_map(|file| {
                let own = seed.batches.iter().filter(move |(of, _)| *of == file);
                let places = found(&all[file].1, own.map(|(_, bytes)| bytes.as_slice()));
                places.into_iter().map(move |(at, _)| (file, at))
            })
            .collect();
        let options = RecoverySettings {
            on_loss: OnLoss::Salvage,
            ..RecoverySettings::at(NOW_MS)
        };
        let report = recover(work.path(), &options);
        let report = report.unwrap_or_else(|error| panic!("{context}: {error}"));
        let left_out = report.partitions[0]
            .notes
            .iter()
            .filter_map(|note| match note {
                Note::LeftOut { lost, .. } => Some(lost.reason),
                _ => None,
            });
        let left_out: Vec<_> = left_out.collect();
        named += left_out.len();
        // Where a marker is lost, a later batch of its producer may have to go.
        let misfits = left_out
            .iter()
            .filter(|&&reason| reason == Reason::Transaction);
        let kept = count(&folder) + misfits.count();
        let enclosed = |&&(file, at): &&(usize, usize)| is_enclosed(&all[file].1, at);
        let expected = untouched.len();
        assert!(
            kept >= expected || kept >= expected - untouched.iter().filter(enclosed).count(),
            "{context}: {kept} of {expected} batches: {:?}",
            report.partitions[0].notes
        );
        let again = RecoverySettings {
            clean: Some(false),
            recovery_point: Some(0),
            dry_run: true,
            ..RecoverySettings::at(NOW_MS)
        };
        let again = recover(work.path(), &again).unwrap_or_else(|e| panic!("{context}: {e}"));
        let cut = again.partitions.iter().map(|each| each.bytes_cut);
        assert_eq!(cut.sum::<u64>(), 0, "{context}");
        scan(&folder).unwrap_or_else(|e| panic!("{context}: {e}"));
    }
    assert!(named as u64 > rounds / 10, "{named} ranges left out");
}
