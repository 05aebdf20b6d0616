//! Made-up BTF: what real kernels have rarely or never. Real ones are in `tests/btf/`.

use std::collections::HashMap;

use proptest::prelude::*;

use super::{Btf, BtfError, Place};
use crate::kernel::reasons::ReasonNames;

const INT: u32 = 1;
const PTR: u32 = 2;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const ENUM: u32 = 6;
const FWD: u32 = 7;
const TYPEDEF: u32 = 8;
const CONST: u32 = 10;
const FUNC_PROTO: u32 = 13;
const DECL_TAG: u32 = 17;
const TYPE_TAG: u32 = 18;
const ENUM64: u32 = 19;
const FLAG: u32 = 1 << 31;

/// Writes BTF.
#[derive(Default)]
struct Maker {
    types: Vec<u8>,
    strings: Vec<u8>,
    offsets: HashMap<String, u32>,
    first_string: u32,
}

impl Maker {
    /// That goes on where the strings of another end.
    fn after(base: &Maker) -> Self {
        Self {
            first_string: u32::try_from(base.strings.len()).unwrap(),
            ..Self::default()
        }
    }

    fn name(&mut self, name: &str) -> u32 {
        if self.strings.is_empty() && self.first_string == 0 {
            self.strings.push(0);
        }
        if name.is_empty() {
            return 0;
        }
        let Self {
            strings,
            offsets,
            first_string,
            ..
        } = self;
        *offsets.entry(name.to_owned()).or_insert_with(|| {
            let offset = *first_string + u32::try_from(strings.len()).unwrap();
            strings.extend(name.bytes());
            strings.push(0);
            offset
        })
    }

    /// `kind` may have [`FLAG`]; `items` counts what `words` hold.
    fn add(
        &mut self,
        name: &str,
        kind: u32,
        items: u32,
        size_or_id: u32,
        words: &[u32],
    ) -> &mut Self {
        let name = self.name(name);
        let info = (kind & FLAG) | (kind & !FLAG) << 24 | items;
        for word in [name, info, size_or_id].iter().chain(words) {
            self.types.extend(word.to_le_bytes());
        }
        self
    }

    fn int(&mut self, name: &str, bytes: u32, bits: u32) -> &mut Self {
        self.add(name, INT, 0, bytes, &[bits])
    }

    /// Members: name, type, offset in bits.
    fn structure(
        &mut self,
        name: &str,
        kind: u32,
        bytes: u32,
        members: &[(&str, u32, u32)],
    ) -> &mut Self {
        let words: Vec<u32> = members
            .iter()
            .flat_map(|&(name, id, offset)| [self.name(name), id, offset])
            .collect();
        self.add(
            name,
            kind,
            u32::try_from(members.len()).unwrap(),
            bytes,
            &words,
        )
    }

    fn bytes(&self) -> Vec<u8> {
        let types = u32::try_from(self.types.len()).unwrap();
        let strings = u32::try_from(self.strings.len()).unwrap();
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        for word in [24, 0, types, types, strings] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(&self.types);
        bytes.extend(&self.strings);
        bytes
    }

    fn parse(&self) -> Btf {
        Btf::parse(self.bytes()).unwrap()
    }
}

fn place(byte: u32, bit: u8, width: u8, size: u32, c_type: &str) -> Place {
    Place {
        byte,
        bit,
        width,
        size,
        c_type: c_type.to_owned(),
    }
}

#[test]
fn an_unnamed_member_of_a_named_type_is_looked_through() {
    let btf = Maker::default()
        .int("int", 4, 32)
        .structure("inner", STRUCT, 8, &[("a", 1, 0), ("b", 1, 32)])
        .structure("outer", STRUCT, 16, &[("x", 1, 0), ("", 2, 64)])
        .parse();
    assert_eq!(
        btf.member("outer.b").unwrap(),
        Some(place(12, 0, 0, 4, "int"))
    );
    assert_eq!(
        btf.member("outer.inner.b").unwrap(),
        None,
        "the type's name is not a member's"
    );
    assert_eq!(btf.member("outer.c").unwrap(), None);
    assert_eq!(btf.member("other.a").unwrap(), None);
    assert!(matches!(btf.member("outer"), Err(BtfError::BadPath(_))));
}

#[test]
fn bitfields_say_which_bits() {
    let btf = Maker::default()
        .int("u32", 4, 32)
        .int("", 4, 3)
        .structure(
            "new",
            FLAG | STRUCT,
            8,
            &[("a", 1, (5 << 24) + 34), ("b", 1, 32)],
        )
        .structure("old", STRUCT, 8, &[("a", 2, 37), ("b", 1, 32)])
        .parse();
    assert_eq!(btf.member("new.a").unwrap(), Some(place(4, 2, 5, 4, "u32")));
    assert_eq!(btf.member("new.b").unwrap(), Some(place(4, 0, 0, 4, "u32")));
    assert_eq!(btf.member("old.a").unwrap(), Some(place(4, 5, 3, 4, "{…}")));
    assert_eq!(btf.member("old.b").unwrap(), Some(place(4, 0, 0, 4, "u32")));
}

