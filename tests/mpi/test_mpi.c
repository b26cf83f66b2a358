/* Ranks of MPI, each with a part of a problem: every rank's outputs are those of the reference for the whole. Without
 * cmocka's assertions, which would leave the other ranks waiting: failures are counted and printed.
 *
 * mpirun -n N test_mpi [RULE … | options]: the rules whose packed sequences are cut; none: all rules, in all ways, and
 * options. `lists` is for options of lists. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "harness.h"

#include "base/system.h"
#include "clattn_mpi.h"
#include "cli/io/safetensors.h"
#include "device/opencl.h"
#include "mpi/command/slice.h"
#include "op/options.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { TOKENS = 37, HEADS = 4, KEY = 12, VALUE = 20, SEQUENCES = 5 };

static int rank, ranks, failures;
static clattn_mpi_context *context;
static char **chosen;
static char last_error[1024];

static void keep_line(void *user, clattn_log_level level, const char *message)
{
    (void)user;
    if (level == CLATTN_LOG_ERROR)
        snprintf(last_error, sizeof last_error, "%s", message);
}

static int expect(int holds, const char *what, const char *detail)
{
    if (!holds) {
        fprintf(stderr, "rank %d of %d: %s: %s\n", rank, ranks, what, detail);
        failures++;
    }
    return holds;
}

static int expect_status(clattn_status actual, clattn_status expected, const char *what)
{
    char detail[1200];

    snprintf(detail, sizeof detail, "status %d, expected %d; log: %s", (int)actual, (int)expected, last_error);
    return expect(actual == expected, what, detail);
}

/* ---- Parts of tensors ---------------------------------------------------------------------------------------------- */

struct rank_part {
    struct problem problem;
    clattn_operand operands[OPERAND_COUNT];
    char *memory[OPERAND_COUNT];
    int dimension[OPERAND_COUNT];
    int64_t first[OPERAND_COUNT], count[OPERAND_COUNT];
    size_t bytes[OPERAND_COUNT]; /* of the rank's part */
    size_t operand_count;
};

/* How many of an operand's elements along its dimension one thing that is cut has, and its part. */
static void place_part(struct rank_part *part, const struct check_tensors *whole, const struct operand_row *row,
                       int64_t first, int64_t count, int64_t total)
{
    const struct check_tensor *tensor = &whole->tensor[row->id];
    const int64_t size = tensor->info.dims[part->dimension[row->id]];

    part->first[row->id] = first * size / total;
    part->count[row->id] = count * size / total;
    part->bytes[row->id] = tensor->bytes / (size_t)size * (size_t)part->count[row->id];
    part->memory[row->id] = calloc(tensor->bytes + 1, 1);
    slice_copy(tensor, part->dimension[row->id], part->first[row->id], part->count[row->id], part->memory[row->id], 0);
}

static int is_final(clattn_operand_id id)
{
    return id == CLATTN_STATE_OUT || id == CLATTN_NORMALIZER_OUT || id == CLATTN_STABILIZER_OUT;
}

static void take_part(struct rank_part *part, const struct check_tensors *whole, clattn_mpi_split split, int64_t first,
                      int64_t count, int64_t total)
{
    memset(part, 0, sizeof *part);
    if (!expect(problem_init(&part->problem, &whole->desc, NULL) == CLATTN_SUCCESS, "problem_init", ""))
        return;
    for (int i = 0; i < part->problem.operand_count; i++) {
        const struct operand_row *row = &part->problem.operands[i];
        clattn_operand *operand = &part->operands[part->operand_count++];
        *operand = (clattn_operand){.id = operand_to_public(row->id), .host = whole->tensor[row->id].data};
        part->dimension[row->id] = slice_dimension(row, split);
        part->bytes[row->id] = whole->tensor[row->id].bytes;
        if (part->dimension[row->id] < 0)
            continue;
        place_part(part, whole, row, first, count, total);
        operand->host = part->memory[row->id];
    }
}

/* Puts the rank's outputs where they belong in the whole. */
static void return_part(struct rank_part *part, const struct check_tensors *whole)
{
    for (int id = 0; id < OPERAND_COUNT; id++)
        if (part->memory[id] != NULL && whole->tensor[id].info.output)
            slice_copy(&whole->tensor[id], part->dimension[id], part->first[id], part->count[id], part->memory[id], 1);
}

static void free_parts(struct rank_part *part)
{
    for (int id = 0; id < OPERAND_COUNT; id++)
        free(part->memory[id]);
}

/* ---- Comparison --------------------------------------------------------------------------------------------------- */

/* Where this rank has no outputs it takes the reference's, so that only its own are compared. */
static void fill_from(struct check_tensors *to, const struct check_tensors *from)
{
    for (int id = 0; id < OPERAND_COUNT; id++)
        if (to->tensor[id].data != NULL && to->tensor[id].info.output)
            memcpy(to->tensor[id].data, from->tensor[id].data, to->tensor[id].bytes);
}

