//! The capabilities that each kind of recording needs without root, for the error that refuses it.
//!
//! Found by trying each question as another user on Linux 6.18; see capabilities(7).

use pyrograph_record::Error;

use crate::question::Probe;

/// Programs in the kernel; samples of all users; their memory; the files that they have mapped; the kernel's
/// symbols.
const CAPABILITIES: &str = "cap_bpf,cap_perfmon,cap_sys_ptrace,cap_checkpoint_restore,cap_syslog";

/// Adds to an error for lack of permission the command that would grant it. Other errors stay as they are.
pub fn with_remedy(error: anyhow::Error, probe: &Probe) -> anyhow::Error {
    let text = format!("{error:#}");
    // SAFETY: The call takes nothing and cannot fail.
    if !is_refused(&error) || unsafe { libc::geteuid() } == 0 {
        return error;
    }
    let program = std::env::current_exe().unwrap_or_else(|_| "pyrograph".into());
    anyhow::anyhow!("{text}; {}", remedy(probe, &program.display()))
}

/// Whether an error is for lack of permission.
pub fn is_refused(error: &anyhow::Error) -> bool {
    // A file that is no program says the same.
    if matches!(error.downcast_ref(), Some(Error::Command { .. })) {
        return false;
    }
    let text = format!("{error:#}");
    matches!(error.downcast_ref(), Some(Error::NotPermitted(_)))
        || ["(os error 1)", "(os error 13)", "is for root"].iter().any(|sign| text.contains(sign))
}

/// The command that permits a question, or that there is none.
fn remedy(probe: &Probe, program: &dyn std::fmt::Display) -> String {
    let more = match probe {
        Probe::Function { .. } | Probe::Places { .. } | Probe::Allocations { .. } => {
            return "probes in programs (--alloc, uprobe:, uretprobe:, usdt:) need root: no capability permits \
                    them but cap_sys_admin, which is as good as root"
                .to_owned();
        }
        // Their numbers stand in files that only root may read.
        Probe::Tracepoint { .. } => ",cap_dac_read_search",
        _ => "",
    };
    format!("without root: sudo setcap {CAPABILITIES}{more}=ep {program}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_question_has_its_capabilities() {
        assert_eq!(
            remedy(&Probe::Locks, &"/bin/pyrograph"),
            "without root: sudo setcap \
             cap_bpf,cap_perfmon,cap_sys_ptrace,cap_checkpoint_restore,cap_syslog=ep /bin/pyrograph"
        );
        let point = Probe::Tracepoint { category: "sched".to_owned(), name: "x".to_owned() };
        assert!(remedy(&point, &"x").contains(",cap_dac_read_search=ep"));
        let allocations = Probe::Allocations { path: "libc.so".into(), live: false };
        assert!(!remedy(&allocations, &"x").contains("setcap"));
    }
}
