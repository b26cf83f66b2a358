/* Finds the lengths from which on each solver is the fastest. */
#include "tuner/tune.h"

#include "tuner/timing.h"

#include <stdlib.h>
#include <string.h>

enum { LONGEST = 512, RUNS = 5 };

struct crossing {
    struct trial trials[MAX_SPACES];
    clattn_plan *plans[MAX_SPACES];
};

static clattn_status open_solvers(const struct tune *tune, struct check_device *device, struct tune_result *result,
                                  struct crossing *crossing)
{
    clattn_plan_desc desc = result->desc;

    desc.seq_len = LONGEST;
    for (int s = 0; s < result->count; s++) {
        const struct tune_outcome *outcome = &result->outcomes[s];
        enum trial_state state;
        if (outcome->status != CLATTN_SUCCESS || outcome->space->tuned_keys != 0)
            continue;
        TRY(trial_open(&crossing->trials[s], device, outcome->space, &desc, tune->log));
        trial_plan(&crossing->trials[s], &outcome->entry.tuned, &crossing->plans[s], &state);
    }
    return CLATTN_SUCCESS;
}

/* Whether the plan's tiles depend on the length, so that each length needs a plan of its own. */
static int tiles_follow_length(const clattn_plan *plan)
{
    return plan != NULL && strcmp(plan->solver->space.name, "recurrent") == 0;
}

/* Builds the plans of solvers that need one for each length, before anything is timed. */
static void build_plans_ahead(const struct tune *tune, const struct tune_result *result,
                              const struct crossing *crossing)
{
    struct search_point points[MAX_LENGTHS];
    int sound[MAX_LENGTHS];

    for (int s = 0; s < result->count; s++) {
        size_t count = 0;
        if (!tiles_follow_length(crossing->plans[s]))
            continue;
        for (int64_t tokens = 1; tokens <= crossing->trials[s].tensors.desc.seq_len; tokens *= 2, count++) {
            points[count] = (struct search_point){crossing->trials[s].tensors.desc, result->outcomes[s].entry.tuned};
            points[count].desc.seq_len = tokens;
        }
        search_build_ahead(&tune->events, points, count, sound);
    }
}

/* Replaces the plan by one for this length. */
static void replace_plan(struct crossing *crossing, const struct tuned *tuned, int s, int64_t tokens)
{
    enum trial_state state;

    if (!tiles_follow_length(crossing->plans[s]) || tokens > crossing->trials[s].tensors.desc.seq_len)
        return;
    clattn_plan_destroy(crossing->plans[s]);
    trial_plan_of(&crossing->trials[s], tokens, tuned, &crossing->plans[s], &state);
}

/* The median of some runs. 0 if the solver would take too long, judging by the previous length. */
static double time_length(struct crossing *crossing, const struct tune_lengths *lengths, int s, int64_t tokens)
{
    double samples[RUNS], before = lengths->count > 0 ? lengths->seconds[lengths->count - 1][s] : 0;

    if (crossing->plans[s] == NULL || tokens > crossing->trials[s].tensors.desc.seq_len ||
        (lengths->count > 0 && before == 0) || 2 * before > TRIAL_LONGEST ||
        trial_time(&crossing->trials[s], crossing->plans[s], tokens, 1, samples) != CLATTN_SUCCESS ||
        trial_time(&crossing->trials[s], crossing->plans[s], tokens, RUNS, samples) != CLATTN_SUCCESS)
        return 0;
    return timing_median(samples, RUNS);
}

static int fastest(const double seconds[MAX_SPACES], int count)
{
    int best = -1;

    for (int s = 0; s < count; s++)
        if (seconds[s] > 0 && (best < 0 || seconds[s] < seconds[best]))
            best = s;
    return best;
}

/* Whether solver s beats the other one at a length, by more than noise. */
static int beats(const struct tune_lengths *lengths, size_t i, int s, int other)
{
    double ours = lengths->seconds[i][s], theirs = lengths->seconds[i][other];

    return ours > 0 && (theirs == 0 || ours < (1 - KEEP_MARGIN) * theirs);
}

/* Beyond the lengths that were compared: the solver that was the fastest where it was tuned takes over from there. */
static void set_longest(struct tune_result *result, int before)
{
    const struct tuning_entry *last = &result->outcomes[before].entry;
    int best = before;

    for (int s = 0; s < result->count; s++) {
        const struct tune_outcome *outcome = &result->outcomes[s];
        if (outcome->status == CLATTN_SUCCESS && outcome->entry.seq_len == last->seq_len &&
            outcome->entry.time_ms > 0 && outcome->entry.time_ms < result->outcomes[best].entry.time_ms)
            best = s;
    }
    if (last->seq_len > LONGEST && result->outcomes[best].entry.from_rows < 0 &&
        result->outcomes[best].entry.time_ms < (1 - KEEP_MARGIN) * last->time_ms)
        result->outcomes[best].entry.from_rows = last->seq_len;
}

/* The fastest solver of the shortest length begins at 0. Another one takes over where it beats the current one there
 * and at the next length. None returns. */
void tune_set_from_rows(struct tune_result *result)
{
    const struct tune_lengths *lengths = &result->lengths;
    int before = fastest(lengths->seconds[0], result->count);

    for (int s = 0; s < result->count; s++)
        result->outcomes[s].entry.from_rows = s == before ? 0 : -1;
    for (size_t i = 1; i < lengths->count && before >= 0; i++) {
        int best = fastest(lengths->seconds[i], result->count);
        size_t next = i + 1 < lengths->count ? i + 1 : i;
        if (best < 0 || result->outcomes[best].entry.from_rows >= 0 || !beats(lengths, i, best, before) ||
            !beats(lengths, next, best, before))
            continue;
        result->outcomes[best].entry.from_rows = lengths->tokens[i];
        before = best;
    }
    if (before >= 0)
        set_longest(result, before);
}

clattn_status tune_crossover(const struct tune *tune, struct check_device *device, struct tune_result *result)
{
    struct crossing *crossing = calloc(1, sizeof *crossing); /* more than a stack of Windows' has */
    struct tune_lengths *lengths = &result->lengths;
    clattn_status status;

    if (crossing == NULL)
        return CLATTN_OUT_OF_MEMORY;
    status = open_solvers(tune, device, result, crossing);
    lengths->count = 0;
    if (status == CLATTN_SUCCESS)
        build_plans_ahead(tune, result, crossing);
    for (int64_t tokens = 1; tokens <= LONGEST && status == CLATTN_SUCCESS; tokens *= 2) {
        lengths->tokens[lengths->count] = tokens;
        for (int s = 0; s < result->count; s++) {
            replace_plan(crossing, &result->outcomes[s].entry.tuned, s, tokens);
            lengths->seconds[lengths->count][s] = time_length(crossing, lengths, s, tokens);
        }
        lengths->count++;
    }
    tune_set_from_rows(result);
    for (int s = 0; s < result->count; s++) {
        clattn_plan_destroy(crossing->plans[s]);
        trial_close(&crossing->trials[s]);
    }
    free(crossing);
    return status;
}
