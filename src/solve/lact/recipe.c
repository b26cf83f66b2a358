/* lact's steps. A batch is read by two products, because w0 and w2 are stored as one matrix, and learned from by four.
 * Muon adds fifteen more: for all matrices together if they are square, else for w0 and w2 and for w1. A product with
 * an operand covers all heads of a sequence; the others cover all heads of all sequences.
 *
 * read     [a c] = q [w0 w2]^T, o = (silu(a) o c) w1^T
 * learn    [a c] = k [w0 w2]^T, dh = v w1, [D0 D2] = [da dc]^T k, D1 = v^T h */
#include "op/op.h"
#include "solve/lact/lact.h"

struct lact {
    struct builder *b;
    const struct lact_shape *shape;
    clattn_dtype dtype;
    int64_t H, K, V, F;
    int64_t sequences, most_rows;          /* the plan's sequences; the most rows of a batch */
    ir_expression first_row, rows;         /* of the current batch */
    ir_expression if_rows, if_learning;    /* conditions: the sequences have tokens; the batch is learned from */
    struct product_matrix weights, update; /* in the form that products read */
    struct product_matrix hidden, mixed;   /* a, c and dh; and the results of the kernels for tokens */
    struct product_matrix unit, next;      /* Muon: the current iterate X, and the next one */
    struct product_matrix gram, mix;       /* X X^T, and the factor by which X is multiplied */
};

static const struct product_matrix no_matrix = {.tensor = IR_NONE, .tokens = IR_NONE};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static ir_expression constant(const struct lact *lact, int64_t value)
{
    return build_constant(lact->b, value);
}

/* ---- Places -------------------------------------------------------------------------------------------------------
 */

/* Scratch memory for every sequence, and its first matrix. Kernels find it under the name, unless that is NULL. */
static struct product_matrix add_scratch(const struct lact *lact, const char *bound, const char *name,
                                         clattn_dtype type, struct view strides)
{
    const ir_expression apart[3] = {constant(lact, strides.batch), constant(lact, strides.token),
                                    constant(lact, strides.head)};
    const int tensor = build_scratch_of(lact->b, name, type, lact->sequences * strides.batch, apart);

    if (bound != NULL)
        build_bind(lact->b, bound, tensor);
    return (struct product_matrix){tensor, IR_NONE, 0, strides.token, strides.head, strides.batch};
}

/* The part with w0 and w2, which follow each other; the part with w1, which is behind those of all heads. */
static struct product_matrix of_keys(const struct lact *lact, struct product_matrix x)
{
    x.row = lact->K;
    x.head = 2 * lact->F * lact->K;
    return x;
}

static struct product_matrix of_values(const struct lact *lact, struct product_matrix x)
{
    x.offset = lact->H * 2 * lact->F * lact->K;
    x.row = lact->F;
    x.head = lact->V * lact->F;
    return x;
}

/* The last of a token's three rows: dh, or h. */
static struct product_matrix third(const struct lact *lact, struct product_matrix x)
{
    x.offset = 2 * lact->F;
    return x;
}

/* The batch's rows of an operand. */
static struct product_matrix operand(const struct lact *lact, clattn_operand_id id)
{
    return (struct product_matrix){.tensor = build_operand(lact->b, id), .tokens = lact->first_row};
}

/* The number of elements of the squares of w0's and w2's rows or columns, and of w1's. */
static int64_t gram_of_keys(const struct lact *lact)
{
    const int64_t few = least(lact->F, lact->K);

    return few * few;
}

static int64_t gram_of_values(const struct lact *lact)
{
    const int64_t few = least(lact->F, lact->V);

    return few * few;
}

static void add_muon_scratch(struct lact *lact, struct view weights, struct view norms)
{
    const struct view gram = {.batch = lact->H * (2 * gram_of_keys(lact) + gram_of_values(lact))};

    add_scratch(lact, "squares", "squares", CLATTN_F32, norms);
    lact->unit = add_scratch(lact, "unit", "orthogonal", lact->dtype, weights);
    lact->next = add_scratch(lact, "made", "next orthogonal", lact->dtype, weights);
    lact->gram = add_scratch(lact, NULL, "squared", lact->dtype, gram);
    lact->mix = add_scratch(lact, NULL, "mixed squares", lact->dtype, gram);
}

