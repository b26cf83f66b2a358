/* What verify, bench, make-input, the tests and the tuner share: inputs that are hard on a rule, a run on a device with
 * poisoned memory, the comparison with the reference, and the one table of bounds. */
#ifndef CLATTN_SRC_CHECK_H
#define CLATTN_SRC_CHECK_H

#include "clattn.h"
#include "device/opencl.h"
#include "op/arguments.h"

/* One problem's tensors on the host, contiguous, owned. Unused operands have data NULL. */
struct check_tensor {
    void *data;
    size_t bytes;
    clattn_operand_info info;
};

struct check_tensors {
    clattn_plan_desc desc; /* completed */
    struct check_tensor tensor[OPERAND_COUNT];
    void *after[OPERAND_COUNT]; /* owned: what a run leaves of an input that it updates; NULL before, and of others */
};

/* How inputs are drawn. */
enum check_gates {
    CHECK_GATES_USUAL, /* like a trained model's: log-decays in (-1, 0), beta in (0, 1) */
    CHECK_GATES_HARD,  /* half of the log-decays 0, some -1000 and -inf; beta near 2 */
    CHECK_GATES_SLOW   /* log-decays a hundredth of the usual: a state that lasts for hundreds of tokens */
};

/* Allocates every operand of desc and fills the inputs from seed; outputs are NaN. cu_seqlens (sequences + 1 entries,
 * of host int64) may be NULL: then it is cut evenly. Inputs are rounded to their storage type. Erase keys have norm <=
 * 1 where the rule is not stable otherwise. */
clattn_status check_make(struct check_tensors *tensors, const clattn_plan_desc *desc, uint64_t seed,
                         enum check_gates gates, const int64_t *cu_seqlens);
void check_free(struct check_tensors *tensors);

/* Room in `after` for what a run updates, filled with what it is before. */
clattn_status check_keep(struct check_tensors *tensors);
/* The same, and the operands as clattn_reference takes them: what it updates is there, and the inputs stay. */
clattn_status check_kept_operands(struct arguments *operands, struct check_tensors *tensors);

/* Every operand of desc, all bytes 0xff: NaN. What check_make fills; on failure there is nothing to free. */
clattn_status check_allocate(struct check_tensors *tensors, const clattn_plan_desc *desc);

/* Elements of a tensor. */
int64_t check_count(const clattn_operand_info *info);

/* A call of a desc's lengths, without operands yet. */
struct arguments check_lengths(const clattn_plan_desc *desc);

/* The operands as clattn_reference and clattn_run take them, pointing into tensors. */
void check_operands(struct arguments *operands, const struct check_tensors *tensors);

/* clattn_enqueue and clattn_reference of operands by id. */
clattn_status check_enqueue(clattn_plan *plan, cl_command_queue queue, const struct arguments *operands,
                            uint32_t n_wait, const cl_event *wait, cl_event *event);
clattn_status check_compute(const clattn_plan_desc *desc, const struct arguments *operands, clattn_log_fn log,
                            void *log_user);

/* clattn_reference over the tensors' inputs, in f32: allocates the outputs of *expected, whose inputs stay NULL.
 * INVALID_OPERAND when an output is not finite (a stabilizer may be -inf): nothing is measured by such a reference. */
clattn_status check_reference(struct check_tensors *expected, const struct check_tensors *tensors, clattn_log_fn log,
                              void *log_user);

/* A context with its queue, for running plans on one device. */
struct check_device {
    clattn_context *context;
    cl_context cl;
    cl_device_id device;
    cl_command_queue queue; /* in order, profiling */
    clattn_plan_info plan;  /* of the last check_run, its tiles_by gone with the plan; zero when it had none */
};
clattn_status check_device_open(struct check_device *device, cl_device_id id, clattn_log_fn log, void *log_user);
void check_device_close(struct check_device *device);

