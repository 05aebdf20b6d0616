//! Which container a cgroup belongs to, told by its path.

use crate::event::Name;

/// Hexadecimal digits of the id that Docker, containerd, CRI-O and Podman give a container.
const ID_DIGITS: usize = 64;

/// The container that a cgroup's path names: its id, or its name where the engine has no ids (nspawn, LXC). The innermost
/// one. A systemd unit is no container.
pub fn container(path: &str) -> Option<Name> {
    path.rsplit('/')
        .find_map(|part| by_id(part).map(Name::from).or_else(|| by_name(part)))
}

/// `docker-ID.scope`, `cri-containerd-ID.scope`, `crio-ID`, `libpod-payload-ID`, `ID`, `…slice:cri-containerd:ID`.
fn by_id(part: &str) -> Option<&str> {
    let part = part.strip_suffix(".scope").unwrap_or(part);
    let (before, id) = part.rsplit_once(['-', ':']).unwrap_or(("", part));
    let is_id = id.len() == ID_DIGITS
        && id
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    // The process that watches over a container is outside of it.
    (is_id && !before.ends_with("conmon")).then_some(id)
}

/// `machine-NAME.scope` (but not of a virtual machine), `systemd-nspawn@NAME.service`, `lxc.payload.NAME`.
fn by_name(part: &str) -> Option<Name> {
    let machine = |part: &'_ str| {
        let name = part.strip_prefix("machine-")?.strip_suffix(".scope")?;
        (!name.starts_with("qemu\\x2d")).then(|| unescape(name))
    };
    let nspawn = |part: &'_ str| {
        Some(unescape(
            part.strip_prefix("systemd-nspawn@")?
                .strip_suffix(".service")?,
        ))
    };
    let name = part
        .strip_prefix("lxc.payload.")
        .map(str::to_owned)
        .or_else(|| nspawn(part))
        .or_else(|| machine(part))?;
    (!name.is_empty()).then(|| name.into())
}

/// systemd writes a `-` within a name as `\x2d`.
fn unescape(name: &str) -> String {
    name.replace("\\x2d", "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_is_known_by_its_paths() {
        let id = "0123456789abcdef".repeat(4);
        let other = "f".repeat(64);
        for path in [
            format!("/system.slice/docker-{id}.scope"),
            format!("/docker/{id}"),
            format!("/docker/{id}/init.scope"),
            format!("/docker/{other}/docker/{id}"),
            format!("/kubepods/besteffort/pod0c2f8d1e-7a5b-4f0e-9a55-5f1c6a1b2c3d/{id}"),
            format!(
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0c2f_8d1e.slice/cri-containerd-{id}.scope"
            ),
            format!("/kubepods.slice/kubepods-pod0c2f.slice/crio-{id}.scope"),
            format!("/kubepods.slice/kubepods-pod0c2f.slice/crio-{id}.scope/container"),
            format!(
                "/system.slice/containerd.service/kubepods-burstable-pod0c2f.slice:cri-containerd:{id}"
            ),
            format!("/machine.slice/libpod-{id}.scope/container"),
            format!("/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{id}.scope"),
            format!("/libpod_parent/libpod-payload-{id}"),
            format!("/default/{id}"),
            format!("/system.slice/docker-{id}.scope/system.slice/nginx.service"),
        ] {
            assert_eq!(container(&path).as_deref(), Some(id.as_str()), "{path}");
        }
    }

    #[test]
    fn engines_without_ids_have_names() {
        for (path, name) in [
            ("/machine.slice/machine-web\\x2d1.scope/payload", "web-1"),
            ("/machine.slice/systemd-nspawn@db.service/payload", "db"),
            ("/lxc.payload.blue/system.slice/ssh.service", "blue"),
        ] {
            assert_eq!(container(path).as_deref(), Some(name), "{path}");
        }
    }

    #[test]
    fn what_is_no_container_is_not_called_one() {
        let id = "0123456789abcdef".repeat(4);
        for path in [
            "/".to_owned(),
            String::new(),
            "/system.slice/nginx.service".to_owned(),
            "/system.slice/docker.service".to_owned(),
            "/user.slice/user-1000.slice/session-3.scope".to_owned(),
            "/user.slice/user-1000.slice/user@1000.service/app.slice/app-gnome-firefox-1234.scope"
                .to_owned(),
            "/machine.slice/machine-qemu\\x2d1\\x2dvm.scope".to_owned(),
            "/machine.slice/machine-.scope".to_owned(),
            "/lxc.monitor.blue".to_owned(),
            "/kubepods.slice/kubepods-pod0c2f.slice".to_owned(),
            format!("/machine.slice/libpod-conmon-{id}.scope"),
            format!("/system.slice/crio-conmon-{id}.scope"),
            format!("/docker/{}", &id[1..]),
            format!("/docker/{}", id.to_uppercase()),
            format!("/docker/{id}0"),
        ] {
            assert_eq!(container(&path), None, "{path}");
        }
    }
}
