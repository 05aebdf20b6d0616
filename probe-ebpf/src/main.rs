//! The kernel programs: one entry point a tracepoint, each a call into `probe`.
//!
//! Every program has the same shape: read what is always needed, count it before any filter, decide whether it is shown,
//! and if so stream a record.
#![no_std]
#![no_main]
#![cfg_attr(target_arch = "bpf", feature(asm_experimental_arch))]

mod emit;
mod globals;
mod maps;
mod probe;
mod read;
mod skb;
mod sock;

use aya_ebpf::{
    macros::{btf_tracepoint, socket_filter},
    programs::{BtfTracePointContext, SkBuffContext},
};

/// `skb:kfree_skb`, since Linux 2.6.30; with a reason since 5.17, with the receiving socket since 6.11.
#[btf_tracepoint(function = "kfree_skb")]
fn kfree_skb(ctx: BtfTracePointContext) -> i32 {
    probe::kfree_skb::run(&ctx);
    0
}

/// `tcp:tcp_retransmit_skb`, since Linux 4.15; with failed attempts since 6.17.
#[btf_tracepoint(function = "tcp_retransmit_skb")]
fn tcp_retransmit_skb(ctx: BtfTracePointContext) -> i32 {
    probe::tcp_retransmit::skb(&ctx);
    0
}

/// `tcp:tcp_retransmit_synack`, since Linux 4.16.
#[btf_tracepoint(function = "tcp_retransmit_synack")]
fn tcp_retransmit_synack(ctx: BtfTracePointContext) -> i32 {
    probe::tcp_retransmit::synack(&ctx);
    0
}

/// `tcp:tcp_probe`, since Linux 4.16.
#[btf_tracepoint(function = "tcp_probe")]
fn tcp_probe(ctx: BtfTracePointContext) -> i32 {
    probe::flow::tcp_probe(&ctx);
    0
}

/// `sock:inet_sock_set_state`, since Linux 4.16.
#[btf_tracepoint(function = "inet_sock_set_state")]
fn inet_sock_set_state(ctx: BtfTracePointContext) -> i32 {
    probe::flow::set_state(&ctx);
    0
}

/// `tcp:tcp_destroy_sock`, since Linux 4.16.
#[btf_tracepoint(function = "tcp_destroy_sock")]
fn tcp_destroy_sock(ctx: BtfTracePointContext) -> i32 {
    probe::flow::destroy(&ctx);
    0
}

/// `tcp:tcp_send_reset`, since Linux 4.15; with a reason since 6.10.
#[btf_tracepoint(function = "tcp_send_reset")]
fn tcp_send_reset(ctx: BtfTracePointContext) -> i32 {
    probe::reset::sent(&ctx);
    0
}

/// `tcp:tcp_receive_reset`, since Linux 4.15.
#[btf_tracepoint(function = "tcp_receive_reset")]
fn tcp_receive_reset(ctx: BtfTracePointContext) -> i32 {
    probe::reset::received(&ctx);
    0
}

/// Runs for the packets of a socket of our own.
#[socket_filter]
fn tick(_ctx: SkBuffContext) -> i64 {
    probe::tick::run()
}

/// The kernel accepts helpers that are reserved to GPL programs only from a program with a licence it knows.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
