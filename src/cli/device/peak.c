#include "cli/device/peak.h"

#include "op/problem.h"

#include "tuner/timing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Chains of independent multiply-adds on float16: four chains, which fit in a GPU's registers, and ten, which hide the
 * latency of a CPU's wide units. And the simplest copy. */
/* clang-format off */
#define MULTIPLY(chains) \
    "__kernel void multiply_" #chains "(__global float *out, float a, float b, int rounds)\n" \
    "{\n" \
    "    float16 x[" #chains "], w = 0;\n" \
    "    #pragma unroll\n" \
    "    for (int c = 0; c < " #chains "; c++) x[c] = (float)get_global_id(0) + c;\n" \
    "    for (int i = 0; i < rounds; i++) {\n" \
    "        #pragma unroll\n" \
    "        for (int c = 0; c < " #chains "; c++) x[c] = mad(x[c], a, b);\n" \
    "    }\n" \
    "    #pragma unroll\n" \
    "    for (int c = 0; c < " #chains "; c++) w += x[c];\n" \
    "    w.s01234567 += w.s89abcdef;\n" \
    "    w.s0123 += w.s4567;\n" \
    "    out[get_global_id(0)] = w.s0 + w.s1 + w.s2 + w.s3;\n" \
    "}\n"
static const char source[] =
    MULTIPLY(4)
    MULTIPLY(10)
    "__kernel void copy(__global float4 *to, __global const float4 *from)\n"
    "{\n"
    "    to[get_global_id(0)] = from[get_global_id(0)];\n"
    "}\n";
/* clang-format on */

enum { FLOPS_A_CHAIN = 16 * 2, ITEMS_A_UNIT = 2048, RUNS = 20 };

/* The kernels with multiply-adds. */
static const struct chains {
    const char *name;
    int count;
} chains[] = {{"multiply_4", 4}, {"multiply_10", 10}};

struct launch {
    cl_command_queue queue;
    struct opencl_kernel kernel;
    size_t items;
    struct log log;
};

static clattn_status enqueue(void *user, size_t run, cl_event *event)
{
    const struct launch *launch = user;
    const size_t global[] = {launch->items, 1, 1};

    (void)run;
    return opencl_launch(&launch->log, opencl_get(), launch->queue, launch->kernel, global, NULL, 0, NULL, event);
}

static clattn_status make_kernel(struct launch *launch, cl_program program, const char *name)
{
    launch->kernel.name = name;
    return opencl_create_kernel(&launch->log, opencl_get(), program, name, &launch->kernel.kernel);
}

/* The shortest of some runs, in seconds. */
static clattn_status time_launch(struct launch *launch, double *seconds)
{
    const struct timing_job job = {launch->queue, enqueue, launch, launch->log};
    struct timing timing;

    TRY(timing_measure(&job, RUNS, 0.1, &timing));
    *seconds = timing.min;
    return CLATTN_SUCCESS;
}

/* Raises the rounds until a run is long enough to be measured. */
static clattn_status measure_multiply(struct launch *launch, int count, cl_mem out, double *flops)
{
    const struct opencl *cl = opencl_get();
    const float a = 0.999f, b = 0.001f;
    double seconds = 0;

    TRY(opencl_set_argument(&launch->log, cl, launch->kernel, 0, sizeof out, &out));
    TRY(opencl_set_argument(&launch->log, cl, launch->kernel, 1, sizeof a, &a));
    TRY(opencl_set_argument(&launch->log, cl, launch->kernel, 2, sizeof b, &b));
    for (cl_int rounds = 64; rounds < 1 << 20 && seconds < 10e-3; rounds *= 4) {
        double rate;
        TRY(opencl_set_argument(&launch->log, cl, launch->kernel, 3, sizeof rounds, &rounds));
        TRY(time_launch(launch, &seconds));
        rate = (double)FLOPS_A_CHAIN * count * rounds * (double)launch->items / seconds;
        *flops = rate > *flops ? rate : *flops;
    }
    return CLATTN_SUCCESS;
}

static clattn_status measure_copy(struct launch *launch, cl_mem to, cl_mem from, double *bytes)
{
    const struct opencl *cl = opencl_get();
    double seconds;

    TRY(opencl_set_argument(&launch->log, cl, launch->kernel, 0, sizeof to, &to));
    TRY(opencl_set_argument(&launch->log, cl, launch->kernel, 1, sizeof from, &from));
    TRY(time_launch(launch, &seconds)); /* the first touches the pages */
    TRY(time_launch(launch, &seconds));
    *bytes = 2.0 * sizeof(cl_float4) * (double)launch->items / seconds;
    return CLATTN_SUCCESS;
}

