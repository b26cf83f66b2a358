#include "tuner/search.h"

#include "base/system.h"
#include "device/program.h"
#include "tuner/propose.h"
#include "tuner/timing.h"

#include <stdlib.h>
#include <string.h>

/* A point is dropped if at a few tokens it is slower than the best one by this factor. */
static const double short_margin = 1.35;
static const double brief_run = 2e-3; /* shorter runs of a few tokens are repeated; seconds */
static const uint64_t spill_factor = 4, spill_bytes = 1024;
enum {
    ROUND_EVERY = 6,  /* points between two rounds of the best ones */
    CONTENDERS = 3,   /* of a round, in addition to the default */
    FIRST_RUNS = 3,   /* of a round, and of a point's first timing with all tokens */
    FINAL_RUNS = 15,  /* of the last round */
    STOPPED_RUNS = 5, /* the same after an interrupt */
    BRIEF_RUNS = 8,
    MAX_REPEATS = 300, /* known proposals in a row, after which the space counts as exhausted */
    VALIDATION = 6     /* how many points' time the validation of one takes */
};

struct state {
    const struct search *search;
    struct search_result *result;
    struct trial trial;
    struct propose propose;
    struct problem problem;
    struct tuned base; /* the default with explicit values */
    double start, best, best_short, tried_seconds;
    double ahead_seconds; /* of the last batch that was built ahead: the next one will take as long */
    size_t tried;
    uint64_t default_private; /* private memory of a work-item with the default */
};

static double elapsed(const struct state *state)
{
    return now_seconds() - state->start;
}

/* Seconds that the next points, the last round and the validation will take, estimated from the points so far. */
static double reserved_seconds(const struct state *state)
{
    return VALIDATION * state->tried_seconds / (double)(state->tried > 0 ? state->tried : 1) +
           2 * state->ahead_seconds + (CONTENDERS + 1) * FINAL_RUNS * state->result->all[0].time;
}

/* Whether the search must end now to leave that many seconds. */
static int is_over_with(const struct state *state, double seconds)
{
    const struct search_events *events = &state->search->events;

    if (events->progress != NULL)
        events->progress(events->user, elapsed(state));
    if (events->stop != NULL && events->stop(events->user))
        state->result->stopped = 1;
    return state->result->stopped || elapsed(state) + seconds > state->search->budget;
}

static int is_over(const struct state *state)
{
    return is_over_with(state, reserved_seconds(state));
}

static struct candidate *append(struct state *state, const struct tuned *tuned)
{
    struct search_result *result = state->result;
    struct candidate *all = realloc(result->all, (result->count + 1) * sizeof *all);

    if (all == NULL)
        return NULL;
    result->all = all;
    all[result->count] = (struct candidate){.tuned = *tuned, .at = elapsed(state)};
    return &all[result->count++];
}

static int is_known(const struct state *state, const struct tuned *tuned)
{
    if (tuned_equal(tuned, &state->base))
        return 1;
    for (size_t i = 0; i < state->result->count; i++)
        if (tuned_equal(tuned, &state->result->all[i].tuned))
            return 1;
    return 0;
}

/* ---- One point --------------------------------------------------------------------------------------------------- */

static clattn_status add_samples(struct state *state, struct candidate *candidate, clattn_plan *plan, size_t count)
{
    double scratch[MAX_SAMPLES];

    if (candidate->count + count > MAX_SAMPLES)
        candidate->count = 0;
    TRY(trial_time(&state->trial, plan, state->result->tokens, count, candidate->samples + candidate->count));
    candidate->count += count;
    memcpy(scratch, candidate->samples, sizeof scratch);
    candidate->time = timing_median(scratch, candidate->count);
    return CLATTN_SUCCESS;
}

/* Times a few tokens: the fastest of some runs after a first one that compiles. Returns TRIAL_SLOW if all tokens would
 * take too long or the best point is much faster. */
static enum trial_state run_short(struct state *state, clattn_plan *plan, double *fastest)
{
    int64_t tokens = state->trial.short_tensors.desc.seq_len;
    double share = (double)state->result->tokens / (double)tokens, seconds[BRIEF_RUNS];
    size_t more;

    if (trial_time(&state->trial, plan, tokens, 1, seconds) != CLATTN_SUCCESS || /* may compile again for this grid */
        trial_time(&state->trial, plan, tokens, 1, seconds) != CLATTN_SUCCESS)
        return TRIAL_FAILED;
    if (seconds[0] * share > TRIAL_LONGEST)
        return TRIAL_SLOW;
    more = seconds[0] < brief_run ? BRIEF_RUNS - 1 : 1;
    if (trial_time(&state->trial, plan, tokens, more, seconds + 1) != CLATTN_SUCCESS)
        return TRIAL_FAILED;
    for (size_t i = 1; i <= more; i++)
        seconds[0] = seconds[0] < seconds[i] ? seconds[0] : seconds[i];
    *fastest = seconds[0];
    return state->best_short > 0 && seconds[0] > short_margin * state->best_short ? TRIAL_SLOW : TRIAL_TIMED;
}

