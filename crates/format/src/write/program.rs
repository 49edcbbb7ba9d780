//! Finds the main program of a profile, for formats that mark one module as such.

use pyrograph_profile::{Profile, StringId, Thread};

/// Maximum length of a process name in the kernel (without the final NUL).
const COMM: usize = 15;

/// The module with most of the shown value in processes named like the module's file; if there is none, the module with
/// most of the value in stacks whose outermost program is this module. Never the kernel or a library.
pub(super) fn program(profile: &Profile) -> Option<StringId> {
    let text = |id| profile.strings.get(id);
    let mut modules: Vec<StringId> = profile.frames.iter().map(|frame| frame.module).collect();
    modules.sort_unstable();
    modules.dedup();
    modules.retain(|&module| is_program(text(module)));
    let called = |thread: Thread| {
        let name = if thread.process.is_empty() { thread.name } else { thread.process };
        modules.iter().position(|&module| is_called(text(module), text(name)))
    };
    let by_name: Vec<Option<usize>> = profile.threads.iter().map(called).collect();
    // Parents come before their children.
    let mut by_root: Vec<Option<usize>> = vec![None; profile.stacks.len()];
    for (below, (caller, frame)) in profile.stacks.rows().enumerate() {
        let module = profile.frames.get(frame).module;
        by_root[below + 1] =
            by_root[caller.index()].or_else(|| modules.binary_search(&module).ok());
    }
    let mut totals = vec![[0u128; 2]; modules.len()];
    for (sample, &value) in profile.samples.iter().zip(profile.samples.values(profile.shown)) {
        let found = [by_name[sample.thread.index()], by_root[sample.stack.index()]];
        for (rank, module) in found.into_iter().enumerate() {
            if let Some(module) = module {
                totals[module][rank] += u128::from(value);
            }
        }
    }
    // The first one, if several are equal.
    let best = (0..modules.len()).rev().max_by_key(|&module| totals[module])?;
    Some(modules[best])
}

/// Returns true if a module is a file, and neither a library nor the kernel.
fn is_program(module: &str) -> bool {
    let file = module.rsplit('/').next().unwrap_or(module);
    let is_library = file.ends_with(".so") || file.contains(".so.");
    module.starts_with('/') && !is_library && !file.ends_with(".ko") && !file.starts_with("vmlinux")
}

/// Returns true if a process is named like the module's file: the kernel truncates process names.
fn is_called(module: &str, process: &str) -> bool {
    let file = module.rsplit('/').next().unwrap_or(module);
    !process.is_empty() && (file == process || process.len() == COMM && file.starts_with(process))
}

#[cfg(test)]
mod tests {
    use pyrograph_profile::{Frame, FrameKind, Sample, StackId, Thread, ValueType};

    use super::*;

    /// The program of stacks, root first, of processes.
    fn check(rows: &[(&str, &[&str], u64)], expect: &str) {
        let mut profile = Profile::new(vec![ValueType::samples()]);
        for &(process, modules, value) in rows {
            let process = profile.strings.intern(process);
            let thread = profile.threads.intern(Thread { process, ..Thread::default() });
            let mut stack = StackId::ROOT;
            for module in modules {
                let module = profile.strings.intern(module);
                let frame = Frame { module, ..Frame::named(module, FrameKind::User) };
                let frame = profile.frames.intern(frame);
                stack = profile.stacks.intern(stack, frame);
            }
            profile.push(Sample { thread, ..Sample::new(stack) }, &[value]);
        }
        let found = program(&profile).map(|module| profile.strings.get(module));
        assert_eq!(found.unwrap_or_default(), expect);
    }

    #[test]
    fn the_first_mapping_was_the_kernel() {
        let libc = "/usr/lib/libc.so.6";
        check(&[("app", &[libc, "/bin/app", "[kernel.kallsyms]"], 1)], "/bin/app");
        check(&[("", &[libc, "[kernel.kallsyms]"], 1)], "");
        // A loader or another program may be in the same stack.
        let app: &[&str] = &["/bin/ld", "/bin/app-with-a-long-name"];
        check(&[("app-with-a-long", app, 1)], app[1]);
        check(&[("renamed", app, 1)], app[0]);
        // Of several processes that of the largest.
        let rows: [(&str, &[&str], u64); 3] =
            [("sh", &["/bin/sh"], 3), ("app", &["/bin/app"], 9), ("sh", &["/bin/sh"], 5)];
        check(&rows, "/bin/app");
    }
}
