/* lact: the solver's tiles, and the kernels that follow from them. recipe.c has their order. */
#include "solve/lact/lact.h"

#include "solve/solve.h"

static const struct parameter parameters[] = {
    PARAMETER_ROW("vec", struct lact_tiles, vec, 4, 16),
    PARAMETER_ROW("group", struct lact_tiles, group, 1, 32, 64, 128, 256),
    PARAMETER_ROW("lanes_k", struct lact_tiles, weight_lanes, 1, 8, 16, 32, 64),
    PARAMETER_ROW("tokens.chunk", struct lact_tiles, token_rows, 1, 4, 8, 16, 32, 64),
    PARAMETER_ROW("weights.chunk", struct lact_tiles, weight_rows, 4, 8, 16, 32, 64),
    PARAMETERS_END,
};

static int applies(const struct solver *solver, const struct device_facts *facts, const struct problem *problem)
{
    (void)solver, (void)facts;
    return problem->rule->op == OP_LEARNER && problem->rule->model == MODEL_GATED;
}

/* ---- Tiles --------------------------------------------------------------------------------------------------------
 */

/* The number of work-items of a row that have work. */
static int lanes_of(const struct problem *problem, int group, int vec)
{
    enum { MOST_LANES = 32 };
    const int widest = higher(problem->desc.key_dim, problem->desc.hidden_dim);
    int lanes = 1;

    while (2 * lanes <= lower(MOST_LANES, group) && lanes * vec < widest)
        lanes *= 2;
    return lanes;
}

static struct lact_tiles by_heuristic(const struct device_facts *facts, const struct problem *problem)
{
    enum { GROUP = 128, SERIAL_VEC = 16, SHARED_VEC = 4 };
    const int serial = is_serial(facts);
    struct lact_tiles t = {.group = serial ? 1 : lower(GROUP, facts->most_group),
                           .vec = serial ? SERIAL_VEC : SHARED_VEC,
                           .sub_group = serial ? 0 : facts->device->sub_group,
                           .token_rows = serial ? 16 : 8,
                           .weight_rows = serial ? 64 : 16};

    t.token_lanes = t.weight_lanes = lanes_of(problem, t.group, t.vec);
    return t;
}

static clattn_status choose_tiles(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, void *tiles)
{
    const struct lact_tiles usual = by_heuristic(facts, problem);
    struct lact_tiles *t = tiles;

    (void)solver;
    default_to(&t->group, usual.group);
    default_to(&t->vec, usual.vec);
    default_to(&t->sub_group, usual.sub_group);
    default_to(&t->token_rows, usual.token_rows);
    default_to(&t->weight_rows, usual.weight_rows);
    default_to(&t->token_lanes, usual.token_lanes);
    default_to(&t->weight_lanes, usual.weight_lanes);
    t->token_lanes = lower(t->token_lanes, t->group);
    t->weight_lanes = lower(t->weight_lanes, t->group);
    return group_fits(facts, t->group) && t->group % t->token_lanes == 0 && t->group % t->weight_lanes == 0
               ? CLATTN_SUCCESS
               : CLATTN_UNSUPPORTED;
}

/* ---- Shape --------------------------------------------------------------------------------------------------------
 */

/* Whether the kernel's groups compute sums over rows. */
static int has_sums(enum lact_kernel kernel)
{
    return !lact_is_of_tokens(kernel) && kernel != LACT_CLOSE;
}

static struct kernel_step step_of(const struct problem *problem, const struct lact_tiles *t, enum lact_kernel kernel)
{
    static const enum embedded_file files[LACT_KERNELS] = {FILE_lact_open,   FILE_lact_mix,  FILE_lact_slope,
                                                           FILE_lact_moment, FILE_lact_unit, FILE_lact_step,
                                                           FILE_lact_close};
    const clattn_plan_desc *desc = &problem->desc;
    const int of_tokens = lact_is_of_tokens(kernel);
    struct kernel_step step = kernel_step(files[kernel], problem);

    step_tile(&step, t->group, t->vec, of_tokens ? t->token_rows : t->weight_rows, t->sub_group);
    step_constant(&step, "HIDDEN_DIM", desc->hidden_dim);
    step_constant(&step, "HEADS", desc->heads);
    step_constant(&step, "LANES", of_tokens ? t->token_lanes : t->weight_lanes);
    step_constant(&step, "HAS_FACTORS", desc->dtype != CLATTN_F32);
    step_constant(&step, "HAS_MOMENTUM", (desc->flags & CLATTN_WITH_MOMENTUM) != 0);
    step_constant(&step, "FROM_MUON", desc->muon != CLATTN_MUON_NONE);
    step_constant(&step, "PRE_NORM", (desc->flags & CLATTN_PRE_NORM) != 0);
    if (has_sums(kernel))
        step_local(&step, "LOCAL_SUMS", t->group, sizeof(float));
    step_header(&step, desc->dtype == CLATTN_BF16 ? FILE_hidden_f32 : FILE_hidden_data);
    return step;
}

static void add_to_order(struct lact_shape *s, enum lact_kernel kernel)
{
    s->order[s->count++] = kernel;
}

static void find_order(struct lact_shape *s, const struct problem *problem)
{
    s->count = 0;
    add_to_order(s, LACT_OPEN);
    if (!lact_learns_first(problem))
        add_to_order(s, LACT_MIX);
    add_to_order(s, LACT_SLOPE);
    if (problem->desc.muon != CLATTN_MUON_NONE) {
        add_to_order(s, LACT_MOMENT);
        add_to_order(s, LACT_UNIT);
    }
    add_to_order(s, LACT_STEP);
    if (lact_learns_first(problem))
        add_to_order(s, LACT_MIX);
    if (problem->desc.flags & CLATTN_FINAL_STATE)
        add_to_order(s, LACT_CLOSE);
}

static clattn_status derive_shape(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, const void *tiles, void *shape)
{
    struct lact_shape *s = shape;

    (void)solver;
    s->tiles = *(const struct lact_tiles *)tiles;
    s->weight_groups = (int)divide_up(2 * problem->desc.hidden_dim + problem->desc.value_dim, s->tiles.weight_rows);
    find_order(s, problem);
    for (int i = 0; i < LACT_KERNELS; i++) {
        s->kernels[i] = step_of(problem, &s->tiles, (enum lact_kernel)i);
        TRY(step_fits(&s->kernels[i], facts->device));
    }
    return CLATTN_SUCCESS;
}

static struct reach reach(const struct problem *problem, const void *shape)
{
    const struct lact_shape *s = shape;

    return (struct reach){.chunk = s->tiles.token_rows, .parts = 1, .reported = problem->desc.mini_batch};
}

static void describe(struct text *text, const void *shape, int step)
{
    const struct lact_shape *s = shape;
    const struct lact_tiles *t = &s->tiles;
    const int of_tokens = lact_is_of_tokens(s->order[step]);

    text_format(text, "group %d, vec %d, %d rows of %s\n", t->group, t->vec, of_tokens ? t->token_rows : t->weight_rows,
                of_tokens ? "a batch" : "the weights");
}

const struct solver solver_lact = {
    .space = {"lact", parameters, 1024, 0, 0, 1},
    .mode = CLATTN_MODE_CHUNK,
    .rank = 800,
    .tiles_size = sizeof(struct lact_tiles),
    .shape_size = sizeof(struct lact_shape),
    .applies = applies,
    .choose_tiles = choose_tiles,
    .derive_shape = derive_shape,
    .reach = reach,
    .recipe = lact_recipe,
    .describe = describe,
};
