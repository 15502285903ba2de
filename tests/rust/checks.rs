//! Properties that must hold on any bytes. Each `check` panics if one does not; a fuzzer, a proptest and the mutation
//! test use the same ones.

use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use kafkalog::internal::arrow::batches::BatchReader;
use kafkalog::internal::arrow::columns::ColumnOptions;
use kafkalog::internal::arrow::reader::RangeReader;
use kafkalog::internal::arrow::schema::Column;
use kafkalog::internal::chunks::{DataKey, StoredChunk, decode_chunks, decompress_sizes};
use kafkalog::internal::compress::{Codec, DecodeLimit, Decompressor};
use kafkalog::internal::error::Error;
use kafkalog::internal::format::batch::BatchHeader;
use kafkalog::internal::format::checkpoint::{
    parse_epochs, parse_offsets, parse_partition_metadata,
};
use kafkalog::internal::format::control::{ControlType, EndTransactionMarker};
use kafkalog::internal::format::file_name;
use kafkalog::internal::format::message::Message;
use kafkalog::internal::format::properties::parse_properties;
use kafkalog::internal::format::record::{HeaderIter, Record, key_text};
use kafkalog::internal::index::{offset::OffsetIndex, time::TimeIndex};
use kafkalog::internal::io::kept_map::KeptMap;
use kafkalog::internal::io::storage::Folder;
use kafkalog::internal::records::block::Payload;
use kafkalog::internal::records::validate::{LeaderRules, LeaderValidator, Placement};
use kafkalog::internal::records::walk::RecordDecoder;
use kafkalog::internal::records::{RecordSlot, block, legacy, plain};
use kafkalog::internal::scan::range::{PartitionRange, SegmentRange};
use kafkalog::internal::segment::filter::TimestampBounds;
use kafkalog::internal::segment::reader::ReadOptions;
use kafkalog::internal::segment::skipping::OnCorrupt;
use kafkalog::internal::tables::topic::{TOPICS, as_json};
use kafkalog::internal::types::{AppendOrigin, Compression, TimestampType};

#[path = "checks/values.rs"]
mod values;
pub use values::{avro, framing, json, protobuf};

/// The most a check lets anything decompress to.
pub const LIMIT: DecodeLimit = DecodeLimit(1 << 20);

/// All of them.
pub const ALL: [fn(&[u8]); 14] = [
    batch, segment, record, decompress, chunks, index, names, append, tables, resync, protobuf,
    json, avro, framing,
];

/// A batch: header, checksum, records by both decoders.
pub fn batch(data: &[u8]) {
    let header = match BatchHeader::parse(data) {
        Ok(Some(header)) => header,
        Ok(None) => return,
        Err(error) => return describes(&error, data.len()),
    };
    if let Some(whole) = data.get(..header.size) {
        let _ = header.ensure_valid(whole);
        records(whole, &header);
    }
}

/// All batches of a `.log`, as far as their lengths lead.
pub fn segment(data: &[u8]) {
    let mut rest = data;
    while let Ok(Some(size)) = BatchHeader::peek_size(rest) {
        batch(rest);
        let Some(next) = rest.get(size..) else { return };
        rest = next;
    }
}