/* The rank's own part of o is compared by the size of that part. */
static double error_of(const struct check_tensors *actual, const struct check_tensors *expected, clattn_operand_id id)
{
    const struct check_tensor *a = &actual->tensor[id], *e = &expected->tensor[id];
    double difference = 0, size = 0;
    int64_t count = check_count(&a->info);

    for (int64_t i = 0; i < count; i++) {
        const double x = (double)((const float *)a->data)[i], y = (double)((const float *)e->data)[i];
        if (x == y)
            continue;
        difference += (x - y) * (x - y);
    }
    for (int64_t i = 0; i < count; i++)
        if (isfinite((double)((const float *)e->data)[i]))
            size += pow((double)((const float *)e->data)[i], 2);
    return sqrt(difference / (size + 1e-30));
}

static void compare(const struct check_tensors *actual, const struct check_tensors *expected, double bound,
                    const char *what)
{
    char detail[128];

    for (int id = 1; id < OPERAND_COUNT; id++) {
        double error;
        if (actual->tensor[id].data == NULL || !actual->tensor[id].info.output)
            continue;
        error = error_of(actual, expected, (clattn_operand_id)id);
        snprintf(detail, sizeof detail, "%s differs by %g, bound %g", operand_name((clattn_operand_id)id), error,
                 bound);
        expect(error <= bound, what, detail);
    }
}

/* ---- Runs --------------------------------------------------------------------------------------------------------- */

typedef clattn_status (*run_fn)(clattn_mpi_plan *plan, struct rank_part *part);

static clattn_status run_on_host(clattn_mpi_plan *plan, struct rank_part *part)
{
    return clattn_mpi_run(
        plan,
        &(clattn_call){.operands = part->operands, .operand_count = part->operand_count, .seq_len = CLATTN_WHOLE});
}

enum { FRONT = 64, MOST_BUFFERS = OPERAND_COUNT + 1 };

struct buffers {
    const struct opencl *cl;
    cl_context context;
    cl_command_queue queue;
    cl_mem at[MOST_BUFFERS];
};

static clattn_status write_buffers(struct buffers *buffers, struct rank_part *part, clattn_operand *operands)
{
    for (size_t i = 0; i < part->operand_count; i++) {
        const size_t bytes = part->bytes[operand_from_public(part->operands[i].id)];
        operands[i] = (clattn_operand){.id = part->operands[i].id, .offset = FRONT, .size = bytes};
        if (bytes == 0)
            continue;
        TRY(opencl_create_buffer(NULL, buffers->cl, buffers->context, CL_MEM_READ_WRITE, FRONT + bytes, NULL,
                                 &buffers->at[i]));
        TRY(opencl_write(NULL, buffers->cl, buffers->queue, buffers->at[i], FRONT, bytes, part->operands[i].host));
        operands[i].buffer = buffers->at[i];
    }
    return CLATTN_SUCCESS;
}

/* Of a call that waits for an event, the results after its own event. */
static clattn_status enqueue_and_read(clattn_mpi_plan *plan, struct buffers *buffers, struct rank_part *part,
                                      const clattn_call *call)
{
    cl_event before = NULL, after = NULL;
    clattn_status status;

    buffers->cl->EnqueueMarkerWithWaitList(buffers->queue, 0, NULL, &before);
    status = clattn_mpi_enqueue(plan, buffers->queue, call, 1, &before, &after);
    buffers->cl->ReleaseEvent(before);
    expect((after != NULL) == (status == CLATTN_SUCCESS), "enqueue", "its event does not fit its status");
    if (status != CLATTN_SUCCESS)
        return status;
    buffers->cl->WaitForEvents(1, &after);
    buffers->cl->ReleaseEvent(after);
    for (size_t i = 0; i < part->operand_count; i++)
        if (call->operands[i].buffer != NULL && part->problem.operands[i].numbers == NUMBERS_WRITTEN)
            TRY(opencl_read(NULL, buffers->cl, buffers->queue, buffers->at[i], FRONT, call->operands[i].size,
                            part->operands[i].host));
    return CLATTN_SUCCESS;
}

static clattn_status run_on_buffers(clattn_mpi_plan *plan, struct rank_part *part)
{
    struct buffers buffers = {.cl = opencl_get()};
    clattn_operand operands[OPERAND_COUNT];
    clattn_call call = {.operands = operands, .operand_count = part->operand_count, .seq_len = CLATTN_WHOLE};
    clattn_status status;
    cl_device_id device;

    clattn_context_get(clattn_mpi_context_get(context), &buffers.context, &device);
    clattn_mpi_plan_workspace_size(plan, &call.workspace_size);
    status = opencl_create_queue(NULL, buffers.cl, buffers.context, device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE,
                                 &buffers.queue);
    if (status == CLATTN_SUCCESS)
        status = write_buffers(&buffers, part, operands);
    if (status == CLATTN_SUCCESS && call.workspace_size > 0)
        status = opencl_create_buffer(NULL, buffers.cl, buffers.context, CL_MEM_READ_WRITE, call.workspace_size, NULL,
                                      &buffers.at[OPERAND_COUNT]);
    expect_status(status, CLATTN_SUCCESS, "buffers");
    call.workspace = buffers.at[OPERAND_COUNT];
    status = enqueue_and_read(plan, &buffers, part, &call);
    for (int i = 0; i < MOST_BUFFERS; i++)
        if (buffers.at[i] != NULL)
            buffers.cl->ReleaseMemObject(buffers.at[i]);
    buffers.cl->ReleaseCommandQueue(buffers.queue);
    return status;
}