/* [sequences, weights of all heads], [sequences, heads, rows of weights] and [sequences, heads, rows of a batch, 3 F] */
static void add_all_scratch(struct lact *lact, const clattn_plan_desc *desc)
{
    const int64_t H = lact->H, F = lact->F, weight_rows = 2 * F + lact->V;
    const struct view weights = {.batch = H * F * (2 * lact->K + lact->V)};
    const struct view norms = {0, H * weight_rows, 1, weight_rows};
    const struct view tokens = {0, H * lact->most_rows * 3 * F, 3 * F, lact->most_rows * 3 * F};

    lact->weights = add_scratch(lact, "fast", "weights", CLATTN_F32, weights);
    if (lact->dtype != CLATTN_F32)
        lact->weights = add_scratch(lact, "factors", "weights of products", lact->dtype, weights);
    if (desc->flags & CLATTN_PRE_NORM)
        add_scratch(lact, "sums", "sums of steps", CLATTN_F32, weights);
    add_scratch(lact, "norms", "norms", CLATTN_F32, norms);
    lact->hidden = add_scratch(lact, "hidden", "hidden", lact->dtype == CLATTN_BF16 ? CLATTN_F32 : lact->dtype, tokens);
    lact->mixed = add_scratch(lact, "mixed", "mixed", lact->dtype, tokens);
    lact->update = add_scratch(lact, "update", "step", CLATTN_F32, weights);
    if (desc->flags & CLATTN_WITH_MOMENTUM)
        add_scratch(lact, "moment", "step before", CLATTN_F32, weights);
    if (desc->muon != CLATTN_MUON_NONE)
        add_muon_scratch(lact, weights, norms);
}

/* ---- Steps --------------------------------------------------------------------------------------------------------
 */

static void add_kernel(const struct lact *lact, enum lact_kernel kernel, ir_expression condition)
{
    const struct builder *b = lact->b;
    const ir_expression sequences = build_length(b, IR_SEQUENCES);
    const ir_expression chunks =
        build_binary(b, IR_DIVIDE_UP, lact->rows, constant(lact, lact->shape->tiles.token_rows));
    const struct grid3 of_tokens = {build_binary(b, IR_MULTIPLY, sequences, chunks), lact->H, 1};
    const struct grid3 of_weights = {sequences, lact->H, lact->shape->weight_groups};

    build_kernel_if(lact->b, &lact->shape->kernels[kernel], lact_is_of_tokens(kernel) ? of_tokens : of_weights,
                    condition);
}

/* For all heads, in the operands' type. */
static void add_product(const struct lact *lact, const struct product *product, ir_expression condition)
{
    struct product added = *product;

    added.dtype = lact->dtype;
    if (added.batch == 0)
        added.batch = lact->H;
    build_product_if(lact->b, &added, condition);
}

/* hidden_data.clh, hidden_f32.clh */
static uint32_t hidden_flag(const struct lact *lact)
{
    return lact->dtype == CLATTN_BF16 ? CLATTN_GEMM_F32_D : 0;
}

/* [a c] = x [w0 w2]^T */
static void add_hidden(const struct lact *lact, clattn_operand_id x, ir_expression condition)
{
    const struct product product = {.flags = CLATTN_GEMM_TRANS_B | hidden_flag(lact),
                                    .m = lact->rows,
                                    .n = constant(lact, 2 * lact->F),
                                    .k = constant(lact, lact->K),
                                    .of = {operand(lact, x), of_keys(lact, lact->weights), no_matrix, lact->hidden}};

    add_product(lact, &product, condition);
}