#[test]
fn tags_change_nothing() {
    let btf = Maker::default()
        .int("int", 4, 32)
        .add("rcu", TYPE_TAG, 0, 5, &[])
        .add("", PTR, 0, 2, &[])
        .structure("s", STRUCT, 24, &[("p", 3, 64), ("t", 6, 128)])
        .add("", CONST, 0, 4, &[])
        .add("user", TYPE_TAG, 0, 4, &[])
        .add("note", DECL_TAG, 0, 4, &[0])
        .parse();
    assert_eq!(
        btf.member("s.p").unwrap(),
        Some(place(8, 0, 0, 8, "const struct s *"))
    );
    assert_eq!(
        btf.member("s.t.p").unwrap(),
        Some(place(24, 0, 0, 8, "const struct s *"))
    );
}

#[test]
fn a_pointer_is_not_followed_and_a_forward_declaration_is_not_the_struct() {
    let btf = Maker::default()
        .add("s", FWD, 0, 0, &[])
        .int("int", 4, 32)
        .add("", PTR, 0, 4, &[])
        .structure("s", STRUCT, 16, &[("a", 2, 0), ("next", 3, 64)])
        .add("s", TYPEDEF, 0, 2, &[])
        .parse();
    assert_eq!(btf.member("s.a").unwrap(), Some(place(0, 0, 0, 4, "int")));
    assert_eq!(btf.member("s.next.a").unwrap(), None);
}

#[test]
fn types_of_one_name_must_agree() {
    let mut maker = Maker::default();
    maker
        .int("int", 4, 32)
        .structure("s", STRUCT, 8, &[("a", 1, 0), ("b", 1, 32)])
        .structure("s", STRUCT, 12, &[("a", 1, 0), ("b", 1, 64)]);
    let btf = maker.parse();
    assert_eq!(btf.member("s.a").unwrap(), Some(place(0, 0, 0, 4, "int")));
    let error = btf.member("s.b").unwrap_err();
    assert!(matches!(error, BtfError::Ambiguous(_)));
    assert_eq!(
        error.to_string(),
        "find s.b in BTF: several types of that name differ"
    );
}

#[test]
fn enums_of_both_widths_keep_signs() {
    let mut maker = Maker::default();
    let (a, b) = (maker.name("A"), maker.name("B"));
    let btf = maker
        .add("small", ENUM, 2, 4, &[a, 1, b, 0xffff_0000])
        .add("signed", FLAG | ENUM, 1, 4, &[a, u32::MAX])
        .add("big", ENUM64, 1, 8, &[b, 2, 1])
        .parse();
    let small = btf.enum_values("small").unwrap();
    assert_eq!(small, [("A".to_owned(), 1), ("B".to_owned(), 0xffff_0000)]);
    assert_eq!(
        btf.enum_values("signed").unwrap(),
        [("A".to_owned(), u64::MAX)]
    );
    assert_eq!(
        btf.enum_values("big").unwrap(),
        [("B".to_owned(), 1 << 32 | 2)]
    );
    assert_eq!(btf.enum_values("none"), None);
}

#[test]
fn c_declarations_are_written_inside_out() {
    let mut maker = Maker::default();
    maker
        .int("int", 4, 32)
        .add("", PTR, 0, 1, &[]) // 2: int *
        .add("", CONST, 0, 2, &[]) // 3: int * const
        .add("", ARRAY, 0, 0, &[3, 1, 4]) // 4: int * const[4]
        .add("", PTR, 0, 4, &[]) // 5: pointer to that
        .add("", FUNC_PROTO, 2, 5, &[0, 2, 0, 0]) // 6: (int *, ...) returning that
        .add("", PTR, 0, 6, &[])
        .add("", FUNC_PROTO, 0, 0, &[])
        .structure("s", STRUCT, 16, &[("a", 5, 0), ("f", 7, 64)]);
    let btf = maker.parse();
    assert_eq!(btf.c_type(3).unwrap(), "int * const");
    assert_eq!(btf.c_type(5).unwrap(), "int * const (*)[4]");
    assert_eq!(btf.c_type(8).unwrap(), "void (void)");
    assert_eq!(btf.c_type(7).unwrap(), "int * const (*(*)(int *, ...))[4]");
    assert_eq!(btf.size(4).unwrap(), 32);
}

