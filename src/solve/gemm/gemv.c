/* A product of few rows, or by its transpose few columns: each number of the other operand, the weights, is read once and
 * multiplied with all of them. cl/gemm/gemv.cl */
#include "solve/gemm/way.h"

struct gemv_tiles {
    int group;       /* work-items */
    int vec;         /* floats that a work-item works at once */
    int depth_lanes; /* work-items that share columns */
    int own_columns; /* columns of a work-item, or vectors of them where weights lie in rows */
};

/* clang-format off */
static const struct parameter parameters[] = {
    PARAMETER_ROW("group",   struct gemv_tiles, group,       1, 64, 128, 256),
    PARAMETER_ROW("lanes_k", struct gemv_tiles, depth_lanes, 1, 8, 16, 32, 64, 128),
    PARAMETER_ROW("wide",    struct gemv_tiles, own_columns, 1, 2, 4, 8),
    PARAMETERS_END,
};
/* clang-format on */
static const struct space gemv_space = {"gemm_gemv", parameters, 0, 0, 0, 1};

static int is_transposed(const struct gemm *gemm)
{
    return gemm->desc.m > gemm->desc.n;
}

/* Whether the weights lie as [column][depth] */
static int weights_turned(const struct gemm *gemm)
{
    return is_transposed(gemm) ? !gemm_turned(gemm, GEMM_A) : gemm_turned(gemm, GEMM_B);
}

static int columns_of(const struct gemm *gemm, const struct gemv_tiles *t)
{
    return t->group / t->depth_lanes * t->own_columns * (weights_turned(gemm) ? 1 : t->vec);
}

static void derive_shape(const struct device_facts *facts, const struct gemm *gemm, const void *tiles,
                         struct gemm_shape *shape)
{
    enum { LONG = 533 };
    const struct gemv_tiles *t = tiles;
    struct kernel_step *step = &shape->step;

    *shape = (struct gemm_shape){.rows = gemm_few(gemm),
                                 .columns = columns_of(gemm, t),
                                 .fixed_rows = !is_transposed(gemm),
                                 .transposed = is_transposed(gemm),
                                 .reach = {LONG, LONG, LONG}};
    *step = kernel_step(FILE_gemv, &gemm->ground);
    step->out = gemm_type(&gemm->desc, GEMM_D);
    step_tile(step, t->group, t->vec, 1, t->vec == SERIAL_VEC ? 0 : facts->device->sub_group);
    step_constant(step, "ROWS", gemm_few(gemm));
    step_constant(step, "WIDE", t->own_columns);
    step_constant(step, "TURNED_B", weights_turned(gemm));
    step_constant(step, "DEPTH_LANES", t->depth_lanes);
    step_local(step, "LOCAL_PARTS", (int64_t)t->depth_lanes * shape->columns, sizeof(float));
    step_header(step, t->vec == SERIAL_VEC ? FILE_gemv_serial : FILE_gemv_shared);
}

static clattn_status check(const struct device_facts *facts, const struct gemm *gemm, const struct gemv_tiles *t)
{
    enum { MOST_SUMS = 256 };
    struct gemm_shape shape;

    if (t->group < 1 || (size_t)t->group > facts->device->info.max_work_group || t->depth_lanes > t->group ||
        gemm_few(gemm) * t->own_columns > MOST_SUMS)
        return CLATTN_UNSUPPORTED;
    derive_shape(facts, gemm, t, &shape);
    return step_fits(&shape.step, facts->device);
}

static struct gemv_tiles heuristic(const struct device_facts *facts, const struct gemm *gemm)
{
    const int along = weights_turned(gemm), serial = facts->device->serial, most_group = facts->most_group;
    const struct gemv_tiles shared = {most_group, SHARED_VEC, along || most_group < 64 ? 32 : 64, along ? 2 : 1};
    const int most_columns = serial ? 8 : 16;

    if (serial || most_group < shared.depth_lanes)
        return (struct gemv_tiles){1, SERIAL_VEC, 1, along ? 4 : lower(16 / gemm_few(gemm), most_columns)};
    return shared;
}

static clattn_status choose_tiles(const struct device_facts *facts, const struct gemm *gemm, void *tiles)
{
    const struct gemv_tiles given = *(const struct gemv_tiles *)tiles;
    struct gemv_tiles *t = tiles;

    *t = heuristic(facts, gemm);
    TRY(check(facts, gemm, t));
    return take_tiles(t, &given, sizeof given) ? check(facts, gemm, t) : CLATTN_SUCCESS;
}

static int applies(clattn_context *context, const struct gemm *gemm)
{
    (void)context;
    return gemm_few(gemm) > 0;
}

static void describe(struct text *text, const void *tiles, const struct gemm_shape *shape)
{
    const struct gemv_tiles *t = tiles;

    text_format(text, "group %d, vec %d, %d rows, %d columns, %d lanes along the depth\n", t->group, t->vec,
                shape->rows, shape->columns, t->depth_lanes);
}

/* Views: offset, from matrix to matrix, from row to row, from column to column; of the weights from row to row as they
 * lie. */
static void add_matrix(struct builder *b, const struct built_product *product, enum gemm_operand id, int is_weights)
{
    const ir_expression one = build_constant(b, 1), apart = product_apart(b, product, id);
    const ir_expression row = product_stride(b, product, id, IR_STRIDE_TOKEN);
    const int across = gemm_turned(&product->gemm, id) != product->choice.shape.transposed;
    const ir_expression strides[3] = {apart, across && !is_weights ? one : row, across ? row : one};

    product_argument(b, product_tensor(b, product, id, strides, 1));
}

static void add(struct builder *b, const struct built_product *product)
{
    const struct gemm_shape *shape = &product->choice.shape;
    const ir_expression columns = shape->transposed ? product->product.m : product->product.n;
    const ir_expression grid[3] = {build_binary(b, IR_DIVIDE_UP, columns, build_constant(b, shape->columns)),
                                   product_batch(b, product), build_constant(b, 1)};
    const ir_expression sizes[2] = {columns, product->product.k};

    product_kernel(b, product, grid, product_parts(b, product));
    add_matrix(b, product, shape->transposed ? GEMM_B : GEMM_A, 0);
    add_matrix(b, product, shape->transposed ? GEMM_A : GEMM_B, 1);
    add_matrix(b, product, GEMM_C, 0);
    add_matrix(b, product, GEMM_D, 0);
    product_numbers(b, product, sizes, 2);
}

const struct gemm_way gemm_gemv = {.provider = "gemv",
                                   .space = &gemv_space,
                                   .fixed = 1,
                                   .tiles_size = sizeof(struct gemv_tiles),
                                   .applies = applies,
                                   .choose_tiles = choose_tiles,
                                   .derive_shape = derive_shape,
                                   .add = add,
                                   .describe = describe};
