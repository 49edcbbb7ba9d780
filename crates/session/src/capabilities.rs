//! Capabilities that each kind of recording needs without root.
//!
//! Found by trying each question as another user on Linux 6.18; see capabilities(7).

use pyrograph_event::request::Trigger;

/// Returns the capabilities in the form of setcap(8), or `None` if nothing less than `cap_sys_admin`, which is
/// equivalent to root, is sufficient.
pub fn capabilities(trigger: &Trigger) -> Option<String> {
    let more = match trigger {
        Trigger::Values { of, .. } => return capabilities(of),
        Trigger::Function { .. }
        | Trigger::KernelFunctions { .. }
        | Trigger::Places { .. }
        | Trigger::Allocations { .. }
        | Trigger::Goroutines { .. } => return None,
        // The IDs of tracepoints are in files that only root may read.
        Trigger::Tracepoint { .. } => ",cap_dac_read_search",
        _ => "",
    };
    // In this order: BPF programs; samples of all users; their memory; the files that they have mapped; the kernel's
    // symbols.
    Some(format!("cap_bpf,cap_perfmon,cap_sys_ptrace,cap_checkpoint_restore,cap_syslog{more}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_question_has_its_capabilities() {
        assert_eq!(
            capabilities(&Trigger::Locks).as_deref(),
            Some("cap_bpf,cap_perfmon,cap_sys_ptrace,cap_checkpoint_restore,cap_syslog")
        );
        let point = Trigger::Tracepoint { category: "sched".to_owned(), name: "x".to_owned() };
        assert!(capabilities(&point).is_some_and(|all| all.ends_with(",cap_dac_read_search")));
        assert_eq!(
            capabilities(&Trigger::Allocations {
                path: "x".into(),
                others: Vec::new(),
                live: false
            }),
            None
        );
    }
}
