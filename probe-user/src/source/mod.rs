//! Where raw records come from.

mod ring;

pub use ring::Ring;
