//! The capabilities that each kind of recording needs without root, for the error that refuses it.
//!
//! Found by trying each question as another user on Linux 6.18; see capabilities(7).

use pyrograph_recorder::{Error, Trigger};

/// Programs in the kernel; samples of all users; their memory; the files that they have mapped; the kernel's
/// symbols.
const CAPABILITIES: &str = "cap_bpf,cap_perfmon,cap_sys_ptrace,cap_checkpoint_restore,cap_syslog";

/// Adds to an error for lack of permission the command that would grant it. Other errors stay as they are.
pub fn with_remedy(error: Error, trigger: &Trigger) -> anyhow::Error {
    if !error.is_refusal() || rustix::process::geteuid().is_root() {
        return error.into();
    }
    let text = format!("{:#}", anyhow::Error::from(error));
    let program = std::env::current_exe().unwrap_or_else(|_| "pyrograph".into());
    anyhow::anyhow!("{text}; {}", remedy(trigger, &program.display()))
}

/// The command that permits a question, or that there is none.
fn remedy(trigger: &Trigger, program: &dyn std::fmt::Display) -> String {
    let more = match trigger {
        Trigger::Function { .. } | Trigger::Places { .. } | Trigger::Allocations { .. } => {
            return "probes in programs (--alloc, uprobe:, uretprobe:, usdt:) need root: no capability permits \
                    them but cap_sys_admin, which is as good as root"
                .to_owned();
        }
        // Their numbers are in files that only root may read.
        Trigger::Tracepoint { .. } => ",cap_dac_read_search",
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
            remedy(&Trigger::Locks, &"/bin/pyrograph"),
            "without root: sudo setcap \
             cap_bpf,cap_perfmon,cap_sys_ptrace,cap_checkpoint_restore,cap_syslog=ep /bin/pyrograph"
        );
        let point = Trigger::Tracepoint { category: "sched".to_owned(), name: "x".to_owned() };
        assert!(remedy(&point, &"x").contains(",cap_dac_read_search=ep"));
        let allocations = Trigger::Allocations { path: "libc.so".into(), live: false };
        assert!(!remedy(&allocations, &"x").contains("setcap"));
    }
}
