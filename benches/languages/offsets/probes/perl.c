// Offsets of perl's interpreter, contexts and names, by the headers in CORE.
#include "EXTERN.h"
#include "perl.h"
#include "XSUB.h"
#include "probe.h"

#define HAS(minor) (PERL_VERSION >= (minor))

void fields(void) {
#ifdef MULTIPLICITY
    FIELD("curstackinfo", "`PL_curstackinfo` in the interpreter; a global of its own without threads.",
          offsetof(struct interpreter, Icurstackinfo));
    FIELD("curcop", "`PL_curcop` in the interpreter; a global of its own without threads.",
          offsetof(struct interpreter, Icurcop));
#else
    ABSENT("curstackinfo", "");
    ABSENT("curcop", "");
#endif
    FIELD("stackinfo_contexts", "`PERL_SI.si_cxstack`, the array of contexts.", offsetof(PERL_SI, si_cxstack));
    FIELD("stackinfo_previous", "`PERL_SI.si_prev`.", offsetof(PERL_SI, si_prev));
    FIELD("stackinfo_innermost", "`PERL_SI.si_cxix`, the index of the innermost context; -1 where there is none.",
          offsetof(PERL_SI, si_cxix));
    FIELD("stackinfo_type", "`PERL_SI.si_type`, 1 for the outermost.", offsetof(PERL_SI, si_type));

    FIELD("context_size", "The size of a `PERL_CONTEXT`.", sizeof(PERL_CONTEXT));
    FIELD("context_type", "`cx_type`, of which `context_type_mask` is the kind.", offsetof(PERL_CONTEXT, cx_u.cx_subst.sbu_type));
    FIELD("context_type_size", "The size of `cx_type` in bytes.", sizeof(((PERL_CONTEXT *)0)->cx_u.cx_subst.sbu_type));
    FIELD("context_oldcop", "`blk_oldcop`, where the caller is.", offsetof(PERL_CONTEXT, cx_u.cx_blk.blku_oldcop));
    FIELD("context_cv", "`blk_sub.cv`, also of a format; null while it is being entered.",
          offsetof(PERL_CONTEXT, cx_u.cx_blk.blk_u.blku_sub.cv));
    FIELD("context_retop", "`blk_sub.retop`, also of an `eval`; null if C called.",
          offsetof(PERL_CONTEXT, cx_u.cx_blk.blk_u.blku_sub.retop));
    FIELD("eval_retop", "`blk_eval.retop`.", offsetof(PERL_CONTEXT, cx_u.cx_blk.blk_u.blku_eval.retop));
    FIELD("context_type_mask", "`CXTYPEMASK`.", CXTYPEMASK);
    FIELD("context_sub", "`CXt_SUB`.", CXt_SUB);
    FIELD("context_format", "`CXt_FORMAT`.", CXt_FORMAT);
    FIELD("context_eval", "`CXt_EVAL`.", CXt_EVAL);

    FIELD("cop_line", "`cop_line`, 32 bits.", offsetof(COP, cop_line));
#ifdef USE_ITHREADS
    FIELD("cop_file", "`cop_file`, characters if threaded, else a GV named `_<FILE`.", offsetof(COP, cop_file));
#else
    FIELD("cop_file", "", offsetof(COP, cop_filegv));
#endif

    FIELD("sv_any", "`sv_any`, the body.", offsetof(SV, sv_any));
    FIELD("sv_flags", "`sv_flags`, of which the low byte is the type.", offsetof(SV, sv_flags));
    FIELD("sv_u", "`sv_u`: the array of a hash, the GP of a glob.", offsetof(SV, sv_u));
    FIELD("type_gv", "`SVt_PVGV`.", SVt_PVGV);
    FIELD("type_hv", "`SVt_PVHV`.", SVt_PVHV);
    FIELD("type_cv", "`SVt_PVCV`.", SVt_PVCV);
    FIELD("type_fm", "`SVt_PVFM`, the type of a format.", SVt_PVFM);

    FIELD("cv_flags", "`xcv_flags` in the body of a CV.", offsetof(XPVCV, xcv_flags));
    FIELD("cv_flags_size", "The size of `xcv_flags` in bytes.", sizeof(((XPVCV *)0)->xcv_flags));
    FIELD("cv_stash", "`xcv_stash`, the package that it was compiled in.", offsetof(XPVCV, xcv_stash));
#if HAS(18)
    FIELD("cv_gv", "`xcv_gv`, or with `cv_named` the name as a HEK.", offsetof(XPVCV, xcv_gv_u));
#else
    FIELD("cv_gv", "", offsetof(XPVCV, xcv_gv));
#endif
#ifdef CVf_NAMED
    FIELD("cv_named", "`CVf_NAMED` of `cv_flags`.", CVf_NAMED);
#else
    ABSENT("cv_named", "");
#endif
    FIELD("cv_start", "`xcv_start`, its first op, a COP in nearly all.", offsetof(XPVCV, xcv_start_u));
    FIELD("cv_file", "`xcv_file`, the file that it is defined in, as characters.", offsetof(XPVCV, xcv_file));

    FIELD("gv_name", "The name of a GV as a HEK, in its body.", offsetof(XPVGV, xiv_u.xivu_namehek));
    FIELD("gv_stash", "The package of a GV, in its body.", offsetof(XPVGV, xnv_u.xgv_stash));
    FIELD("gp_egv", "`gp_egv`, the GV under which it was first defined.", offsetof(GP, gp_egv));
    FIELD("hek_length", "`hek_len`, 32 bits.", offsetof(HEK, hek_len));
    FIELD("hek_key", "`hek_key`, the characters.", offsetof(HEK, hek_key));

#ifdef SVphv_HasAUX
    FIELD("hv_has_aux", "The flag of a hash that has auxiliary data, where its name is.", SVphv_HasAUX);
#else
    FIELD("hv_has_aux", "The flag of a hash that has auxiliary data, where its name is.", SVf_OOK);
#endif
#if HAS(36)
    FIELD("hv_aux", "The auxiliary data in the body of a hash; before 5.36 it is behind the array.",
          offsetof(struct xpvhv_with_aux, xhv_aux));
#else
    ABSENT("hv_aux", "");
#endif
    FIELD("hv_max", "`xhv_max`, the highest index of the array of a hash.", offsetof(XPVHV, xhv_max));
#if HAS(14)
    FIELD("aux_name", "`xhv_name`, a HEK, or an array of these if the count is not 0.",
          offsetof(struct xpvhv_aux, xhv_name_u));
    FIELD("aux_name_count", "`xhv_name_count`: above 0 the name is the first of the array, below 0 the second.",
          offsetof(struct xpvhv_aux, xhv_name_count));
#else
    FIELD("aux_name", "", offsetof(struct xpvhv_aux, xhv_name));
    ABSENT("aux_name_count", "");
#endif
}
