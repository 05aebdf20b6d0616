//! The part of Cargo.lock that one package depends on.

use std::collections::{BTreeMap, BTreeSet};

/// The entries of `package` and all it depends on, in the order of their names: other packages may come and go without
/// changing it.
pub(crate) fn closure(lock: &str, package: &str) -> String {
    let mut entries: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for block in lock.split("[[package]]").skip(1) {
        if let Some(name) = block
            .lines()
            .find_map(|line| quoted(line.strip_prefix("name = ")?))
        {
            entries.entry(name).or_default().push(block.trim());
        }
    }
    let mut wanted = BTreeSet::new();
    let mut queue = vec![package];
    while let Some(name) = queue.pop() {
        if wanted.insert(name) {
            let blocks = entries.get(name).into_iter().flatten();
            queue.extend(blocks.flat_map(|block| dependencies(block)));
        }
    }
    let blocks = wanted.iter().filter_map(|name| entries.get(name)).flatten();
    blocks.copied().collect::<Vec<_>>().join("\n\n")
}

/// The names in an entry's list; ` "syn 2.0.1",` names syn (all versions of it are taken).
fn dependencies(block: &str) -> impl Iterator<Item = &str> {
    let list = block
        .split_once("dependencies = [")
        .map_or("", |(_, list)| list);
    list.lines()
        .filter_map(|line| quoted(line.trim())?.split(' ').next())
}

fn quoted(text: &str) -> Option<&str> {
    text.strip_prefix('"')?.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = r#"
version = 4

[[package]]
name = "a"
version = "1.0.0"
dependencies = [
 "b",
 "c 2.0.0",
]

[[package]]
name = "b"
version = "1.0.0"

[[package]]
name = "c"
version = "2.0.0"

[[package]]
name = "other"
version = "3.0.0"
"#;

    #[test]
    fn takes_what_the_package_needs_and_nothing_else() {
        let closure = closure(LOCK, "a");
        assert!(
            ["\"a\"", "\"b\"", "\"c\""]
                .iter()
                .all(|name| closure.contains(name))
        );
        assert!(!closure.contains("other"));
    }

    #[test]
    fn another_package_changes_nothing() {
        assert_eq!(
            closure(LOCK, "a"),
            closure(&LOCK.replace("3.0.0", "4.0.0"), "a")
        );
        assert_ne!(
            closure(LOCK, "a"),
            closure(&LOCK.replace("2.0.0", "2.0.1"), "a")
        );
    }
}
