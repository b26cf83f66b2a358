#include "plan/probe.h"

#include "device/program.h"

#include <stdlib.h>

enum { SIDE = 16, NUMBERS = SIDE * SIDE };

/* Small whole numbers, exact in either type: their bits as f16 or bf16. */
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

/* How a product is probed. */
struct way {
    enum embedded_file file;
    const char *kernel;
    int sub_groups, times; /* those that leave a product each, and how often it is in theirs */
    const char *name;      /* in messages */
};
enum { TEAM_TILES = 7, MOST_NUMBERS = TEAM * NUMBERS };
static const struct way ways[] = {{FILE_probe_matrix, "probe_matrix", 1, 1, ""},
                                  {FILE_probe_team, "probe_team", TEAM, TEAM_TILES, "teams of "}};

static int is_right(const struct way *way, const float *product)
{
    for (int i = 0; i < way->sub_groups * NUMBERS; i++)
        if (product[i] != (float)(way->times * expected(i % NUMBERS / SIDE, i % SIDE)))
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

/* Of cl/kernels/probe_team.cl: TILES tiles of columns, as keys lie and as values lie. */
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

static struct kernel_step probe_step(const clattn_context *context, const struct way *way,
                                     const struct problem *problem)
{
    enum { VEC = 4, PITCH = 24 };
    const struct engine *engine = context->engine;
    struct problem floats = *problem;
    struct kernel_step step;

    floats.pass = PASS_DENOMINATORS; /* what leaves floats */
    step = kernel_step(way->file, &floats);
    step.name = way->kernel;
    step_tile(&step, way->sub_groups * engine->lanes, VEC, SIDE, context->device.sub_group);
    step.options = engine->options;
    step.any_group = 1;
    step_scratch(&step, engine->scratch);
    step_constant(&step, "PROBE_PITCH", PITCH);
    step_locals(&step, "LOCAL_PROBE", 2, SIDE * PITCH, sizeof(uint16_t));
    step_header(&step, engine->instructions);
    step_header(&step, engine->words);
    if (way->sub_groups > 1)
        add_team(&step, engine);
    return step;
}

static clattn_status probe(clattn_context *context, const struct way *way, const struct problem *problem, int *right)
{
    const size_t lanes = (size_t)way->sub_groups * (size_t)context->engine->lanes;
    const struct kernel_step step = probe_step(context, way, problem);
    float product[MOST_NUMBERS] = {0};
    struct log_tried tried = {context->log, ""}; /* plans do without */
    const struct log log = {log_try, &tried};
    struct kernel kernel, again;
    clattn_status status;

    TRY(kernel_create(context, &log, &step, &kernel, NULL));
    status = run(context, &log, (struct opencl_kernel){kernel.cl, step.name}, lanes, problem->desc.dtype, product);
    if (status == CLATTN_DEVICE_ERROR && kernel_again(context, &kernel, &again) == CLATTN_SUCCESS) {
        context->device.cl->ReleaseKernel(kernel_swap(&kernel, &again));
        status = run(context, &log, (struct opencl_kernel){kernel.cl, step.name}, lanes, problem->desc.dtype, product);
    }
    kernel_release(context, &kernel);
    *right = is_right(way, product);
    return status;
}

/* What is known of the engine. A compiler's refusal may be an accident (there is no room on its disk): it is asked
 * again, but not before it has built another program since, and not often. */
static enum probe_answer recall(clattn_context *context, const struct probed *kept)
{
    enum { MOST_REFUSALS = 3 };
    const unsigned built = program_count(context);
    enum probe_answer answer;

    lock_take(&context->probe_lock);
    answer = kept->answer;
    if (answer == PROBE_REFUSED && kept->refusals < MOST_REFUSALS && kept->built != built)
        answer = PROBE_UNKNOWN;
    lock_give(&context->probe_lock);
    return answer;
}

/* Two threads may probe at the same time: a right product is the last word. */
static enum probe_answer remember(clattn_context *context, struct probed *kept, enum probe_answer answer)
{
    const unsigned built = program_count(context);

    lock_take(&context->probe_lock);
    if (answer == PROBE_REFUSED) {
        kept->refusals++;
        kept->built = built;
    }
    if (kept->answer != PROBE_RIGHT)
        kept->answer = answer;
    answer = kept->answer;
    lock_give(&context->probe_lock);
    return answer;
}

static void say(const clattn_context *context, const struct way *way, clattn_dtype dtype, const char *why)
{
    log_line(&context->log, way->sub_groups > 1 ? CLATTN_LOG_INFO : CLATTN_LOG_WARNING,
             "%s: %smatrix engine %s, %s, is not used: %s", context->device.info.name, way->name, context->engine->name,
             dtype_name(dtype), why);
}

static int is_refusal(clattn_status status)
{
    return status == CLATTN_BUILD_FAILED || status == CLATTN_UNSUPPORTED;
}

/* Outside of the lock, perhaps by two threads. */
static clattn_status probe_now(clattn_context *context, const struct way *way, const struct problem *problem,
                               struct probed *kept)
{
    const clattn_dtype dtype = problem->desc.dtype;
    enum probe_answer answer;
    int right = 0;
    clattn_status status = probe(context, way, problem, &right);

    if (status != CLATTN_SUCCESS && !is_refusal(status)) {
        say(context, way, dtype, "OpenCL failed while it was tried; the next plan tries it again");
        return status;
    }
    answer = remember(context, kept, is_refusal(status) ? PROBE_REFUSED : right ? PROBE_RIGHT : PROBE_WRONG);
    if (answer == PROBE_REFUSED)
        say(context, way, dtype, "the compiler refuses its kernel");
    if (answer == PROBE_WRONG)
        say(context, way, dtype, "it computes wrong numbers");
    return answer == PROBE_RIGHT ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

clattn_status probe_engine(clattn_context *context, const struct problem *problem, int team)
{
    struct probed *kept = &context->probed[team][problem->desc.dtype];
    enum probe_answer answer;

    if (team && context->engine->team == FILE_nothing)
        return CLATTN_UNSUPPORTED;
    answer = recall(context, kept);
    if (answer == PROBE_UNKNOWN)
        return probe_now(context, &ways[team], problem, kept);
    return answer == PROBE_RIGHT ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}