static clattn_status run_plan(clattn_mpi_plan *plan, const struct check_tensors *whole, clattn_mpi_split split,
                              run_fn run)
{
    const int64_t length = split == CLATTN_MPI_TOKENS ? CLATTN_WHOLE : 0;
    const int64_t totals[] = {[CLATTN_MPI_TOKENS] = whole->desc.seq_len,
                              [CLATTN_MPI_HEADS] = whole->desc.heads,
                              [CLATTN_MPI_BATCH] = whole->desc.batch};
    struct rank_part part;
    clattn_status status;
    int64_t first, count;

    clattn_mpi_plan_local(plan, length, &first, &count);
    take_part(&part, whole, split, first, count, totals[split]);
    status = run(plan, &part);
    if (status == CLATTN_SUCCESS)
        return_part(&part, whole);
    free_parts(&part);
    return status;
}

/* Final states are written on the rank that ends alone. */
static void forget_finals(struct check_tensors *actual, const struct check_tensors *expected, clattn_mpi_split split)
{
    const int last = actual->desc.flags & CLATTN_REVERSED ? 0 : ranks - 1;

    for (int id = 0; id < OPERAND_COUNT && split == CLATTN_MPI_TOKENS && rank != last; id++)
        if (is_final((clattn_operand_id)id) && actual->tensor[id].data != NULL)
            memcpy(actual->tensor[id].data, expected->tensor[id].data, actual->tensor[id].bytes);
}

/* What is compared from run to run. */
static clattn_operand_id main_output(const struct check_tensors *tensors)
{
    return tensors->desc.pass == CLATTN_PASS_BACKWARD ? gradient_of(CLATTN_V) : CLATTN_O;
}

/* The same bits again, of a second run and from buffers. */
static void check_again(clattn_mpi_plan *plan, const struct check_tensors *tensors, clattn_mpi_split split,
                        const char *what)
{
    static const run_fn runs[] = {run_on_host, run_on_buffers};
    const struct check_tensor *output = &tensors->tensor[main_output(tensors)];
    char *before = malloc(output->bytes);

    memcpy(before, output->data, output->bytes);
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        expect_status(run_plan(plan, tensors, split, runs[i]), CLATTN_SUCCESS, what);
        expect(memcmp(before, output->data, output->bytes) == 0, what,
               i == 0 ? "other bits in a second run" : "other bits from buffers");
    }
    free(before);
}

/* Gradients by what all tokens share: a rank has those of its tokens, and their sum is the whole's. */
static int is_shared(const struct check_tensors *tensors, const struct operand_row *row)
{
    return tensors->desc.pass == CLATTN_PASS_BACKWARD && row->numbers == NUMBERS_WRITTEN &&
           slice_dimension(row, CLATTN_MPI_TOKENS) < 0 && strchr(row->dims, 'N') == NULL;
}

static void for_shared(struct check_tensors *tensors, clattn_mpi_split split, void (*what)(struct check_tensor *))
{
    struct problem problem;

    if (split != CLATTN_MPI_TOKENS || problem_init(&problem, &tensors->desc, NULL) != CLATTN_SUCCESS)
        return;
    for (int i = 0; i < problem.operand_count; i++)
        if (is_shared(tensors, &problem.operands[i]))
            what(&tensors->tensor[problem.operands[i].id]);
}

static void clear(struct check_tensor *tensor)
{
    memset(tensor->data, 0, tensor->bytes);
}