/* Creates the plan, runs it once on device buffers whose outputs, workspace and guard bands are NaN, and reads the
 * outputs back into tensors, and what it updates into `after`. DEVICE_ERROR with a log line when an input or
 * a guard band was touched, or an element of an output was not written. plan_text (may be NULL) receives
 * clattn_plan_describe. */
clattn_status check_run(struct check_tensors *tensors, struct check_device *device, char *plan_text, size_t text_size,
                        clattn_log_fn log, void *log_user);

/* The same with a plan of the caller's; the tensors' lengths may be below the plan's. */
clattn_status check_run_plan(struct check_tensors *tensors, struct check_device *device, clattn_plan *plan,
                             clattn_log_fn log, void *log_user);

/* The bound on relative error of forward outputs, by storage type. */
double check_bound(clattn_dtype dtype);
/* The same of a problem. */
double check_bound_of(const clattn_plan_desc *desc);

/* What check_bound bounds: rel = RMS(x - ref) / (RMS(ref) + 1e-8) of a tensor, or an eighth of that of its worst
 * row, if that is more. A row is the tensor's last dimension: a head of a token; it is measured against the tensor's
 * RMS(ref) where its own is less. Infinite when x is not finite where ref is, or differs from an infinite ref, or
 * ref is NaN. The worst over all outputs; *worst (may be NULL) is the operand it belongs to. */
double check_error(const struct check_tensors *actual, const struct check_tensors *expected, clattn_operand_id *worst);

/* The same of one tensor, and where. */
struct check_difference {
    double error;      /* what is bounded */
    double whole, row; /* of the tensor, and of its worst row */
    int64_t at;        /* that row */
};
struct check_difference check_tensor_difference(const struct check_tensor *actual, const struct check_tensor *expected);
double check_tensor_error(const struct check_tensor *actual, const struct check_tensor *expected);

/* The awkward shapes of the tests and of `clattn verify`. dtypes and variants say which of them a run within minutes
 * takes: see check_case_applies. */
enum { CHECK_QUICK = 8 };
struct check_case {
    const char *name;
    int64_t batch, seq_len, heads, qk_heads, key_dim, value_dim; /* qk_heads above heads: of states that they share */
    uint64_t flags;                                              /* beyond the rule's own */
    enum check_gates gates;
    const int64_t *cu_seqlens; /* NULL, or sequences + 1 entries */
    int64_t sequences;
    double scale;           /* 0: the rule's */
    int gates_as_data;      /* gate_dtype is the dtype, not f32 */
    int variants;           /* also for the rule's variants from 1 on */
    uint32_t dtypes;        /* bit 1 << dtype, and 1 << (CHECK_QUICK + dtype) where a few seconds must do */
    int64_t kv_len, window; /* not 0: for rules of a list alone */
    int64_t tail;           /* not 0: for those whose keys are carried */
};
extern const struct check_case check_cases[];
extern const size_t check_case_count;

/* Of a desc that is meant for any rule what its own takes: where the state is a list no states, and key/value heads in
 * the place of query/key heads. */
void check_fit(clattn_plan_desc *desc);

/* Whether the rule has solvers of the mode. */
int check_mode_applies(clattn_rule rule, clattn_mode mode);

/* A rule's own options worth checking beside its default (normalize, feature maps, steps, gv, ungated, sink): fills
 * desc's fields for variant 0, 1 and so on, and fits it; returns a short name, "" for the default, or NULL past the
 * last. */
const char *check_variant(clattn_rule rule, int variant, clattn_plan_desc *desc);

/* Whether a run over all rules takes this case for this rule, variant and type; every case of the rule's kind is taken
 * with f32 and variant 0. */
int check_case_applies(const struct check_case *c, clattn_rule rule, int variant, clattn_dtype dtype);
/* Whether one that applies is taken by `clattn verify --quick` too. */
int check_case_quick(const struct check_case *c, clattn_rule rule, int variant, clattn_dtype dtype);

/* desc of one case; INVALID_… never for a legal rule. */
clattn_plan_desc check_case_desc(const struct check_case *c, clattn_rule rule, clattn_dtype dtype, clattn_mode mode);

#endif
