#include "plan/sample.h"

#include "reference/number.h"
#include "reference/wide.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD_BYTES = 256 }; /* guard bytes behind each buffer */

/* One operand twice, with the same numbers: as stored on the device, and in f32 for the reference. */
struct twin {
    clattn_operand_info info;
    size_t bytes; /* on the device */
    int64_t count;
    void *narrow; /* with the guard bytes */
    void *wide;   /* NULL: the reference reads `narrow` */
    cl_mem buffer;
};

struct sample {
    clattn_plan *plan;
    cl_command_queue queue;
    struct twin twins[OPERAND_COUNT];
    struct twin workspace;
    uint32_t seed;
};

/* ---- Numbers ------------------------------------------------------------------------------------------------------
 */

static double uniform(struct sample *sample)
{
    sample->seed = sample->seed * 1664525u + 1013904223u;
    return (double)(sample->seed >> 8) / (1 << 24);
}

/* The range of each operand's numbers, small enough for every rule to stay stable. */
static const struct {
    double low, width;
    int channel;
} ranges[] = {
#define RANGE(KIND, draw, low, width, channel) {low, width, channel},
    NUMBERS(RANGE)
#undef RANGE
};

/* A key of a rule whose values depend on earlier ones through weights without a denominator. Each key has a channel
 * almost of its own, and a little of every channel. Scores are then 1.25 or almost 0, and the written values stay
 * bounded for every weighting. */
static double distinct_key(struct sample *sample, int64_t i)
{
    enum { APART = 8 };
    int64_t channels = sample->plan->problem.desc.key_dim, own = i / channels % APART % channels;

    return 0.02 * uniform(sample) + (i % channels == own ? sqrt(1.25 * sqrt((double)channels)) : 0);
}

/* Keys and values for a rule with Muon. Muon normalises every direction, rounding noise included, if there are more
 * channels than tokens. Each token therefore uses one of a few channels, and the others are exactly 0. */
static double one_of_few(const struct twin *twin, int64_t i, double x)
{
    enum { APART = 4 };
    const int64_t *dims = twin->info.dims, few = dims[3] < APART ? dims[3] : APART;

    return i / dims[3] / dims[2] % few == i % dims[3] ? copysign(2, x) : 0;
}

/* A gram matrix: of keys that have one channel each. */
static double of_one_channel(const struct problem *problem, int64_t i, double x)
{
    const int64_t K = problem->desc.key_dim;

    return i / K % K == i % K ? x : 0;
}

static void draw(struct sample *sample, const struct operand_row *row, struct twin *twin)
{
    const struct problem *problem = &sample->plan->problem;
    int bounded = row->numbers == NUMBERS_LISTED && problem->desc.write_kernel != CLATTN_WEIGHTS_SOFTMAX;
    int channel = ranges[row->numbers].channel, positive = channel && problem_normalized(problem);
    int apart_of_few = problem->desc.muon != CLATTN_MUON_NONE && (row->id == CLATTN_K || row->id == CLATTN_V);
    double unit = channel ? 1 / sqrt((double)problem->desc.key_dim) : 1;

    for (int64_t i = 0; i < twin->count; i++) {
        double x = bounded ? distinct_key(sample, i)
                           : unit * (ranges[row->numbers].low + ranges[row->numbers].width * uniform(sample));
        x = apart_of_few ? one_of_few(twin, i, x) : positive ? fabs(x) : x;
        x = row->numbers == NUMBERS_GRAM ? of_one_channel(problem, i, x) : x;
        number_store(twin->info.dtype, twin->narrow, i, x);
        ((float *)twin->wide)[i] = (float)number_load(twin->info.dtype, twin->narrow, i);
    }
}

/* The first sequence has all keys, the second half of them. */
static void draw_lengths(const struct problem *problem, struct twin *twin)
{
    for (int64_t n = 0; n < twin->count; n++)
        ((int32_t *)twin->narrow)[n] = (int32_t)(problem->desc.kv_len / (n + 1));
}

/* State slots that are not in the order of the sequences. */
static void draw_slots(struct twin *twin)
{
    for (int64_t n = 0; n < twin->count; n++)
        ((int32_t *)twin->narrow)[n] = (int32_t)(twin->count - 1 - n);
}

static void draw_positions(struct twin *twin)
{
    for (int64_t n = 0; n < twin->count; n++)
        ((int32_t *)twin->narrow)[n] = (int32_t)(1000000 * n + 5);
}

