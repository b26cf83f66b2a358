/* What verify, bench, make-input, the tests and the tuner share: inputs that are hard on a rule, runs on a device with
 * poisoned memory, the comparison with the reference, and the table of bounds. */
#ifndef CLATTN_SRC_CHECK_H
#define CLATTN_SRC_CHECK_H

#include "clattn.h"
#include "device/opencl.h"
#include "op/arguments.h"

/* A problem's tensor on the host, contiguous and owned. Unused operands have data NULL. */
struct check_tensor {
    void *data;
    size_t bytes;
    clattn_operand_info info;
};

struct check_tensors {
    clattn_plan_desc desc; /* completed */
    struct check_tensor tensor[OPERAND_COUNT];
    void *after[OPERAND_COUNT]; /* owned: an input that a run updates, after the run; NULL for others and before */
};

/* How inputs are drawn. */
enum check_gates {
    CHECK_GATES_USUAL, /* like a trained model's: log-decays in (-1, 0), beta in (0, 1) */
    CHECK_GATES_HARD,  /* half of the log-decays 0, some -1000 and -inf; beta near 2 */
    CHECK_GATES_SLOW   /* log-decays a hundredth of the usual ones: the state lasts for hundreds of tokens */
};

/* Allocates every operand of desc and fills the inputs from seed; outputs are NaN. cu_seqlens has sequences + 1 entries
 * of host int64; NULL: all sequences are equally long. Inputs are rounded to their storage type. Erase keys have a norm
 * of at most 1 if the rule would not be stable otherwise. */
clattn_status check_make(struct check_tensors *tensors, const clattn_plan_desc *desc, uint64_t seed,
                         enum check_gates gates, const int64_t *cu_seqlens);
void check_free(struct check_tensors *tensors);

/* Allocates `after` for each operand that a run updates, and copies the operand there. */
clattn_status check_copy_updated(struct check_tensors *tensors);
/* The same, and sets the operands for clattn_reference so that it updates the copies and leaves the inputs. */
clattn_status check_updatable_operands(struct arguments *operands, struct check_tensors *tensors);

/* Allocates every operand of desc with all bytes 0xff, which is NaN. On failure there is nothing to free. */
clattn_status check_allocate(struct check_tensors *tensors, const clattn_plan_desc *desc);

/* The number of elements of a tensor. */
int64_t check_count(const clattn_operand_info *info);

/* A call with a desc's lengths and no operands. */
struct arguments check_lengths(const clattn_plan_desc *desc);

/* Sets the operands for clattn_reference and clattn_run; they point into tensors. */
void check_operands(struct arguments *operands, const struct check_tensors *tensors);

/* clattn_enqueue and clattn_reference with operands by id. */
clattn_status check_enqueue(clattn_plan *plan, cl_command_queue queue, const struct arguments *operands,
                            uint32_t n_wait, const cl_event *wait, cl_event *event);
clattn_status check_compute(const clattn_plan_desc *desc, const struct arguments *operands, clattn_log_fn log,
                            void *log_user);

/* Runs clattn_reference in f32 over the inputs of tensors, and allocates the outputs of *expected, whose inputs stay
 * NULL. INVALID_OPERAND if an output is not finite (a stabilizer may be -inf), because nothing can be compared with
 * it. */
clattn_status check_reference(struct check_tensors *expected, const struct check_tensors *tensors, clattn_log_fn log,
                              void *log_user);

/* A context with its queue, for running plans on one device. */
struct check_device {
    clattn_context *context;
    cl_context cl;
    cl_device_id device;
    cl_command_queue queue; /* in order, profiling */
    clattn_plan_info plan;  /* of the last check_run, or zero; tiles_by is NULL, because the plan is gone */
};
clattn_status check_device_open(struct check_device *device, cl_device_id id, clattn_log_fn log, void *log_user);
void check_device_close(struct check_device *device);

