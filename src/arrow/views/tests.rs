use std::panic::AssertUnwindSafe;

use super::*;
use crate::arrow::sources::Sources;
use crate::compress::{DecodeLimit, Decompressor};
use crate::error::internal_message;
use crate::format::batch::BatchHeader;
use crate::io::region::Region;
use crate::records::arena::Arena;
use crate::records::chunk::ChunkBytes;
use arrow_array::Array;
use arrow_array::cast::AsArray;

fn slot(start: u32, len: i32) -> RecordSlot {
    RecordSlot {
        key_start: start,
        key_len: len,
        ..RecordSlot::default()
    }
}

fn region(len: usize) -> Region {
    Region::heap((0..=255).cycle().take(len).collect())
}

/// An arena that holds `text`, decompressed from a batch.
fn arena(text: &[u8]) -> Arena {
    let mut batch = vec![0; 61];
    batch[16] = 2;
    // Codec 2: raw snappy, one literal.
    batch[22] = 2;
    let len = u8::try_from(text.len()).unwrap();
    assert!(len < 60);
    batch.extend([len, len.wrapping_sub(1) << 2]);
    batch.extend(text);
    let size = u32::try_from(batch.len().wrapping_sub(12)).unwrap();
    batch[8..12].copy_from_slice(&size.to_be_bytes());
    let header = BatchHeader::parse(&batch).unwrap().unwrap();
    let mut arena = Arena::default();
    let block = arena.open(
        &batch,
        &header,
        &mut Decompressor::new(),
        DecodeLimit::default(),
    );
    block.unwrap();
    assert_eq!(arena.bytes(), text);
    arena
}

/// All of one length but one, wherever that is, and up to the source's end, where no sixteen bytes are left.
#[test]
fn short_payloads_of_one_length() {
    let source = region(256);
    for len in 0..14i32 {
        for (odd_at, odd) in [(300, 0), (0, -1), (3, len + 1), (63, -1), (64, 0), (99, 13)] {
            let slots: Vec<_> = (0..100i32)
                .map(|n| {
                    let len = if n == odd_at { odd } else { len };
                    slot((n * 7).min(256 - len.max(0)).unsigned_abs(), len)
                })
                .collect();
            let mut views = Views::new(1);
            let mut sources = Sources::default();
            let bytes = sources.of(ChunkBytes::Region(&source)).unwrap();
            if views.append(&slots, bytes, PayloadPart::Key).unwrap() {
                sources.point(bytes.number());
            }
            let views = views.finish(&sources.finish()).unwrap();
            views.to_data().validate_full().unwrap();
            let expected = slots
                .iter()
                .map(|slot| PayloadPart::Key.bytes(*slot, &source));
            assert!(views.as_binary_view().iter().eq(expected), "{len}, {odd}");
        }
    }
}

/// Text of the error by which `run` is refused as a misuse.
fn misuse<T: std::fmt::Debug>(run: impl FnOnce() -> Result<T>) -> String {
    internal_message(AssertUnwindSafe(run))
}

#[test]
fn a_source_that_was_not_kept_is_missed() {
    let (mut views, mut sources) = (Views::new(1), Sources::default());
    let source = region(64);
    let bytes = sources.of(ChunkBytes::Region(&source)).unwrap();
    assert!(
        views
            .append(&[slot(0, 20)], bytes, PayloadPart::Key)
            .unwrap()
    );
    let text = misuse(|| views.finish(&sources.finish()));
    assert!(text.contains("without the bytes"), "{text}");
    // What was refused is gone; the column begins again.
    let bytes = sources.of(ChunkBytes::Region(&source)).unwrap();
    assert!(
        !views
            .append(&[slot(0, 12)], bytes, PayloadPart::Key)
            .unwrap()
    );
    assert_eq!(views.finish(&sources.finish()).unwrap().len(), 1);
}

