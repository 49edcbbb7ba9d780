//! Offsets in Perl's structures on x86-64, by version, from each version's headers (`intrpvar.h`, `cop.h`, `cv.h`, `gv.h`,
//! `hv.h`).

use pyrograph_event::interpreter::Interpreter;

use super::at;

const NO: u32 = Interpreter::NO_OFFSET;

/// Offsets of one version in the order of the constants of `at`, for an interpreter built with threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout([u32; Interpreter::OFFSETS]);

impl Layout {
    /// Returns the layout of version 5.x.
    pub fn of_version(minor: u32) -> Option<Self> {
        // Odd versions are development versions.
        if !(10..=44).contains(&minor) || minor % 2 == 1 {
            return None;
        }
        let (stackinfo, cop) = match minor {
            10 => (0x250, 0x240),
            12 => (0x258, 0x248),
            14..=16 => (0x260, 0x250),
            18 => (0xc0, 0xb0),
            20 => (0xe0, 0xd0),
            22..=24 => (0xe8, 0xd8),
            26..=32 => (0xf0, 0xe0),
            _ => (0xe0, 0xd0),
        };
        let (cv, retop, size) = match minor {
            10 => (0x20, 0x58, 0x70),
            12..=20 => (0x28, 0x20, 0x50),
            22 => (0x28, 0x20, 0x58),
            24..=30 => (0x40, 0x30, 0x60),
            _ => (0x48, 0x30, 0x68),
        };
        let (mask, sub, format, eval) = match minor {
            10 => (0xff, 1, 6, 2),
            12..=22 => (0xf, 8, 9, 10),
            _ => (0xf, 9, 10, 11),
        };
        let catch = match minor {
            10 => 0x50,
            12..=22 => 0x48,
            24..=30 => 0x58,
            _ => 0x60,
        };
        let old = minor <= 12;
        Some(Self(Interpreter::offsets([
            (at::STACKINFO, stackinfo),
            (at::COP, cop),
            (at::SI_CONTEXTS, 8),
            (at::SI_PREVIOUS, 0x10),
            (at::SI_INDEX, 0x20),
            (at::SI_TYPE, if minor >= 32 { 0x2c } else { 0x28 }),
            (at::CX_COP, if minor >= 24 { 0x10 } else { 8 }),
            (at::CX_FUNCTION, cv),
            (at::CX_RETURN, retop),
            (at::CX_SIZE, size),
            (at::TYPE_MASK, mask),
            (at::TYPE_SUB, sub),
            (at::TYPE_FORMAT, format),
            (at::TYPE_EVAL, eval),
            (at::COP_LINE, 0x24),
            (at::CV_FLAGS, if old { 0x6c } else { 0x5c }),
            (at::CV_GV, if old { 0x48 } else { 0x38 }),
            (at::CV_STASH, if old { 0x30 } else { 0x20 }),
            (at::CV_FILE, if old { 0x50 } else { 0x40 }),
            (at::GV_NAME, if old { 0x18 } else { 0x20 }),
            (at::GV_STASH, if old { 0 } else { 0x28 }),
            (at::GP_EGV, 0x38),
            (at::HV_AUX, if minor >= 36 { 0x20 } else { NO }),
            (at::HV_MAX, if old { 0x10 } else { 0x18 }),
            (at::HV_NAMES, if old { NO } else { 0x1c }),
            (at::EVAL_RETURN, if minor == 10 { 0x48 } else { retop }),
            // `block_eval.cur_top_env`, the last field of that struct.
            (at::EVAL_CATCH, catch),
        ])))
    }

    /// Returns one offset.
    pub fn field(&self, field: usize) -> u32 {
        self.0[field]
    }

    /// Returns the offsets for the in-kernel programs.
    pub fn offsets(&self, is_threaded: bool) -> [u32; Interpreter::OFFSETS] {
        let mut offsets = self.0;
        if !is_threaded {
            offsets[at::STACKINFO] = NO;
            offsets[at::COP] = NO;
        }
        offsets
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::Measured;

    #[test]
    fn offsets_are_those_of_the_headers() {
        let table = include_str!("../../../../benches/languages/offsets/tables/perl.txt");
        let fields = [
            (at::STACKINFO, "curstackinfo"),
            (at::COP, "curcop"),
            (at::SI_CONTEXTS, "stackinfo_contexts"),
            (at::SI_PREVIOUS, "stackinfo_previous"),
            (at::SI_INDEX, "stackinfo_innermost"),
            (at::SI_TYPE, "stackinfo_type"),
            (at::CX_COP, "context_oldcop"),
            (at::CX_FUNCTION, "context_cv"),
            (at::CX_RETURN, "context_retop"),
            (at::CX_SIZE, "context_size"),
            (at::TYPE_MASK, "context_type_mask"),
            (at::TYPE_SUB, "context_sub"),
            (at::TYPE_FORMAT, "context_format"),
            (at::TYPE_EVAL, "context_eval"),
            (at::COP_LINE, "cop_line"),
            (at::CV_FLAGS, "cv_flags"),
            (at::CV_GV, "cv_gv"),
            (at::CV_STASH, "cv_stash"),
            (at::CV_FILE, "cv_file"),
            (at::GV_NAME, "gv_name"),
            (at::GV_STASH, "gv_stash"),
            (at::GP_EGV, "gp_egv"),
            (at::HV_AUX, "hv_aux"),
            (at::HV_MAX, "hv_max"),
            (at::HV_NAMES, "aux_name_count"),
            (at::EVAL_RETURN, "eval_retop"),
        ];
        let columns = Measured::columns(table);
        let known =
            columns.iter().filter_map(|column| Some((column, Layout::of_version(column.minor())?)));
        let mut compared = 0;
        for (column, layout) in known {
            let offsets = layout.offsets(!column.version.ends_with("-unthreaded"));
            for (field, name) in fields {
                let measured = column.value(name).unwrap_or(NO);
                assert_eq!(offsets[field], measured, "{name} of {}", column.version);
            }
            compared += 1;
        }
        // 5.10 to 5.44, with threads and without.
        assert_eq!(compared, 36);
    }
}
