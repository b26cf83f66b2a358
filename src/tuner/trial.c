#include "tuner/trial.h"

#include "tuner/timing.h"

#include <stdlib.h>
#include <string.h>

/* A short run has a SHORT_SHARE-th of the tokens. */
enum { SHORT_SHARE = 8, GPU_TOKENS = 4 };

static const char *const state_names[] = {
#define STATE_NAME(name, text) #name,
    TRIAL_STATES(STATE_NAME)
#undef STATE_NAME
};
static const char *const state_texts[] = {
#define STATE_TEXT(name, text) text,
    TRIAL_STATES(STATE_TEXT)
#undef STATE_TEXT
};

const char *trial_state_name(enum trial_state state)
{
    return state_names[state];
}

const char *trial_state_text(enum trial_state state)
{
    return state_texts[state];
}

/* ---- Plans ------------------------------------------------------------------------------------------------------- */

static enum trial_state state_of(clattn_status status)
{
    return status == CLATTN_UNSUPPORTED    ? TRIAL_UNSUPPORTED
           : status == CLATTN_BUILD_FAILED ? TRIAL_UNBUILT
           : status == CLATTN_SUCCESS      ? TRIAL_TIMED
                                           : TRIAL_FAILED;
}

static clattn_status plan_for(const struct trial *trial, const clattn_plan_desc *desc, const struct tuned *tuned,
                              clattn_plan **plan, enum trial_state *state)
{
    clattn_plan_desc full = *desc;
    clattn_status status;

    full.mode = CLATTN_MODE_AUTO;
    full.chunk = 0;
    status = plan_create(plan, trial->device->context, &full, tuned);
    *state = state_of(status);
    return status;
}

clattn_status trial_plan(const struct trial *trial, const struct tuned *tuned, clattn_plan **plan,
                         enum trial_state *state)
{
    return plan_for(trial, &trial->tensors.desc, tuned, plan, state);
}

clattn_status trial_plan_of(const struct trial *trial, int64_t tokens, const struct tuned *tuned, clattn_plan **plan,
                            enum trial_state *state)
{
    clattn_plan_desc desc = trial->tensors.desc;

    desc.seq_len = tokens;
    return plan_for(trial, &desc, tuned, plan, state);
}

struct tuned trial_explicit_point(const clattn_plan *plan)
{
    return solver_explicit(plan->solver, plan_child(plan)->tiles);
}

static uint64_t largest_of(const clattn_plan *plan, cl_kernel_work_group_info what)
{
    const struct device *device = &plan->context->device;
    uint64_t largest = 0;

    for (int i = 0; i < plan->bound.built.step_count; i++) {
        cl_ulong bytes = 0;
        if (plan->bound.kernels[i].cl != NULL &&
            device->cl->GetKernelWorkGroupInfo(plan->bound.kernels[i].cl, device->info.device, what, sizeof bytes,
                                               &bytes, NULL) == CL_SUCCESS)
            largest = bytes > largest ? bytes : largest;
    }
    return largest;
}

struct trial_memory trial_memory(const clattn_plan *plan)
{
    return (struct trial_memory){largest_of(plan, CL_KERNEL_LOCAL_MEM_SIZE),
                                 largest_of(plan, CL_KERNEL_PRIVATE_MEM_SIZE)};
}

/* ---- Times ------------------------------------------------------------------------------------------------------- */

struct timed_run {
    struct trial *trial;
    clattn_plan *plan;
    int64_t tokens;
};

static clattn_status enqueue(void *user, size_t run, cl_event *event)
{
    const struct timed_run *timed = user;
    const struct trial *trial = timed->trial;
    struct arguments operands = buffers_operands(&trial->buffers, run % trial->buffers.sets, &trial->tensors.desc);

    operands.seq_len = timed->tokens;
    operands.workspace.buffer = trial->workspace;
    return check_enqueue(timed->plan, trial->device->queue, &operands, 0, NULL, event);
}

/* Grows the workspace to what the plan needs. */
static clattn_status ensure_workspace(struct trial *trial, const clattn_plan *plan)
{
    size_t bytes;

    TRY(clattn_plan_workspace_size(plan, &bytes));
    if (bytes <= trial->workspace_bytes)
        return CLATTN_SUCCESS;
    if (trial->workspace != NULL)
        opencl_get()->ReleaseMemObject(trial->workspace);
    trial->workspace_bytes = 0;
    TRY(opencl_create_buffer(&trial->log, opencl_get(), trial->device->cl, CL_MEM_READ_WRITE, bytes, NULL,
                             &trial->workspace));
    trial->workspace_bytes = bytes;
    return CLATTN_SUCCESS;
}

