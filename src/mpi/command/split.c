/* What `--split` divides: every rank takes its part of the whole problem's tensors, which are a mapped file or made by
 * all, to its device; rank 0 puts the parts of outputs together again. */
#include "mpi/command/split.h"

#include "base/system.h"
#include "cli/device/measure.h"
#include "cli/io/operands.h"
#include "device/context.h"
#include "mpi/command/slice.h"
#include "tuner/buffers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct split_ranks *own(const struct ranks *ranks)
{
    return (struct split_ranks *)(size_t)ranks;
}

/* ---- Agreement ---------------------------------------------------------------------------------------------------- */

/* The lowest rank for which it holds, or a negative number. */
static int lowest_rank(int holds)
{
    int rank, count, mine, lowest;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &count);
    mine = holds ? rank : count;
    MPI_Allreduce(&mine, &lowest, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return lowest < count ? lowest : -1;
}

static int agree_on_exit(const struct ranks *ranks, int status)
{
    struct split_ranks *split = own(ranks);
    const int lowest = lowest_rank(status != EXIT_OK);

    if (lowest > 0 && lowest == ranks->rank && split->line[0] != '\0')
        fprintf(stderr, "clattn: rank %d: %s\n", ranks->rank, split->line);
    split->line[0] = '\0';
    if (lowest >= 0)
        MPI_Bcast(&status, 1, MPI_INT, lowest, MPI_COMM_WORLD);
    return status;
}