/* Counts of accepted tokens, one of them beyond a ring of two states. */
static void draw_counts(struct twin *twin)
{
    for (int64_t n = 0; n < twin->count; n++)
        ((int32_t *)twin->narrow)[n] = (int32_t)(n + 2);
}

/* Sequences of about equal length, whose cuts are not at the end of a chunk. */
static void draw_cuts(int64_t length, struct twin *twin)
{
    int is_long = twin->info.element_size == sizeof(int64_t);

    for (int64_t n = 0; n < twin->count; n++) {
        int64_t at = length * n / (twin->count - 1);
        if (is_long)
            ((int64_t *)twin->narrow)[n] = at;
        else
            ((int32_t *)twin->narrow)[n] = (int32_t)at;
    }
}

/* ---- Memory -------------------------------------------------------------------------------------------------------
 */

static clattn_status fill_buffer(const struct sample *sample, struct twin *twin)
{
    const clattn_context *context = sample->plan->context;
    const struct opencl *cl = context->device.cl;

    memset((char *)twin->narrow + twin->bytes, 0xff, GUARD_BYTES);
    TRY(opencl_create_buffer(&sample->plan->log, cl, context->cl, CL_MEM_READ_WRITE, twin->bytes + GUARD_BYTES, NULL,
                             &twin->buffer));
    return opencl_write(&sample->plan->log, cl, sample->queue, twin->buffer, 0, twin->bytes + GUARD_BYTES,
                        twin->narrow);
}

static clattn_status allocate(struct twin *twin, int is_index)
{
    twin->narrow = malloc(twin->bytes + GUARD_BYTES);
    twin->wide = is_index ? NULL : malloc((size_t)twin->count * sizeof(float));
    if (twin->narrow == NULL || (twin->wide == NULL && !is_index))
        return CLATTN_OUT_OF_MEMORY;
    memset(twin->narrow, 0xff, twin->bytes);
    return CLATTN_SUCCESS;
}

static clattn_status make_twin(struct sample *sample, const struct operand_row *row)
{
    const struct problem *problem = &sample->plan->problem;
    const struct extent most = problem_most(problem);
    struct twin *twin = &sample->twins[row->id];
    int is_index = operand_is_index(row->id);

    problem_operand_info(problem, &most, row, &twin->info);
    twin->count = 1;
    for (int i = 0; i < twin->info.rank; i++)
        twin->count *= twin->info.dims[i];
    twin->bytes = (size_t)twin->count * (size_t)twin->info.element_size;
    TRY(allocate(twin, is_index));
    if (row->numbers == NUMBERS_LENGTHS)
        draw_lengths(problem, twin);
    else if (row->numbers == NUMBERS_SLOTS)
        draw_slots(twin);
    else if (row->numbers == NUMBERS_POSITIONS)
        draw_positions(twin);
    else if (row->numbers == NUMBERS_COUNTS)
        draw_counts(twin);
    else if (operand_is_snapshots(row) || operand_is_optional(row)) /* not all are written, or what is there counts */
        memset(twin->narrow, 0, twin->bytes), memset(twin->wide, 0, (size_t)twin->count * sizeof(float));
    else if (row->numbers == NUMBERS_CUTS || row->numbers == NUMBERS_CUTS_KV)
        draw_cuts(row->numbers == NUMBERS_CUTS ? problem->desc.seq_len : problem->desc.kv_len, twin);
    else if (row->numbers != NUMBERS_WRITTEN)
        draw(sample, row, twin);
    return fill_buffer(sample, twin);
}

static clattn_status create_twins(struct sample *sample)
{
    const struct problem *problem = &sample->plan->problem;

    for (int i = 0; i < problem->operand_count; i++)
        TRY(make_twin(sample, &problem->operands[i]));
    TRY(clattn_plan_workspace_size(sample->plan, &sample->workspace.bytes));
    if (sample->workspace.bytes == 0)
        return CLATTN_SUCCESS;
    TRY(allocate(&sample->workspace, 1));
    return fill_buffer(sample, &sample->workspace);
}

static void drop_twin(const struct sample *sample, struct twin *twin)
{
    if (twin->buffer != NULL)
        sample->plan->context->device.cl->ReleaseMemObject(twin->buffer);
    free(twin->narrow);
    free(twin->wide);
}

