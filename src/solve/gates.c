/* gates: log-decays from a model's projections, with their bias, scale and map, of all heads of a token.
 *
 * The numbers of all heads are contiguous, so a group computes `chunk` tokens of all heads. A work-item computes
 * `tokens` of the tokens and has their loads in flight together. */
#include "solve/pieces_back.h"

/* A work-item has the loads of its tokens in flight together. */
static void choose(const struct device_facts *facts, const struct problem *problem, struct piece_tiles *t)
{
    enum { RUN = 4, SERIAL_NUMBERS = 4096 };
    const int64_t numbers = problem->desc.heads * problem->desc.value_dim;
    const int64_t wanted = is_serial(facts) ? SERIAL_NUMBERS : (int64_t)RUN * t->group * t->vec;

    t->tokens = RUN;
    for (t->chunk = RUN; t->chunk < 64 * RUN && 2 * t->chunk * numbers <= wanted;)
        t->chunk *= 2;
}

static void add(struct kernel_step *step, const struct problem *problem, const struct piece_tiles *t)
{
    step_constant(step, "HEADS", problem->desc.heads);
    step_constant(step, "RUN", t->tokens);
    step_constant(step, "VECTORS", divide_up(problem->desc.heads * problem->desc.value_dim, t->vec));
}

static struct piece_groups groups(const struct problem *problem, const struct piece_tiles *t)
{
    (void)problem, (void)t;
    return (struct piece_groups){1, 1};
}

/* The backward pass: runs are longer, because each leaves a row of parts. */
static void choose_back(const struct device_facts *facts, const struct problem *problem, struct piece_tiles *t)
{
    enum { RUN = 16, MOST_RUNS = 16, SERIAL_RUN = 256 };
    const int64_t vectors = divide_up(problem->desc.heads * problem->desc.value_dim, t->vec);

    t->tokens = t->chunk = is_serial(facts) ? SERIAL_RUN : RUN;
    while (!is_serial(facts) && t->chunk < MOST_RUNS * RUN && t->chunk / RUN * vectors < t->group)
        t->chunk *= 2;
}

static void share(struct shares *shares, const struct problem *problem, const struct piece_tiles *t)
{
    const int64_t values = problem->desc.value_dim;

    (void)t;
    shares_add(shares, problem, &(struct share){CLATTN_DT_BIAS, "AT_BIAS", values, 0});
    shares_add(shares, problem, &(struct share){CLATTN_A_LOG, "AT_RATE", values, 1});
}

static const struct piece_back_body back = {
    {PIECE_GATES, FILE_gates_back, choose_back, NULL, add, groups}, share, piece_back_runs};
const struct solver solver_gates_back = {PIECE_BACK_SOLVER("gates_back", &back)};

static const struct piece_body body = {PIECE_GATES, FILE_gates, choose, NULL, add, groups};
const struct solver solver_gates = {PIECE_SOLVER("gates", &body)};