static void sum_over_ranks(struct check_tensor *tensor)
{
    MPI_Allreduce(MPI_IN_PLACE, tensor->data, (int)check_count(&tensor->info), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void check_gates(const clattn_plan_desc *desc, clattn_mpi_split split, enum check_gates gates,
                        const int64_t *cuts, double bound, const char *what)
{
    struct check_tensors tensors, expected;
    clattn_mpi_plan *plan;

    test_make(&tensors, desc, gates, cuts);
    if (!expect(check_reference(&expected, &tensors, NULL, NULL) == CLATTN_SUCCESS, what, "no reference"))
        return;
    fill_from(&tensors, &expected);
    for_shared(&tensors, split, clear);
    if (expect_status(clattn_mpi_plan_create(&plan, context, desc, split), CLATTN_SUCCESS, what)) {
        if (expect_status(run_plan(plan, &tensors, split, run_on_host), CLATTN_SUCCESS, what)) {
            check_again(plan, &tensors, split, what);
            for_shared(&tensors, split, sum_over_ranks);
            forget_finals(&tensors, &expected, split);
            compare(&tensors, &expected, bound, what);
        }
        clattn_mpi_plan_destroy(plan);
    }
    check_free(&tensors);
    check_free(&expected);
}

static void check(const clattn_plan_desc *desc, clattn_mpi_split split, const int64_t *cuts, double bound,
                  const char *what)
{
    check_gates(desc, split, CHECK_GATES_USUAL, cuts, bound, what);
}

/* ---- Cases -------------------------------------------------------------------------------------------------------- */

static clattn_plan_desc desc_of(clattn_rule rule)
{
    const int keys = rule_asks_key_dim(rule_get(rule));
    clattn_plan_desc desc = {.rule = rule,
                             .flags = CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE,
                             .batch = 2,
                             .seq_len = TOKENS,
                             .heads = HEADS,
                             .key_dim = keys ? KEY : 0,
                             .value_dim = VALUE};

    desc.flags &= rule_flags(rule_get(rule));
    return desc;
}

/* Additive rules with scalar decays have no error but that of sums. */
static double bound_of(clattn_rule rule)
{
    const struct rule *row = rule_get(rule);

    return row->op == OP_MIXER && row->erase == ERASE_NONE &&
                   (row->decay == DECAY_NONE || row->decay == DECAY_SCALAR) && !rule_has_list(row)
               ? 1e-6
               : 1e-5;
}

/* Cuts inside of stretches, an empty and a short sequence; fewer tokens than ranks; a token a rank. */
static void check_tokens(clattn_rule rule)
{
    static const int64_t cuts[] = {0, 1, 1, 20, 31, TOKENS};
    clattn_plan_desc desc = desc_of(rule);
    const char *name = rule_get(rule)->name;
    int64_t few[] = {0, 1, 2};

    if (*chosen == NULL)
        check(&desc, CLATTN_MPI_TOKENS, NULL, bound_of(rule), name);
    desc.batch = 1;
    desc.flags |= CLATTN_CU_SEQLENS;
    desc.sequences = SEQUENCES;
    check(&desc, CLATTN_MPI_TOKENS, cuts, bound_of(rule), name);
    if (*chosen != NULL)
        return;
    desc.sequences = 2;
    desc.seq_len = 2;
    check(&desc, CLATTN_MPI_TOKENS, few, bound_of(rule), name);
    desc = desc_of(rule);
    desc.seq_len = ranks;
    check(&desc, CLATTN_MPI_TOKENS, NULL, bound_of(rule), name);
}

/* Rules that are not cut by tokens. */
static const clattn_rule uncut_rules[] = {
    CLATTN_PATH_ATTN, CLATTN_DELTAFORMER, CLATTN_LACT,    CLATTN_LOG_LINEAR_ATTN, CLATTN_LOG_LINEAR_GATED_DELTA_RULE,
    CLATTN_MESA_NET,  CLATTN_TTT_LINEAR,  CLATTN_TTT_MLP, CLATTN_TITANS,          CLATTN_TITANS_MLP};

/* Gradients, of packed sequences and, of all rules, of whole ones. */
static void check_gradients(clattn_rule rule)
{
    static const int64_t cuts[] = {0, 1, 1, 20, 31, TOKENS};
    clattn_plan_desc desc = desc_of(rule);
    char what[64];

    if (!rule_takes(rule_get(rule), OPTION_pass) || rule == CLATTN_MLSTM)
        return;
    snprintf(what, sizeof what, "gradients of %s", rule_get(rule)->name);
    desc.pass = CLATTN_PASS_BACKWARD;
    if (*chosen == NULL)
        check(&desc, CLATTN_MPI_TOKENS, NULL, 1e-5, what);
    desc.batch = 1;
    desc.flags |= CLATTN_CU_SEQLENS;
    desc.sequences = SEQUENCES;
    check(&desc, CLATTN_MPI_TOKENS, cuts, 1e-5, what);
}

static int is_named(const char *wanted)
{
    int found = *chosen == NULL;

    for (char **name = chosen; *name != NULL; name++)
        found |= strcmp(*name, wanted) == 0;
    return found;
}

static int is_chosen(clattn_rule rule)
{
    int is_wanted = is_named(rule_get(rule)->name);

    for (size_t i = 0; i < sizeof uncut_rules / sizeof *uncut_rules; i++)
        is_wanted &= rule != uncut_rules[i];
    return is_wanted;
}

static void check_options(void)
{
    clattn_plan_desc desc = desc_of(CLATTN_LINEAR_ATTN);

    desc.flags |= CLATTN_NONCAUSAL | CLATTN_NORMALIZE;
    desc.feature_map = CLATTN_FEATURE_ELU1;
    check(&desc, CLATTN_MPI_TOKENS, NULL, 1e-5, "noncausal");
    desc = desc_of(CLATTN_SIMPLE_GLA);
    desc.flags |= CLATTN_REVERSED | CLATTN_STATE_VK | CLATTN_WITH_ROPE;
    desc.kv_heads = 2;
    check(&desc, CLATTN_MPI_TOKENS, NULL, 1e-5, "reversed, shared states, rope");
    desc = desc_of(CLATTN_LINEAR_ATTN);
    desc.flags |= CLATTN_NORMALIZE;
    desc.feature_map = CLATTN_FEATURE_ELU1;
    desc.pass = CLATTN_PASS_BACKWARD;
    check(&desc, CLATTN_MPI_TOKENS, NULL, 1e-5, "gradients, normalized");
    desc.flags |= CLATTN_NONCAUSAL;
    check(&desc, CLATTN_MPI_TOKENS, NULL, 1e-5, "gradients, noncausal");
    desc = desc_of(CLATTN_GATED_DELTA_RULE);
    desc.flags = CLATTN_REVERSED | CLATTN_STATE_VK | CLATTN_WITH_ROPE;
    desc.kv_heads = 2;
    desc.pass = CLATTN_PASS_BACKWARD;
    check(&desc, CLATTN_MPI_TOKENS, NULL, 1e-5, "gradients, reversed, shared states, rope, no states");
    desc = desc_of(CLATTN_GATED_DELTA_RULE);
    desc.qk_heads = 2;
    check(&desc, CLATTN_MPI_HEADS, NULL, 1e-5, "heads");
    desc.batch = 3;
    check(&desc, CLATTN_MPI_BATCH, NULL, 1e-5, "batch");
    desc = desc_of(CLATTN_GLA);
    desc.seq_len = 64 * 4 * 4 + 5; /* stretches of whole chunks */
    desc.batch = 1;
    desc.heads = 1;
    check(&desc, CLATTN_MPI_TOKENS, NULL, 1e-5, "long");
}

/* Of lists, whose queries are computed by other ranks than have them. The first is long enough for halves of whole chunks. */
static void check_lists(void)
{
    static const int64_t long_cuts[] = {0, 3, 700, 700, 64 * 4 * 4 + 5};
    clattn_plan_desc desc = desc_of(CLATTN_SOFTMAX_ATTN);

    desc.flags |= CLATTN_WITH_SINK | CLATTN_WITH_LSE;
    desc.kv_heads = 2;
    desc.seq_len = 64 * 4 * 4 + 5;
    desc.batch = 1;
    check(&desc, CLATTN_MPI_TOKENS, NULL, 1e-5, "a sink, lse, shared keys");
    desc.rule = CLATTN_ALIBI_ATTN;
    check(&desc, CLATTN_MPI_TOKENS, NULL, 1e-5, "alibi_attn, a sink, lse, shared keys");
    desc.flags |= CLATTN_CU_SEQLENS;
    desc.sequences = 4;
    desc.rule = CLATTN_FORGETTING_ATTN;
    check(&desc, CLATTN_MPI_TOKENS, long_cuts, 1e-5, "forgetting_attn, packed, a sink, lse, shared keys");
    desc = desc_of(CLATTN_FORGETTING_ATTN);
    check(&desc, CLATTN_MPI_TOKENS, NULL, 1e-5, "forgetting_attn");
    check_gates(&desc, CLATTN_MPI_TOKENS, CHECK_GATES_HARD, NULL, 1e-5, "forgetting_attn, gates of -inf");
    desc.gate_dtype = CLATTN_BF16;
    check(&desc, CLATTN_MPI_TOKENS, NULL, 1e-5, "forgetting_attn, gates of 16 bits");
    desc.gate_dtype = CLATTN_F32;
    desc.window = 9;
    check(&desc, CLATTN_MPI_TOKENS, NULL, 1e-5, "a window");
    desc = desc_of(CLATTN_SOFTMAX_ATTN);
    desc.flags |= CLATTN_NONCAUSAL;
    check(&desc, CLATTN_MPI_TOKENS, NULL, 1e-5, "noncausal list");
}

/* ---- Layers ------------------------------------------------------------------------------------------------------- */

/* One of a layer's steps, with its operands for all tokens: those that this rank computes, and the reference's. */
struct layer_step {
    struct check_tensors tensors, expected;
};

static void give(struct check_tensors *to, clattn_operand_id id, const struct check_tensors *from)
{
    memcpy(to->tensor[id].data, from->tensor[CLATTN_O].data, to->tensor[id].bytes);
}

static void make_step(struct layer_step *step, const clattn_plan_desc *desc)
{
    test_make(&step->tensors, desc, CHECK_GATES_USUAL, NULL);
    test_make(&step->expected, desc, CHECK_GATES_USUAL, NULL);
}

/* The step for all tokens by the reference, and for this rank's by its plan. Other ranks' outputs are NaN to what follows. */
static void run_step(struct layer_step *step, const char *what)
{
    struct check_tensors expected;
    clattn_mpi_plan *plan;

    if (!expect(check_reference(&expected, &step->expected, NULL, NULL) == CLATTN_SUCCESS, what, "no reference"))
        return;
    fill_from(&step->expected, &expected);
    check_free(&expected);
    memset(step->tensors.tensor[CLATTN_O].data, 0xff, step->tensors.tensor[CLATTN_O].bytes);
    if (expect_status(clattn_mpi_plan_create(&plan, context, &step->tensors.desc, CLATTN_MPI_TOKENS), CLATTN_SUCCESS,
                      what))
        expect_status(run_plan(plan, &step->tensors, CLATTN_MPI_TOKENS, run_on_host), CLATTN_SUCCESS, what);
    clattn_mpi_plan_destroy(plan);
}

/* What a layer does with tokens after its projections, which are each token's own: short_conv of q, k and v, the rule,
 * rms_norm of its outputs. Between steps a rank has its own tokens alone. */
static void check_layer(clattn_rule rule)
{
    static const clattn_operand_id read[] = {CLATTN_Q, CLATTN_K, CLATTN_V};
    clattn_plan_desc desc = desc_of(rule), conv = desc_of(CLATTN_SHORT_CONV), norm = desc_of(CLATTN_RMS_NORM);
    struct layer_step mixer, last, before;
    int64_t computed = 0, first, count;
    char what[64];

    snprintf(what, sizeof what, "a layer of %s", rule_get(rule)->name);
    if (rule_get(rule)->erase != ERASE_NONE) /* as in the models: what is erased with longer keys grows */
        desc.flags |= CLATTN_QK_L2NORM;
    make_step(&mixer, &desc);
    for (size_t i = 0; i < sizeof read / sizeof *read; i++) {
        conv.value_dim = read[i] == CLATTN_V ? VALUE : KEY;
        make_step(&before, &conv);
        run_step(&before, what);
        give(&mixer.tensors, read[i], &before.tensors);
        give(&mixer.expected, read[i], &before.expected);
        check_free(&before.tensors);
        check_free(&before.expected);
    }
    run_step(&mixer, what);
    make_step(&last, &norm);
    give(&last.tensors, CLATTN_V, &mixer.tensors);
    give(&last.expected, CLATTN_V, &mixer.expected);
    run_step(&last, what);
    for (int64_t i = 0; i < check_count(&last.tensors.tensor[CLATTN_O].info); i++) { /* tokens of other ranks */
        float *o = (float *)last.tensors.tensor[CLATTN_O].data + i;
        if (isnan((double)*o))
            *o = ((const float *)last.expected.tensor[CLATTN_O].data)[i];
        else
            computed++;
    }
    clattn_mpi_local(MPI_COMM_WORLD, TOKENS, 1, &first, &count);
    expect(computed == norm.batch * count * HEADS * VALUE, what, "outputs are missing, or NaN");
    compare(&last.tensors, &last.expected, 1e-5, what);
    check_free(&mixer.tensors);
    check_free(&mixer.expected);
    check_free(&last.tensors);
    check_free(&last.expected);
}

static int is_of_layers(clattn_rule rule)
{
    return rule == CLATTN_GATED_DELTA_RULE || rule == CLATTN_KDA || rule == CLATTN_GLA || rule == CLATTN_RETENTION ||
           rule == CLATTN_SSD;
}

/* ---- Failures ----------------------------------------------------------------------------------------------------- */

static void expect_refused(const clattn_plan_desc *desc, clattn_mpi_split split, const char *named)
{
    clattn_mpi_plan *plan;

    last_error[0] = '\0';
    expect_status(clattn_mpi_plan_create(&plan, context, desc, split), CLATTN_UNSUPPORTED, named);
    expect(plan == NULL && strstr(last_error, named) != NULL, named, last_error);
}

static void check_refusals(void)
{
    clattn_plan_desc desc;

    for (size_t i = 0; i < sizeof uncut_rules / sizeof *uncut_rules; i++) {
        char named[64];
        desc = desc_of(uncut_rules[i]);
        desc.value_dim = desc.key_dim; /* which some of them ask for */
        snprintf(named, sizeof named, "%s cut by tokens", rule_get(uncut_rules[i])->name);
        expect_refused(&desc, CLATTN_MPI_TOKENS, named);
    }
    desc = desc_of(CLATTN_MLSTM);
    desc.pass = CLATTN_PASS_BACKWARD;
    expect_refused(&desc, CLATTN_MPI_TOKENS, "stabilized states");
    desc = desc_of(CLATTN_RETENTION);
    expect_refused(&desc, CLATTN_MPI_HEADS, "a head's number");
    desc = desc_of(CLATTN_GLA);
    desc.batch = 1;
    desc.flags |= CLATTN_CU_SEQLENS;
    desc.sequences = 1;
    expect_refused(&desc, CLATTN_MPI_BATCH, "packed sequences");
}

static cl_int CL_API_CALL fail_kernel(cl_command_queue queue, cl_kernel kernel, cl_uint dims, const size_t *offset,
                                      const size_t *global, const size_t *local, cl_uint count, const cl_event *wait,
                                      cl_event *event)
{
    (void)queue, (void)kernel, (void)dims, (void)offset, (void)global, (void)local, (void)count, (void)wait,
        (void)event;
    return CL_DEVICE_NOT_AVAILABLE;
}

static double seconds_of(clattn_mpi_plan *plan, const struct check_tensors *tensors, clattn_status expected,
                         const char *what)
{
    const double began = MPI_Wtime();

    expect_status(run_plan(plan, tensors, CLATTN_MPI_TOKENS, run_on_host), expected, what);
    return MPI_Wtime() - began;
}

/* All ranks come to the same error, within a second beyond what a sound run takes. A wait for a rank that has failed
 * would be there in every attempt; that of a loaded machine is not, so that the fastest counts. */
static void expect_same_error(clattn_mpi_plan *plan, const struct check_tensors *tensors, double sound,
                              const char *named)
{
    enum { ATTEMPTS = 10 };
    double fastest = (double)INFINITY;

    for (int i = 0; i < ATTEMPTS && fastest > 1 + sound; i++) {
        double seconds, slowest;
        last_error[0] = '\0';
        seconds = seconds_of(plan, tensors, CLATTN_DEVICE_ERROR, named);
        expect(strstr(last_error, named) != NULL, named, last_error);
        MPI_Allreduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        fastest = fmin(fastest, slowest);
    }
    expect(fastest <= 1 + sound, named, "took more than a second on the slowest rank, in every attempt");
}

/* The device of one rank fails, in the summary or, on a rank alone, in the run; in a ring while keys go round. */
static void check_faults(clattn_rule rule)
{
    clattn_plan_desc desc = desc_of(rule);
    struct opencl *cl = test_opencl_table();
    struct check_tensors tensors;
    clattn_mpi_plan *plan;
    char named[32];

    snprintf(named, sizeof named, "rank %d: ", ranks - 1);
    test_make(&tensors, &desc, CHECK_GATES_USUAL, NULL);
    if (expect_status(clattn_mpi_plan_create(&plan, context, &desc, CLATTN_MPI_TOKENS), CLATTN_SUCCESS, "faults")) {
        const struct opencl sound = *cl;
        double own = seconds_of(plan, &tensors, CLATTN_SUCCESS, "before the fault"), seconds; /* PoCL compiles in it */
        MPI_Allreduce(&own, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (rank == ranks - 1)
            cl->EnqueueNDRangeKernel = fail_kernel;
        expect_same_error(plan, &tensors, seconds, named);
        *cl = sound;
        expect_status(run_plan(plan, &tensors, CLATTN_MPI_TOKENS, run_on_host), CLATTN_SUCCESS, "after the fault");
        clattn_mpi_plan_destroy(plan);
    }
    check_free(&tensors);
}

/* An operand is missing on one rank. */
static void check_bad_operands(void)
{
    clattn_plan_desc desc = desc_of(CLATTN_SOFTMAX_ATTN);
    struct check_tensors tensors;
    clattn_mpi_plan *plan;
    void *k;

    test_make(&tensors, &desc, CHECK_GATES_USUAL, NULL);
    k = tensors.tensor[CLATTN_K].data;
    if (expect_status(clattn_mpi_plan_create(&plan, context, &desc, CLATTN_MPI_TOKENS), CLATTN_SUCCESS, "operands")) {
        struct rank_part part;
        int64_t first, count;
        clattn_mpi_plan_local(plan, CLATTN_WHOLE, &first, &count);
        take_part(&part, &tensors, CLATTN_MPI_TOKENS, first, count, desc.seq_len);
        for (size_t i = 0; i < part.operand_count && rank == 0; i++)
            if (part.operands[i].id == CLATTN_K)
                part.operands[i].host = NULL;
        last_error[0] = '\0';
        expect_status(clattn_mpi_run(plan, &(clattn_call){.operands = part.operands,
                                                          .operand_count = part.operand_count,
                                                          .seq_len = CLATTN_WHOLE}),
                      CLATTN_INVALID_OPERAND, "a missing operand");
        expect(strstr(last_error, "rank 0: k is missing") != NULL, "a missing operand", last_error);
        free_parts(&part);
        clattn_mpi_plan_destroy(plan);
    }
    tensors.tensor[CLATTN_K].data = k;
    check_free(&tensors);
}

static void check_parts(void)
{
    int64_t first, count, sum = 0;

    expect_status(clattn_mpi_local(MPI_COMM_WORLD, 100, 16, &first, &count), CLATTN_SUCCESS, "local");
    expect(first % 16 == 0 || count == 0, "local", "a part does not begin with a unit");
    MPI_Allreduce(&count, &sum, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    expect(sum == 100, "local", "parts are not the whole");
    expect_status(clattn_mpi_local(MPI_COMM_WORLD, -1, 0, &first, &count), CLATTN_INVALID_ARGUMENT, "local");
}

/* What one rank has measured, all have; a text that is none is an error of all. */
static void check_tuning(void)
{
    static const char empty[] = "{\"format\": \"clattn tuning\", \"version\": 2, \"entries\": []}";
    const int root = ranks - 1;

    expect_status(clattn_mpi_tuning_broadcast(context, rank == root ? empty : NULL, root), CLATTN_SUCCESS, "tuning");
    expect_status(clattn_mpi_tuning_broadcast(context, NULL, root), CLATTN_INVALID_ARGUMENT, "no tuning");
    last_error[0] = '\0';
    expect_status(clattn_mpi_tuning_broadcast(context, rank == root ? "{" : NULL, root), CLATTN_INVALID_ARGUMENT,
                  "a wrong tuning");
    expect(strstr(last_error, "rank ") != NULL, "a wrong tuning", last_error);
    expect_status(clattn_mpi_tuning_broadcast(context, NULL, ranks), CLATTN_INVALID_ARGUMENT, "no such rank");
}

/* Without a device in the desc, each rank has one of its machine. */
static void check_devices(void)
{
    clattn_mpi_context *own = NULL;

    if (expect_status(clattn_mpi_context_create(&own, MPI_COMM_WORLD, NULL), CLATTN_SUCCESS, "a rank's device"))
        expect(clattn_mpi_context_get(own) != NULL, "a rank's device", "no context");
    clattn_mpi_context_destroy(own);
}

/* A file of a gigabyte, of which a rank's part is little: the rest does not come into its memory. */
static void check_mapped_file(void)
{
    static const char header[] =
        "{\"q\":{\"dtype\":\"F32\",\"shape\":[1,1048576,1,256],\"data_offsets\":[0,1073741824]}}";
    enum { FIRST = 1000000, COUNT = 100, COLUMNS = 256 };
    const uint64_t length = sizeof header - 1;
    static float part[COUNT * COLUMNS];
    struct safetensors file = {0};
    struct rusage before, after;
    char path[64], error[256] = "";
    FILE *to;

    snprintf(path, sizeof path, "mapped_%d_%lu.safetensors", rank, process_id());
    to = file_open(path, "wb");
    if (!expect(to != NULL && fwrite(&length, 8, 1, to) == 1 && fwrite(header, 1, length, to) == length, path, "open"))
        return;
    fseek(to, FIRST * 4L * COLUMNS, SEEK_CUR);
    fwrite(&(float){7}, sizeof(float), 1, to);
    fflush(to);
    expect(ftruncate(fileno(to), (off_t)(8 + length + (1 << 30))) == 0, path, "ftruncate");
    fclose(to);
    getrusage(RUSAGE_SELF, &before);
    if (expect(safetensors_map(path, &file, error, sizeof error) == 0, "safetensors_map", error)) {
        const struct check_tensor tensor = {.data = (void *)(size_t)file.tensors[0].data,
                                            .info = {.rank = 4, .dims = {1, 1 << 20, 1, COLUMNS}, .element_size = 4}};
        slice_copy(&tensor, 1, FIRST, COUNT, (char *)part, 0);
        getrusage(RUSAGE_SELF, &after);
        expect(part[0] == 7 && part[1] == 0, "a mapped file", "other numbers");
        expect(after.ru_maxrss - before.ru_maxrss < 100000, "a mapped file", "more than a part of it was read");
    }
    safetensors_free(&file);
    file_remove(path);
}

static void run_all(void)
{
    check_parts();
    check_tuning();
    check_devices();
    check_mapped_file();
    for (clattn_rule rule = 1; rule < RULE_COUNT; rule++)
        if (is_chosen(rule)) {
            check_tokens(rule);
            check_gradients(rule);
            if (is_of_layers(rule))
                check_layer(rule);
        }
    if (is_named("options"))
        check_options();
    if (is_named("lists"))
        check_lists();
    check_refusals();
    check_bad_operands();
    check_faults(CLATTN_HGRN);
    check_faults(CLATTN_SOFTMAX_ATTN);
}

int main(int argc, char **argv)
{
    int all = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    chosen = argv + (argc > 0);
    if (test_device_open(NULL) == 0) {
        clattn_context_desc desc = {.device = test_device.device, .log = keep_line};
        if (expect_status(clattn_mpi_context_create(&context, MPI_COMM_WORLD, &desc), CLATTN_SUCCESS, "context"))
            run_all();
        clattn_mpi_context_destroy(context);
        test_device_close(NULL);
    } else
        failures++;
    MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return all > 0;
}
