#include "mpi/join.h"

#include <stddef.h>

/* TYPE is that of the parts and of the result. A row of which no key was seen has lse = -inf and o = 0. */
static const char source[] =
    "#if TYPE == 0\n"
    "typedef float data;\n"
    "float load(global const data *p, ulong i) { return p[i]; }\n"
    "void store(global data *p, ulong i, float x) { p[i] = x; }\n"
    "#elif TYPE == 1\n"
    "typedef half data;\n"
    "float load(global const data *p, ulong i) { return vload_half(i, p); }\n"
    "void store(global data *p, ulong i, float x) { vstore_half_rte(x, i, p); }\n"
    "#else\n"
    "typedef ushort data;\n"
    "float load(global const data *p, ulong i) { return as_float((uint)p[i] << 16); }\n"
    "void store(global data *p, ulong i, float x)\n"
    "{\n"
    "    uint u = as_uint(x);\n"
    "    p[i] = isnan(x) ? 0x7fc0 : (u + 0x7fff + (u >> 16 & 1)) >> 16;\n"
    "}\n"
    "#endif\n"
    "#define ROOMS(sum, logs, part, part_logs, new_logs) \\\n"
    "    global float *sum = (global float *)(memory + sum_at); \\\n"
    "    global const float *logs = (global const float *)(memory + logs_at); \\\n"
    "    global data *part = (global data *)(memory + part_at); \\\n"
    "    global const float *part_logs = (global const float *)(memory + part_logs_at); \\\n"
    "    global float *new_logs = (global float *)(memory + new_logs_at); \\\n"
    "    global const float *shifts = (global const float *)(memory + (shifts_at != ULONG_MAX ? shifts_at : 0)); \\\n"
    "    ulong row = get_global_id(1), at = row * get_global_size(0) + get_global_id(0); \\\n"
    "    float part_log = part_logs[row] + (shifts_at != ULONG_MAX ? shifts[row] : 0)\n"
    "#define PARAMETERS \\\n"
    "    global char *memory, ulong sum_at, ulong logs_at, ulong part_at, ulong part_logs_at, ulong new_logs_at, \\\n"
    "    ulong shifts_at\n"
    "kernel void first(PARAMETERS)\n"
    "{\n"
    "    ROOMS(sum, logs, part, part_logs, new_logs);\n"
    "    sum[at] = load(part, at);\n"
    "    if (get_global_id(0) == 0)\n"
    "        new_logs[row] = part_log;\n"
    "}\n"
    "kernel void next(PARAMETERS)\n"
    "{\n"
    "    ROOMS(sum, logs, part, part_logs, new_logs);\n"
    "    float most = fmax(logs[row], part_log);\n"
    "    float x = most == -INFINITY ? 0 : exp(logs[row] - most), y = most == -INFINITY ? 0 : exp(part_log - most);\n"
    "    if (most != -INFINITY)\n"
    "        sum[at] = (x * sum[at] + y * load(part, at)) / (x + y);\n"
    "    if (get_global_id(0) == 0)\n"
    "        new_logs[row] = most == -INFINITY ? most : most + log(x + y);\n"
    "}\n"
    "kernel void last(PARAMETERS)\n"
    "{\n"
    "    ROOMS(sum, logs, part, part_logs, new_logs);\n"
    "    store(part, at, sum[at]);\n"
    "}\n";

static clattn_status create(struct join *join, const struct opencl *cl, cl_context context, cl_device_id device,
                            clattn_dtype dtype, const struct log *log)
{
    static const char *const options[] = {
        [CLATTN_F32] = "-DTYPE=0", [CLATTN_F16] = "-DTYPE=1", [CLATTN_BF16] = "-DTYPE=2"};
    const char *text = source;
    cl_int error;

    join->program = cl->CreateProgramWithSource(context, 1, &text, NULL, &error);
    if (join->program == NULL)
        return opencl_failed(log, error, "clCreateProgramWithSource of the joins");
    error = cl->BuildProgram(join->program, 1, &device, options[dtype], NULL, NULL);
    if (error != CL_SUCCESS)
        return opencl_failed(log, error, "clBuildProgram of the joins");
    TRY(opencl_create_kernel(log, cl, join->program, "first", &join->first.kernel));
    TRY(opencl_create_kernel(log, cl, join->program, "next", &join->next.kernel));
    return opencl_create_kernel(log, cl, join->program, "last", &join->last.kernel);
}

clattn_status join_create(struct join *join, clattn_context *context, clattn_dtype dtype, const struct log *log)
{
    cl_context cl;
    cl_device_id device;

    *join = (struct join){.first.name = "first", .next.name = "next", .last.name = "last"};
    TRY(clattn_context_get(context, &cl, &device));
    return create(join, opencl_get(), cl, device, dtype, log);
}

void join_destroy(struct join *join)
{
    const struct opencl_kernel *const kernels[] = {&join->first, &join->next, &join->last};

    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (kernels[i]->kernel != NULL)
            opencl_get()->ReleaseKernel(kernels[i]->kernel);
    if (join->program != NULL)
        opencl_get()->ReleaseProgram(join->program);
}

enum { PLACES = 6 };

static clattn_status launch(struct opencl_kernel kernel, const struct join_rows *rows, const cl_ulong at[PLACES],
                            cl_command_queue queue, cl_mem memory, const struct log *log, cl_event *done)
{
    const struct opencl *cl = opencl_get();
    const size_t global[3] = {(size_t)rows->columns, (size_t)rows->rows, 1};
    cl_event event = NULL;

    TRY(opencl_set_argument(log, cl, kernel, 0, sizeof memory, &memory));
    for (cl_uint i = 0; i < PLACES; i++)
        TRY(opencl_set_argument(log, cl, kernel, i + 1, sizeof *at, &at[i]));
    TRY(opencl_launch(log, cl, queue, kernel, global, NULL, *done != NULL, *done != NULL ? done : NULL, &event));
    if (*done != NULL)
        cl->ReleaseEvent(*done);
    *done = event;
    return CLATTN_SUCCESS;
}

size_t join_logs(const struct join_rows *rows)
{
    return rows->logs[rows->parts % 2];
}

clattn_status join_add(const struct join *join, struct join_rows *rows, cl_command_queue queue, cl_mem memory,
                       const struct log *log, cl_event *done)
{
    const cl_ulong at[PLACES] = {rows->sum,
                                 join_logs(rows),
                                 rows->part,
                                 rows->part_logs,
                                 rows->logs[(rows->parts + 1) % 2],
                                 rows->shifts == NO_SHIFTS ? UINT64_MAX : rows->shifts};

    return launch(rows->parts++ == 0 ? join->first : join->next, rows, at, queue, memory, log, done);
}

clattn_status join_end(const struct join *join, const struct join_rows *rows, cl_command_queue queue, cl_mem memory,
                       const struct log *log, cl_event *done)
{
    const cl_ulong at[PLACES] = {rows->sum,       join_logs(rows), rows->output,
                                 rows->part_logs, join_logs(rows), UINT64_MAX};

    return launch(join->last, rows, at, queue, memory, log, done);
}