static size_t copy_size(const clattn_device_info *info)
{
    uint64_t size = (info->gpu ? UINT64_C(512) : UINT64_C(128)) << 20;

    if (size > info->max_allocation)
        size = info->max_allocation;
    if (size > info->global_memory / 8)
        size = info->global_memory / 8;
    return (size_t)size / 4096 * 4096;
}

/* What each measurement uses. */
struct setup {
    struct target *target;
    cl_program program;
    cl_mem to, from;
};

static clattn_status measure(void *user, struct peak *peak)
{
    const struct opencl *cl = opencl_get();
    const struct setup *setup = user;
    struct target *target = setup->target;
    struct launch launch = {.queue = target->device.queue, .log = {sink_log, &target->sink}};
    clattn_status status;

    TRY(make_kernel(&launch, setup->program, "copy"));
    launch.items = copy_size(&target->info) / sizeof(cl_float4);
    status = measure_copy(&launch, setup->to, setup->from, &peak->bytes);
    cl->ReleaseKernel(launch.kernel.kernel);
    if (status != CLATTN_SUCCESS)
        return status;
    launch.items = (size_t)target->info.compute_units * ITEMS_A_UNIT;
    if (launch.items * sizeof(cl_float) > copy_size(&target->info))
        launch.items = copy_size(&target->info) / sizeof(cl_float);
    for (size_t i = 0; i < sizeof chains / sizeof *chains && status == CLATTN_SUCCESS; i++) {
        TRY(make_kernel(&launch, setup->program, chains[i].name));
        status = measure_multiply(&launch, chains[i].count, setup->to, &peak->flops);
        cl->ReleaseKernel(launch.kernel.kernel);
    }
    return status;
}

static const double agreement = 0.05;
enum { MEASUREMENTS = 3 };

clattn_status peak_often(clattn_status (*once)(void *user, struct peak *now), void *user, struct peak *peak)
{
    *peak = (struct peak){0, 0};
    for (int i = 0, agreed = 0; i < MEASUREMENTS && !agreed; i++) {
        struct peak now = {0, 0};
        TRY(once(user, &now));
        agreed = fabs(now.flops - peak->flops) <= agreement * now.flops &&
                 fabs(now.bytes - peak->bytes) <= agreement * now.bytes;
        peak->flops = fmax(peak->flops, now.flops);
        peak->bytes = fmax(peak->bytes, now.bytes);
    }
    return CLATTN_SUCCESS;
}

static clattn_status measure_often(struct setup *setup, struct peak *peak)
{
    const struct log log = {sink_log, &setup->target->sink};

    TRY_CL(&log, opencl_get(), BuildProgram, setup->program, 1, &setup->target->device.device, "", NULL, NULL);
    return peak_often(measure, setup, peak);
}

void peak_measure(struct target *target, struct peak *peak)
{
    const struct opencl *cl = opencl_get();
    const char *text = source;
    size_t size = copy_size(&target->info);
    cl_int errors[3] = {CL_SUCCESS};
    struct setup setup = {.target = target};

    memset(peak, 0, sizeof *peak);
    if (target->reference || size == 0)
        return;
    setup.program = cl->CreateProgramWithSource(target->device.cl, 1, &text, NULL, &errors[0]);
    setup.to = cl->CreateBuffer(target->device.cl, CL_MEM_READ_WRITE, size, NULL, &errors[1]);
    setup.from = cl->CreateBuffer(target->device.cl, CL_MEM_READ_WRITE, size, NULL, &errors[2]);
    if (errors[0] != CL_SUCCESS || errors[1] != CL_SUCCESS || errors[2] != CL_SUCCESS ||
        measure_often(&setup, peak) != CLATTN_SUCCESS)
        warn("%s: cannot measure its peaks%s%s", target->info.name, target->sink.error[0] != '\0' ? ": " : "",
             target->sink.error);
    target->sink.error[0] = '\0';
    if (setup.program != NULL)
        cl->ReleaseProgram(setup.program);
    if (setup.to != NULL)
        cl->ReleaseMemObject(setup.to);
    if (setup.from != NULL)
        cl->ReleaseMemObject(setup.from);
}

/* How many pairs with a key the queries at the first n positions form. */
static double pairs_before(double n, double window)
{
    if (n <= window)
        return n > 0 ? n * (n + 1) / 2 : 0;
    return pairs_before(window, window) + (n - window) * window;
}

