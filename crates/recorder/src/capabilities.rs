//! The capabilities that each kind of recording needs without root.
//!
//! Found by trying each question as another user on Linux 6.18; see capabilities(7).

use pyrograph_event::request::Trigger;

/// The capabilities, as setcap(8) takes them; `None` where none permits it but `cap_sys_admin`, which is as good as
/// root.
pub fn capabilities(trigger: &Trigger) -> Option<String> {
    let more = match trigger {
        Trigger::Function { .. } | Trigger::Places { .. } | Trigger::Allocations { .. } => {
            return None;
        }
        // Their numbers are in files that only root may read.
        Trigger::Tracepoint { .. } => ",cap_dac_read_search",
        _ => "",
    };
    // Programs in the kernel; samples of all users; their memory; the files that they have mapped; the kernel's
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
        assert_eq!(capabilities(&Trigger::Allocations { path: "x".into(), live: false }), None);
    }
}