/* Checks the built kernels before they run: whether they use more local memory than there is, or spill registers much
 * more than the default. */
static enum trial_state check_memory(struct state *state, const clattn_plan *plan)
{
    struct trial_memory memory = trial_memory(plan);

    if (state->result->count == 1)
        state->default_private = memory.private;
    if (memory.local > state->search->device->context->device.info.local_memory)
        return TRIAL_UNSUPPORTED;
    return memory.private > spill_factor * state->default_private + spill_bytes ? TRIAL_SPILLED : TRIAL_TIMED;
}

static enum trial_state run_candidate(struct state *state, struct candidate *candidate)
{
    enum trial_state outcome;
    clattn_plan *plan;
    double fastest = 0;

    if (trial_plan(&state->trial, &candidate->tuned, &plan, &outcome) == CLATTN_SUCCESS) {
        outcome = check_memory(state, plan);
        if (outcome == TRIAL_TIMED)
            outcome = run_short(state, plan, &fastest);
        if (outcome == TRIAL_TIMED)
            outcome = trial_check(&state->trial, plan, 0, &candidate->error);
        if (outcome == TRIAL_TIMED && (state->best_short == 0 || fastest < state->best_short))
            state->best_short = fastest; /* only correct points count */
        if (outcome == TRIAL_TIMED && add_samples(state, candidate, plan, FIRST_RUNS) != CLATTN_SUCCESS)
            outcome = TRIAL_FAILED;
    }
    clattn_plan_destroy(plan);
    return outcome;
}

static void report_improvement(struct state *state, const struct candidate *candidate)
{
    const struct search_events *events = &state->search->events;

    if (candidate->state != TRIAL_TIMED || (state->best > 0 && candidate->time >= state->best))
        return;
    state->best = candidate->time;
    if (events->improved != NULL)
        events->improved(events->user, state->result, candidate);
}

static void try_candidate(struct state *state, const struct tuned *tuned)
{
    const struct search *search = state->search;
    struct candidate *candidate = append(state, tuned);

    if (candidate == NULL)
        return;
    journal_write(search->journal, search->item, tuned, TRIAL_TRYING, 0, 0);
    candidate->state = run_candidate(state, candidate);
    state->tried_seconds += elapsed(state) - candidate->at;
    state->tried++;
    journal_write(search->journal, search->item, tuned, candidate->state, candidate->time, candidate->error);
    report_improvement(state, candidate);
}

/* ---- Rounds of the best ------------------------------------------------------------------------------------------ */

/* Finds the fastest points other than the default, best first. Returns their number. */
static size_t select_best(const struct search_result *result, size_t best[CONTENDERS])
{
    size_t count = 0;

    for (size_t i = 1; i < result->count; i++) {
        size_t at = count;
        if (result->all[i].state != TRIAL_TIMED)
            continue;
        while (at > 0 && result->all[i].time < result->all[best[at - 1]].time)
            at--;
        if (at == CONTENDERS)
            continue;
        count += count < CONTENDERS;
        memmove(best + at + 1, best + at, (count - at - 1) * sizeof *best);
        best[at] = i;
    }
    return count;
}

/* Runs the listed points in turns, `rounds` times; less often if the budget is spent. */
static void run_rounds(struct state *state, const size_t *list, size_t count, int rounds)
{
    clattn_plan *plans[CONTENDERS + 1] = {NULL};
    double warm;

    for (size_t i = 0; i < count; i++) {
        struct candidate *candidate = &state->result->all[list[i]];
        enum trial_state outcome;
        if (trial_plan(&state->trial, &candidate->tuned, &plans[i], &outcome) != CLATTN_SUCCESS ||
            trial_time(&state->trial, plans[i], state->result->tokens, 1, &warm) != CLATTN_SUCCESS)
            candidate->state = outcome == TRIAL_TIMED ? TRIAL_FAILED : outcome;
    }
    for (int round = 0; round < rounds && (round < FIRST_RUNS || elapsed(state) < state->search->budget); round++)
        for (size_t i = 0; i < count; i++) {
            struct candidate *candidate = &state->result->all[list[i]];
            if (candidate->state == TRIAL_TIMED && add_samples(state, candidate, plans[i], 1) != CLATTN_SUCCESS)
                candidate->state = TRIAL_FAILED;
        }
    for (size_t i = 0; i < count; i++)
        clattn_plan_destroy(plans[i]);
}

