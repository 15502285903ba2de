//! Round trips by the libraries' own encoders, framings built by hand, and streams that must be refused.

use std::io::Write;

use super::*;

const ALL: [Compression; 5] = [
    Compression::None,
    Compression::Gzip,
    Compression::Snappy,
    Compression::Lz4,
    Compression::Zstd,
];

fn text(len: usize) -> Vec<u8> {
    let mut state = 1u32;
    let mut out = Vec::new();
    while out.len() < len {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        writeln!(
            out,
            "{{\"id\":{},\"name\":\"n{}\"}}",
            state >> 20,
            state >> 28
        )
        .unwrap();
    }
    out.truncate(len);
    out
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn xerial_header() -> Vec<u8> {
    [&[0x82][..], b"SNAPPY", &[0, 0, 0, 0, 1, 0, 0, 0, 1]].concat()
}

fn raw_snappy(data: &[u8]) -> Vec<u8> {
    snap::raw::Encoder::new().compress_vec(data).unwrap()
}

fn xerial(data: &[u8]) -> Vec<u8> {
    let mut out = xerial_header();
    for chunk in data.chunks(32 << 10) {
        let block = raw_snappy(chunk);
        out.extend(u32::try_from(block.len()).unwrap().to_be_bytes());
        out.extend(block);
    }
    out
}

/// `(word & 0x7fff_ffff)` bytes follow each length; the header checksum is Kafka's for these flags.
fn lz4_frame(header: &[u8], blocks: &[(u32, &[u8])]) -> Vec<u8> {
    let mut out = header.to_vec();
    for (length, block) in blocks {
        out.extend(length.swap_bytes().to_be_bytes());
        out.extend(*block);
    }
    out.extend([0; 4]);
    out
}

const LZ4_64K: [u8; 7] = [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82];

fn lz4(data: &[u8]) -> Vec<u8> {
    let blocks: Vec<Vec<u8>> = data
        .chunks(64 << 10)
        .map(lz4_flex::block::compress)
        .collect();
    let blocks: Vec<(u32, &[u8])> = blocks
        .iter()
        .map(|b| (u32::try_from(b.len()).unwrap(), b.as_slice()))
        .collect();
    lz4_frame(&LZ4_64K, &blocks)
}

fn zstd_frame(data: &[u8], content_size: bool) -> Vec<u8> {
    let mut context = zstd_safe::CCtx::create();
    context
        .set_parameter(zstd_safe::CParameter::ContentSizeFlag(content_size))
        .unwrap();
    context
        .set_parameter(zstd_safe::CParameter::ChecksumFlag(true))
        .unwrap();
    let mut out = Vec::with_capacity(zstd_safe::compress_bound(data.len()));
    context.compress2(&mut out, data).unwrap();
    out
}

fn encode(codec: Compression, data: &[u8]) -> Vec<u8> {
    match codec {
        Compression::None => data.to_vec(),
        Compression::Gzip => gzip(data),
        Compression::Snappy => xerial(data),
        Compression::Lz4 => lz4(data),
        Compression::Zstd => zstd_frame(data, false),
    }
}

fn decode(codec: Compression, magic: u8, src: &[u8], limit: usize) -> Result<Vec<u8>> {
    let mut out = b"before".to_vec();
    let result = Decompressor::new().decompress(codec, magic, src, &mut out, DecodeLimit(limit));
    assert!(out.starts_with(b"before"));
    match result {
        Ok(()) => Ok(out.split_off(6)),
        Err(error) => {
            assert_eq!(out, b"before", "what was written is taken back");
            Err(error)
        }
    }
}

fn refused(codec: Compression, src: &[u8], what: &str, position: u64) {
    let error = decode(codec, 2, src, 1 << 20).unwrap_err();
    assert!(matches!(error, Error::CorruptRecord(_)), "{error}");
    let fault = error.as_fault().unwrap();
    assert_eq!(
        (&*fault.what, fault.location.position),
        (what, Some(position)),
        "{error}"
    );
}

#[test]
fn every_size_comes_back() {
    for codec in ALL {
        let mut decompressor = Decompressor::new();
        let mut out = Vec::new();
        for len in [
            0, 1, 12, 13, 1000, 32_768, 32_769, 65_536, 65_537, 1_000_000, 40, 300_000,
        ] {
            let data = text(len);
            let src = encode(codec, &data);
            let begun = out.len();
            match decompressor.decompress(codec, 2, &src, &mut out, DecodeLimit::default()) {
                Ok(()) => assert!(out[begun..] == data, "{codec} {len}"),
                Err(error) => panic!("{codec} {len}: {error}"),
            }
        }
    }
}

#[test]
fn the_limit_is_exact() {
    for codec in ALL {
        for len in [1usize, 1000, 65_536, 100_000] {
            let src = encode(codec, &text(len));
            assert_eq!(decode(codec, 2, &src, len).unwrap().len(), len, "{codec}");
            let error = decode(codec, 2, &src, len - 1).unwrap_err().to_string();
            assert!(
                error.contains(&format!("at most {} bytes (the decode limit)", len - 1)),
                "{error}"
            );
        }
    }
    assert_eq!(DecodeLimit(usize::MAX).bytes(), 0x7fff_ffff);
}

/// 64 MiB of zeros, compressed, against a limit of 1 MiB: refused, and no more than a few times the limit is held.
#[test]
fn bombs() {
    let zeros = vec![0u8; 64 << 20];
    let bombs = [
        (Compression::Gzip, gzip(&zeros)),
        (Compression::Gzip, gzip(&gzip(&zeros))),
        (Compression::Snappy, xerial(&zeros)),
        (Compression::Snappy, raw_snappy(&zeros)),
        (Compression::Lz4, lz4(&zeros)),
        (Compression::Zstd, zstd_frame(&zeros, false)),
        (Compression::Zstd, zstd_frame(&zeros, true)),
        (
            Compression::Zstd,
            zstd_frame(&zeros[..1 << 18], true).repeat(64),
        ),
    ];
    for (codec, bomb) in bombs {
        let mut out = Vec::new();
        let result =
            Decompressor::new().decompress(codec, 2, &bomb, &mut out, DecodeLimit(1 << 20));
        if let Err(error) = result {
            assert!(
                error.to_string().contains("at most 1048576 bytes"),
                "{error}"
            );
        } else {
            assert!(
                codec == Compression::Gzip && out.len() < 1 << 20,
                "the doubly packed one"
            );
        }
        assert!(out.capacity() <= 4 << 20, "{codec} held {}", out.capacity());
    }
}

/// A size that only claims to be large takes no memory.
#[test]
fn declared_sizes_are_not_believed() {
    let mut out = Vec::new();
    let mut decompressor = Decompressor::new();
    let mut run = |codec, src: &[u8]| {
        decompressor
            .decompress(codec, 2, src, &mut out, DecodeLimit::default())
            .unwrap_err();
        assert!(out.capacity() <= 1 << 20, "{codec} held {}", out.capacity());
    };
    // 268,435,455 bytes, says the raw block.
    run(Compression::Snappy, &[0xff, 0xff, 0xff, 0x7f, 0x00, 0x61]);
    // 256 MiB, says the frame (single segment, 4-byte content size), of one raw block of a byte.
    run(
        Compression::Zstd,
        &[
            0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0, 0, 0x10, 0x09, 0, 0, 0x61,
        ],
    );
    // Ends with a length of 268,435,455.
    let mut cut = gzip(&text(1000));
    let len = cut.len();
    cut[len - 4..].copy_from_slice(&[0xff, 0xff, 0xff, 0x0f]);
    run(Compression::Gzip, &cut);
}

#[test]
fn gzip_members_and_what_follows() {
    let (one, two) = (gzip(b"one"), gzip(b"two"));
    let both = [one.clone(), two.clone()].concat();
    assert_eq!(decode(Compression::Gzip, 2, &both, 100).unwrap(), b"onetwo");
    let rubbish = [
        one.as_slice(),
        b"rubbish that is long enough to be looked at",
    ]
    .concat();
    assert_eq!(decode(Compression::Gzip, 2, &rubbish, 100).unwrap(), b"one");
    // Every optional header field, checksummed.
    let mut header = vec![0x1f, 0x8b, 8, 0x1e, 0, 0, 0, 0, 0, 3, 2, 0, 9, 9];
    header.extend(b"name\0comment\0");
    let crc = crc32fast::hash(&header).to_be_bytes();
    header.extend([crc[3], crc[2]]);
    let flagged = [&header, &one[10..]].concat();
    assert_eq!(decode(Compression::Gzip, 2, &flagged, 100).unwrap(), b"one");
    let mut wrong = flagged.clone();
    wrong[27] ^= 1;
    refused(Compression::Gzip, &wrong, "gzip header checksum", 27);
}

/// The bytes at the end may be the trailer of a later member, or of none: only the streaming inflater knows where a
/// member ends.
#[test]
fn gzip_trailers_that_mislead() {
    let run = |src: &[u8]| decode(Compression::Gzip, 2, src, 1 << 20).unwrap();
    let one = gzip(&text(5000));
    let trailer = &one[one.len() - 8..];
    // Two that are alike, one and its trailer once more, an empty one before and after.
    assert!(run(&one.repeat(2)) == text(5000).repeat(2));
    assert!(run(&[&one, trailer].concat()) == text(5000));
    assert!(run(&[gzip(b""), one.clone()].concat()) == text(5000));
    assert!(run(&[one.clone(), gzip(b"")].concat()) == text(5000));
    assert!(run(&gzip(b"").repeat(3)).is_empty());
    // A trailer that is wrong before one that would be right.
    let mut wrong = [&one, trailer].concat();
    wrong[one.len() - 8] ^= 1;
    let at = one.len() as u64 - 8;
    refused(Compression::Gzip, &wrong, "gzip checksum (CRC-32)", at);
}

/// The inflater that was used last leaves nothing to the next call.
#[test]
fn gzip_after_gzip() {
    let mut decompressor = Decompressor::new();
    let whole = gzip(&text(40_000));
    let mut broken = whole.clone();
    broken[2000] ^= 0x55;
    for round in 0..3 {
        for (src, len) in [
            (whole.clone(), 40_000),
            (whole.repeat(2), 80_000),
            (gzip(b"short"), 5),
        ] {
            let mut out = Vec::new();
            let run = decompressor.decompress(
                Compression::Gzip,
                2,
                &broken,
                &mut out,
                DecodeLimit::default(),
            );
            assert!(run.is_err() && out.is_empty());
            let run = decompressor.decompress(
                Compression::Gzip,
                2,
                &src,
                &mut out,
                DecodeLimit::default(),
            );
            run.unwrap();
            assert_eq!(out.len(), len, "{round}");
        }
    }
}

#[test]
fn gzip_refused() {
    let whole = gzip(b"text");
    refused(Compression::Gzip, b"", "gzip header", 0);
    refused(Compression::Gzip, &whole[..9], "gzip header", 0);
    refused(
        Compression::Gzip,
        b"\x1f\x8c\x08\0\0\0\0\0\0\0",
        "gzip magic",
        0,
    );
    refused(
        Compression::Gzip,
        b"\x1f\x8b\x07\0\0\0\0\0\0\0",
        "gzip method",
        2,
    );
    refused(Compression::Gzip, &whole[..12], "gzip stream", 12);
    refused(
        Compression::Gzip,
        &[&whole[..10], &[0xff; 9]].concat(),
        "gzip stream",
        10,
    );
    let at = whole.len() - 8;
    refused(
        Compression::Gzip,
        &whole[..whole.len() - 1],
        "gzip trailer",
        at as u64,
    );
    let mut wrong = whole.clone();
    wrong[at] ^= 1;
    refused(
        Compression::Gzip,
        &wrong,
        "gzip checksum (CRC-32)",
        at as u64,
    );
    let mut wrong = whole.clone();
    wrong[at + 4] ^= 1;
    refused(
        Compression::Gzip,
        &wrong,
        "gzip output length",
        at as u64 + 4,
    );
}

#[test]
fn snappy_framings() {
    let run = |src: &[u8]| decode(Compression::Snappy, 2, src, 1000);
    assert_eq!(
        run(&raw_snappy(b"some raw text")).unwrap(),
        b"some raw text"
    );
    assert_eq!(run(&xerial_header()).unwrap(), b"");
    let twice = [xerial(b"one"), xerial(b"two")].concat();
    assert_eq!(run(&twice).unwrap(), b"onetwo");
    // Up to three bytes after the last chunk are its end.
    assert_eq!(
        run(&[xerial(b"one").as_slice(), &[1, 2, 3]].concat()).unwrap(),
        b"one"
    );
    // The version is not checked.
    let mut old = xerial(b"one");
    old[8..16].fill(0);
    assert_eq!(run(&old).unwrap(), b"one");
    // A repeated header that is cut is the end, too.
    let cut = [xerial(b"one").as_slice(), &xerial_header()[..9]].concat();
    assert_eq!(run(&cut).unwrap(), b"one");
}

#[test]
fn snappy_refused() {
    let with = |tail: &[u8]| [&xerial_header(), tail].concat();
    refused(Compression::Snappy, b"", "snappy stream", 0);
    refused(
        Compression::Snappy,
        &with(&[0x80, 0, 0, 0]),
        "snappy chunk length",
        16,
    );
    refused(
        Compression::Snappy,
        &with(&[0x20, 0, 0, 1]),
        "snappy chunk length",
        16,
    );
    refused(
        Compression::Snappy,
        &with(&[0, 0, 0, 3, 1, 0]),
        "snappy chunk",
        20,
    );
    refused(
        Compression::Snappy,
        &with(&[0, 0, 0, 0]),
        "snappy block",
        20,
    );
    refused(
        Compression::Snappy,
        &with(&[0, 0, 0, 2, 2, 0]),
        "snappy block",
        20,
    );
    refused(
        Compression::Snappy,
        &with(&[0, 0, 0, 2, 100, 0]),
        "snappy block length",
        20,
    );
    refused(
        Compression::Snappy,
        &xerial_header()[..15],
        "snappy block length",
        0,
    );
}

#[test]
fn lz4_header_checksum_by_magic() {
    let mut src = lz4(b"text text text text text");
    src[6] = 0x1a;
    assert!(decode(Compression::Lz4, 0, &src, 1000).is_ok());
    for magic in [1, 2] {
        let error = decode(Compression::Lz4, magic, &src, 1000).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("lz4 header checksum: expected 0x1a as stored, found 0x82"),
            "{error}"
        );
    }
}

