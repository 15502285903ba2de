//! A log that is written to a device which loses its power before any step: what was flushed is loaded again, and loading
//! never fails.

use super::super::*;
use super::image::{Chance, Image};
use crate::compress::Compressor;
use crate::format::batch::BatchHeader;
use crate::format::file_name::{FileKind, FileName};
use crate::io::storage::{Folder, ReadFolder as _};
use crate::load::{LoadRequest, LoadedLog, OnLoss, Plan, plan_of};
use crate::records::builder::{BatchBuilder, BatchOptions};

const NOW_MS: i64 = 1_700_000_000_000;

fn options(sync: SyncPolicy, preallocate: bool) -> WriteOptions {
    let config = LogConfig::from_pairs([
        ("internal.segment.bytes", "1500"),
        ("segment.index.bytes", "240"),
        ("index.interval.bytes", "100"),
        ("preallocate", if preallocate { "true" } else { "false" }),
    ]);
    WriteOptions {
        sync,
        ..WriteOptions::new(config.unwrap())
    }
}

fn request(clean: bool, recovery_point: Offset) -> LoadRequest {
    LoadRequest {
        clean,
        recovery_point,
        log_start_offset: 0,
        now_ms: NOW_MS,
        producer_id_expiration_ms: i64::MAX,
    }
}

/// A batch of an idempotent producer.
fn batch(sequence: i32, chance: &mut Chance) -> Vec<u8> {
    let options = BatchOptions {
        producer_id: 7,
        producer_epoch: 0,
        base_sequence: sequence,
        ..BatchOptions::default()
    };
    let mut builder = BatchBuilder::new(options).unwrap();
    for n in 0..=i64::try_from(chance.below(3)).unwrap() {
        let value = vec![b'v'; chance.below(300)];
        builder
            .append(n, NOW_MS + n, None, Some(&value), &[])
            .unwrap();
    }
    let mut bytes = Vec::new();
    builder
        .finish(&mut Compressor::default(), &mut bytes)
        .unwrap();
    bytes
}

/// A log, and the bytes that it should hold.
struct Written {
    image: Image,
    log: WritableLog<Image>,
    /// All batches.
    bytes: Vec<u8>,
    /// The log end and the bytes before it, after each append.
    ends: Vec<(Offset, usize)>,
}

impl Written {
    /// Opens a folder as a plan leaves it.
    fn open(plan: Plan, options: WriteOptions, bytes: Vec<u8>) -> Self {
        let (image, loaded) = carried_out(plan);
        let end = (loaded.log_end_offset, bytes.len());
        let log = WritableLog::from_loaded(image.clone(), options, loaded, NOW_MS);
        Self {
            log: log.unwrap(),
            image,
            bytes,
            ends: vec![(0, 0), end],
        }
    }

    fn new(options: WriteOptions) -> Self {
        let folder = Folder::new(Image::default());
        let plan = plan_of(folder, &options.config, request(true, 0), OnLoss::AsKafka).unwrap();
        Self::open(plan, options, Vec::new())
    }

    fn append(&mut self, chance: &mut Chance) {
        let known = self.log.producers.last_entry(7);
        let sequence = known.map_or(0, |entry| entry.last_sequence() + 1);
        let mut bytes = batch(sequence, chance);
        let how = LeaderAppend::default();
        self.log.append_as_leader(&mut bytes, &how, NOW_MS).unwrap();
        self.bytes.extend(bytes);
        self.ends
            .push((self.log.log_end_offset(), self.bytes.len()));
    }

    fn step(&mut self, chance: &mut Chance) {
        match chance.below(12) {
            0 => self.log.flush(false, NOW_MS).unwrap(),
            1 => drop(self.log.roll(None, NOW_MS).unwrap()),
            _ => self.append(chance),
        }
    }

    /// The recovery point, and the bytes before it: what was said to be on the device.
    fn flushed(&self) -> (Offset, usize) {
        let point = self.log.recovery_point();
        let before = self.ends.iter().rfind(|(end, _)| *end <= point);
        (point, before.unwrap().1)
    }
}

/// Carries a plan out in another folder.
fn carried_out(mut plan: Plan) -> (Image, LoadedLog) {
    plan.hand_over().unwrap();
    let image = Image::default();
    plan.put_into(&image).unwrap();
    (image, plan.outcome.unwrap())
}

/// The bytes of a loaded log.
fn bytes_of(image: &Image, loaded: &LoadedLog) -> Vec<u8> {
    let mut bytes = Vec::new();
    for segment in &loaded.segments {
        let name = FileName::new(segment.base_offset, FileKind::Log).to_string();
        let mut log = vec![0; usize::try_from(segment.size).unwrap()];
        let read = image.open(&name).unwrap().read_at(&mut log, 0).unwrap();
        assert_eq!(read, log.len(), "{name}");
        bytes.extend(log);
    }
    bytes
}

fn rounds(few: u64) -> u64 {
    if std::env::var_os("KAFKALOG_SLOW").is_some() {
        few * 30
    } else {
        few
    }
}

