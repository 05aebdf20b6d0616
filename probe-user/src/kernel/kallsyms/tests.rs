use proptest::prelude::*;

use super::*;

const TEXT: &str = "\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81e40710 t skb_release_data
ffffffff81e40900 T kfree_skb_list_reason
ffffffff81ff8090 T ip_forward
ffffffff81ff8800 W weak_one
ffffffff82200000 D not_text
ffffffffc0a02000 t nft_later\t[nf_tables]
ffffffffc0a01000 t nft_do_chain\t[nf_tables]
ffffffffc0b00000 t init_module\t[veth]
ffffffffc0b00100 t veth_xmit\t[veth]
";

fn symbols() -> Symbols {
    Symbols::parse(TEXT.as_bytes()).unwrap()
}

fn found(symbols: &Symbols, address: u64) -> Option<(&str, u64, Option<&str>)> {
    symbols
        .lookup(address)
        .map(|symbol| (symbol.name, symbol.offset, symbol.module))
}

#[test]
fn an_address_has_the_name_of_the_function_it_lies_in() {
    let symbols = symbols();
    assert_eq!(
        found(&symbols, 0xffff_ffff_81e4_0710),
        Some(("skb_release_data", 0, None))
    );
    assert_eq!(
        found(&symbols, 0xffff_ffff_81e4_08ff),
        Some(("skb_release_data", 0x1ef, None))
    );
    assert_eq!(
        found(&symbols, 0xffff_ffff_81e4_0900),
        Some(("kfree_skb_list_reason", 0, None))
    );
    assert_eq!(
        found(&symbols, 0xffff_ffff_c0a0_1010),
        Some(("nft_do_chain", 0x10, Some("nf_tables")))
    );
    assert_eq!(
        found(&symbols, 0xffff_ffff_c0a0_2010),
        Some(("nft_later", 0x10, Some("nf_tables")))
    );
    assert_eq!(
        found(&symbols, 0xffff_ffff_c0b0_0101),
        Some(("veth_xmit", 1, Some("veth")))
    );
}

#[test]
fn the_first_of_two_names_of_one_address_is_used() {
    assert_eq!(
        found(&symbols(), 0xffff_ffff_8100_0004),
        Some(("_stext", 4, None))
    );
}

#[test]
fn addresses_outside_every_function_have_no_name() {
    let symbols = symbols();
    assert_eq!(symbols.lookup(0), None);
    assert_eq!(symbols.lookup(0xffff_ffff_8000_0000), None);
    assert_eq!(symbols.lookup(0xffff_ffff_8220_0000), None, "data");
    assert_eq!(
        symbols.lookup(0xffff_ffff_c0b2_0000),
        None,
        "another module"
    );
    assert_eq!(symbols.lookup(u64::MAX), None);
}

#[test]
fn only_the_end_of_a_module_is_doubtful() {
    let symbols = symbols();
    assert!(symbols.is_sure(0xffff_ffff_81e4_0900));
    assert!(symbols.is_sure(0xffff_ffff_c0b0_0101));
    assert!(!symbols.is_sure(0xffff_ffff_c0b0_2000));
}

#[test]
fn functions_are_found_by_name() {
    let symbols = symbols();
    assert_eq!(
        symbols.range("skb_release_data"),
        Some((0xffff_ffff_81e4_0710, 0xffff_ffff_81e4_0900))
    );
    assert_eq!(
        symbols.range("_text"),
        Some((0xffff_ffff_8100_0000, 0xffff_ffff_8101_0000))
    );
    assert_eq!(symbols.address("ip_forward"), Some(0xffff_ffff_81ff_8090));
    assert_eq!(symbols.address("nft_do_chain"), Some(0xffff_ffff_c0a0_1000));
    assert_eq!(symbols.address("not_text"), None);
    assert_eq!(symbols.address(""), None);
    assert_eq!(symbols.len(), 10);
}

#[test]
fn zero_addresses_mean_that_they_are_hidden() {
    let text = "0000000000000000 T _text\n0000000000000000 t skb_release_data\t[x]\n";
    let symbols = Symbols::parse(text.as_bytes()).unwrap();
    assert!(symbols.hidden() && symbols.is_empty());
    assert_eq!(symbols.lookup(0), None);
    assert!(!self::symbols().hidden());
    assert!(!Symbols::parse(&b""[..]).unwrap().hidden());
}

#[test]
fn lines_that_make_no_sense_are_skipped() {
    let text = b"\n\xff\xfe t x\nffffffff81000000 t \xff\xfe\n123456789abcdef01 t long\nffffffff81000000 t\nzz t y\n10 t good [m";
    let symbols = Symbols::parse(&text[..]).unwrap();
    assert_eq!(symbols.len(), 1);
    assert_eq!(found(&symbols, 0x10), Some(("good", 0, None)));
}

#[test]
fn the_running_kernel_is_read() {
    let mut live = LiveSymbols::start(Path::new("/proc"));
    if live.symbols().hidden() || live.symbols().is_empty() {
        println!("SKIPPED: /proc/kallsyms shows no addresses to this user");
        return;
    }
    let (start, end) = live.symbols().range("ip_rcv").unwrap();
    assert!(end > start);
    assert_eq!(live.lookup(start + 1, 0).unwrap().name, "ip_rcv");
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..2000), address: u64) {
        let symbols = Symbols::parse(&bytes[..]).unwrap();
        let _symbol = symbols.lookup(address);
        let _range = symbols.range("x");
    }

    #[test]
    fn any_lines_are_survived_and_each_symbol_found(
        lines in prop::collection::vec((1..u64::MAX, "[a-z_]{1,8}", prop::option::of("[a-z]{1,4}")), 1..40)
    ) {
        let text: String = lines.iter().map(|(address, name, module)| match module {
            Some(module) => format!("{address:016x} t {name}\t[{module}]\n"),
            None => format!("{address:016x} T {name}\n"),
        }).collect();
        let symbols = Symbols::parse(text.as_bytes()).unwrap();
        for (address, _, _) in &lines {
            let first = lines.iter().find(|(other, _, _)| other == address).unwrap();
            let symbol = symbols.lookup(*address).unwrap();
            prop_assert_eq!((symbol.name, symbol.offset), (first.1.as_str(), 0));
        }
    }
}
