//! One file a group of tracepoints: what is read and why.

pub(crate) mod flow;
pub(crate) mod kfree_skb;
pub(crate) mod reset;
pub(crate) mod tcp_retransmit;
pub(crate) mod tick;
