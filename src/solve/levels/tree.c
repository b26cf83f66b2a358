/* levels_tree: levels on a matrix engine, without a walk over the tokens (cl/levels/README.md).
 *
 * prepare: scores and what is solved of each piece of tokens (matrix_scan's)
 * leaf:    what each block of pieces does to a state
 * merge:   the same of two, four, ... blocks, as many launches as levels are left
 * tree:    the outputs of all blocks at once
 * final, tail, position: final states, of the buckets of whole blocks and of the others, and their positions */
#include "solve/levels/levels.h"
#include "solve/matrix_scan/matrix_scan.h"

#include <stddef.h>

enum { PIECE = 32, STAGE_ROWS = 64, TILE = MATRIX_TILE, PAD = 8, STRIP_PITCH = 24, NUMBER = 2, FLOAT = 4, FRAG = 128 };

struct tree_tiles {
    int block, leaf_columns;
    struct state_tile tail;
};

struct tree_shape {
    struct tree_tiles tiles;
    struct part_layout prepare;
    struct kernel_step leaf, merge, tree, final, tail, position;
    int column_groups, final_groups, tail_groups;
    int64_t node; /* words of 32 bits */
};

static const struct parameter parameters[] = {
    PARAMETER_ROW("block", struct tree_tiles, block, 64, 128),
    PARAMETER_ROW("leaf_columns", struct tree_tiles, leaf_columns, 32, 64, 128),
    PARAMETERS_END,
};

/* Rows of up to that many channels are in registers, of values beside those of keys; in whole tiles, two of which
 * prepare multiplies at once. A call begins with no state, so that positions are numbers of tokens. The self-test has
 * tokens of so many levels. */
static int applies(const struct solver *solver, const struct device_facts *facts, const struct problem *problem)
{
    enum { MOST = 128, LEAST_LEVELS = 11 };
    const clattn_plan_desc *desc = &problem->desc;

    (void)solver;
    return levels_apply(problem) && facts->engine != NULL && facts->engine->rows == TILE &&
           facts->engine->key_split == 1 && problem->pass == PASS_OUTPUTS && desc->dtype != CLATTN_F32 &&
           problem_out_type(problem) == desc->dtype && desc->key_dim % (2 * TILE) == 0 && desc->value_dim % TILE == 0 &&
           desc->key_dim <= MOST && desc->value_dim <= MOST && desc->levels >= LEAST_LEVELS &&
           !(desc->flags & (CLATTN_INITIAL_STATE | CLATTN_WITH_STATE_INDICES));
}

static int has_final(const struct problem *problem)
{
    return (problem->desc.flags & CLATTN_FINAL_STATE) != 0;
}

/* The rule without levels, whose scores prepare computes. */
static struct problem rule_without_levels(const struct problem *problem)
{
    struct problem rule = *problem;

    rule.desc.rule = problem->rule->erase == ERASE_NONE ? CLATTN_SIMPLE_GLA : CLATTN_GATED_DELTA_RULE;
    rule.rule = rule_get(rule.desc.rule);
    rule.desc.flags &= ~CLATTN_FINAL_STATE;
    rule.desc.levels = 0;
    rule.desc.chunk = PIECE;
    rule.operand_count = rule_operands(&rule.desc, rule.operands);
    return rule;
}

/* ---- Kernels ------------------------------------------------------------------------------------------------------
 */

/* Every engine leaves the scores to prepare here: none has a scan that makes them. */
static clattn_status derive_prepare(const struct device_facts *facts, const struct problem *problem,
                                    struct part_layout *prepare)
{
    const struct problem rule = rule_without_levels(problem);
    struct engine engine = *facts->engine;
    struct device_facts of_scores = *facts;
    struct matrix_scan_tiles tiles;
    struct part part = {.kind = PART_PREPARE, .problem = &rule, .facts = &of_scores};

