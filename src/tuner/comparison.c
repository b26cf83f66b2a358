#include "tuner/comparison.h"

#include "tune/tuning_layers.h"
#include "tuner/propose.h"
#include "tuner/search.h"
#include "tuner/timing.h"

enum { RUNS = 20, SIDES = 2 }; /* the default, and what was measured */

/* One run of each side in turns, after one of each that is not timed. */
static clattn_status time_sides(struct trial *trial, clattn_plan *const plans[SIDES], double medians[SIDES])
{
    double samples[SIDES][RUNS], warm_up;
    int64_t tokens = trial->tensors.desc.seq_len;

    for (int side = 0; side < SIDES; side++)
        TRY(trial_time(trial, plans[side], tokens, 1, &warm_up));
    for (int run = 0; run < RUNS; run++)
        for (int turn = 0; turn < SIDES; turn++) {
            int side = (run + turn) % SIDES;
            TRY(trial_time(trial, plans[side], tokens, 1, &samples[side][run]));
        }
    for (int side = 0; side < SIDES; side++)
        medians[side] = timing_median(samples[side], RUNS);
    return CLATTN_SUCCESS;
}

static clattn_status compare_points(struct trial *trial, const struct tuned points[SIDES], double medians[SIDES])
{
    clattn_plan *plans[SIDES] = {NULL};
    enum trial_state state;
    clattn_status status = CLATTN_SUCCESS;

    for (int side = 0; side < SIDES && status == CLATTN_SUCCESS; side++)
        status = trial_plan(trial, &points[side], &plans[side], &state);
    if (status == CLATTN_SUCCESS)
        status = time_sides(trial, plans, medians);
    for (int side = 0; side < SIDES; side++)
        clattn_plan_destroy(plans[side]);
    return status;
}

clattn_status comparison_run(struct check_device *device, const clattn_plan_desc *desc, const struct space *space,
                             struct log log, struct comparison *comparison)
{
    clattn_plan_desc any_length = *desc;
    struct tuned points[SIDES];
    double medians[SIDES] = {0};
    struct problem problem;
    struct trial trial;
    clattn_status status;

    *comparison = (struct comparison){.entry = NULL};
    TRY(problem_init(&problem, desc, &log));
    comparison->entry = tuning_find(device->context, &problem, space, 1, &comparison->layer);
    if (comparison->entry == NULL)
        return CLATTN_SUCCESS;
    any_length.seq_len = 0;
    points[0] = tuned_default(space);
    points[1] = comparison->entry->tuned;
    status = trial_open(&trial, device, space, &any_length, log);
    if (status == CLATTN_SUCCESS)
        status = compare_points(&trial, points, medians);
    comparison->tokens = trial.tensors.desc.seq_len;
    comparison->default_seconds = medians[0];
    comparison->tuned_seconds = medians[1];
    /* Where the default was kept, a difference is noise. */
    comparison->slower = !tuned_equal(&points[0], &points[1]) && medians[1] > (1 + KEEP_MARGIN) * medians[0];
    trial_close(&trial);
    return status;
}
