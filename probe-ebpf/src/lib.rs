//! The kernel programs are the binary target; this empty library lets cargo name the crate as a dependency.
#![no_std]
