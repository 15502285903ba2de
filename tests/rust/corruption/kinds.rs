//! The kinds of damage, each with what is left whole and what the loss may be called.

use std::collections::BTreeMap;

use kafkalog::internal::segment::resync::Reason;

use super::Seed;
use crate::common::Chance;

/// A part of a damaged file.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part {
    /// The batch of this number, untouched.
    Whole(usize),
    /// Anything else.
    Other(Vec<u8>),
}

/// A damaged file.
pub(super) struct Damaged {
    pub(super) parts: Vec<Part>,
    /// Batches that may be given or not, as nothing tells which of them is in its place; so many of them are lost.
    pub(super) unclear: (Vec<usize>, usize),
    /// Possible reasons of the first lost range; empty for any.
    pub(super) reasons: Vec<Reason>,
}

/// A segment and the bytes of its batches.
pub(super) struct Bytes<'a> {
    pub(super) seed: &'a Seed,
    pub(super) spans: Vec<(i64, i64, i32)>,
}

impl Bytes<'_> {
    pub(super) fn batch(&self, number: usize) -> Vec<u8> {
        let (at, header) = &self.seed.batches[number];
        self.seed.data[*at..at + header.size].to_vec()
    }

    pub(super) fn len(&self) -> usize {
        self.seed.batches.len()
    }

    pub(super) fn originals(&self) -> BTreeMap<Vec<u8>, usize> {
        (0..self.len()).map(|n| (self.batch(n), n)).collect()
    }

    pub(super) fn whole(&self) -> Vec<Part> {
        (0..self.len()).map(Part::Whole).collect()
    }

    fn is_legacy(&self, number: usize) -> bool {
        self.seed.batches[number].1.is_legacy()
    }

    /// Another batch in the place of one.
    fn with(&self, number: usize, bytes: Vec<u8>, reasons: &[Reason]) -> Damaged {
        let mut parts = self.whole();
        parts[number] = Part::Other(bytes);
        Damaged::of(parts, reasons)
    }

    /// One whose length field says something else.
    fn with_length(&self, number: usize, length: i32) -> Damaged {
        let mut bytes = self.batch(number);
        bytes[8..12].copy_from_slice(&length.to_be_bytes());
        self.with(
            number,
            bytes,
            &[Reason::Length, Reason::Torn, Reason::Crc, Reason::Foreign],
        )
    }

    /// Returns whether every offset has its batch: a batch out of order is then found.
    fn is_dense(&self) -> bool {
        self.seed.is_dense && self.spans[0].0 == self.seed.base_offset
    }

    /// One whose offset field says something else.
    fn with_offset(&self, number: usize, offset: i64) -> Damaged {
        let mut bytes = self.batch(number);
        bytes[..8].copy_from_slice(&offset.to_be_bytes());
        let mut damaged = self.with(number, bytes, &[]);
        if !self.is_dense() || self.seed.batches[number].1.magic == 0 {
            // Where offsets are missing anyway, the wrong one may be as good as right, or a neighbour looks wrong.
            damaged.unclear = (
                (number.saturating_sub(1)..self.len().min(number + 2)).collect(),
                usize::MAX,
            );
        }
        damaged
    }
}

impl Damaged {
    pub(super) fn of(parts: Vec<Part>, reasons: &[Reason]) -> Self {
        Self {
            parts,
            unclear: (Vec::new(), 0),
            reasons: reasons.to_vec(),
        }
    }
}

fn noise(chance: &mut Chance, len: usize) -> Vec<u8> {
    (0..len).map(|_| chance.byte()).collect()
}

