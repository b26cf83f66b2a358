#include "plan/probe.h"

#include "device/program.h"

#include <stdlib.h>

enum { SIDE = 16, NUMBERS = SIDE * SIDE };

/* The bits of a small integer, exact in both types, as f16 or bf16. */
static uint16_t bits_of(int number, clattn_dtype dtype)
{
    static const uint16_t f16[] = {0x0000, 0x3c00, 0x4000, 0x4200}, bf16[] = {0x0000, 0x3f80, 0x4000, 0x4040};
    return dtype == CLATTN_F16 ? f16[number] : bf16[number];
}

static int number_at(int matrix, int row, int column)
{
    return (matrix == 0 ? 5 * row + 3 * column : 7 * row + column + row * column) % 4;
}

/* Σ_k a_rk b_ck + a_kr b_kc */
static int expected(int r, int c)
{
    int sum = 0;

    for (int k = 0; k < SIDE; k++)
        sum += number_at(0, r, k) * number_at(1, c, k) + number_at(0, k, r) * number_at(1, k, c);
    return sum;
}

/* One way to probe a matrix product. */
struct probe_kernel {
    enum embedded_file file;
    const char *kernel;
    int sub_groups, times; /* sub-groups that write a product each, and the multiple of the product that each writes */
    const char *name;      /* in messages */
};
enum { TEAM_TILES = 7, MOST_NUMBERS = TEAM * NUMBERS };
static const struct probe_kernel probe_kernels[] = {{FILE_probe_matrix, "probe_matrix", 1, 1, ""},
                                                    {FILE_probe_team, "probe_team", TEAM, TEAM_TILES, "teams of "}};

static int is_right(const struct probe_kernel *with, const float *product)
{
    for (int i = 0; i < with->sub_groups * NUMBERS; i++)
        if (product[i] != (float)(with->times * expected(i % NUMBERS / SIDE, i % SIDE)))
            return 0;
    return 1;
}

static clattn_status set_factor(clattn_context *context, const struct log *log, cl_command_queue queue,
                                struct opencl_kernel kernel, cl_mem buffer, int index, clattn_dtype dtype)
{
    const struct opencl *cl = context->device.cl;
    uint16_t numbers[NUMBERS];

    for (int j = 0; j < NUMBERS; j++)
        numbers[j] = bits_of(number_at(index, j / SIDE, j % SIDE), dtype);
    TRY(opencl_set_argument(log, cl, kernel, (cl_uint)index, sizeof buffer, &buffer));
    return opencl_write(log, cl, queue, buffer, 0, sizeof numbers, numbers);
}

static clattn_status multiply(clattn_context *context, const struct log *log, cl_command_queue queue,
                              struct opencl_kernel kernel, const cl_mem buffers[3], size_t lanes, clattn_dtype dtype,
                              float *product)
{
    const struct opencl *cl = context->device.cl;
    const size_t group[] = {lanes, 1, 1};

    for (int i = 0; i < 2; i++)
        TRY(set_factor(context, log, queue, kernel, buffers[i], i, dtype));
    TRY(opencl_set_argument(log, cl, kernel, 2, sizeof buffers[2], &buffers[2]));
    TRY(opencl_launch(log, cl, queue, kernel, group, group, 0, NULL, NULL));
    return opencl_read(log, cl, queue, buffers[2], 0, MOST_NUMBERS * sizeof *product, product);
}

static clattn_status run(clattn_context *context, const struct log *log, struct opencl_kernel kernel, size_t lanes,
                         clattn_dtype dtype, float *product)
{
    const struct opencl *cl = context->device.cl;
    const size_t sizes[] = {NUMBERS * sizeof(uint16_t), NUMBERS * sizeof(uint16_t), MOST_NUMBERS * sizeof(float)};
    cl_command_queue queue;
    cl_mem buffers[3] = {NULL, NULL, NULL};
    clattn_status status = opencl_create_queue(log, cl, context->cl, context->device.info.device, 0, &queue);

    for (int i = 0; i < 3 && status == CLATTN_SUCCESS; i++)
        status = opencl_create_buffer(log, cl, context->cl, CL_MEM_READ_WRITE, sizes[i], NULL, &buffers[i]);
    if (status == CLATTN_SUCCESS)
        status = multiply(context, log, queue, kernel, buffers, lanes, dtype, product);
    for (int i = 0; i < 3; i++)
        if (buffers[i] != NULL)
            cl->ReleaseMemObject(buffers[i]);
    if (queue != NULL)
        cl->ReleaseCommandQueue(queue);
    return status;
}

/* The headers and constants of cl/kernels/probe_team.cl: TILES tiles of columns, in the layout of keys and in that of
 * values. */
static void add_team(struct kernel_step *step, const struct engine *engine)
{
    enum { PANELS = (TEAM_TILES * SIDE + PANEL - 1) / PANEL };

    step_constant(step, "COMPUTING_REGISTERS", 0);
    step_constant(step, "MOVING_REGISTERS", 0);
    step_constant(step, "TILES", TEAM_TILES);
    step_constant(step, "VALUE_PITCH", SIDE * PANEL);
    step_local(step, "LOCAL_KEYS", TEAM_TILES * SIDE * PANEL, sizeof(uint16_t));
    step_local(step, "LOCAL_VALUES", PANELS * SIDE * PANEL, sizeof(uint16_t));
    step_header(step, engine->team);
}