    engine.span = 1;
    of_scores.engine = &engine;
    tuned_tiles(NULL, &tiles, sizeof tiles);
    TRY(matrix_scan_choose_tiles(NULL, &of_scores, &rule, &tiles));
    part.tiles = tiles.prepare;
    *prepare = part_layout(&part);
    return part.tiles.chunk == PIECE && !part_traits(&part).made ? step_fits(&prepare->step, facts->device)
                                                                 : CLATTN_UNSUPPORTED;
}

static struct kernel_step step_of(enum embedded_file file, const struct device_facts *facts,
                                  const struct problem *problem, const struct tree_shape *s, int tiles)
{
    enum { VEC = 4 };
    const struct engine *engine = facts->engine;
    struct kernel_step step = kernel_step(file, problem);

    step_tile(&step, tiles * engine->lanes, VEC, s->tiles.block, facts->device->sub_group);
    step.options = engine->options;
    step.any_group = 1;
    step_scratch(&step, engine->scratch);
    step_constant(&step, "VALUE_TILES", tiles);
    step_constant(&step, "READERS", 0);
    step_constant(&step, "FRAG", FRAG);
    step_constant(&step, "LEVELS", problem->desc.levels);
    step_constant(&step, "ERASES", problem->rule->erase != ERASE_NONE);
    step_constant(&step, "RECORD", s->prepare.record);
    step_header(&step, engine->instructions);
    step_header(&step, engine->words);
    return step;
}

static int64_t factor_bytes(const struct problem *problem, int block)
{
    return (int64_t)(block / PIECE) * ((2 + (problem->rule->erase != ERASE_NONE)) * PIECE + 4) * FLOAT;
}

static void derive_leaf(const struct device_facts *facts, const struct problem *problem, struct tree_shape *s)
{
    const int columns = s->tiles.leaf_columns, tiles = columns / TILE;

    s->leaf = step_of(FILE_levels_leaf, facts, problem, s, tiles);
    step_local(&s->leaf, "LOCAL_KEYS", (int64_t)STAGE_ROWS * (problem->desc.key_dim + PAD), NUMBER);
    step_local(&s->leaf, "LOCAL_VALUES", (int64_t)STAGE_ROWS * (columns + PAD), NUMBER);
    step_local(&s->leaf, "LOCAL_STRIPS", (int64_t)tiles * TILE * STRIP_PITCH, NUMBER);
    s->leaf.local_bytes += (size_t)factor_bytes(problem, s->tiles.block);
}

static clattn_status derive_final(const struct device_facts *facts, const struct problem *problem, struct tree_shape *s)
{
    const int columns = s->tiles.leaf_columns, tiles = columns / TILE;

    s->final = step_of(FILE_levels_final, facts, problem, s, tiles);
    step_local(&s->final, "LOCAL_KEYS", (int64_t)STAGE_ROWS * (problem->desc.key_dim + PAD), NUMBER);
    step_local(&s->final, "LOCAL_STRIPS", (int64_t)tiles * TILE * STRIP_PITCH, NUMBER);
    s->final.local_bytes += (size_t)factor_bytes(problem, STAGE_ROWS);
    s->final_groups = (int)divide_up(problem->desc.value_dim, columns);
    s->tail = levels_tokens_step(problem, &s->tiles.tail, s->tiles.block);
    s->tail_groups = value_groups(problem, s->tiles.tail.block_v);
    s->position = levels_position_step(problem);
    TRY(step_fits(&s->tail, facts->device));
    return step_fits(&s->final, facts->device);
}

/* The place of keys is that of each sub-group's strip first. */
static void derive_tree(const struct device_facts *facts, const struct problem *problem, struct tree_shape *s)
{
    const int64_t K = problem->desc.key_dim, V = problem->desc.value_dim, pitch = PIECE + PAD;
    const int64_t strips = s->tiles.block * pitch, keys = STAGE_ROWS * (K + PAD);

    s->tree = step_of(FILE_levels_tree, facts, problem, s, s->tiles.block / TILE);
    step_local(&s->tree, "LOCAL_KEYS", keys > strips ? keys : strips, NUMBER);
    step_local(&s->tree, "LOCAL_VALUES", STAGE_ROWS * (V + PAD), NUMBER);
    step_local(&s->tree, "LOCAL_INVERSES", problem->rule->erase != ERASE_NONE ? STAGE_ROWS * pitch : 1, NUMBER);
    s->tree.local_bytes += (size_t)factor_bytes(problem, s->tiles.block);
}