clattn_status trial_time(struct trial *trial, clattn_plan *plan, int64_t tokens, size_t count, double *samples)
{
    struct timed_run timed = {trial, plan, tokens};
    const struct timing_job job = {trial->device->queue, enqueue, &timed, trial->log};

    TRY(ensure_workspace(trial, plan));
    return timing_batch(&job, count, samples, &trial->by_events);
}

/* ---- Results ----------------------------------------------------------------------------------------------------- */

static enum trial_state compare(struct trial *trial, struct check_tensors *tensors,
                                const struct check_tensors *expected, clattn_plan *plan, double *error)
{
    double now;

    if (check_run_plan(tensors, trial->device, plan, trial->log.fn, trial->log.user) != CLATTN_SUCCESS)
        return TRIAL_FAILED;
    now = check_error(tensors, expected, NULL);
    *error = now > *error ? now : *error;
    return now <= check_bound_of(&tensors->desc) ? TRIAL_TIMED : TRIAL_WRONG;
}

enum trial_state trial_check(struct trial *trial, clattn_plan *plan, int whole, double *error)
{
    if (!whole)
        return compare(trial, &trial->short_tensors, &trial->short_expected, plan, error);
    if (!trial->is_expected_known &&
        check_reference(&trial->expected, &trial->tensors, trial->log.fn, trial->log.user) != CLATTN_SUCCESS)
        return TRIAL_FAILED;
    trial->is_expected_known = 1;
    return compare(trial, &trial->tensors, &trial->expected, plan, error);
}

static const int64_t one_token[] = {0, 0, 1, 130, 131};

/* Shapes other than the timed one: uneven ends with both states; other value dims and hard gates; packed sequences, one
 * of them empty and two with one token; a single token. */
static const struct {
    int64_t batch, tokens, narrower; /* fewer value columns */
    uint64_t flags;
    enum check_gates gates;
    const int64_t *cu_seqlens;
    int64_t sequences;
} awkward[AWKWARD] = {
    {2, 75, 0, CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE, CHECK_GATES_HARD, NULL, 0},
    {1, 100, 5, CLATTN_FINAL_STATE, CHECK_GATES_USUAL, NULL, 0},
    {1, 131, 0, CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE | CLATTN_CU_SEQLENS, CHECK_GATES_USUAL, one_token, 4},
    {1, 1, 0, CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE, CHECK_GATES_USUAL, NULL, 0},
};

static enum trial_state run_awkward(struct trial *trial, struct check_tensors *tensors, const struct tuned *tuned,
                                    double *error)
{
    struct check_tensors expected;
    enum trial_state state;
    clattn_plan *plan;

    if (plan_for(trial, &tensors->desc, tuned, &plan, &state) != CLATTN_SUCCESS)
        return state == TRIAL_UNSUPPORTED ? TRIAL_TIMED : state; /* without a plan there is no wrong result */
    state = TRIAL_FAILED;
    if (check_reference(&expected, tensors, trial->log.fn, trial->log.user) == CLATTN_SUCCESS) {
        state = compare(trial, tensors, &expected, plan, error);
        check_free(&expected);
    }
    clattn_plan_destroy(plan);
    return state;
}

clattn_plan_desc trial_awkward(const struct trial *trial, size_t i)
{
    clattn_plan_desc desc = trial->tensors.desc;

    desc.batch = awkward[i].batch;
    desc.seq_len = awkward[i].tokens;
    desc.value_dim -= desc.value_dim > awkward[i].narrower ? awkward[i].narrower : 0;
    problem_share_heads(&desc, 2);
    desc.flags |= awkward[i].flags;
    if (desc.flags & CLATTN_CU_SEQLENS)
        desc.kv_len = 0;
    check_fit(&desc);
    desc.sequences = awkward[i].sequences;
    return desc;
}

static enum trial_state validate_awkward(struct trial *trial, const struct tuned *tuned, size_t i, double *error)
{
    const clattn_plan_desc desc = trial_awkward(trial, i);
    struct check_tensors tensors;
    enum trial_state state;