/// Decodes a whole batch plainly; holds the fast decoder against that.
fn records(whole: &[u8], header: &BatchHeader) {
    let mut decompressor = Decompressor::new();
    let (mut arena, mut slots) = (vec![7; 3], Vec::new());
    let result = plain::batch(
        whole,
        0,
        header,
        &mut decompressor,
        &mut arena,
        LIMIT,
        &mut slots,
    );
    assert_eq!(arena[..3], [7; 3], "the arena's earlier bytes are not ours");
    assert!(
        arena.capacity() <= 5 * LIMIT.0 + 16 * whole.len(),
        "the arena took {} bytes",
        arena.capacity()
    );
    assert!(
        slots.len() <= (whole.len() + arena.len()) / 7 + 1,
        "records take bytes"
    );
    match result {
        Ok(Payload::Source) => slots.iter().for_each(|slot| lies_within(slot, whole)),
        Ok(Payload::Arena) => slots.iter().for_each(|slot| lies_within(slot, &arena)),
        Err(ref error) => describes(error, whole.len()),
    }
    if header.is_legacy() {
        let first = legacy::first_offset(whole, header, LIMIT);
        if result.is_ok() {
            assert_eq!(first.ok(), slots.first().map(|slot| slot.offset));
        }
        return;
    }
    let Ok(found) = block::open(whole, header, &mut decompressor, &mut arena, LIMIT) else {
        assert!(result.is_err());
        return;
    };
    let (source, from) = match found.payload {
        Payload::Source => (whole, 0),
        // Decoded a second time, after the first.
        Payload::Arena => (&arena[..], (arena.len() - 3) / 2),
    };
    for step in [1, 3, 1 << 12] {
        let mut walk = RecordDecoder::new(header, found.range.start, found.range.end);
        let fast = fast(&mut walk, source, step);
        match (&result, fast) {
            (Ok(_), Ok(fast)) => {
                assert_eq!(fast.len(), slots.len());
                for (fast, plain) in fast.iter().zip(&slots) {
                    same(fast, plain, from);
                }
            }
            (Err(_), Err(ref error)) => describes(error, source.len()),
            (plain, fast) => panic!("the decoders disagree: plain {plain:?}, fast {fast:?}"),
        }
    }
}

/// All records by the fast decoder, `step` at a time.
fn fast(walk: &mut RecordDecoder, source: &[u8], step: usize) -> Result<Vec<RecordSlot>, Error> {
    let mut slots = Vec::new();
    let mut some = vec![RecordSlot::default(); step];
    loop {
        let done = walk.step(source, &mut some)?;
        slots.extend_from_slice(&some[..done]);
        if walk.remaining() == 0 {
            return Ok(slots);
        }
        assert!(done > 0, "no step forward");
    }
}

/// Compares two slots; positions of nulls and of no headers do not matter.
fn same(fast: &RecordSlot, plain: &RecordSlot, shift: usize) {
    let at = |start: u32| usize::try_from(start).unwrap();
    assert_eq!(
        (fast.offset, fast.timestamp),
        (plain.offset, plain.timestamp)
    );
    assert_eq!(
        (fast.key_len, fast.value_len, fast.headers_count),
        (plain.key_len, plain.value_len, plain.headers_count)
    );
    if plain.key_len > 0 {
        assert_eq!(at(fast.key_start), at(plain.key_start) + shift);
    }
    if plain.value_len > 0 {
        assert_eq!(at(fast.value_start), at(plain.value_start) + shift);
    }
    if plain.headers_count > 0 {
        assert_eq!(at(fast.headers_start), at(plain.headers_start) + shift);
    }
}

fn lies_within(slot: &RecordSlot, bytes: &[u8]) {
    for (start, len) in [
        (slot.key_start, slot.key_len),
        (slot.value_start, slot.value_len),
    ] {
        assert!(len >= -1);
        let start = usize::try_from(start).unwrap();
        let len = usize::try_from(len).unwrap_or(0);
        assert!(
            bytes.get(start..start + len).is_some(),
            "{slot:?} of {}",
            bytes.len()
        );
    }
    let start = usize::try_from(slot.headers_start).unwrap();
    let headers = HeaderIter::new(bytes, start, slot.headers_count);
    let read = headers.inspect(|header| drop(key_text(header.key))).count();
    assert_eq!(u32::try_from(read).unwrap(), slot.headers_count);
}

/// An error about bytes says where, and its text is one line.
fn describes(error: &Error, len: usize) {
    let fault = error.as_fault().unwrap();
    let position = fault.location.position.unwrap();
    assert!(
        position <= u64::try_from(len).unwrap() + 64,
        "{error} in {len} bytes"
    );
    let text = error.to_string();
    assert!(!text.contains('\n') && text.len() < 1000, "{text}");
}