static size_t list_contenders(const struct state *state, size_t list[CONTENDERS + 1])
{
    list[0] = 0;
    return 1 + select_best(state->result, list + 1);
}

static void build_validation_ahead(const struct state *state, const struct tuned *tuned)
{
    struct search_point points[AWKWARD];
    int sound[AWKWARD];

    for (size_t i = 0; i < AWKWARD; i++)
        points[i] = (struct search_point){trial_awkward(&state->trial, i), *tuned};
    search_build_ahead(&state->search->events, points, AWKWARD, sound);
}

/* The winner is the fastest contender that is correct on all shapes and beats the default by KEEP_MARGIN. */
static void choose_winner(struct state *state)
{
    struct search_result *result = state->result;
    size_t best[CONTENDERS], count;

    result->winner = 0;
    while ((count = select_best(result, best)) > 0) {
        struct candidate *candidate = &result->all[best[0]];
        if (candidate->time >= (1 - KEEP_MARGIN) * result->all[0].time)
            return;
        build_validation_ahead(state, &candidate->tuned);
        candidate->state = trial_validate(&state->trial, &candidate->tuned, &candidate->error);
        if (candidate->state == TRIAL_TIMED) {
            result->winner = best[0];
            return;
        }
        journal_write(state->search->journal, state->search->item, &candidate->tuned, candidate->state, 0,
                      candidate->error);
    }
}

static void finish(struct state *state)
{
    size_t list[CONTENDERS + 1], count = list_contenders(state, list);

    for (size_t i = 0; i < count; i++)
        state->result->all[list[i]].count = 0;
    run_rounds(state, list, count, state->result->stopped ? STOPPED_RUNS : FINAL_RUNS);
    choose_winner(state);
}

/* ---- The whole --------------------------------------------------------------------------------------------------- */

/* Takes over the points of earlier runs. Those that were timed are timed again if they are among the best. */
static void resume_journal(struct state *state)
{
    const struct journal *journal = state->search->journal;

    for (size_t i = 0; journal != NULL && i < journal->count; i++) {
        const struct journal_entry *entry = &journal->entries[i];
        struct candidate *candidate;
        if (strcmp(entry->item, state->search->item) != 0 || is_known(state, &entry->tuned))
            continue;
        candidate = append(state, &entry->tuned);
        if (candidate == NULL)
            return;
        candidate->state = entry->state;
        candidate->time = entry->time;
        candidate->error = entry->error;
        candidate->resumed = 1;
    }
}

static const struct tuned *choose_start(struct state *state, int turn)
{
    size_t best[CONTENDERS], count = select_best(state->result, best);

    if (count == 0 || turn % 3 == 2)
        return &state->base;
    return &state->result->all[best[(size_t)turn % count]].tuned;
}

/* New points that are built together and then tried. */
struct batch {
    struct search_point points[MAX_AHEAD];
    size_t count, most;
};

static struct batch batch_of(const struct state *state)
{
    size_t width = state->search->events.width;

    return (struct batch){.most = width < 1 ? 1 : width < MAX_AHEAD ? width : MAX_AHEAD};
}

/* Returns 0 if the point is known already. */
static int batch_add(struct batch *batch, const struct state *state, const struct tuned *tuned)
{
    int known = is_known(state, tuned);

    for (size_t i = 0; i < batch->count; i++)
        known |= tuned_equal(tuned, &batch->points[i].tuned);
    if (!known)
        batch->points[batch->count++] = (struct search_point){state->trial.tensors.desc, *tuned};
    return !known;
}

/* Marks a point whose build ended another process. */
static void mark_crashed(struct state *state, const struct tuned *tuned)
{
    struct candidate *candidate = append(state, tuned);

    if (candidate != NULL)
        candidate->state = TRIAL_CRASHED;
    journal_write(state->search->journal, state->search->item, tuned, TRIAL_CRASHED, 0, 0);
}

/* Trying a point takes little time after it is built. */
static void try_batch(struct state *state, struct batch *batch)
{
    const double before = now_seconds();
    size_t list[CONTENDERS + 1];
    int sound[MAX_AHEAD];

    search_build_ahead(&state->search->events, batch->points, batch->count, sound);
    state->ahead_seconds = now_seconds() - before;
    if (is_over_with(state, 0) && state->result->stopped)
        return;
    for (size_t i = 0; i < batch->count && (i == 0 || !is_over_with(state, 0)); i++) {
        if (sound[i])
            try_candidate(state, &batch->points[i].tuned);
        else
            mark_crashed(state, &batch->points[i].tuned);
        if (state->result->count % ROUND_EVERY == 0)
            run_rounds(state, list, list_contenders(state, list), FIRST_RUNS);
    }
    batch->count = 0;
}

