//! Shell-like patterns for names: `*` and `?`. The crates for this also know paths, classes and braces, which a reason
//! name has no use for.

/// Does the whole name fit? Upper and lower case are alike. Takes at most pattern × name steps.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut at, mut seen) = (0, 0);
    // The last `*`, and how much of the name it stands for so far.
    let mut star: Option<(usize, usize)> = None;
    while let Some(have) = name.get(seen) {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, seen));
                at += 1;
            }
            Some(want) if *want == b'?' || want.eq_ignore_ascii_case(have) => {
                at += 1;
                seen += 1;
            }
            _ => {
                let Some((star_at, taken)) = star else {
                    return false;
                };
                star = Some((star_at, taken + 1));
                at = star_at + 1;
                seen = taken + 1;
            }
        }
    }
    pattern
        .get(at..)
        .is_some_and(|rest| rest.iter().all(|&byte| byte == b'*'))
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_fit_whole_names() {
        for (pattern, name, fits) in [
            ("NO_SOCKET", "NO_SOCKET", true),
            ("no_socket", "NO_SOCKET", true),
            ("NO_SOCK", "NO_SOCKET", false),
            ("TCP_*", "TCP_OLD_ACK", true),
            ("TCP_*", "TCP_", true),
            ("TCP_*", "UDP_CSUM", false),
            ("*CSUM", "UDP_CSUM", true),
            ("*_OLD_*", "TCP_TOO_OLD_ACK", true),
            ("*", "", true),
            ("", "", true),
            ("", "X", false),
            ("?", "", false),
            ("??P_CSUM", "TCP_CSUM", true),
            ("a*b*c", "aXbXbXc", true),
            ("a*b*c", "aXbXbX", false),
            ("**", "X", true),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn many_stars_take_no_time() {
        assert!(!matches(&"*a".repeat(1000), &"a".repeat(999)));
    }
}