static clattn_status derive_shape(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, const void *tiles, void *shape)
{
    const int64_t K = problem->desc.key_dim, V = problem->desc.value_dim;
    const int64_t columns = V + (problem->rule->erase != ERASE_NONE ? K : 0);
    struct tree_shape *s = shape;

    (void)solver;
    s->tiles = *(const struct tree_tiles *)tiles;
    s->node = columns * K * NUMBER / FLOAT;
    s->column_groups = (int)divide_up(columns, s->tiles.leaf_columns);
    TRY(derive_prepare(facts, problem, &s->prepare));
    derive_leaf(facts, problem, s);
    derive_tree(facts, problem, s);
    s->merge = step_of(FILE_levels_merge, facts, problem, s, (int)(K / TILE));
    step_local(&s->merge, "LOCAL_STRIPS", K * STRIP_PITCH, NUMBER);
    TRY(derive_final(facts, problem, s));
    TRY(step_fits(&s->leaf, facts->device));
    TRY(step_fits(&s->merge, facts->device));
    return step_fits(&s->tree, facts->device);
}

/* ---- Tiles --------------------------------------------------------------------------------------------------------
 */

static clattn_status fits(const struct device_facts *facts, const struct problem *problem, const struct tree_tiles *t)
{
    const int lanes = facts->engine->lanes;
    struct tree_shape shape;

    if ((size_t)(t->block / TILE * lanes) > facts->device->info.max_work_group ||
        (size_t)(t->leaf_columns / TILE * lanes) > facts->device->info.max_work_group ||
        (size_t)(problem->desc.key_dim / TILE * lanes) > facts->device->info.max_work_group)
        return CLATTN_UNSUPPORTED;
    return derive_shape(NULL, facts, problem, t, &shape);
}

/* A block of 128 tokens has half as many nodes as one of 64, each of which is read by twice as many rows. */
static clattn_status choose_tiles(const struct solver *solver, const struct device_facts *facts,
                                  const struct problem *problem, void *tiles)
{
    enum { USUAL = 128, LEAST = 64, COLUMNS = 64 };
    struct tree_tiles *t = tiles;
    const int asked = t->block != TILE_OPEN ? t->block : problem->desc.chunk;

    (void)solver;
    default_to(&t->leaf_columns, COLUMNS);
    TRY(levels_tokens_tile(facts, problem, &t->tail));
    t->block = asked != 0 ? asked : USUAL;
    if (t->block != USUAL && t->block != LEAST)
        return CLATTN_UNSUPPORTED;
    if (asked == 0 && fits(facts, problem, t) != CLATTN_SUCCESS)
        t->block = LEAST;
    return fits(facts, problem, t);
}

/* Of all ways on a matrix engine this one has the fewest products. */
static enum preference prefers(const struct device_facts *facts, const struct problem *problem)
{
    enum { LEAST_TOKENS = 512 };
    struct tree_tiles tiles;

    tuned_tiles(NULL, &tiles, sizeof tiles);
    return applies(NULL, facts, problem) && problem_rows(problem) > LEAST_TOKENS &&
                   choose_tiles(NULL, facts, problem, &tiles) == CLATTN_SUCCESS
               ? PREFERENCE_IN_MODE
               : PREFERENCE_NONE;
}

/* Some nodes are to be merged. */
static struct reach reach(const struct problem *problem, const void *shape)
{
    enum { PARTS = 2 };

    (void)problem;
    return (struct reach){.chunk = ((const struct tree_shape *)shape)->tiles.block, .parts = PARTS};
}

/* ---- Recipe -------------------------------------------------------------------------------------------------------
 */

