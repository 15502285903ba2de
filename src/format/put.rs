//! Numbers and flags as Java spells them, appended to bytes.

/// Something that has a text.
pub(crate) trait Put {
    /// Appends it.
    fn put(self, to: &mut Vec<u8>);
}

impl Put for &str {
    #[inline]
    fn put(self, to: &mut Vec<u8>) {
        to.extend_from_slice(self.as_bytes());
    }
}

impl Put for bool {
    #[inline]
    fn put(self, to: &mut Vec<u8>) {
        (if self { "true" } else { "false" }).put(to);
    }
}

impl Put for u64 {
    #[inline]
    fn put(self, to: &mut Vec<u8>) {
        /// Digits of `u64::MAX`.
        const WIDTH: usize = 20;
        let mut digits = [b'0'; WIDTH];
        let mut rest = self;
        let mut used = 0usize;
        for digit in digits.iter_mut().rev() {
            *digit = b'0'.wrapping_add(u8::try_from(rest % 10).unwrap_or_default());
            rest /= 10;
            used = used.saturating_add(1);
            if rest == 0 {
                break;
            }
        }
        to.extend_from_slice(digits.split_at(WIDTH.saturating_sub(used)).1);
    }
}

impl Put for i64 {
    #[inline]
    fn put(self, to: &mut Vec<u8>) {
        if self < 0 {
            to.push(b'-');
        }
        self.unsigned_abs().put(to);
    }
}

macro_rules! put_widened {
    ($($narrow:ty => $wide:ty)*) => {$(
        impl Put for $narrow {
            #[inline]
            fn put(self, to: &mut Vec<u8>) {
                <$wide>::from(self).put(to);
            }
        }
    )*};
}

put_widened! { i16 => i64  i32 => i64  u8 => u64  u16 => u64  u32 => u64 }

impl Put for usize {
    #[inline]
    fn put(self, to: &mut Vec<u8>) {
        (self as u64).put(to);
    }
}

/// Java's `OptionalLong`, as its `toString` says it.
impl Put for Option<i64> {
    #[inline]
    fn put(self, to: &mut Vec<u8>) {
        match self {
            Some(value) => {
                "OptionalLong[".put(to);
                value.put(to);
                to.push(b']');
            }
            None => "OptionalLong.empty".put(to),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(what: impl Put) -> String {
        let mut to = Vec::new();
        what.put(&mut to);
        String::from_utf8(to).unwrap()
    }

    #[test]
    fn numbers_as_java_writes_them() {
        for n in [0, 1, 9, 10, 99, 100, 12_345, -1, -10, i64::MAX, i64::MIN] {
            assert_eq!(text(n), n.to_string());
        }
        assert_eq!(text(u32::MAX), "4294967295");
        assert_eq!(text(u64::MAX), "18446744073709551615");
        assert_eq!(text(i16::MIN), "-32768");
        assert_eq!(text(Some(5)), "OptionalLong[5]");
        assert_eq!(text(None::<i64>), "OptionalLong.empty");
    }
}