/// Flushed bytes survive a power loss before any step of an append, a roll or a flush, byte for byte. The rest is a
/// prefix of what was written, without a gap, and the log can be appended to. A broker loads it as well: loading is
/// Kafka's.
#[test]
fn what_was_flushed_is_there_after_a_power_loss() {
    let policies = [
        SyncPolicy::AT_ROLL,
        SyncPolicy::Every { records: 7, ms: 1 },
        SyncPolicy::EveryAppend,
    ];
    let (mut states, mut short, mut longer) = (0, 0, 0);
    for seed in 0..rounds(30) {
        let chance = &mut Chance(seed);
        let options = options(policies[chance.below(3)], chance.below(2) == 0);
        let mut written = Written::new(options.clone());
        written.image.lose_power(Chance(!seed));
        for step in 0..40 {
            let flushed = written.flushed();
            written.step(chance);
            for left in written.image.take_lost() {
                let context = format!("seed {seed}, step {step}, {:?}", options.sync);
                let plan = plan_of(
                    Folder::new(left),
                    &options.config,
                    request(false, flushed.0),
                    OnLoss::AsKafka,
                );
                let plan = plan.unwrap();
                if let Err(error) = &plan.outcome {
                    panic!("{context}: {error}");
                }
                let (image, loaded) = carried_out(plan);
                let bytes = bytes_of(&image, &loaded);
                let end = (loaded.log_end_offset, bytes.len());
                assert!(written.bytes.starts_with(&bytes), "{context}: bytes");
                assert!(written.ends.contains(&end), "{context}: ends at {end:?}");
                assert!(end >= flushed, "{context}: {end:?} of {flushed:?}");
                states += 1;
                short += u32::from(end < *written.ends.last().unwrap());
                longer += u32::from(end > flushed);
                if chance.below(4) == 0 {
                    assert_goes_on((image, bytes), &options, chance, &context);
                }
            }
        }
    }
    assert!(
        states > 1_000 && short > states / 4 && longer > states / 10,
        "{states} states, {short} lost something, {longer} kept more than was flushed"
    );
}

/// A writer opens what loading left, and after a clean close it is loaded without a change.
fn assert_goes_on(
    (image, bytes): (Image, Vec<u8>),
    options: &WriteOptions,
    chance: &mut Chance,
    context: &str,
) {
    let load = |image: Image, clean| {
        plan_of(
            Folder::new(image),
            &options.config,
            request(clean, 0),
            OnLoss::AsKafka,
        )
    };
    let mut written = Written::open(load(image, false).unwrap(), options.clone(), bytes);
    written.append(chance);
    let end = written.log.log_end_offset();
    written.log.close(NOW_MS).unwrap();
    let (image, loaded) = carried_out(load(written.image, true).unwrap());
    assert_eq!(loaded.log_end_offset, end, "{context}");
    assert_eq!(bytes_of(&image, &loaded), written.bytes, "{context}");
}

/// Under a policy that syncs nothing by itself loading may fail, as Kafka's does. Salvage never does, and keeps what was
/// flushed.
#[test]
fn salvage_mends_what_was_not_synced() {
    let (mut states, mut refused) = (0, 0);
    for seed in 0..rounds(12) {
        let chance = &mut Chance(seed);
        let options = options(SyncPolicy::Never, false);
        let mut written = Written::new(options.clone());
        written.image.lose_power(Chance(!seed));
        for step in 0..30 {
            let flushed = written.flushed();
            written.step(chance);
            for left in written.image.take_lost() {
                let context = format!("seed {seed}, step {step}");
                let left = Folder::new(left);
                let load = request(false, flushed.0);
                let as_kafka =
                    plan_of(left.clone(), &options.config, load, OnLoss::AsKafka).unwrap();
                refused += u32::from(as_kafka.outcome.is_err());
                let plan = plan_of(left, &options.config, load, OnLoss::Salvage).unwrap();
                if let Err(error) = &plan.outcome {
                    panic!("{context}: {error}");
                }
                let (image, loaded) = carried_out(plan);
                let bytes = bytes_of(&image, &loaded);
                assert!(
                    bytes.starts_with(&written.bytes[..flushed.1]),
                    "{context}: flushed"
                );
                assert!(is_part_of(&bytes, &written.bytes), "{context}: bytes");
                states += 1;
            }
        }
    }
    assert!(states > 300 && refused > 0, "{states} states, {refused}");
}

/// Returns whether these are some of the batches, in their order.
fn is_part_of(some: &[u8], all: &[u8]) -> bool {
    let batches = |mut bytes| {
        std::iter::from_fn(move || {
            let header = BatchHeader::parse(bytes).unwrap()?;
            let (batch, rest) = <[u8]>::split_at(bytes, header.size);
            bytes = rest;
            Some(batch)
        })
    };
    let mut all = batches(all);
    batches(some).all(|batch| all.any(|other| other == batch))
}
