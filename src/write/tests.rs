//! A log on a device that loses its power.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "tests may overflow, and then fail"
)]

mod image;
mod power;