/// One record, one message, a control record's key and value.
pub fn record(data: &[u8]) {
    if let Ok(record) = Record::parse(data, 0) {
        assert!(record.end <= data.len());
        let headers = HeaderIter::new(data, record.headers_start, record.headers_count);
        assert_eq!(
            headers.count(),
            usize::try_from(record.headers_count).unwrap()
        );
    }
    if let Ok(Some(message)) = Message::parse(data) {
        assert!(message.value.end() <= message.size && message.size <= data.len());
    }
    let _ = ControlType::parse(data);
    let _ = EndTransactionMarker::parse(data);
    let _ = key_text(data);
}

/// A compressed stream: codec and magic by the first byte.
pub fn decompress(data: &[u8]) {
    let Some((&how, stream)) = data.split_first() else {
        return;
    };
    let codec = Compression::from_id(how % 5).unwrap();
    let mut decompressor = Decompressor::new();
    let mut before: Option<Vec<u8>> = None;
    for _ in 0..2 {
        let mut out = vec![7; 3];
        let result = decompressor.decompress(codec, how >> 6, stream, &mut out, LIMIT);
        assert!(out.len() - 3 <= LIMIT.0 && out[..3] == [7; 3]);
        if let Err(error) = result {
            assert_eq!(out.len(), 3, "what was written is taken back");
            describes(&error, stream.len());
        }
        // A context that was used answers as a new one did.
        assert!(before.is_none_or(|before| before == out));
        before = Some(out);
    }
}

/// Chunks of a tier, in all ways in which they are stored: their number, their sizes (stored and of the file) and what is
/// stored.
pub fn chunks(data: &[u8]) {
    const AT: u64 = 1000;
    let Some((&count, rest)) = data.split_first() else {
        return;
    };
    let (sizes, stored) = rest.split_at(rest.len().min(usize::from(count % 4) * 4));
    let size = |at: &[u8]| usize::from(u16::from_be_bytes([at[0], at[1]]));
    let pairs = sizes.chunks_exact(4);
    let told: Vec<_> = pairs
        .map(|each| StoredChunk {
            size: size(each),
            original: size(&each[2..]),
        })
        .collect();
    let taken: usize = told.iter().map(|each| each.size).sum();
    let original: usize = told.iter().map(|each| each.original).sum();
    let key = DataKey::new(&[7; 32], b"aad").unwrap();
    for (is_compressed, key) in [
        (false, None),
        (true, None),
        (false, Some(&key)),
        (true, Some(&key)),
    ] {
        match decode_chunks(stored, AT, &told, is_compressed, key) {
            Ok(file) => {
                assert!(file.len() == original && taken <= stored.len());
                assert!(is_compressed || key.is_some() || file == stored[..taken]);
            }
            Err(error) => {
                assert!(error.as_fault().unwrap().location.position >= Some(AT));
                describes(&error, stored.len() + usize::try_from(AT).unwrap());
            }
        }
    }
    match decompress_sizes(stored, LIMIT.0) {
        Ok(sizes) => assert!(sizes.len() <= LIMIT.0),
        Err(error) => describes(&error, stored.len()),
    }
}

/// Index files, as they are and as lookups see them.
pub fn index(data: &[u8]) {
    let base = 1000;
    let offsets = OffsetIndex::from_bytes(data.to_vec(), base).unwrap();
    let _ = offsets.sanity_check();
    assert_eq!(offsets.iter().count(), offsets.entries());
    let times = TimeIndex::from_bytes(data.to_vec(), base).unwrap();
    let _ = times.sanity_check();
    assert_eq!(times.iter().count(), times.entries());
    for target in [i64::MIN, -1, 0, base, base + 1, base + 1_000_000, i64::MAX] {
        let _ = offsets.lookup(target);
        let _ = times.lookup(target);
    }
}

/// Names and the small text files.
pub fn names(data: &[u8]) {
    let _ = parse_offsets(data);
    let _ = parse_epochs(data);
    let _ = parse_partition_metadata(data);
    let _ = parse_properties(data);
    let _ = kafkalog::internal::format::entry::ProducerState::parse_snapshot(data);
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = file_name::base_offset(text);
        let _ = file_name::is_topic_name(text);
        let _ = file_name::FolderName::parse(text);
        let _ = file_name::FileName::parse(text);
    }
}