#[test]
fn buffers_of_another_batch_are_refused() {
    let source = region(64);
    let (mut one, mut other) = (Sources::default(), Sources::default());
    let mut views = Views::new(1);
    let bytes = one.of(ChunkBytes::Region(&source)).unwrap();
    views
        .append(&[slot(0, 20)], bytes, PayloadPart::Key)
        .unwrap();
    one.point(bytes.number());
    let others = other.of(ChunkBytes::Region(&source)).unwrap();
    other.point(others.number());
    let text = misuse(|| views.append(&[slot(0, 20)], others, PayloadPart::Key));
    assert!(text.contains("another batch"), "{text}");
    let text = misuse(|| views.finish(&other.finish()));
    assert!(text.contains("without the bytes"), "{text}");
    // Nor do those of the same sources' next batch serve.
    let bytes = one.of(ChunkBytes::Region(&source)).unwrap();
    views
        .append(&[slot(0, 20)], bytes, PayloadPart::Key)
        .unwrap();
    drop(one.finish());
    let next = one.of(ChunkBytes::Region(&source)).unwrap();
    one.point(next.number());
    let text = misuse(|| views.finish(&one.finish()));
    assert!(text.contains("without the bytes"), "{text}");
}

#[test]
fn an_arena_that_was_cleared_is_missed() {
    let text = b"a payload beyond twelve bytes";
    let len = i32::try_from(text.len()).unwrap();
    for clears in [false, true] {
        let (mut views, mut sources) = (Views::new(1), Sources::default());
        let mut arena = arena(text);
        let bytes = sources.of(ChunkBytes::Arena(&arena)).unwrap();
        views
            .append(&[slot(0, len)], bytes, PayloadPart::Key)
            .unwrap();
        sources.point(bytes.number());
        if clears {
            arena.clear();
        }
        sources.freeze(&arena.freeze());
        let buffers = sources.finish();
        if clears {
            let text = misuse(|| views.finish(&buffers));
            assert!(text.contains("without the bytes"), "{text}");
        } else {
            let found = views.finish(&buffers).unwrap();
            found.to_data().validate_full().unwrap();
            assert_eq!(found.as_binary_view().value(0), text);
        }
    }
}

#[test]
fn slots_outside_the_source_are_refused() {
    let (mut views, mut sources) = (Views::new(1), Sources::default());
    let source = region(32);
    for (start, len) in [
        (20, 13),
        (31, 2),
        (33, 0),
        (u32::MAX, i32::MAX),
        (0, i32::MAX),
    ] {
        let bytes = sources.of(ChunkBytes::Region(&source)).unwrap();
        assert!(
            views
                .append(&[slot(start, len)], bytes, PayloadPart::Key)
                .is_err()
        );
        let len = len.unsigned_abs();
        assert!(views.push(bytes, (start as usize, len), 1).is_err());
        assert!(bytes.text(start as usize, len).is_none());
    }
    assert_eq!(views.finish(&sources.finish()).unwrap().len(), 0);
}

#[test]
fn a_column_of_text_takes_text_only() {
    let source = Region::heap(b"twelve bytes and more, \xff\xfe\xfd and no text".to_vec());
    let (mut views, mut sources) = (TextViews::new(1), Sources::default());
    let bytes = sources.of(ChunkBytes::Region(&source)).unwrap();
    assert!(bytes.text(10, 20).is_none());
    assert!(views.push(bytes.text(0, 21).unwrap(), 2).unwrap());
    sources.point(bytes.number());
    let own = "a text of our own, longer than a view";
    for text in [own, own, "short"] {
        views.push(sources.text(text).unwrap(), 1).unwrap();
    }
    views.push_nulls(1).unwrap();
    let found = views.finish(&sources.finish()).unwrap();
    found.to_data().validate_full().unwrap();
    let found: Vec<_> = found.as_string_view().iter().collect();
    let first = Some("twelve bytes and more");
    assert_eq!(
        found,
        [first, first, Some(own), Some(own), Some("short"), None]
    );
}