/* Creates the plan and runs it once on buffers whose outputs, workspace and guard bands are NaN. Reads the outputs back
 * into tensors, and updated inputs into `after`. DEVICE_ERROR with a log line if an input or a guard band was changed
 * or an element of an output was not written. plan_text (may be NULL) receives clattn_plan_describe. */
clattn_status check_run(struct check_tensors *tensors, struct check_device *device, char *plan_text, size_t text_size,
                        clattn_log_fn log, void *log_user);

/* The same with the caller's plan. The tensors' lengths may be below those of the plan. */
clattn_status check_run_plan(struct check_tensors *tensors, struct check_device *device, clattn_plan *plan,
                             clattn_log_fn log, void *log_user);

/* The bound on the relative error of forward outputs, by storage type. */
double check_bound(clattn_dtype dtype);
/* The same for a problem. */
double check_bound_of(const clattn_plan_desc *desc);

/* The error that check_bound limits: RMS(x - ref) / (RMS(ref) + 1e-8) of a tensor, or an eighth of that of its worst
 * row if that is more. A row is the last dimension: one head of one token. It is divided by the tensor's RMS(ref) if
 * its own is less. Infinite if x is not finite where ref is, if x differs from an infinite ref, or if ref is NaN.
 * Returns the worst of all outputs; *worst (may be NULL) is its operand. */
double check_error(const struct check_tensors *actual, const struct check_tensors *expected, clattn_operand_id *worst);

/* The same for one tensor, and where. */
struct check_difference {
    double error;      /* the error that is compared with the bound */
    double whole, row; /* of the tensor, and of its worst row */
    int64_t at;        /* that row */
};
struct check_difference check_tensor_difference(const struct check_tensor *actual, const struct check_tensor *expected);
double check_tensor_error(const struct check_tensor *actual, const struct check_tensor *expected);

/* The awkward shapes of the tests and of `clattn verify`. dtypes and variants say which of them a run of minutes takes
 * (check_case_applies). */
enum { CHECK_QUICK = 8 };
struct check_case {
    const char *name;
    int64_t batch, seq_len, heads, qk_heads, key_dim, value_dim; /* qk_heads above heads: query heads share states */
    uint64_t flags;                                              /* added to those of the rule */
    enum check_gates gates;
    const int64_t *cu_seqlens; /* NULL, or sequences + 1 entries */
    int64_t sequences;
    double scale;           /* 0: the rule's */
    int gates_as_data;      /* gate_dtype is the dtype, not f32 */
    int variants;           /* also with the rule's variants from 1 on */
    uint32_t dtypes;        /* bit 1 << dtype, and 1 << (CHECK_QUICK + dtype) for runs of a few seconds */
    int64_t kv_len, window; /* not 0: only for rules whose state is a list */
    int64_t tail;           /* not 0: only for rules that can carry keys */
};
extern const struct check_case check_cases[];
extern const size_t check_case_count;

/* Adapts a desc that was written for any rule to its own rule: if the state is a list, no states, and key/value heads
 * in place of query/key heads. */
void check_fit(clattn_plan_desc *desc);

/* Whether the rule has a solver of that mode. */
int check_mode_applies(clattn_rule rule, clattn_mode mode);

/* Applies one of the rule's variants, options worth checking beside its default: fills desc's fields and fits it.
 * Variant 0 is the default, "". Returns a short name, or NULL past the last. */
const char *check_variant(clattn_rule rule, int variant, clattn_plan_desc *desc);

/* Whether a run over all rules takes this case for this rule, variant and type. With f32 and variant 0 every case of
 * the rule's kind applies. */
int check_case_applies(const struct check_case *c, clattn_rule rule, int variant, clattn_dtype dtype);
/* Whether `clattn verify --quick` takes a case that applies. */
int check_case_quick(const struct check_case *c, clattn_rule rule, int variant, clattn_dtype dtype);

/* The desc of a case; valid for every rule. */
clattn_plan_desc check_case_desc(const struct check_case *c, clattn_rule rule, clattn_dtype dtype, clattn_mode mode);

#endif