static void bind_scratch(struct builder *b, const struct problem *problem, const struct tree_shape *s)
{
    const int64_t heads = problem_work_heads(problem), blocks = most_slots(problem, s->tiles.block) * heads;
    const int64_t fades = problem->rule->erase == ERASE_NONE ? blocks * problem->desc.levels : 0;

    build_bind(b, "records",
               build_scratch(b, "records", CLATTN_F32, most_slots(problem, PIECE) * heads * s->prepare.record));
    build_bind(b, "rows", IR_NONE);
    build_bind(b, "nodes", build_scratch(b, "nodes", CLATTN_F32, blocks * s->node));
    build_bind(b, "fades", fades > 0 ? build_scratch(b, "fades", CLATTN_F32, fades) : IR_NONE);
}

/* Pairs of blocks, of two, ... of which the last block of a sequence reads one, or its final state has one. */
static void add_merges(struct builder *b, const struct problem *problem, const struct tree_shape *s)
{
    const int64_t heads = problem_work_heads(problem);
    const ir_expression last =
        build_binary(b, IR_SUBTRACT, build_length(b, IR_TOKENS), build_constant(b, has_final(problem) ? 0 : 1));
    const ir_expression blocks = build_binary(b, IR_DIVIDE, last, build_constant(b, s->tiles.block));
    const ir_expression bits = build_binary(b, IR_BITS, blocks, blocks);
    const ir_expression count =
        build_binary(b, IR_HIGHER, build_binary(b, IR_SUBTRACT, bits, build_constant(b, 1)), build_constant(b, 0));
    const int loop = build_open_loop(b, count, 1);

    build_number(b, "level", ir_loop_value(b->ir, IR_LOOP_TURN, loop));
    build_kernel(b, &s->merge,
                 (struct grid3){build_binary(b, IR_MULTIPLY, build_slots(b, s->tiles.block),
                                             build_binary(b, IR_LOWER, count, build_constant(b, 1))),
                                heads, 1});
    build_close_loop(b, loop);
}

static void add_final(struct builder *b, const struct problem *problem, const struct tree_shape *s)
{
    const int64_t heads = problem_work_heads(problem);

    build_kernel(b, &s->final, (struct grid3){build_length(b, IR_SEQUENCES), heads, s->final_groups});
    levels_add_tail(b, &s->tail, &s->position, &s->tiles.tail, s->tail_groups);
}

static clattn_status recipe(struct builder *b, const struct problem *problem, const void *shape)
{
    const struct tree_shape *s = shape;
    const int64_t heads = problem_work_heads(problem);
    const ir_expression slots = build_slots(b, s->tiles.block);

    bind_scratch(b, problem, s);
    build_number(b, "slot_count", slots);
    build_kernel(b, &s->prepare.step, (struct grid3){build_slots(b, PIECE), heads, 1});
    build_kernel(b, &s->leaf, (struct grid3){slots, heads, s->column_groups});
    add_merges(b, problem, s);
    build_kernel(b, &s->tree, (struct grid3){slots, heads, 1});
    if (has_final(problem))
        add_final(b, problem, s);
    return CLATTN_SUCCESS;
}

static void describe(struct text *text, const void *shape, int step)
{
    const struct tree_shape *s = shape;
    const struct kernel_step *const steps[] = {&s->prepare.step, &s->leaf, &s->merge,   &s->tree,
                                               &s->final,        &s->tail, &s->position};

    text_format(text, "group %d, block %d, leaf columns %d, local %zu bytes\n", steps[step]->group, s->tiles.block,
                s->tiles.leaf_columns, steps[step]->local_bytes);
}

const struct solver solver_levels_tree = {
    .space = {"levels_tree", parameters, 1024, 0, 1, 1},
    .mode = CLATTN_MODE_CHUNK,
    .rank = 968,
    .shared = 1,
    .tiles_size = sizeof(struct tree_tiles),
    .shape_size = sizeof(struct tree_shape),
    .prefers = prefers,
    .applies = applies,
    .choose_tiles = choose_tiles,
    .derive_shape = derive_shape,
    .reach = reach,
    .recipe = recipe,
    .describe = describe,
};