static void add_read(const struct lact *lact)
{
    const struct product out = {
        .flags = CLATTN_GEMM_TRANS_B,
        .m = lact->rows,
        .n = constant(lact, lact->V),
        .k = constant(lact, lact->F),
        .of = {third(lact, lact->mixed), of_values(lact, lact->weights), no_matrix, operand(lact, CLATTN_O)}};

    add_hidden(lact, CLATTN_Q, lact->if_rows);
    add_kernel(lact, LACT_MIX, lact->if_rows);
    add_product(lact, &out, lact->if_rows);
}

static void add_gradients(const struct lact *lact)
{
    const uint32_t sums = CLATTN_GEMM_TRANS_A | CLATTN_GEMM_F32_D;
    const struct product slope = {
        .flags = hidden_flag(lact),
        .m = lact->rows,
        .n = constant(lact, lact->F),
        .k = constant(lact, lact->V),
        .of = {operand(lact, CLATTN_V), of_values(lact, lact->weights), no_matrix, third(lact, lact->hidden)}};
    const struct product keys = {.flags = sums,
                                 .m = constant(lact, 2 * lact->F),
                                 .n = constant(lact, lact->K),
                                 .k = lact->rows,
                                 .of = {lact->mixed, operand(lact, CLATTN_K), no_matrix, of_keys(lact, lact->update)}};
    const struct product values = {
        .flags = sums,
        .m = constant(lact, lact->V),
        .n = constant(lact, lact->F),
        .k = lact->rows,
        .of = {operand(lact, CLATTN_V), third(lact, lact->mixed), no_matrix, of_values(lact, lact->update)}};

    add_hidden(lact, CLATTN_K, lact->if_learning);
    add_product(lact, &slope, lact->if_learning);
    add_kernel(lact, LACT_SLOPE, lact->if_learning);
    add_product(lact, &keys, lact->if_learning);
    add_product(lact, &values, lact->if_learning);
}

/* ---- Muon ---------------------------------------------------------------------------------------------------------
 */

/* Several matrices of the same shape for every sequence, [rows][columns], and the squares of their shorter side. */
struct alike {
    int64_t count, rows, columns, offset, gram_offset;
};

static struct product_matrix whole(const struct alike *alike, struct product_matrix x)
{
    x.offset = alike->offset;
    x.row = alike->columns;
    x.head = alike->rows * alike->columns;
    return x;
}

static struct product_matrix square(const struct alike *alike, struct product_matrix x)
{
    x.offset = alike->gram_offset;
    x.row = least(alike->rows, alike->columns);
    x.head = x.row * x.row;
    return x;
}

/* X <- a X + (b A + c A^2) X, A = X X^T. If X has more rows than columns: a X + X (b A + c A^2), A = X^T X. */
static void add_muon_step(const struct lact *lact, const struct alike *alike, const double abc[3],
                          struct product_matrix from, struct product_matrix to)
{
    const int tall = alike->rows > alike->columns;
    const ir_expression rows = constant(lact, alike->rows), columns = constant(lact, alike->columns);
    const ir_expression few = tall ? columns : rows, many = tall ? rows : columns;
    const struct product_matrix X = whole(alike, from), A = square(alike, lact->gram), B = square(alike, lact->mix);
    const struct product gram = {.flags = tall ? CLATTN_GEMM_TRANS_A : CLATTN_GEMM_TRANS_B,
                                 .m = few,
                                 .n = few,
                                 .k = many,
                                 .batch = alike->count,
                                 .of = {X, X, no_matrix, A}};
    const struct product mix = {.flags = CLATTN_GEMM_WITH_C,
                                .alpha = abc[2],
                                .beta = abc[1],
                                .m = few,
                                .n = few,
                                .k = few,
                                .batch = alike->count,
                                .of = {A, A, A, B}};
    const struct product next = {.flags = CLATTN_GEMM_WITH_C,
                                 .beta = abc[0],
                                 .m = rows,
                                 .n = columns,
                                 .k = few,
                                 .batch = alike->count,
                                 .of = {tall ? X : B, tall ? B : X, X, whole(alike, to)}};

    add_product(lact, &gram, lact->if_learning);
    add_product(lact, &mix, lact->if_learning);
    add_product(lact, &next, lact->if_learning);
}