pub(super) type Kind = fn(&Bytes<'_>, &mut Chance, usize) -> Damaged;

/// Damages that may happen to batch `n`.
pub(super) const KINDS: &[(&str, Kind)] = &[
    ("bit of the body", |b, chance, n| {
        let mut bytes = b.batch(n);
        let from = if b.is_legacy(n) { 18 } else { 27 };
        let at = from + chance.below(bytes.len() - from);
        bytes[at] ^= 1 << chance.below(8);
        b.with(n, bytes, &[Reason::Crc])
    }),
    ("bit of the checksum", |b, chance, n| {
        let mut bytes = b.batch(n);
        let at = if b.is_legacy(n) { 12 } else { 17 };
        bytes[at + chance.below(4)] ^= 1 << chance.below(8);
        b.with(n, bytes, &[Reason::Crc])
    }),
    (
        "bit of the last offset delta or the attributes",
        |b, chance, n| {
            let mut bytes = b.batch(n);
            let (from, len) = if b.is_legacy(n) { (17, 1) } else { (21, 6) };
            bytes[from + chance.below(len)] ^= 1 << chance.below(8);
            b.with(n, bytes, &[Reason::Crc, Reason::Foreign])
        },
    ),
    ("zeros in the body", |b, chance, n| {
        let mut bytes = b.batch(n);
        let at = 20 + chance.below(bytes.len() - 24);
        let end = (at + 1 + chance.below(100)).min(bytes.len());
        let before = bytes.clone();
        bytes[at..end].fill(0);
        if bytes == before {
            bytes[at] ^= 1;
        }
        b.with(n, bytes, &[Reason::Crc])
    }),
    ("noise in the body", |b, chance, n| {
        let mut bytes = b.batch(n);
        let at = 20 + chance.below(bytes.len() - 24);
        let end = (at + 1 + chance.below(100)).min(bytes.len());
        let mut other = noise(chance, end - at);
        other[0] = bytes[at] ^ 0x55;
        bytes[at..end].copy_from_slice(&other);
        b.with(n, bytes, &[Reason::Crc])
    }),
    ("zeros for a batch", |b, _, n| {
        b.with(n, vec![0; b.batch(n).len()], &[Reason::Torn])
    }),
    ("noise for a batch", |b, chance, n| {
        let bytes = noise(chance, b.batch(n).len());
        b.with(n, bytes, &[])
    }),
    ("text for a batch", |b, _, n| {
        let text = b"[2026-11-24 07:00:00,000] INFO [Log partition=t-0] Rolled".iter();
        let bytes = text.copied().cycle().take(b.batch(n).len()).collect();
        b.with(n, bytes, &[Reason::Foreign])
    }),
    ("length 0", |b, _, n| b.with_length(n, 0)),
    ("length -1", |b, _, n| b.with_length(n, -1)),
    ("length 2147483647", |b, _, n| b.with_length(n, i32::MAX)),
    ("length one more", |b, _, n| {
        b.with_length(n, i32::try_from(b.batch(n).len()).unwrap() - 11)
    }),
    ("length one less", |b, _, n| {
        b.with_length(n, i32::try_from(b.batch(n).len()).unwrap() - 13)
    }),
    ("bit of the length", |b, chance, n| {
        let length = i32::try_from(b.batch(n).len()).unwrap() - 12;
        b.with_length(n, length ^ (1 << chance.below(31)))
    }),
    ("length over the next batch", |b, _, n| {
        let n = n.min(b.len() - 2);
        let both = b.batch(n).len() + b.batch(n + 1).len();
        b.with_length(n, i32::try_from(both).unwrap() - 12)
    }),
    ("length to the end", |b, _, n| {
        let n = n.min(b.len() - 2);
        let left = b.seed.data.len() - b.seed.batches[n].0;
        b.with_length(n, i32::try_from(left).unwrap() - 12)
    }),
    ("magic 3", |b, _, n| {
        let mut bytes = b.batch(n);
        bytes[16] = 3;
        b.with(n, bytes, &[Reason::Magic])
    }),
    ("magic -1", |b, _, n| {
        let mut bytes = b.batch(n);
        bytes[16] = 0xff;
        b.with(n, bytes, &[Reason::Magic])
    }),
    ("another magic", |b, chance, n| {
        let mut bytes = b.batch(n);
        bytes[16] = (bytes[16] + 1 + u8::from(chance.below(2) == 0)) % 3;
        b.with(n, bytes, &[Reason::Magic, Reason::Crc, Reason::Foreign])
    }),
    ("a bit of the base offset", |b, chance, n| {
        let offset = b.seed.batches[n].1.base_offset;
        b.with_offset(n, offset ^ (1 << chance.below(40)))
    }),
    ("base offset too high", |b, chance, n| {
        let last = b.spans[b.len() - 1].1;
        b.with_offset(n, last + 1 + i64::try_from(chance.below(1000)).unwrap())
    }),
    ("base offset below the segment's", |b, _, n| {
        let mut damaged = b.with_offset(n, b.seed.base_offset - 1);
        damaged.unclear = (Vec::new(), 0);
        damaged
    }),
    ("negative base offset", |b, _, n| {
        let mut damaged = b.with_offset(n, i64::MIN + 7);
        damaged.unclear = (Vec::new(), 0);
        damaged
    }),
    ("leader epoch too high", |b, _, n| {
        let mut bytes = b.batch(n);
        if b.is_legacy(n) {
            return Damaged::of(b.whole(), &[]);
        }
        // Of the last one, and before others without epochs, nothing tells.
        let rest = &b.spans[n + 1..];
        if rest.iter().all(|&(.., epoch)| epoch < 0) {
            return Damaged::of(b.whole(), &[]);
        }
        bytes[12..16].copy_from_slice(&0x7fff_ffffi32.to_be_bytes());
        b.with(n, bytes, &[Reason::Order])
    }),
    ("leader epoch below -1", |b, _, n| {
        let mut bytes = b.batch(n);
        if b.is_legacy(n) {
            return Damaged::of(b.whole(), &[]);
        }
        bytes[12..16].copy_from_slice(&(-2i32).to_be_bytes());
        b.with(n, bytes, &[Reason::Order])
    }),
    ("a batch twice", |b, _, n| {
        let mut parts = b.whole();
        parts.insert(n + 1, Part::Other(b.batch(n)));
        Damaged::of(parts, &[Reason::Order])
    }),
    ("a batch again later", |b, chance, n| {
        let mut parts = b.whole();
        let to = n + 1 + chance.below(b.len() - n);
        parts.insert(to, Part::Other(b.batch(n)));
        Damaged::of(parts, &[Reason::Order])
    }),
    ("two batches the other way round", |b, _, n| {
        let n = n.min(b.len() - 2);
        let mut parts = b.whole();
        parts.swap(n, n + 1);
        let mut damaged = Damaged::of(parts, &[Reason::Order]);
        damaged.unclear = (vec![n, n + 1], 1);
        damaged
    }),
    ("a batch gone", |b, _, n| {
        let mut parts = b.whole();
        parts.remove(n);
        Damaged::of(parts, &[])
    }),
    ("bytes gone from a batch", |b, chance, n| {
        let mut bytes = b.batch(n);
        let at = chance.below(bytes.len() - 1);
        let end = at + 1 + chance.below(bytes.len() - at - 1);
        bytes.drain(at..end);
        b.with(n, bytes, &[])
    }),
    ("bytes gone across batches", |b, chance, n| {
        let n = n.min(b.len() - 2);
        let mut parts = b.whole();
        let (mut left, mut right) = (b.batch(n), b.batch(n + 1));
        left.truncate(1 + chance.below(left.len() - 1));
        right.drain(..=chance.below(right.len() - 1));
        parts[n] = Part::Other(left);
        parts[n + 1] = Part::Other(right);
        Damaged::of(
            parts,
            &[Reason::Torn, Reason::Length, Reason::Foreign, Reason::Crc],
        )
    }),
    ("noise between batches", |b, chance, n| {
        let mut parts = b.whole();
        let len = 1 + chance.below(300);
        let mut bytes = noise(chance, len);
        bytes[0] |= 0x80;
        parts.insert(n, Part::Other(bytes));
        Damaged::of(parts, &[Reason::Foreign])
    }),
    ("zeros between batches", |b, chance, n| {
        let mut parts = b.whole();
        parts.insert(n, Part::Other(vec![0; 1 + chance.below(9000)]));
        Damaged::of(parts, &[])
    }),
    ("noise inside a batch", |b, chance, n| {
        let bytes = b.batch(n);
        let at = 1 + chance.below(bytes.len() - 1);
        let len = 1 + chance.below(300);
        let bytes = [&bytes[..at], &noise(chance, len), &bytes[at..]].concat();
        b.with(n, bytes, &[])
    }),
    ("a header without its batch", |b, _, n| {
        let mut parts = b.whole();
        let bytes = b.batch(n);
        parts.insert(n, Part::Other(bytes[..bytes.len().min(61) - 1].to_vec()));
        Damaged::of(
            parts,
            &[Reason::Torn, Reason::Foreign, Reason::Crc, Reason::Length],
        )
    }),
    ("the end gone", |b, chance, n| {
        let mut parts = b.whole();
        let mut bytes = b.batch(n);
        bytes.truncate(1 + chance.below(bytes.len() - 1));
        parts.truncate(n);
        parts.push(Part::Other(bytes));
        Damaged::of(parts, &[Reason::Torn])
    }),
    ("zeros at the end", |b, chance, _| {
        let mut parts = b.whole();
        parts.push(Part::Other(vec![0; 1 + chance.below(9000)]));
        Damaged::of(parts, &[Reason::Torn])
    }),
    ("noise at the end", |b, chance, _| {
        let mut parts = b.whole();
        let len = 1 + chance.below(3000);
        parts.push(Part::Other(noise(chance, len)));
        Damaged::of(parts, &[])
    }),
    ("the beginning gone", |b, chance, _| {
        let mut bytes = b.batch(0);
        bytes.drain(..=chance.below(bytes.len() - 1));
        b.with(0, bytes, &[])
    }),
    ("three batches at once", |b, chance, n| {
        let mut parts = b.whole();
        for _ in 0..3 {
            let hit = chance.below(b.len());
            let mut bytes = b.batch(hit);
            let at = 20 + chance.below(bytes.len() - 20);
            bytes[at] ^= 1 << chance.below(8);
            parts[hit] = Part::Other(bytes);
        }
        let mut bytes = b.batch(n);
        bytes[8] ^= 0x40;
        parts[n] = Part::Other(bytes);
        Damaged::of(parts, &[])
    }),
    (
        "undecodable records under a right checksum",
        |b, chance, n| {
            let mut bytes = b.batch(n);
            let header = &b.seed.batches[n].1;
            if header.is_legacy() || header.records_count == Some(0) || header.is_control() {
                return Damaged::of(b.whole(), &[]);
            }
            // Of plain records the length of the first one; a codec's magic or the checksum at its end.
            let at = 61
                + if header.attributes.codec_id() == 0 {
                    0
                } else {
                    chance.below(2)
                };
            bytes[at] ^= 0xff;
            let crc = crc32c::crc32c(&bytes[21..]).to_be_bytes();
            bytes[17..21].copy_from_slice(&crc);
            let mut damaged = b.with(n, bytes, &[Reason::Codec, Reason::Records]);
            damaged.reasons.push(Reason::Missing);
            damaged
        },
    ),
];