static void sum_numbers(const struct ranks *ranks, int64_t *numbers, int count)
{
    (void)ranks;
    MPI_Allreduce(MPI_IN_PLACE, numbers, count, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
}

/* The status of the lowest rank that failed, and its message in every rank's sink. */
static clattn_status agree_on_status(struct target *target, clattn_status status)
{
    char text[sizeof target->sink.error] = "";
    const int lowest = lowest_rank(status != CLATTN_SUCCESS);
    int code = (int)status;

    if (lowest < 0)
        return CLATTN_SUCCESS;
    snprintf(text, sizeof text, "rank %d: %.900s", lowest,
             target->sink.error[0] != '\0' ? target->sink.error : clattn_status_text(status));
    MPI_Bcast(&code, 1, MPI_INT, lowest, MPI_COMM_WORLD);
    MPI_Bcast(text, (int)sizeof text, MPI_CHAR, lowest, MPI_COMM_WORLD);
    if (strstr(target->sink.error, "rank ") != target->sink.error)
        memcpy(target->sink.error, text, sizeof text);
    return (clattn_status)code;
}

/* ---- Device ------------------------------------------------------------------------------------------------------- */

static int open_device(const struct ranks *ranks, struct target *target)
{
    const clattn_context_desc desc = {
        .device = target->named ? target->info.device : NULL, .log = sink_log, .log_user = &target->sink};
    const struct log log = {sink_log, &target->sink};
    struct check_device *device = &target->device;
    clattn_mpi_context *context = NULL;
    clattn_status status;

    status = clattn_mpi_context_create(&context, MPI_COMM_WORLD, &desc);
    target->divided = context;
    if (status == CLATTN_SUCCESS) {
        device->context = clattn_mpi_context_get(context);
        status = clattn_context_get(device->context, &device->cl, &device->device);
        target->info = device->context->device.info;
        if (status == CLATTN_SUCCESS)
            status = opencl_create_queue(&log, opencl_get(), device->cl, device->device, CL_QUEUE_PROFILING_ENABLE,
                                         &device->queue);
        status = agree_on_status(target, status);
    }
    return agree_on_exit(ranks,
                         status == CLATTN_SUCCESS ? EXIT_OK : library_error(&target->sink, target->info.name, status));
}

static void close_device(const struct ranks *ranks, struct target *target)
{
    (void)ranks;
    if (target->device.queue != NULL)
        opencl_get()->ReleaseCommandQueue(target->device.queue);
    clattn_mpi_context_destroy(target->divided);
}

/* ---- A problem ---------------------------------------------------------------------------------------------------- */

struct job {
    const struct split_ranks *ranks;
    struct target *target;
    struct check_tensors *whole;
    struct check_tensors part;
    struct slice slice;
    clattn_mpi_plan *plan;
    struct buffers buffers;
};

static struct log log_of(const struct job *job)
{
    return (struct log){sink_log, &job->target->sink};
}

static clattn_status describe(struct job *job, char *text, size_t size)
{
    clattn_plan_info info;

    snprintf(text, size, "rank 0 has no part");
    job->target->solver = "none";
    if (job->plan->run == NULL)
        return CLATTN_SUCCESS;
    TRY(clattn_plan_get(job->plan->run, &info));
    job->target->solver = info.solver;
    job->target->device.plan = info;
    job->target->device.plan.tiles_by = NULL;
    return clattn_plan_describe(job->plan->run, text, size);
}

static clattn_status create_plan(struct job *job, const clattn_plan_desc *desc, char *text, size_t size)
{
    const double begin = now_seconds();
    const clattn_mpi_split split = job->ranks->split;
    const clattn_status status = clattn_mpi_plan_create(&job->plan, job->target->divided, desc, split);

    job->target->plan_seconds = now_seconds() - begin;
    if (status != CLATTN_SUCCESS)
        return status;
    job->slice = (struct slice){.split = split,
                                .total = split == CLATTN_MPI_TOKENS  ? desc->seq_len
                                         : split == CLATTN_MPI_HEADS ? desc->heads
                                                                     : desc->batch};
    TRY(clattn_mpi_plan_local(job->plan, split == CLATTN_MPI_TOKENS ? CLATTN_WHOLE : 0, &job->slice.first,
                              &job->slice.count));
    return describe(job, text, size);
}

static clattn_status take_part(struct job *job)
{
    const struct log log = log_of(job);

    return slice_take(&job->part, job->whole, &job->slice) == CLATTN_SUCCESS
               ? CLATTN_SUCCESS
               : FAIL(&log, OUT_OF_MEMORY, "no memory for this rank's part of the tensors");
}

/* Of an input file: of what all ranks have alike, rank 0 counts. */
static void warn_of_part(const struct job *job, const struct problem *problem)
{
    struct operands operands = {.tensors = job->part};

    if (job->ranks->input == NULL)
        return;
    for (int i = 0; i < problem->operand_count && job->ranks->ranks.rank != 0; i++)
        if (slice_dimension(&problem->operands[i], job->ranks->split) < 0)
            operands.tensors.tensor[problem->operands[i].id].data = NULL;
    operands_warn(&operands, job->ranks->input, &job->ranks->ranks);
}

/* For the tensors of job->part */
static clattn_status create_buffers(struct job *job)
{
    size_t workspace = 0;

    for (int id = 1; id < OPERAND_COUNT; id++)
        if (job->part.tensor[id].data != NULL && job->part.tensor[id].bytes == 0) {
            free(job->part.tensor[id].data);
            job->part.tensor[id].data = NULL;
        }
    TRY(clattn_mpi_plan_workspace_size(job->plan, &workspace));
    TRY(buffers_create(&job->buffers, &job->target->device, &job->part, 1, 0, workspace, sink_log, &job->target->sink));
    return buffers_write(&job->buffers, 0, &job->part);
}

/* Of the slowest rank, in *seconds, from where all begin to where all have ended. */
static clattn_status run_once(struct job *job, double *seconds)
{
    const struct log log = log_of(job);
    const struct arguments arguments = buffers_operands(&job->buffers, 0, &job->whole->desc);
    clattn_operand operands[OPERAND_COUNT];
    clattn_call call = {.operands = operands, .seq_len = CLATTN_WHOLE, .workspace = job->buffers.workspace};
    double begin, own_seconds;

    for (int id = 1; id < OPERAND_COUNT; id++)
        if (arguments.of[id].buffer != NULL) {
            operands[call.operand_count] = arguments.of[id];
            operands[call.operand_count++].id = operand_to_public((clattn_operand_id)id);
        }
    MPI_Barrier(MPI_COMM_WORLD);
    begin = MPI_Wtime();
    TRY(clattn_mpi_enqueue(job->plan, job->target->device.queue, &call, 0, NULL, NULL));
    if (opencl_get()->Finish(job->target->device.queue) != CL_SUCCESS)
        log_line(&log, CLATTN_LOG_ERROR, "clFinish failed");
    own_seconds = MPI_Wtime() - begin;
    MPI_Allreduce(&own_seconds, seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return agree_on_status(job->target, job->target->sink.error[0] != '\0' ? CLATTN_DEVICE_ERROR : CLATTN_SUCCESS);
}

static void end_job(struct job *job)
{
    buffers_destroy(&job->buffers);
    check_free(&job->part);
    clattn_mpi_plan_destroy(job->plan);
}

/* ---- Outputs come to rank 0 --------------------------------------------------------------------------------------- */

enum { TAG = 1 };

/* A message of any size: bytes come in blocks. */
static void send_bytes(const char *from, size_t bytes, int to)
{
    const size_t most = (size_t)1 << 30;

    for (size_t at = 0; at < bytes; at += most)
        MPI_Send(from + at, (int)(bytes - at < most ? bytes - at : most), MPI_BYTE, to, TAG, MPI_COMM_WORLD);
}

static void receive_bytes(char *to, size_t bytes, int from)
{
    const size_t most = (size_t)1 << 30;

    for (size_t at = 0; at < bytes; at += most)
        MPI_Recv(to + at, (int)(bytes - at < most ? bytes - at : most), MPI_BYTE, from, TAG, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

/* Rank 0 has room for a part: no part is larger than the whole, and its own copy is no longer needed. */
static void collect_cut(struct job *job, const struct operand_row *row, int dimension, char *room)
{
    struct check_tensor *whole = &job->whole->tensor[row->id];
    const struct check_tensor *part = &job->part.tensor[row->id];
    const int64_t size = whole->info.dims[dimension];
    const int rank = job->ranks->ranks.rank;

    for (int r = 0; r < job->plan->context->ranks; r++) {
        struct slice slice = job->slice;
        int64_t span[2] = {slice.first, slice.count}, count;
        MPI_Bcast(span, 2, MPI_INT64_T, r, MPI_COMM_WORLD);
        count = slice_scaled(&slice, span[1], size);
        if (r == rank && rank != 0)
            send_bytes(part->data, part->bytes, 0);
        if (rank != 0 || count == 0)
            continue;
        if (r != 0)
            receive_bytes(room, whole->bytes / (size_t)size * (size_t)count, r);
        slice_copy(whole, dimension, slice_scaled(&slice, span[0], size), count, r != 0 ? room : part->data, 1);
    }
}

/* Of states the rank where sequences end has it, of their gradients that where they begin; of inputs that ranks share,
 * the gradient is the sum of all. */
static void collect_uncut(struct job *job, const struct operand_row *row)
{
    struct check_tensor *whole = &job->whole->tensor[row->id], *part = &job->part.tensor[row->id];
    const int is_gradient = row->id > (clattn_operand_id)OPERAND_IDS, is_state = strchr(row->dims, 'N') != NULL;
    const int owner = lowest_rank(is_gradient ? is_first(job->plan) : is_last(job->plan));
    const int rank = job->ranks->ranks.rank;

    if (is_gradient && !is_state) {
        MPI_Reduce(part->data, whole->data, (int)check_count(&whole->info), MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
        return;
    }
    if (rank == owner && rank != 0)
        send_bytes(part->data, part->bytes, 0);
    if (rank == 0 && owner != 0)
        receive_bytes(whole->data, whole->bytes, owner);
    else if (rank == 0)
        memcpy(whole->data, part->data, whole->bytes);
}

static void collect(struct job *job, const struct problem *problem, char *room)
{
    for (int i = 0; i < problem->operand_count; i++) {
        const struct operand_row *row = &problem->operands[i];
        const int dimension = slice_dimension(row, job->ranks->split);
        if (row->numbers != NUMBERS_WRITTEN || job->whole->tensor[row->id].data == NULL)
            continue;
        if (dimension >= 0)
            collect_cut(job, row, dimension, room);
        else
            collect_uncut(job, row);
    }
}

/* Gradients that are summed begin with 0, as a rank without a part does not write them. Those of 16 bits are not. */
static clattn_status prepare_sums(struct job *job, const struct problem *problem)
{
    const struct log log = log_of(job);

    for (int i = 0; i < problem->operand_count; i++) {
        const struct operand_row *row = &problem->operands[i];
        struct check_tensor *tensor = &job->whole->tensor[row->id];
        if (row->id <= (clattn_operand_id)OPERAND_IDS || row->numbers != NUMBERS_WRITTEN || tensor->data == NULL ||
            slice_dimension(row, job->ranks->split) >= 0 || strchr(row->dims, 'N') != NULL)
            continue;
        if (tensor->info.dtype != CLATTN_F32)
            return FAIL(&log, UNSUPPORTED, "%s is the sum over ranks, which is in f32", tensor->info.name);
        memset(tensor->data, 0, tensor->bytes);
    }
    return CLATTN_SUCCESS;
}

static size_t largest_output(const struct check_tensors *tensors)
{
    size_t largest = 0;

    for (int id = 1; id < OPERAND_COUNT; id++)
        if (tensors->tensor[id].data != NULL && tensors->tensor[id].info.output && tensors->tensor[id].bytes > largest)
            largest = tensors->tensor[id].bytes;
    return largest;
}

/* ---- Runs --------------------------------------------------------------------------------------------------------- */

static clattn_status run_and_collect(struct job *job, const struct problem *problem)
{
    const struct log log = log_of(job);
    char *room = NULL;
    clattn_status status = prepare_sums(job, problem);

    if (status == CLATTN_SUCCESS)
        status = take_part(job);
    if (status == CLATTN_SUCCESS)
        status = create_buffers(job);
    if (status == CLATTN_SUCCESS && job->ranks->ranks.rank == 0 &&
        (room = malloc(largest_output(job->whole) + 1)) == NULL)
        status = FAIL(&log, OUT_OF_MEMORY, "no memory for the outputs of a rank");
    status = agree_on_status(job->target, status);
    if (status == CLATTN_SUCCESS)
        warn_of_part(job, problem);
    if (status == CLATTN_SUCCESS)
        status = run_once(job, &job->target->run_seconds);
    if (status == CLATTN_SUCCESS)
        status = agree_on_status(job->target, buffers_read(&job->buffers, 0, &job->part));
    if (status == CLATTN_SUCCESS)
        collect(job, problem, room);
    free(room);
    return status;
}

static clattn_status run(const struct ranks *ranks, struct target *target, struct check_tensors *tensors,
                         char *plan_text, size_t text_size)
{
    struct job job = {.ranks = own(ranks), .target = target, .whole = tensors};
    struct problem problem;
    clattn_status status;

    target->sink.error[0] = '\0';
    target->solver = "none";
    target->device.plan = (clattn_plan_info){.solver = NULL};
    status = create_plan(&job, &tensors->desc, plan_text, text_size);
    if (status == CLATTN_SUCCESS)
        status = problem_init(&problem, &job.plan->whole, NULL);
    if (status == CLATTN_SUCCESS)
        status = run_and_collect(&job, &problem);
    end_job(&job);
    return status;
}

/* ---- Times -------------------------------------------------------------------------------------------------------- */

static const double reference_budget = 2; /* seconds of rank 0, in which the others have nothing to do */

static clattn_status check(const struct ranks *ranks, struct target *target, const clattn_plan_desc *desc,
                           uint64_t seed, struct measurement *result)
{
    struct check_tensors tensors = {.desc = *desc}, expected;
    clattn_status status;

    result->checked = measure_reduced(desc, reference_budget);
    status = agree_on_status(target, check_make(&tensors, &result->checked, seed, CHECK_GATES_USUAL, NULL));
    if (status == CLATTN_SUCCESS)
        status = run(ranks, target, &tensors, result->plan, sizeof result->plan);
    if (status == CLATTN_SUCCESS) {
        if (ranks->rank == 0)
            status = check_reference(&expected, &tensors, sink_log, &target->sink);
        if (ranks->rank == 0 && status == CLATTN_SUCCESS) {
            result->error = check_error(&tensors, &expected, &result->worst);
            check_free(&expected);
        }
        status = agree_on_status(target, status);
    }
    MPI_Bcast(&result->error, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    check_free(&tensors);
    return status;
}

static void summarize(double *samples, size_t count, struct timing *timing)
{
    const double median = timing_median(samples, count); /* sorts them */

    *timing =
        (struct timing){.median = median, .min = samples[0], .max = samples[count - 1], .wall = median, .runs = count};
    timing->spread = (samples[3 * count / 4] - samples[count / 4]) / median;
}

/* Times are the same on all ranks, and so is the number of runs. */
static clattn_status time_runs(struct job *job, size_t runs, struct timing *timing)
{
    enum { WARM_UPS = 3, LEAST = 5 };
    static const double budget = 10;
    double samples[256], seconds = 0, all = 0;
    size_t count = 0;

    for (int i = 0; i < WARM_UPS; i++)
        TRY(run_once(job, &seconds));
    while (count < runs && count < sizeof samples / sizeof *samples && (count < LEAST || all < budget)) {
        TRY(run_once(job, &samples[count]));
        all += samples[count++];
    }
    summarize(samples, count, timing);
    return CLATTN_SUCCESS;
}

static void repeat(const struct check_tensor *to, const struct check_tensor *from, int dimension)
{
    const int64_t size = dimension >= 0 ? from->info.dims[dimension] : 0;

    if (dimension < 0)
        memcpy(to->data, from->data, to->bytes);
    for (int64_t at = 0; dimension >= 0 && at < to->info.dims[dimension]; at += size)
        slice_copy(to, dimension, at, size, from->data, 1);
}

/* Random tensors of which a stretch of tokens comes again and again: times do not depend on it, and millions of tokens
 * are there in a second. */
static clattn_status make_repeated(struct check_tensors *tensors, const clattn_plan_desc *desc, uint64_t seed)
{
    enum { MANY = 4096 };
    clattn_plan_desc one = *desc;
    struct check_tensors stretch;
    struct operand_row rows[OPERAND_COUNT];
    clattn_status status;
    int count;

    while (one.seq_len > MANY && one.seq_len % 2 == 0 && one.kv_len == 0)
        one.seq_len /= 2;
    TRY(check_make(&stretch, &one, seed, CHECK_GATES_USUAL, NULL));
    status = check_allocate(tensors, desc);
    count = status == CLATTN_SUCCESS ? rule_operands(&tensors->desc, rows) : 0;
    for (int i = 0; i < count; i++)
        repeat(&tensors->tensor[rows[i].id], &stretch.tensor[rows[i].id], slice_dimension(&rows[i], CLATTN_MPI_TOKENS));
    check_free(&stretch);
    return status;
}

/* Of tokens and batch elements, this rank's alone: the whole may be larger than a machine's memory. Where sequences are
 * packed, they are cut as in the whole. */
static clattn_status make_part(struct job *job, uint64_t seed)
{
    const int is_packed = (job->whole->desc.flags & CLATTN_CU_SEQLENS) != 0;
    clattn_plan_desc desc = job->whole->desc;
    clattn_status status;

    if (job->slice.count == 0 || job->slice.split == CLATTN_MPI_HEADS || is_packed) {
        status = check_make(job->whole, &desc, seed, CHECK_GATES_USUAL, NULL);
        if (status == CLATTN_SUCCESS)
            status = take_part(job);
        for (int id = 1; id < OPERAND_COUNT; id++)
            free(job->whole->tensor[id].data), job->whole->tensor[id].data = NULL;
        return status;
    }
    *(job->slice.split == CLATTN_MPI_TOKENS ? &desc.seq_len : &desc.batch) = job->slice.count;
    return make_repeated(&job->part, &desc, seed + (uint64_t)job->ranks->ranks.rank);
}

/* Of all ranks, without what they share */
static double bytes_of_whole(const struct check_tensors *tensors)
{
    double bytes = 0;

    for (int id = 1; id < OPERAND_COUNT; id++)
        bytes += (double)operand_bytes(&tensors->desc, operand_to_public((clattn_operand_id)id));
    return bytes;
}

static clattn_status measure_times(const struct ranks *ranks, struct target *target, const clattn_plan_desc *desc,
                                   uint64_t seed, size_t runs, struct measurement *result)
{
    struct check_tensors whole = {.desc = *desc};
    struct job job = {.ranks = own(ranks), .target = target, .whole = &whole};
    clattn_status status = create_plan(&job, desc, result->plan, sizeof result->plan);

    if (status == CLATTN_SUCCESS) {
        whole.desc = job.plan->whole;
        status = make_part(&job, seed);
        if (status == CLATTN_SUCCESS)
            status = create_buffers(&job);
        status = agree_on_status(target, status);
    }
    result->bytes = bytes_of_whole(&whole);
    result->sets = 1;
    if (status == CLATTN_SUCCESS)
        status = time_runs(&job, runs, &result->timing);
    end_job(&job);
    check_free(&whole);
    return status;
}

static clattn_status measure_split(const struct ranks *ranks, struct target *target, const clattn_plan_desc *desc,
                                   uint64_t seed, size_t runs, struct measurement *result)
{
    memset(result, 0, sizeof *result);
    target->sink.error[0] = '\0';
    TRY(check(ranks, target, desc, seed, result));
    return result->error <= check_bound_of(desc) ? measure_times(ranks, target, desc, seed, runs, result)
                                                 : CLATTN_SUCCESS;
}

void split_init(struct split_ranks *split)
{
    *split = (struct split_ranks){.ranks = {.agree = agree_on_exit,
                                            .sum = sum_numbers,
                                            .open = open_device,
                                            .close = close_device,
                                            .run = run,
                                            .measure = measure_split}};
    MPI_Comm_rank(MPI_COMM_WORLD, &split->ranks.rank);
}
