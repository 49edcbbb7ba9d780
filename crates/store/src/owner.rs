//! Whose samples they are: services and containers, by the control groups of processes.

/// The service, container and pod of a process. Empty texts are not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The systemd unit, else the container, else the process's name.
    pub service: String,
    /// The container's ID: its first 12 digits.
    pub container: String,
    /// The pod's ID.
    pub pod: String,
}

/// Digits of a container's ID, as container runtimes show it.
const SHOWN: usize = 12;
const DIGITS: usize = 64;

/// Returns the owner of a process in a control group, as in `/proc/PID/cgroup`: `/system.slice/nginx.service`,
/// `/system.slice/docker-<64 digits>.scope`, `/kubepods.slice/…/kubepods-pod<ID>.slice/cri-containerd-<64 digits>.scope`.
pub fn owner(cgroup: &str, process: &str) -> Owner {
    let parts: Vec<&str> = cgroup.split('/').filter(|part| !part.is_empty()).collect();
    let container = parts.iter().rev().find_map(|part| container_of(part)).unwrap_or_default();
    let pod = parts.iter().rev().find_map(|part| pod_of(part)).unwrap_or_default();
    // The innermost one, but for the parts of a user's session.
    let unit = parts.iter().rev().find_map(|part| part.strip_suffix(".service"));
    let unit = unit.filter(|unit| !unit.starts_with("user@"));
    let service = match (container.is_empty(), unit) {
        (true, Some(unit)) => unit.to_owned(),
        (false, _) => container.clone(),
        (true, None) => process.to_owned(),
    };
    Owner { service, container, pod }
}

fn container_of(part: &str) -> Option<String> {
    let name = part.strip_suffix(".scope").unwrap_or(part);
    let id = name.rsplit(['-', ':']).next()?;
    let is_id = id.len() == DIGITS && id.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_id.then(|| id[..SHOWN].to_owned())
}

fn pod_of(part: &str) -> Option<String> {
    let name = part.strip_suffix(".slice").unwrap_or(part);
    let (_, id) = name.rsplit_once("pod")?;
    let is_id =
        id.len() >= 32 && id.bytes().all(|of| of.is_ascii_hexdigit() || b"-_".contains(&of));
    is_id.then(|| id.replace('_', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_of_control_groups() {
        let id = "0123456789abcdef".repeat(4);
        let of = |cgroup: &str| {
            let Owner { service, container, pod } = owner(cgroup, "app");
            (service, container, pod)
        };
        let known = |service: &str, container: &str, pod: &str| {
            (service.to_owned(), container.to_owned(), pod.to_owned())
        };
        assert_eq!(of("/system.slice/nginx.service"), known("nginx", "", ""));
        assert_eq!(of("/system.slice/nginx.service/worker"), known("nginx", "", ""));
        assert_eq!(
            of("/user.slice/user-1000.slice/user@1000.service/app.slice"),
            known("app", "", "")
        );
        assert_eq!(of(""), known("app", "", ""));
        let short = "0123456789ab";
        assert_eq!(of(&format!("/system.slice/docker-{id}.scope")), known(short, short, ""));
        assert_eq!(of(&format!("/docker/{id}")), known(short, short, ""));
        let pod = "1b4e28ba-2fa1-11d2-883f-0016d3cca427";
        let slice = pod.replace('-', "_");
        let kubernetes = format!(
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{slice}.slice/cri-containerd-{id}.scope"
        );
        assert_eq!(of(&kubernetes), known(short, short, pod));
    }
}