/* ---- Runs ---------------------------------------------------------------------------------------------------------
 */

static clattn_status run_device(const struct sample *sample)
{
    const clattn_context *context = sample->plan->context;
    clattn_operand operands[OPERAND_COUNT];
    clattn_call call = {.operands = operands, .seq_len = CLATTN_WHOLE, .workspace = sample->workspace.buffer};

    for (int id = 0; id < OPERAND_COUNT; id++)
        if (sample->twins[id].buffer != NULL)
            operands[call.operand_count++] =
                (clattn_operand){.id = operand_to_public((clattn_operand_id)id), .buffer = sample->twins[id].buffer};
    TRY(clattn_enqueue(sample->plan, sample->queue, &call, 0, NULL, NULL));
    TRY_CL(&sample->plan->log, context->device.cl, Finish, sample->queue);
    return CLATTN_SUCCESS;
}

static clattn_status run_reference(const struct sample *sample)
{
    const struct log *log = &sample->plan->log;
    clattn_plan_desc desc = sample->plan->problem.desc;
    clattn_operand operands[OPERAND_COUNT];
    clattn_call call = {.operands = operands, .seq_len = CLATTN_WHOLE};

    wide_desc(&desc);
    for (int id = 0; id < OPERAND_COUNT; id++) {
        const struct twin *twin = &sample->twins[id];
        int narrow = twin->wide == NULL || wide_keeps(&desc, (clattn_operand_id)id);
        if (twin->narrow != NULL)
            operands[call.operand_count++] = (clattn_operand){.id = operand_to_public((clattn_operand_id)id),
                                                              .host = narrow ? twin->narrow : twin->wide};
    }
    return clattn_reference(&desc, &call, log->fn, log->user);
}

/* Whether RMS(x - ref) / (RMS(ref) + 1e-8) is within the bound. NaN is not. */
static int is_close(const struct twin *twin, const clattn_plan_desc *desc)
{
    double difference = 0, size = 0, bound = fmax(number_bound_of(desc), number_bound(twin->info.dtype));

    for (int64_t i = 0; i < twin->count; i++) {
        double expected = (double)((const float *)twin->wide)[i];
        difference += pow(number_load(twin->info.dtype, twin->narrow, i) - expected, 2);
        size += expected * expected;
    }
    return sqrt(difference / (double)twin->count) <= bound * (sqrt(size / (double)twin->count) + 1e-8);
}

static int is_untouched(const struct twin *twin)
{
    const unsigned char *guard = (const unsigned char *)twin->narrow + twin->bytes;
    int same = 1;

    for (int i = 0; i < GUARD_BYTES; i++)
        same &= guard[i] == 0xff;
    return same;
}

/* is_output: a run writes the operand */
static clattn_status judge_twin(const struct sample *sample, struct twin *twin, int is_output, int *verdict)
{
    const struct opencl *cl = sample->plan->context->device.cl;

    if (twin->buffer == NULL)
        return CLATTN_SUCCESS;
    TRY(opencl_read(&sample->plan->log, cl, sample->queue, twin->buffer, 0, twin->bytes + GUARD_BYTES, twin->narrow));
    if (!is_untouched(twin) || (is_output && twin->wide != NULL && !is_close(twin, &sample->plan->problem.desc)))
        *verdict = -1;
    return CLATTN_SUCCESS;
}

static clattn_status run_and_judge(struct sample *sample, int *verdict)
{
    int found = 1;

    TRY(create_twins(sample));
    TRY(run_device(sample));
    TRY(run_reference(sample));
    for (int id = 0; id < OPERAND_COUNT; id++)
        TRY(judge_twin(sample, &sample->twins[id],
                       sample->twins[id].info.output ||
                           operand_is_updated(&sample->plan->problem.desc, (clattn_operand_id)id),
                       &found));
    TRY(judge_twin(sample, &sample->workspace, 0, &found));
    *verdict = found;
    return CLATTN_SUCCESS;
}

clattn_status sample_run(clattn_plan *plan, cl_command_queue queue, int *verdict)
{
    struct sample sample = {.plan = plan, .queue = queue, .seed = 1};
    clattn_status status = run_and_judge(&sample, verdict);

    for (int id = 0; id < OPERAND_COUNT; id++)
        drop_twin(&sample, &sample.twins[id]);
    drop_twin(&sample, &sample.workspace);
    return status;
}