/// An append to a leader, kept as it is and encoded anew: what is taken is whole and can be read; a refusal changes
/// nothing.
pub fn append(data: &[u8]) {
    for codec in [None, Some(Codec::new(Compression::Lz4))] {
        let rules = LeaderRules {
            codec,
            compact: codec.is_some(),
            timestamp_type: TimestampType::CreateTime,
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: i64::MAX,
        };
        let placement = Placement {
            base_offset: 5,
            leader_epoch: 1,
            now_ms: 0,
            origin: AppendOrigin::Client,
        };
        let mut records = data.to_vec();
        match LeaderValidator::new().validate(&mut records, &rules, &placement) {
            Ok(validated) => {
                let header = BatchHeader::parse(&records).unwrap().unwrap();
                assert_eq!((header.magic, header.size), (2, records.len()));
                assert_eq!(header.next_offset(), validated.next_offset);
                // The checksum of what came is the log's to look at before.
                assert!(!validated.is_reencoded || header.ensure_valid(&records).is_ok());
                batch(&records);
            }
            Err(error) => {
                assert_eq!(records, data);
                let text = error.to_string();
                assert!(!text.is_empty());
            }
        }
    }
}

/// The records of a `.log`, as those of every internal topic: what is shown is JSON, and no longer than their bytes
/// account for.
pub fn tables(data: &[u8]) {
    let mut rest = data;
    while let Ok(Some(header)) = BatchHeader::parse(rest) {
        let Some((whole, next)) = rest.split_at_checked(header.size) else {
            return;
        };
        rest = next;
        let (mut arena, mut slots) = (Vec::new(), Vec::new());
        let mut decompressor = Decompressor::new();
        let read = plain::batch(
            whole,
            0,
            &header,
            &mut decompressor,
            &mut arena,
            LIMIT,
            &mut slots,
        );
        let source = match read {
            Ok(Payload::Source) => whole,
            Ok(Payload::Arena) => &arena[..],
            Err(_) => continue,
        };
        let part = |start: u32, len: i32| {
            let start = start as usize;
            source.get(start..start + usize::try_from(len).ok()?)
        };
        for slot in &slots {
            let key = part(slot.key_start, slot.key_len);
            let value = part(slot.value_start, slot.value_len);
            let size = key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len);
            for topic in 0..TOPICS {
                for json in as_json(topic, key, value).unwrap() {
                    let text = std::str::from_utf8(&json).unwrap();
                    assert!(text.starts_with('{') && text.ends_with('}'), "{text}");
                    assert!(json.len() <= 64 * size + 1024, "{} of {size}", json.len());
                }
            }
        }
    }
}

/// The range of a partition with a single file to read.
pub fn one_segment(
    folder: &Path,
    file_name: &str,
    size: usize,
    next: Option<i64>,
) -> PartitionRange {
    let base_offset = file_name::base_offset(file_name).unwrap();
    PartitionRange {
        folder: Folder::at(folder),
        topic: "t".into(),
        partition: 0,
        start_offset: base_offset,
        end_offset: None,
        timestamps: TimestampBounds::default(),
        chosen: None,
        segments: vec![SegmentRange {
            base_offset,
            file_name: file_name.to_owned(),
            size: u64::try_from(size).unwrap(),
            is_active: next.is_none(),
            start_position: 0,
            next_base_offset: next,
            aborted: None,
            start_offset: base_offset,
            version: None,
            end: None,
            map: KeptMap::default(),
        }],
    }
}

/// A folder for this thread's files, in memory where there is such a place.
fn scratch() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() {
        memory.to_path_buf()
    } else {
        std::env::temp_dir()
    };
    let thread = format!("{:?}", std::thread::current().id());
    let number: String = thread.chars().filter(char::is_ascii_digit).collect();
    // Not the name of a partition, else the tests beside this one would be in a log dir.
    parent.join(format!("kafkalog-resync-{}-{number}.d", std::process::id()))
}

