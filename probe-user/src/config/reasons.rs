//! Which drop reasons the command line asks for. Names are the running kernel's, so globs stay globs until it is asked.

const PREFIX: &str = "SKB_DROP_REASON_";

/// A reason or several, `*` and `?` allowed, upper or lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReasonGlob(String);

impl ReasonGlob {
    pub(super) fn new(text: &str) -> Result<Self, String> {
        let upper = text.to_ascii_uppercase();
        let glob = upper.strip_prefix(PREFIX).unwrap_or(&upper);
        let is_plain = glob
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'*' | b'?'));
        if glob.is_empty() || !is_plain {
            return Err(
                "write a drop reason as the kernel spells it, * and ? allowed: NETFILTER_DROP, 'TCP_*' (one a flag)"
                    .to_owned(),
            );
        }
        Ok(Self(glob.to_owned()))
    }

    /// As it is compared.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Does it match a reason's name (without `SKB_DROP_REASON_`)?
    pub fn matches(&self, name: &str) -> bool {
        matches_glob(self.0.as_bytes(), name.as_bytes())
    }
}

/// `--reason` and `--exclude-reason` together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReasonFilter {
    /// Empty: all.
    pub include: Vec<ReasonGlob>,
    pub exclude: Vec<ReasonGlob>,
}

impl ReasonFilter {
    /// Does a drop with that reason match?
    pub fn matches(&self, name: &str) -> bool {
        (self.include.is_empty() || self.names(name))
            && !self.exclude.iter().any(|glob| glob.matches(name))
    }

    /// Was it asked for by name?
    pub fn names(&self, name: &str) -> bool {
        self.include.iter().any(|glob| glob.matches(name))
    }

    /// Are only some reasons asked for?
    pub fn includes(&self) -> bool {
        !self.include.is_empty()
    }
}

/// In linear time per star: on a mismatch only the last star takes one more character.
fn matches_glob(glob: &[u8], name: &[u8]) -> bool {
    let (mut g, mut n) = (0, 0);
    let mut retry = None;
    while let Some(byte) = name.get(n) {
        match glob.get(g) {
            Some(b'*') => {
                g += 1;
                retry = Some((g, n));
            }
            Some(want) if *want == b'?' || want.eq_ignore_ascii_case(byte) => {
                g += 1;
                n += 1;
            }
            _ => match retry {
                Some((after_star, from)) => {
                    g = after_star;
                    n = from + 1;
                    retry = Some((after_star, n));
                }
                None => return false,
            },
        }
    }
    glob.iter().skip(g).all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(glob: &str, name: &str) -> bool {
        ReasonGlob::new(glob).unwrap().matches(name)
    }

    #[test]
    fn globs() {
        for (glob, name) in [
            ("NO_SOCKET", "NO_SOCKET"),
            ("no_socket", "NO_SOCKET"),
            ("SKB_DROP_REASON_NO_SOCKET", "NO_SOCKET"),
            ("TCP_*", "TCP_OLD_DATA"),
            ("*", "64"),
            ("*DATA", "TCP_OLD_DATA"),
            ("*_OLD_*", "TCP_OLD_DATA"),
            ("TCP_???_DATA", "TCP_OLD_DATA"),
            ("A*B*C", "AxBxBxC"),
            ("64", "64"),
        ] {
            assert!(matches(glob, name), "{glob} {name}");
        }
        for (glob, name) in [
            ("NO_SOCKET", "NO_SOCKETS"),
            ("TCP_*", "UDP_CSUM"),
            ("?", "AB"),
            ("A*B", "ABC"),
            ("NO_SOCKET", ""),
        ] {
            assert!(!matches(glob, name), "{glob} {name}");
        }
    }

    #[test]
    fn what_is_no_reason_is_refused() {
        for bad in ["", "A,B", "A B", "SKB_DROP_REASON_", "[AB]", "a\n"] {
            assert!(ReasonGlob::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn exclusion_wins() {
        let filter = ReasonFilter {
            include: vec![ReasonGlob::new("TCP_*").unwrap()],
            exclude: vec![ReasonGlob::new("*_OLD_*").unwrap()],
        };
        assert!(filter.matches("TCP_CSUM"));
        assert!(!filter.matches("TCP_OLD_DATA"));
        assert!(!filter.matches("NO_SOCKET"));
        assert!(ReasonFilter::default().matches("ANY"));
        assert!(!ReasonFilter::default().names("ANY"));
    }
}