/* Pairs of a query and a key that it sees: of one sequence, or of all packed ones as if they were one. */
static double pairs_of(const clattn_plan_desc *desc)
{
    double queries = (double)desc->seq_len, keys = desc->kv_len != 0 ? (double)desc->kv_len : queries;
    double window = desc->window != 0 && (double)desc->window < keys ? (double)desc->window : keys;

    if (desc->flags & (CLATTN_NONCAUSAL | CLATTN_KEYS_BEFORE))
        return queries * (desc->window != 0 ? fmin(2 * window - 1, keys) : keys);
    return pairs_before(keys, window) - pairs_before(keys - queries, window);
}

/* Muon's three steps per batch: X X^T, A A and B X, five times. */
static double muon_flops(const clattn_plan_desc *desc)
{
    const double dims[][2] = {{(double)desc->hidden_dim, (double)desc->key_dim},
                              {(double)desc->hidden_dim, (double)desc->key_dim},
                              {(double)desc->hidden_dim, (double)desc->value_dim}};
    double flops = 0;

    for (int i = 0; i < 3 && desc->muon != CLATTN_MUON_NONE; i++) {
        double few = fmin(dims[i][0], dims[i][1]), many = fmax(dims[i][0], dims[i][1]);
        flops += 5 * 2 * (few * few * many + few * few * few + few * few * many);
    }
    return flops;
}

/* Of a token: what it reads of the weights, the products that its gradient takes, and its share of the step. */
static double trained_flops(const clattn_plan_desc *desc)
{
    const int mlp = rule_get(desc->rule)->model == MODEL_MLP;
    const double tokens = (double)desc->batch * (double)desc->heads * (double)desc->seq_len;
    const double back = mlp ? (double)desc->hidden_dim * (double)desc->value_dim : 0;
    const double numbers = mlp ? (double)desc->hidden_dim * (double)(desc->key_dim + desc->value_dim)
                               : (double)desc->key_dim * (double)desc->value_dim;

    return 2 * tokens * (3 * numbers + back);
}

/* The three matrices are read for each token. Learning uses them, their transposes, and as many sums over tokens. */
static double learner_flops(const clattn_plan_desc *desc)
{
    double heads = (double)desc->batch * (double)desc->heads, tokens = (double)desc->seq_len;
    double numbers = (double)desc->hidden_dim * (double)(2 * desc->key_dim + desc->value_dim);
    double goes_on = desc->flags & CLATTN_FINAL_STATE ? 0 : 1;
    double batches = floor((tokens - goes_on) / desc->mini_batch), learned = batches * desc->mini_batch;

    if (desc->flags & CLATTN_NONCAUSAL) {
        batches = 1;
        learned = tokens;
    }
    return 2 * heads * numbers * (tokens + 2 * learned) + heads * batches * muon_flops(desc);
}

double flops_of(const clattn_plan_desc *desc)
{
    const int backward = desc->pass == CLATTN_PASS_BACKWARD;
    double heads = (double)desc->batch * (double)desc->seq_len * (double)desc->heads, writes;

    if (rule_has_list(rule_get(desc->rule)))
        return 2 * (double)desc->batch * (double)desc->heads * pairs_of(desc) *
               (double)(desc->key_dim + desc->value_dim);
    if (rule_get(desc->rule)->op == OP_LEARNER)
        return rule_get(desc->rule)->model == MODEL_GATED ? learner_flops(desc) : trained_flops(desc);
    if (rule_get(desc->rule)->op == OP_PIECE)
        return heads * 2 * (double)desc->value_dim * (double)(desc->taps > 0 ? desc->taps : desc->key_dim) *
               (backward ? 2 : 1);
    writes = erase_work(rule_get(desc->rule)->erase) * desc->steps;
    return heads * 2 * (double)desc->key_dim * (double)desc->value_dim * (backward ? 3 * writes + 2 : writes + 1);
}

double bytes_of(const clattn_plan_desc *desc)
{
    double bytes = 0;

    for (int id = 1; id < OPERAND_COUNT; id++) {
        clattn_operand_info info;
        double count = 1;
        if (clattn_operand_describe(desc, operand_to_public((clattn_operand_id)id), &info) != CLATTN_SUCCESS ||
            info.rank == 0)
            continue;
        for (int i = 0; i < info.rank; i++)
            count *= (double)info.dims[i];
        bytes += count * (double)dtype_size(info.dtype);
    }
    return bytes;
}