static void try_known(struct state *state)
{
    const struct search *search = state->search;
    struct batch batch = batch_of(state);

    for (size_t i = 0; i < search->known_count && !is_over(state); i++)
        if (propose_is_valid(&state->propose, &search->known[i]) && batch_add(&batch, state, &search->known[i]) &&
            batch.count == batch.most)
            try_batch(state, &batch);
    if (batch.count > 0 && !is_over(state))
        try_batch(state, &batch);
}

static void search_space(struct state *state)
{
    struct batch batch = batch_of(state);
    int repeats = 0;

    for (int turn = 0; !is_over(state) && repeats < MAX_REPEATS; turn++) {
        struct tuned tuned = propose_near(&state->propose, choose_start(state, turn), turn % 4 == 3);
        repeats = batch_add(&batch, state, &tuned) ? 0 : repeats + 1;
        if (batch.count < batch.most && (repeats < MAX_REPEATS || batch.count == 0))
            continue;
        try_batch(state, &batch); /* the next proposals may be near these points */
        repeats = 0;
    }
    state->result->budget_too_small =
        !state->result->stopped && repeats < MAX_REPEATS && state->result->count < ROUND_EVERY;
}

/* The default comes first: other points are compared with it and start from it. */
static clattn_status run_default(struct state *state)
{
    const struct tuned default_point = tuned_default(state->search->space);
    struct candidate *candidate = append(state, &default_point);
    enum trial_state outcome;
    clattn_plan *plan;

    if (candidate == NULL)
        return CLATTN_OUT_OF_MEMORY;
    candidate->state = run_candidate(state, candidate);
    if (candidate->state == TRIAL_SLOW) { /* even a slow default is the default, as on one core or an emulator */
        candidate->state = TRIAL_TIMED;
        TRY(trial_plan(&state->trial, &default_point, &plan, &outcome));
        add_samples(state, candidate, plan, 1);
        clattn_plan_destroy(plan);
    }
    if (candidate->state != TRIAL_TIMED)
        return FAIL(&state->search->log, DEVICE_ERROR, "the default of solver %s: %s", state->search->space->name,
                    trial_state_text(candidate->state));
    TRY(trial_plan(&state->trial, &default_point, &plan, &outcome));
    state->base = trial_explicit_point(plan);
    clattn_plan_destroy(plan);
    report_improvement(state, candidate);
    return CLATTN_SUCCESS;
}

static clattn_status run_all(struct state *state)
{
    const struct search *search = state->search;

    TRY(trial_open(&state->trial, search->device, search->space, &search->desc, search->log));
    state->result->tokens = state->trial.tensors.desc.seq_len;
    TRY(problem_init(&state->problem, &state->trial.tensors.desc, &search->log));
    state->propose = (struct propose){search->device->context, &state->problem, search->seed * 0x9e3779b97f4a7c15u};
    TRY(run_default(state));
    if (search->only_default)
        return CLATTN_SUCCESS;
    resume_journal(state);
    try_known(state);
    search_space(state);
    finish(state);
    return CLATTN_SUCCESS;
}

void search_build_ahead(const struct search_events *events, const struct search_point *points, size_t count, int *sound)
{
    for (size_t i = 0; i < count; i++)
        sound[i] = 1;
    for (size_t from = 0; events->build_ahead != NULL && events->width > 1 && from < count; from += events->width)
        events->build_ahead(events->user, points + from, count - from < events->width ? count - from : events->width,
                            sound + from);
}

clattn_status search_build(struct check_device *device, const struct search_point *point)
{
    const struct trial trial = {.device = device, .space = point->tuned.space, .tensors.desc = point->desc};
    enum trial_state outcome;
    clattn_plan *plan;
    clattn_status status = trial_plan(&trial, &point->tuned, &plan, &outcome);

    if (status == CLATTN_SUCCESS)
        program_keep(device->context);
    clattn_plan_destroy(plan);
    return status;
}

clattn_status search_run(const struct search *search, struct search_result *result)
{
    struct state state = {.search = search, .result = result, .start = now_seconds()};
    clattn_status status;

    memset(result, 0, sizeof *result);
    status = run_all(&state);
    result->seconds = elapsed(&state);
    trial_close(&state.trial);
    return status;
}

void search_free(struct search_result *result)
{
    free(result->all);
    memset(result, 0, sizeof *result);
}
