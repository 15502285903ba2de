use aes_gcm::aead::{Aead, Payload};
use aes_gcm::{Aes256Gcm, KeyInit, Nonce};

use super::*;
use crate::compress::{Codec, Compressor};

const AAD: &[u8] = b"what the tags cover besides";
const KEY: [u8; 32] = [3; 32];
/// The object has other chunks before.
const AT: Position = 5000;

fn zstd(file: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let codec = Codec::new(Compression::Zstd);
    Compressor::new().compress(codec, file, &mut out).unwrap();
    out
}

/// Seals as the plugin does, by the library itself: nonce, ciphertext, tag.
fn seal(plain: &[u8], nonce: u8) -> Vec<u8> {
    let cipher = Aes256Gcm::new_from_slice(&KEY).unwrap();
    let payload = Payload {
        msg: plain,
        aad: AAD,
    };
    let sealed = cipher.encrypt(&Nonce::from([nonce; 12]), payload);
    [&[nonce; 12][..], &sealed.unwrap()].concat()
}

fn key() -> DataKey {
    DataKey::new(&KEY, AAD).unwrap()
}

/// A file in chunks of 1000 bytes, in one of the ways in which they are stored.
struct Stored {
    file: Vec<u8>,
    bytes: Vec<u8>,
    chunks: Vec<StoredChunk>,
    is_compressed: bool,
    key: Option<DataKey>,
}

impl Stored {
    fn new(is_compressed: bool, is_sealed: bool) -> Self {
        let file: Vec<u8> = (0..2500u32)
            .map(|at| u8::try_from(at / 3 % 251).unwrap())
            .collect();
        let (mut bytes, mut chunks) = (Vec::new(), Vec::new());
        for (part, nonce) in file.chunks(1000).zip(1..) {
            let mut made = part.to_vec();
            if is_compressed {
                made = zstd(&made);
            }
            if is_sealed {
                made = seal(&made, nonce);
            }
            chunks.push(StoredChunk {
                size: made.len(),
                original: part.len(),
            });
            bytes.extend(made);
        }
        Self {
            file,
            bytes,
            chunks,
            is_compressed,
            key: is_sealed.then(key),
        }
    }

    fn all() -> [Self; 4] {
        [(false, false), (true, false), (false, true), (true, true)]
            .map(|(is_compressed, is_sealed)| Self::new(is_compressed, is_sealed))
    }

    fn decode(&self, bytes: &[u8], chunks: &[StoredChunk]) -> Result<Vec<u8>> {
        decode_chunks(bytes, AT, chunks, self.is_compressed, self.key.as_ref())
    }

    /// Positions in the object at which chunks begin.
    fn starts(&self) -> Vec<Position> {
        let sizes = self.chunks.iter().scan(AT, |at, chunk| {
            let start = *at;
            *at = at.saturating_add(chunk.size as u64);
            Some(start)
        });
        sizes.collect()
    }
}

/// The position of the damage that an error is about.
fn position(error: &Error) -> Position {
    assert!(matches!(error, Error::CorruptRecord(_)), "{error}");
    error.as_fault().unwrap().location.position.unwrap()
}

#[test]
fn whole_chunks_are_the_file() {
    for stored in Stored::all() {
        assert_eq!(
            stored.decode(&stored.bytes, &stored.chunks).unwrap(),
            stored.file
        );
        let last = &stored.bytes[stored.chunks[0].size + stored.chunks[1].size..];
        let found = stored.decode(last, &stored.chunks[2..]).unwrap();
        assert_eq!(found, stored.file[2000..]);
        assert_eq!(stored.decode(&[], &[]).unwrap(), b"");
        // Bytes after the last one belong to other chunks.
        let more = [&stored.bytes[..], b"more"].concat();
        assert_eq!(stored.decode(&more, &stored.chunks).unwrap(), stored.file);
    }
}

#[test]
fn a_cut_object_is_damage_of_the_chunk_where_it_ends() {
    for stored in Stored::all() {
        let starts = stored.starts();
        for length in (0..stored.bytes.len()).step_by(7) {
            let error = stored
                .decode(&stored.bytes[..length], &stored.chunks)
                .unwrap_err();
            let end = AT + length as u64;
            let hit = starts.iter().rfind(|&&start| start <= end).unwrap();
            assert_eq!(position(&error), *hit);
            assert!(error.to_string().contains("expected a chunk of"), "{error}");
        }
    }
}