#[test]
fn lz4_flags() {
    let run = |src: &[u8]| decode(Compression::Lz4, 0, src, 1000);
    // Content size and checksum: skipped, not compared.
    let mut sized = vec![4, 0x22, 0x4d, 0x18, 0x6c, 0x40];
    sized.extend([0xee; 8]);
    sized.push(0);
    let src = lz4_frame(&sized, &[(0x8000_0002, b"ab")]);
    assert!(run(&src).is_err(), "the content checksum must be there");
    assert_eq!(run(&[src, vec![1, 2, 3, 4, 5]].concat()).unwrap(), b"ab");
    // Block checksum: compared.
    let flagged = [4, 0x22, 0x4d, 0x18, 0x70, 0x40, 0];
    let block = |sum: &[u8]| lz4_frame(&flagged, &[(0x8000_0003, &[b"abc", sum].concat())]);
    assert_eq!(run(&block(&[0xff, 0x53, 0xd1, 0x32])).unwrap(), b"abc");
    let error = run(&block(&[0xff, 0x53, 0xd1, 0x33])).unwrap_err();
    assert!(
        error.to_string().contains("byte 14: lz4 block checksum"),
        "{error}"
    );
}

#[test]
fn lz4_refused() {
    let whole = lz4(b"text text text text text");
    refused(Compression::Lz4, b"", "lz4 header", 0);
    refused(Compression::Lz4, &whole[..4], "lz4 header", 4);
    refused(Compression::Lz4, &whole[..5], "lz4 header", 5);
    refused(Compression::Lz4, &whole[..6], "lz4 header", 6);
    refused(Compression::Lz4, &[5, 0x22, 0x4d, 0x18], "lz4 magic", 0);
    for flags in [0x20, 0x40, 0xa0, 0x61, 0x62] {
        refused(
            Compression::Lz4,
            &[4, 0x22, 0x4d, 0x18, flags, 0x40, 0],
            "lz4 frame flags",
            4,
        );
    }
    for code in [0, 0x30, 0xc0, 0x41] {
        refused(
            Compression::Lz4,
            &[4, 0x22, 0x4d, 0x18, 0x60, code, 0],
            "lz4 block size code",
            5,
        );
    }
    refused(Compression::Lz4, &whole[..9], "lz4 block length", 7);
    refused(Compression::Lz4, &whole[..12], "lz4 block", 11);
    refused(
        Compression::Lz4,
        &whole[..whole.len() - 1],
        "lz4 block length",
        whole.len() as u64 - 4,
    );
    refused(
        Compression::Lz4,
        &lz4_frame(&LZ4_64K, &[(65_537, &vec![0; 65_537])]),
        "lz4 block length",
        7,
    );
    // A match before the beginning, and a block that is larger than the frame says.
    refused(
        Compression::Lz4,
        &lz4_frame(&LZ4_64K, &[(6, &[0x10, 0x61, 9, 0, 0x10, 0x62])]),
        "lz4 block",
        11,
    );
    let large = lz4_flex::block::compress(&vec![0; 65_537]);
    let length = u32::try_from(large.len()).unwrap();
    refused(
        Compression::Lz4,
        &lz4_frame(&LZ4_64K, &[(length, &large)]),
        "lz4 block",
        11,
    );
}

#[test]
fn zstd_frames() {
    let run = |src: &[u8]| decode(Compression::Zstd, 2, src, 1 << 20);
    assert_eq!(run(b"").unwrap(), b"");
    let skippable = [0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 9, 9];
    let src = [
        zstd_frame(b"one", false).as_slice(),
        &skippable,
        &zstd_frame(b"two", true),
    ]
    .concat();
    assert_eq!(run(&src).unwrap(), b"onetwo");
}

#[test]
fn zstd_refused() {
    let frame = zstd_frame(&text(5000), false);
    refused(
        Compression::Zstd,
        &frame[..frame.len() - 1],
        "zstd stream",
        0,
    );
    refused(
        Compression::Zstd,
        &[frame.as_slice(), b"x"].concat(),
        "zstd stream",
        frame.len() as u64,
    );
    let mut wrong = frame.clone();
    *wrong.last_mut().unwrap() ^= 1;
    refused(
        Compression::Zstd,
        &[frame.as_slice(), &wrong].concat(),
        "zstd stream",
        frame.len() as u64,
    );
    refused(Compression::Zstd, &[0; 100], "zstd stream", 0);
}