/// A `.log`, read past its damage: bytes given and bytes lost are those of the file, in turn; what is given are batches
/// whose checksums are right, their offsets rising; a file without damage loses nothing.
pub fn resync(data: &[u8]) {
    let folder = scratch();
    std::fs::create_dir_all(&folder).unwrap();
    let name = format!("{:020}.log", 0);
    std::fs::write(folder.join(&name), data).unwrap();
    for next in [None, Some(1 << 20)] {
        past_damage(data, &one_segment(&folder, &name, data.len(), next));
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

fn past_damage(data: &[u8], range: &PartitionRange) {
    let mut batches = BatchReader::new(vec![range.clone()], true, OnCorrupt::Skip);
    let (mut given, mut offsets) = (Vec::new(), Vec::new());
    while let Some(rows) = batches.next_batch().unwrap() {
        let [position, first, last] = ["position", "baseOffset", "lastOffset"]
            .map(|name| rows[name].as_primitive::<Int64Type>().values().clone());
        let size = rows["size"].as_primitive::<Int32Type>().values();
        for row in 0..rows.num_rows() {
            let begin = usize::try_from(position[row]).unwrap();
            let end = begin + usize::try_from(size[row]).unwrap();
            let header = BatchHeader::parse(&data[begin..end]).unwrap().unwrap();
            header.ensure_valid(&data[begin..end]).unwrap();
            given.push((begin, end));
            offsets.push((first[row], last[row]));
        }
    }
    assert!(offsets.iter().all(|(first, last)| first <= last));
    assert!(offsets.is_sorted_by(|a, b| a.1 < b.0), "{offsets:?}");
    let lost = batches.take_lost();
    let lost = lost
        .iter()
        .map(|range| [range.lost.position, range.lost.end].map(|at| usize::try_from(at).unwrap()));
    // A segment that ends too early has lost offsets and no bytes.
    let lost = lost.filter(|[begin, end]| begin < end);
    let lost: Vec<_> = lost.map(|[begin, end]| (begin, end)).collect();
    let mut parts = [&given[..], &lost].concat();
    parts.sort_unstable();
    let end = parts.iter().fold(0, |end, &(begin, its_end)| {
        assert_eq!(begin, end, "{parts:?}");
        its_end
    });
    assert_eq!(end, data.len());
    assert!(lost.is_empty() || !is_whole(data), "{lost:?}");

    let options = ReadOptions {
        limit: LIMIT,
        on_corrupt: OnCorrupt::Skip,
        include_control: true,
        ..ReadOptions::default()
    };
    let columns = ColumnOptions {
        columns: vec![Column::BatchPosition],
        ..ColumnOptions::default()
    };
    let mut records = RangeReader::try_new(vec![range.clone()], options, columns).unwrap();
    // A record under a right checksum may lie beyond its batch's last offset, so batches alone are in order.
    while let Some(rows) = records.next_batch().unwrap() {
        for &place in rows["batchPosition"].as_primitive::<Int64Type>().values() {
            let place = usize::try_from(place).unwrap();
            let is_given = given.binary_search_by_key(&place, |&(begin, _)| begin);
            assert!(is_given.is_ok(), "{place}");
        }
    }
    let (metrics, _) = records.metrics();
    assert_eq!(metrics.bytes + metrics.bytes_lost, data.len() as u64);
}

/// Returns whether a `.log` from offset 0 on is batch after batch, without faults or missing offsets.
fn is_whole(data: &[u8]) -> bool {
    let (mut rest, mut next, mut epoch) = (data, 0, -1);
    while let Ok(Some(header)) = BatchHeader::parse(rest) {
        let Some((batch, after)) = rest.split_at_checked(header.size) else {
            return false;
        };
        let is_next = header.base_offset == next && header.partition_leader_epoch >= epoch;
        if header.magic != 2 || !is_next || header.ensure_valid(batch).is_err() {
            return false;
        }
        (rest, next, epoch) = (after, header.next_offset(), header.partition_leader_epoch);
        if next > 1 << 20 {
            return false;
        }
    }
    rest.is_empty()
}