static struct kernel_step probe_step(const clattn_context *context, const struct probe_kernel *with,
                                     const struct problem *problem)
{
    enum { VEC = 4, PITCH = 24 };
    const struct engine *engine = context->engine;
    struct problem floats = *problem;
    struct kernel_step step;

    floats.pass = PASS_DENOMINATORS; /* the outputs are floats */
    step = kernel_step(with->file, &floats);
    step.name = with->kernel;
    step_tile(&step, with->sub_groups * engine->lanes, VEC, SIDE, context->device.sub_group);
    step.options = engine->options;
    step.any_group = 1;
    step_scratch(&step, engine->scratch);
    step_constant(&step, "PROBE_PITCH", PITCH);
    step_locals(&step, "LOCAL_PROBE", 2, SIDE * PITCH, sizeof(uint16_t));
    step_header(&step, engine->instructions);
    step_header(&step, engine->words);
    if (with->sub_groups > 1)
        add_team(&step, engine);
    return step;
}

static clattn_status probe(clattn_context *context, const struct probe_kernel *with, const struct problem *problem,
                           int *right)
{
    const size_t lanes = (size_t)with->sub_groups * (size_t)context->engine->lanes;
    const struct kernel_step step = probe_step(context, with, problem);
    float product[MOST_NUMBERS] = {0};
    struct log_tried tried = {context->log, ""}; /* plans work without the engine */
    const struct log log = {log_try, &tried};
    struct kernel kernel, renewed;
    clattn_status status;

    TRY(kernel_create(context, &log, &step, &kernel, NULL));
    status = run(context, &log, (struct opencl_kernel){kernel.cl, step.name}, lanes, problem->desc.dtype, product);
    if (status == CLATTN_DEVICE_ERROR && kernel_rebuild(context, &kernel, &renewed) == CLATTN_SUCCESS) {
        context->device.cl->ReleaseKernel(kernel_swap(&kernel, &renewed));
        status = run(context, &log, (struct opencl_kernel){kernel.cl, step.name}, lanes, problem->desc.dtype, product);
    }
    kernel_release(context, &kernel);
    *right = is_right(with, product);
    return status;
}

/* The remembered answer. A compiler's refusal may be accidental, such as a full disk: the probe is repeated up to
 * MOST_REFUSALS times, and only after another program was built. */
static enum probe_answer recall(clattn_context *context, const struct probed *remembered)
{
    enum { MOST_REFUSALS = 3 };
    const unsigned built = program_count(context);
    enum probe_answer answer;

    lock_take(&context->probe_lock);
    answer = remembered->answer;
    if (answer == PROBE_REFUSED && remembered->refusals < MOST_REFUSALS && remembered->built != built)
        answer = PROBE_UNKNOWN;
    lock_give(&context->probe_lock);
    return answer;
}

/* Two threads may probe at the same time. If one finds the right product, that answer stays. */
static enum probe_answer remember(clattn_context *context, struct probed *remembered, enum probe_answer answer)
{
    const unsigned built = program_count(context);

    lock_take(&context->probe_lock);
    if (answer == PROBE_REFUSED) {
        remembered->refusals++;
        remembered->built = built;
    }
    if (remembered->answer != PROBE_RIGHT)
        remembered->answer = answer;
    answer = remembered->answer;
    lock_give(&context->probe_lock);
    return answer;
}

static void report(const clattn_context *context, const struct probe_kernel *with, clattn_dtype dtype, const char *why)
{
    log_line(&context->log, with->sub_groups > 1 ? CLATTN_LOG_INFO : CLATTN_LOG_WARNING,
             "%s: %smatrix engine %s, %s, is not used: %s", context->device.info.name, with->name,
             context->engine->name, dtype_name(dtype), why);
}

static int is_refusal(clattn_status status)
{
    return status == CLATTN_BUILD_FAILED || status == CLATTN_UNSUPPORTED;
}

/* Runs without the lock, so two threads may do it at the same time. */
static clattn_status probe_now(clattn_context *context, const struct probe_kernel *with, const struct problem *problem,
                               struct probed *remembered)
{
    const clattn_dtype dtype = problem->desc.dtype;
    enum probe_answer answer;
    int right = 0;
    clattn_status status = probe(context, with, problem, &right);

    if (status != CLATTN_SUCCESS && !is_refusal(status)) {
        report(context, with, dtype, "OpenCL failed while it was tried; the next plan tries it again");
        return status;
    }
    answer = remember(context, remembered, is_refusal(status) ? PROBE_REFUSED : right ? PROBE_RIGHT : PROBE_WRONG);
    if (answer == PROBE_REFUSED)
        report(context, with, dtype, "the compiler refuses its kernel");
    if (answer == PROBE_WRONG)
        report(context, with, dtype, "it computes wrong numbers");
    return answer == PROBE_RIGHT ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

clattn_status probe_engine(clattn_context *context, const struct problem *problem, int team)
{
    struct probed *remembered = &context->probed[team][problem->desc.dtype];
    enum probe_answer answer;

    if (team && context->engine->team == FILE_nothing)
        return CLATTN_UNSUPPORTED;
    answer = recall(context, remembered);
    if (answer == PROBE_UNKNOWN)
        return probe_now(context, &probe_kernels[team], problem, remembered);
    return answer == PROBE_RIGHT ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}