#[test]
fn a_module_goes_on_where_vmlinux_ends() {
    let mut base = Maker::default();
    base.int("int", 4, 32)
        .structure("base", STRUCT, 4, &[("a", 1, 0)]);
    let mut module = Maker::after(&base);
    let shared = *base.offsets.get("a").unwrap();
    // Type 3; its member has a name and a type of vmlinux.
    module.add("own", STRUCT, 2, 8, &[shared, 1, 32]);
    let own_name = module.name("b");
    module.types.extend(
        [own_name, 2, 0]
            .iter()
            .flat_map(|word: &u32| word.to_le_bytes()),
    );
    let vmlinux = base.parse();
    let btf = Btf::parse_split(module.bytes(), &vmlinux).unwrap();
    drop(vmlinux);
    assert_eq!(btf.member("own.a").unwrap(), Some(place(4, 0, 0, 4, "int")));
    assert_eq!(
        btf.member("own.b.a").unwrap(),
        Some(place(0, 0, 0, 4, "int"))
    );
    assert_eq!(
        btf.member("base.a").unwrap(),
        Some(place(0, 0, 0, 4, "int"))
    );
    assert_eq!(btf.follow_all(), 0);
}

#[test]
fn reasons_without_values_are_named_by_tracefs() {
    let mut maker = Maker::default();
    maker
        .add("", PTR, 0, 0, &[])
        .add("skb_drop_reason", ENUM, 0, 4, &[]) // declared, not defined
        .add("", FUNC_PROTO, 4, 0, &[0, 1, 0, 1, 0, 1, 0, 2])
        .add("", PTR, 0, 3, &[])
        .add("btf_trace_kfree_skb", TYPEDEF, 0, 4, &[]);
    let format = r#"print fmt: "", __print_symbolic(REC->reason, { 2, "NO_SOCKET" })"#;
    let names = |format: Option<&str>| {
        let format = format.map(str::to_owned);
        let load = |_: &str| Err(BtfError::NotBtf);
        ReasonNames::with_sources(&maker.parse(), || format, Box::new(load))
    };
    let name = |mut names: ReasonNames, code| names.lookup(code).unwrap().name.to_string();
    assert_eq!(name(names(Some(format)), 2), "NO_SOCKET");
    assert_eq!(name(names(Some(format)), 3), "3");
    assert_eq!(name(names(None), 2), "2");
}

#[test]
fn circles_end() {
    let mut maker = Maker::default();
    maker
        .add("t", TYPEDEF, 0, 1, &[])
        .add("", PTR, 0, 2, &[])
        .add("", ARRAY, 0, 0, &[3, 3, 2])
        .structure(
            "s",
            STRUCT,
            8,
            &[
                ("", 4, 0),
                ("", 4, 0),
                ("p", 2, 0),
                ("t", 1, 0),
                ("v", 3, 0),
            ],
        )
        .add("", FUNC_PROTO, 3, 5, &[0, 5, 0, 5, 0, 5]);
    let btf = maker.parse();
    assert!(matches!(btf.member("s.p"), Err(BtfError::TooDeep(_))));
    assert_eq!(btf.follow_all(), 5);
}

#[test]
fn what_is_no_btf_is_refused() {
    let good = Maker::default().int("int", 4, 32).bytes();
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        Btf::parse(bytes).unwrap_err()
    };
    assert!(matches!(
        Btf::parse(Vec::new()),
        Err(BtfError::Truncated("header"))
    ));
    assert!(matches!(with(0, 0), BtfError::NotBtf));
    assert!(matches!(with(2, 2), BtfError::Version(2)));
    assert!(matches!(with(4, 23), BtfError::Truncated("header")));
    assert!(matches!(with(12, 0xff), BtfError::Truncated("types")));
    assert!(matches!(with(20, 0xff), BtfError::Truncated("strings")));
    assert!(matches!(with(31, 63), BtfError::UnknownKind(63)));
    let mut swapped = good.clone();
    swapped.swap(0, 1);
    assert!(matches!(Btf::parse(swapped), Err(BtfError::ByteOrder)));
}

proptest! {
    #[test]
    fn any_types_are_survived(words in prop::collection::vec(0_u32..40, 0..200)) {
        let mut maker = Maker::default();
        maker.name("s");
        // Small numbers make references likely to hit; the kind is in the upper byte.
        for (at, word) in words.iter().enumerate() {
            let word = if at % 3 == 1 { ((word % 20) << 24) | (word / 10) } else { *word };
            maker.types.extend(word.to_le_bytes());
        }
        if let Ok(btf) = Btf::parse(maker.bytes()) {
            btf.follow_all();
            drop(btf.member("s.s"));
            btf.enum_values("s");
        }
    }
}
