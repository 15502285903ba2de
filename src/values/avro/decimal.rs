//! Decimals: big-endian numbers of any length.

use arrow_buffer::i256;

/// Most bytes of a decimal that becomes text: the time grows with the square.
pub(super) const MAX_DECIMAL: usize = 4096;

/// The bytes of a number without those that only repeat its sign.
fn significant(bytes: &[u8]) -> &[u8] {
    let mut rest = bytes;
    while let [first, second, ..] = rest {
        let sign = if second & 0x80 == 0 { 0 } else { 0xff };
        if *first != sign {
            break;
        }
        rest = rest.get(1..).unwrap_or_default();
    }
    rest
}

/// The number in `N` bytes, if it fits.
fn extended<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    let bytes = if bytes.len() > N {
        significant(bytes)
    } else {
        bytes
    };
    let negative = bytes.first()? & 0x80 != 0;
    let mut number = [if negative { 0xff } else { 0 }; N];
    let place = number.get_mut(N.checked_sub(bytes.len())?..)?;
    place.copy_from_slice(bytes);
    Some(number)
}

pub(super) fn decimal128(bytes: &[u8]) -> Option<i128> {
    extended(bytes).map(i128::from_be_bytes)
}

pub(super) fn decimal256(bytes: &[u8]) -> Option<i256> {
    extended(bytes).map(i256::from_be_bytes)
}

/// Appends a number as text with all digits of its scale.
pub(super) fn put_decimal(bytes: &[u8], scale: usize, out: &mut Vec<u8>) {
    const GROUP: u64 = 1_000_000_000;
    let negative = bytes.first().is_some_and(|first| first & 0x80 != 0);
    // The magnitude in groups of 32 bits, the highest first.
    let mut groups: Vec<u64> = Vec::new();
    for chunk in bytes.rchunks(4) {
        let group = chunk.iter().fold(0, |group: u64, &byte| {
            let byte = if negative { !byte } else { byte };
            group.wrapping_shl(8) | u64::from(byte)
        });
        groups.push(group);
    }
    if negative {
        // Two's complement: the inverted bits and one more.
        let mut carry = 1;
        for group in &mut groups {
            *group = group.wrapping_add(carry);
            carry = *group >> 32;
            *group &= u64::from(u32::MAX);
        }
        groups.push(carry);
    }
    groups.reverse();
    // Digits, the lowest first.
    let mut digits: Vec<u8> = Vec::new();
    let mut rest = groups.as_mut_slice();
    loop {
        while let [0, lower @ ..] = rest {
            rest = lower;
        }
        if rest.is_empty() {
            break;
        }
        let mut remainder = 0_u64;
        for group in &mut *rest {
            let value = remainder.wrapping_shl(32) | *group;
            *group = value.wrapping_div(GROUP);
            remainder = value.wrapping_rem(GROUP);
        }
        for _ in 0..9 {
            digits.push(b'0'.wrapping_add(u8::try_from(remainder.wrapping_rem(10)).unwrap_or(0)));
            remainder = remainder.wrapping_div(10);
        }
    }
    while digits.len() > scale.saturating_add(1) && digits.last() == Some(&b'0') {
        digits.pop();
    }
    while digits.len() <= scale {
        digits.push(b'0');
    }
    if negative {
        out.push(b'-');
    }
    for (at, digit) in digits.iter().enumerate().rev() {
        out.push(*digit);
        if at == scale && at > 0 {
            out.push(b'.');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{decimal128, put_decimal};

    fn text(bytes: &[u8], scale: usize) -> String {
        let mut out = Vec::new();
        put_decimal(bytes, scale, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn texts_of_decimals() {
        assert_eq!(text(&[0], 0), "0");
        assert_eq!(text(&[0], 2), "0.00");
        assert_eq!(text(&[5], 2), "0.05");
        assert_eq!(text(&[0xfb], 2), "-0.05");
        assert_eq!(text(&[0xff, 0xff, 0xfb], 2), "-0.05");
        assert_eq!(text(&[0x80], 1), "-12.8");
        assert_eq!(text(&[0x80, 0, 0, 0, 0], 0), "-549755813888");
        for number in [
            i128::MIN,
            i128::MAX,
            -1,
            10,
            1_000_000_000,
            999_999_999_999,
            -(1 << 64),
        ] {
            assert_eq!(text(&number.to_be_bytes(), 0), number.to_string());
        }
        assert_eq!(
            text(&[1].iter().chain(&[0; 32]).copied().collect::<Vec<_>>(), 3).len(),
            79
        );
    }

    #[test]
    fn numbers_of_any_length() {
        assert_eq!(decimal128(&[]), None);
        assert_eq!(decimal128(&[0xff]), Some(-1));
        assert_eq!(decimal128(&[0xff; 40]), Some(-1));
        assert_eq!(decimal128(&[0; 17]), Some(0));
        let mut long = [0; 17];
        long[1] = 0x80;
        assert_eq!(decimal128(&long), None);
    }
}