#[test]
fn sizes_that_lie_are_damage_of_their_chunk() {
    for stored in Stored::all() {
        let starts = stored.starts();
        for (n, changed) in (0..3).flat_map(|n| [0, 1, 999, 1001, 1 << 40].map(|to| (n, to))) {
            // The same for each half of a size.
            for of_file in [true, false] {
                let mut chunks = stored.chunks.clone();
                let size = if of_file {
                    &mut chunks[n].original
                } else {
                    &mut chunks[n].size
                };
                *size = changed;
                let error = stored.decode(&stored.bytes, &chunks).unwrap_err();
                let at = position(&error);
                // The end by the false size, which may be after the next chunk's beginning.
                let end = starts[n].saturating_add(chunks[n].size.max(1) as u64);
                assert!((starts[n]..end).contains(&at), "{n} {changed}: {error}");
            }
        }
    }
}

#[test]
fn every_changed_byte_of_a_sealed_chunk_is_found() {
    let stored = Stored::new(true, true);
    let starts = stored.starts();
    for at in 0..stored.bytes.len() {
        let mut bytes = stored.bytes.clone();
        bytes[at] ^= 1;
        let error = stored.decode(&bytes, &stored.chunks).unwrap_err();
        let place = AT + at as u64;
        let hit = starts.iter().rfind(|&&start| start <= place).unwrap();
        assert_eq!(position(&error), *hit);
        assert!(error.to_string().contains("AES-GCM tag"), "{error}");
    }
}

#[test]
fn no_changed_byte_of_a_frame_gives_another_length() {
    let stored = Stored::new(true, false);
    for (at, bit) in (0..stored.bytes.len()).flat_map(|at| [1, 0x80].map(|bit| (at, bit))) {
        let mut bytes = stored.bytes.clone();
        bytes[at] ^= bit;
        match stored.decode(&bytes, &stored.chunks) {
            Ok(file) => assert_eq!(file.len(), stored.file.len()),
            Err(error) => assert!(position(&error) >= AT),
        }
    }
}

#[test]
fn what_is_sealed_opens_with_its_key_alone() {
    let sealed = seal(b"an index", 9);
    assert_eq!(key().open(&sealed, AT).unwrap(), b"an index");
    assert_eq!(key().open(&seal(b"", 9), AT).unwrap(), b"");
    let others = [
        DataKey::new(&[4; 32], AAD),
        DataKey::new(&KEY, b"other"),
        DataKey::new(&KEY, b""),
    ];
    for other in others {
        assert_eq!(position(&other.unwrap().open(&sealed, AT).unwrap_err()), AT);
    }
    for length in 0..sealed.len() {
        assert_eq!(
            position(&key().open(&sealed[..length], AT).unwrap_err()),
            AT
        );
    }
    let longer = [&sealed[..], &[0]].concat();
    assert_eq!(position(&key().open(&longer, AT).unwrap_err()), AT);
}

#[test]
fn a_key_of_another_length_or_form_is_refused() {
    for length in [0, 16, 24, 31, 33, 64] {
        let error = DataKey::new(&vec![0; length], AAD).err().unwrap();
        assert!(error.to_string().contains(&format!("{length} bytes")));
    }
    for text in [
        "",
        "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----",
        "\0",
    ] {
        let error = unwrap_data_key(text, &[0; 512]).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
    }
}

/// A frame of repeated bytes: 16 MiB in a few hundred.
fn bomb() -> Vec<u8> {
    let frame = zstd(&vec![7; 16 << 20]);
    assert!(frame.len() < 4096);
    frame
}

#[test]
fn a_bomb_takes_no_more_memory_than_its_chunk_may() {
    let frame = bomb();
    let chunk = StoredChunk {
        size: frame.len(),
        original: 1000,
    };
    let error = decode_chunks(&frame, AT, &[chunk], true, None).unwrap_err();
    assert!(position(&error) >= AT);
    let mut out = Vec::new();
    let limit = DecodeLimit(chunk.original);
    Decompressor::new()
        .decompress(Compression::Zstd, MAGIC, &frame, &mut out, limit)
        .unwrap_err();
    assert!(out.capacity() < 64 << 10, "{} bytes", out.capacity());
}

#[test]
fn sizes_of_a_manifest_have_a_limit() {
    let sizes: Vec<u8> = (0..=255).collect();
    assert_eq!(decompress_sizes(&zstd(&sizes), 256).unwrap(), sizes);
    for (stored, limit) in [(zstd(&sizes), 255), (bomb(), 1 << 20)] {
        assert!(matches!(
            decompress_sizes(&stored, limit),
            Err(Error::CorruptRecord(_))
        ));
    }
    let whole = zstd(&sizes);
    for length in 1..whole.len() {
        assert!(decompress_sizes(&whole[..length], 256).is_err());
    }
    assert!(decompress_sizes(&[&whole[..], b"more"].concat(), 256).is_err());
}
