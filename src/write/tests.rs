//! A log whose process or device dies.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "tests may overflow, and then fail"
)]

mod dying;
mod image;
mod power;