    if (check_make(&tensors, &desc, trial->seed + i, awkward[i].gates, awkward[i].cu_seqlens) != CLATTN_SUCCESS)
        return TRIAL_FAILED;
    state = run_awkward(trial, &tensors, tuned, error);
    check_free(&tensors);
    return state;
}

enum trial_state trial_validate(struct trial *trial, const struct tuned *tuned, double *error)
{
    enum trial_state state;
    clattn_plan *plan;

    *error = 0;
    if (trial_plan(trial, tuned, &plan, &state) == CLATTN_SUCCESS)
        state = trial_check(trial, plan, 1, error);
    clattn_plan_destroy(plan);
    for (size_t i = 0; i < AWKWARD && state == TRIAL_TIMED; i++)
        state = validate_awkward(trial, tuned, i, error);
    return state;
}

/* ---- Opening ----------------------------------------------------------------------------------------------------- */

/* Runs the default on a few tokens, and halves the tokens until all of them would not take too long. */
static clattn_status choose_tokens(struct trial *trial, clattn_plan_desc *desc)
{
    const struct tuned default_point = tuned_default(trial->space);
    enum trial_state state;
    clattn_plan *plan;
    double seconds[3] = {0, 0, 0};
    clattn_status status;

    do {
        if (seconds[1] > 0)
            desc->seq_len = (desc->seq_len + 1) / 2;
        TRY(buffers_fit(&trial->device->context->device.info, desc, 0, &trial->log));
        TRY(check_make(&trial->tensors, desc, trial->seed, CHECK_GATES_USUAL, NULL));
        TRY(buffers_create(&trial->buffers, trial->device, &trial->tensors, 1, 0, 0, trial->log.fn, trial->log.user));
        TRY(buffers_write(&trial->buffers, 0, &trial->tensors));
        status = trial_plan(trial, &default_point, &plan, &state);
        if (status == CLATTN_SUCCESS)
            status = trial_time(trial, plan, 1, 1, seconds);
        if (status == CLATTN_SUCCESS)
            status = trial_time(trial, plan, (desc->seq_len + SHORT_SHARE - 1) / SHORT_SHARE, 2, seconds + 1);
        clattn_plan_destroy(plan);
        TRY(status);
        seconds[1] = seconds[1] < seconds[2] ? seconds[1] : seconds[2]; /* drivers may compile again for another grid */
        if (seconds[1] * SHORT_SHARE <= TRIAL_LONGEST / 2 || desc->seq_len <= 2 * SHORT_SHARE)
            return CLATTN_SUCCESS;
        buffers_destroy(&trial->buffers);
        check_free(&trial->tensors);
    } while (1);
}

static clattn_status make_short(struct trial *trial)
{
    clattn_plan_desc desc = trial->tensors.desc;

    desc.seq_len = (desc.seq_len + SHORT_SHARE - 1) / SHORT_SHARE;
    TRY(check_make(&trial->short_tensors, &desc, trial->seed, CHECK_GATES_USUAL, NULL));
    return check_reference(&trial->short_expected, &trial->short_tensors, trial->log.fn, trial->log.user);
}

clattn_plan_desc trial_desc(const struct check_device *device, const struct space *space, const clattn_plan_desc *desc)
{
    clattn_plan_desc full = *desc;

    if (full.seq_len == 0)
        full.seq_len = space->tuned_rows * (device->context->device.info.gpu ? GPU_TOKENS : 1);
    if (full.kv_len == 0)
        full.kv_len = space->tuned_keys;
    return full;
}

clattn_status trial_open(struct trial *trial, struct check_device *device, const struct space *space,
                         const clattn_plan_desc *desc, struct log log)
{
    clattn_plan_desc full = trial_desc(device, space, desc);

    *trial = (struct trial){.device = device, .log = log, .space = space, .seed = 1, .by_events = 1};
    TRY(choose_tokens(trial, &full));
    return make_short(trial);
}

void trial_close(struct trial *trial)
{
    buffers_destroy(&trial->buffers);
    if (trial->workspace != NULL)
        opencl_get()->ReleaseMemObject(trial->workspace);
    check_free(&trial->tensors);
    check_free(&trial->expected);
    check_free(&trial->short_tensors);
    check_free(&trial->short_expected);
}
