#include "solve/gemm/tiles.h"

/* ---- Parameters ---------------------------------------------------------------------------------------------------
 */

/* clang-format off */
const struct parameter gemm_tile_parameters[] = {
    PARAMETER_ROW("chunk",   struct gemm_tiles, rows,        16, 32, 64, 128, 256),
    PARAMETER_ROW("block_v", struct gemm_tiles, columns,     16, 32, 64, 128, 256),
    PARAMETER_ROW("block_k", struct gemm_tiles, depth,       8, 16, 32, 64, 128, 256),
    PARAMETER_ROW("rows",    struct gemm_tiles, own_rows,    1, 2, 4, 8, 16),
    PARAMETER_ROW("wide",    struct gemm_tiles, own_columns, 1, 2, 4, 8),
    PARAMETER_ROW("stages",  struct gemm_tiles, stages,      2, 3, 4),
    PARAMETER_ROW("span",    struct gemm_tiles, band,        1, 4, 8, 16),
    PARAMETERS_END,
};
/* clang-format on */

const struct space gemm_space_plain = {"gemm_plain", gemm_tile_parameters, 0, 0, 0, 1};
const struct space gemm_space_engine = {"gemm_engine", gemm_tile_parameters, 0, 0, 1, 1};

/* ---- Shape --------------------------------------------------------------------------------------------------------
 */

void tiles_shape(struct gemm_shape *shape, enum embedded_file file, const struct gemm *gemm, const struct gemm_tiles *t,
                 int vec, int sub_group)
{
    enum { REST = 3 };
    struct kernel_step *step = &shape->step;

    *shape = (struct gemm_shape){.rows = t->rows,
                                 .columns = t->columns,
                                 .reach = {2 * t->rows + REST, 2 * t->columns + REST, 4 * t->depth + REST}};
    *step = kernel_step(file, &gemm->ground);
    step->out = gemm_type(&gemm->desc, GEMM_D);
    step_tile(step, t->group, vec, t->rows, sub_group);
    step_constant(step, "BM", t->rows);
    step_constant(step, "BN", t->columns);
    step_constant(step, "BK", t->depth);
    step_constant(step, "BAND", t->band);
    step_constant(step, "TURNED_A", gemm_turned(gemm, GEMM_A));
}

int64_t tiles_local(struct kernel_step *step, const struct gemm *gemm, const struct gemm_tiles *t,
                    struct tile_pads pads)
{
    const int a_turned = gemm_turned(gemm, GEMM_A), by_columns = pads.right_as_it_lies && gemm_turned(gemm, GEMM_B);
    const int left = (a_turned ? t->rows : t->depth) + pads.left;
    const int right = (by_columns ? t->depth : t->columns) + pads.right;
    const int left_tile = left * (a_turned ? t->depth : t->rows);
    const int right_tile = right * (by_columns ? t->columns : t->depth);

    step_constant(step, "LEFT_PITCH", left);
    step_constant(step, "RIGHT_PITCH", right);
    step_constant(step, "LEFT_TILE", left_tile);
    step_constant(step, "RIGHT_TILE", right_tile);
    return left_tile + right_tile;
}

void tiles_engine(struct kernel_step *step, const struct gemm *gemm, const struct engine *engine,
                  const struct gemm_tiles *t)
{
    step->options = engine->options;
    step->any_group = 1; /* as for the other kernels on matrix engines */
    step_scratch(step, engine->scratch);
    step_constant(step, "ROW_TILES", t->own_rows);
    step_constant(step, "STAGES", t->stages);
    step_constant(step, "TURNED_B", gemm_turned(gemm, GEMM_B));
    step_constant(step, "READERS", 0);
    step_constant(step, "VALUE_TILES", 1);
    step_header(step, engine->instructions);
    step_header(step, engine->words);
    step_copies(step, engine);
}

void tiles_describe(struct text *text, const void *tiles, const struct gemm_shape *shape)
{
    const struct gemm_tiles *t = tiles;

    text_format(text, "group %d, tile %d x %d, depth %d, %d x %d each, stages %d, bands of %d, local %zu bytes\n",
                t->group, t->rows, t->columns, t->depth, t->own_rows, t->own_columns, t->stages, t->band,
                shape->step.local_bytes);
}

/* ---- Heuristics ---------------------------------------------------------------------------------------------------
 */

int tiles_are_for_engine(const clattn_context *context, const struct gemm *gemm)
{
    return context->engine != NULL && gemm->desc.dtype != CLATTN_F32;
}

int halved(int x, int64_t needed, int least)
{
    while (x / 2 >= least && x / 2 >= needed)
        x /= 2;
    return x;
}

int64_t tiles_count(const struct gemm *gemm, const struct gemm_tiles *t)
{
    const clattn_gemm_desc *d = &gemm->desc;

    return divide_up(d->m, t->rows) * divide_up(d->n, t->columns) * d->batch;
}

clattn_status tiles_shrink(const struct device_facts *facts, const struct gemm *gemm, struct gemm_tiles *t,
                           tiles_fn complete, int least_rows, int least_columns)
{
    for (;;) {
        const int sound = complete(facts, gemm, t) == CLATTN_SUCCESS && t->group <= facts->most_group;
        if (sound && tiles_count(gemm, t) >= (int64_t)facts->device->info.compute_units)
            return CLATTN_SUCCESS;
        if (t->rows / 2 >= least_rows && (t->rows >= t->columns || t->columns / 2 < least_columns))
            t->rows /= 2;
        else if (t->columns / 2 >= least_columns)
            t->columns /= 2;
        else if (!sound && t->depth > TILE)
            t->depth /= 2;
        else
            return sound ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
    }
}

clattn_status tiles_choose(const struct device_facts *facts, const struct gemm *gemm, void *tiles, tiles_fn heuristic,
                           tiles_fn complete)
{
    const struct gemm_tiles given = *(const struct gemm_tiles *)tiles;

    TRY(heuristic(facts, gemm, tiles));
    return take_tiles(tiles, &given, sizeof given) ? complete(facts, gemm, tiles) : CLATTN_SUCCESS;
}

/* ---- Steps --------------------------------------------------------------------------------------------------------
 */

/* Views: offset, from matrix to matrix of a sequence, from row to row, from sequence to sequence. */
static void add_matrix(struct builder *b, const struct built_product *product, enum gemm_operand id)
{
    const ir_expression strides[3] = {product_stride(b, product, id, IR_STRIDE_HEAD),
                                      product_stride(b, product, id, IR_STRIDE_TOKEN),
                                      product_stride(b, product, id, IR_STRIDE_BATCH)};

    product_argument(b, product_tensor(b, product, id, strides, 0));
}

void tiles_add(struct builder *b, const struct built_product *product)
{
    const struct product *p = &product->product;
    const struct gemm_shape *shape = &product->choice.shape;
    const ir_expression high = build_binary(b, IR_DIVIDE_UP, p->m, build_constant(b, shape->rows));
    const ir_expression wide = build_binary(b, IR_DIVIDE_UP, p->n, build_constant(b, shape->columns));
    const ir_expression grid[3] = {build_binary(b, IR_MULTIPLY, high, wide), build_constant(b, p->batch),
                                   build_length(b, IR_SEQUENCES)};
    const ir_expression sizes[4] = {p->m, p->n, p->k, build_constant(b, 0)};

    product_kernel(b, product, grid, IR_NONE);
    for (int id = 0; id < GEMM_OPERANDS; id++)
        add_matrix(b, product, (enum gemm_operand)id);
    product_numbers(b, product, sizes, 4);
}