static void add_muon(const struct lact *lact, clattn_muon muon)
{
    const int64_t H = lact->H, K = lact->K, V = lact->V, F = lact->F;
    const struct alike apart[] = {{2 * H, F, K, 0, 0}, {H, V, F, H * 2 * F * K, 2 * H * gram_of_keys(lact)}};
    const struct alike one = {3 * H, F, F, 0, 0};
    const int same = F == K && F == V;

    for (int i = 0; i < MUON_STEPS; i++)
        for (int kind = 0; kind < (same ? 1 : 2); kind++)
            add_muon_step(lact, same ? &one : &apart[kind], learner_muon(muon)[i], i % 2 == 0 ? lact->unit : lact->next,
                          i % 2 == 0 ? lact->next : lact->unit);
}

static void add_learning(const struct lact *lact, clattn_muon muon)
{
    add_gradients(lact);
    if (muon != CLATTN_MUON_NONE) {
        add_kernel(lact, LACT_MOMENT, lact->if_learning);
        add_kernel(lact, LACT_UNIT, lact->if_learning);
        add_muon(lact, muon);
    }
    add_kernel(lact, LACT_STEP, lact->if_learning);
}

/* ---- The recipe ---------------------------------------------------------------------------------------------------
 */

/* Whether there is a step after the batch: it is complete, and a later batch or the final state needs the result. */
static ir_expression is_learned_from(const struct lact *lact, const clattn_plan_desc *desc)
{
    const ir_expression size = constant(lact, desc->mini_batch);

    if (desc->flags & CLATTN_FINAL_STATE)
        return build_binary(lact->b, IR_LESS, constant(lact, desc->mini_batch - 1), lact->rows);
    return build_binary(lact->b, IR_LESS, build_binary(lact->b, IR_ADD, lact->first_row, size), build_rows(lact->b));
}

/* The rows of a batch, which are those of the loop's iteration; or all rows, if all are learned from first. */
static void find_rows(struct lact *lact, const struct problem *problem)
{
    struct builder *b = lact->b;
    const int loop = build_next_loop(b), all = lact_learns_first(problem);

    lact->first_row = all ? constant(lact, 0) : ir_loop_value(b->ir, IR_LOOP_FIRST, loop);
    lact->rows = all ? build_rows(b) : ir_loop_value(b->ir, IR_LOOP_ROWS, loop);
    lact->if_rows = build_binary(b, IR_LESS, constant(lact, 0), build_rows(b));
    lact->if_learning = all ? lact->if_rows : is_learned_from(lact, &problem->desc);
    build_number(b, "first_row", lact->first_row);
    build_number(b, "stretch_rows", lact->rows);
}

static void add_steps(const struct lact *lact, const clattn_plan_desc *desc, int learns_first)
{
    const int is_final = (desc->flags & CLATTN_FINAL_STATE) != 0;
    int first;

    add_kernel(lact, LACT_OPEN, is_final ? IR_NONE : lact->if_rows);
    first = lact->b->ir->step_count;
    if (learns_first)
        add_learning(lact, desc->muon);
    add_read(lact);
    if (!learns_first) {
        add_learning(lact, desc->muon);
        build_loop(lact->b, first, build_rows(lact->b), desc->mini_batch);
    }
    if (is_final)
        add_kernel(lact, LACT_CLOSE, IR_NONE);
}

clattn_status lact_recipe(struct builder *b, const struct problem *problem, const void *shape)
{
    const clattn_plan_desc *desc = &problem->desc;
    const int learns_first = lact_learns_first(problem);
    struct lact lact = {.b = b,
                        .shape = shape,
                        .dtype = desc->dtype,
                        .H = desc->heads,
                        .K = desc->key_dim,
                        .V = desc->value_dim,
                        .F = desc->hidden_dim,
                        .sequences = desc->batch,
                        .most_rows = learns_first ? desc->seq_len : least(desc->mini_batch, desc->seq_len)};

    find_rows(&lact, problem);
    add_all_scratch(&lact, desc);
    add_steps(&lact, desc, learns_first);
    return CLATTN_SUCCESS;
}
