/* lact as matrix products and small kernels between them. A batch is read by two products, for w0 and w2 lie as one
 * matrix, and learned from by four; with muon fifteen more of all matrices at once, where these are square, else of w0
 * and w2 and of w1. A product of operands is of all heads of a sequence, the others are of all there are.
 *
 *     [a c] = q [w0 w2]^T, o = (silu(a) o c) w1^T
 *     [a c] = k [w0 w2]^T, dh = v w1, [D0 D2] = [da dc]^T k, D1 = v^T h */
#include "op/op.h"
#include "plan/recipe.h"

#include <stddef.h>

struct lact {
    const struct recipe_maker *maker;
    int64_t H, K, V, F, sequences, rows; /* rows: of a batch, at the most */
    clattn_dtype dtype;
    struct matrix weights, step, hidden, mixed, unit, next, gram, mix; /* as products find them */
};

static const struct matrix none;

/* ---- Places -------------------------------------------------------------------------------------------------------
 */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Of w0 and w2, one after the other; of w1, behind those of all heads. */
static struct matrix of_keys(const struct lact *lact, struct matrix x)
{
    x.row = lact->K;
    x.head = 2 * lact->F * lact->K;
    return x;
}

static struct matrix of_values(const struct lact *lact, struct matrix x)
{
    x.at = lact->H * 2 * lact->F * lact->K;
    x.row = lact->F;
    x.head = lact->V * lact->F;
    return x;
}

/* The last of a token's three rows: dh, or h. */
static struct matrix third(const struct lact *lact, struct matrix x)
{
    x.at = 2 * lact->F;
    return x;
}

static struct matrix operand(clattn_operand_id id)
{
    return (struct matrix){.source = {SOURCE_OPERAND, (int)id}};
}

/* Numbers of the squares of w0 and w2's rows or columns, and of w1's. */
static int64_t gram_of_keys(const struct lact *lact)
{
    int64_t few = least(lact->F, lact->K);

    return few * few;
}

static int64_t gram_of_values(const struct lact *lact)
{
    int64_t few = least(lact->F, lact->V);

    return few * few;
}

static void lay_out_muon(struct lact *lact, struct view weights)
{
    const struct recipe_maker *maker = lact->maker;
    const int64_t rows = 2 * lact->F + lact->V;
    const struct view gram = {.batch = lact->H * (2 * gram_of_keys(lact) + gram_of_values(lact))};

    maker_lay(maker, TEMPORARY_SQUARES, CLATTN_F32, lact->sequences, (struct view){0, lact->H * rows, 1, rows});
    lact->unit = maker_lay(maker, TEMPORARY_UNIT, lact->dtype, lact->sequences, weights);
    lact->next = maker_lay(maker, TEMPORARY_UNIT_NEXT, lact->dtype, lact->sequences, weights);
    lact->gram = maker_lay(maker, TEMPORARY_GRAM, lact->dtype, lact->sequences, gram);
    lact->mix = maker_lay(maker, TEMPORARY_GRAM_MIX, lact->dtype, lact->sequences, gram);
}

static void lay_out(struct lact *lact)
{
    const struct recipe_maker *maker = lact->maker;
    const clattn_plan_desc *desc = &maker->problem->desc;
    const int64_t H = lact->H, F = lact->F, rows = 2 * F + lact->V;
    const struct view weights = {.batch = H * F * (2 * lact->K + lact->V)};
    const struct view tokens = {0, H * lact->rows * 3 * F, 3 * F, lact->rows * 3 * F};

    lact->weights = maker_lay(maker, TEMPORARY_FAST, CLATTN_F32, lact->sequences, weights);
    if (lact->dtype != CLATTN_F32)
        lact->weights = maker_lay(maker, TEMPORARY_FACTORS, lact->dtype, lact->sequences, weights);
    if (desc->flags & CLATTN_PRE_NORM)
        maker_lay(maker, TEMPORARY_SUMS, CLATTN_F32, lact->sequences, weights);
    if (desc->flags & CLATTN_WITH_MOMENTUM)
        maker_lay(maker, TEMPORARY_MOMENT, CLATTN_F32, lact->sequences, weights);
    lact->step = maker_lay(maker, TEMPORARY_STEP, CLATTN_F32, lact->sequences, weights);
    maker_lay(maker, TEMPORARY_NORMS, CLATTN_F32, lact->sequences, (struct view){0, H * rows, 1, rows});
    lact->hidden = maker_lay(maker, TEMPORARY_HIDDEN, lact->dtype == CLATTN_BF16 ? CLATTN_F32 : lact->dtype,
                             lact->sequences, tokens);
    lact->mixed = maker_lay(maker, TEMPORARY_MIXED, lact->dtype, lact->sequences, tokens);
    if (desc->muon != CLATTN_MUON_NONE)
        lay_out_muon(lact, weights);
}

/* ---- Steps --------------------------------------------------------------------------------------------------------
 */

static clattn_status add_kernel(const struct lact *lact, enum kernel_id kernel, enum when when)
{
    const struct variant variant = maker_variant(lact->maker, kernel);
    int tokens = kernel == KERNEL_LACT_MIX || kernel == KERNEL_LACT_SLOPE;
    struct step *step;

    TRY(maker_add(lact->maker, &variant, tokens ? GRID_SLOTS : GRID_SEQUENCES, &step));
    step->when = when;
    return CLATTN_SUCCESS;
}

static clattn_status add_product(const struct lact *lact, const struct product *product, enum when when)
{
    struct product added = *product;
    struct step *step;

    added.desc.dtype = lact->dtype;
    if (added.desc.batch == 0)
        added.desc.batch = lact->H;
    TRY(maker_add_product(lact->maker, &added, &step));
    step->when = when;
    return CLATTN_SUCCESS;
}

/* hidden_data.clh, hidden_f32.clh */
static uint32_t hidden_flag(const struct lact *lact)
{
    return lact->dtype == CLATTN_BF16 ? CLATTN_GEMM_F32_D : 0;
}

/* [a c] = x [w0 w2]^T */
static clattn_status add_hidden(const struct lact *lact, clattn_operand_id x, enum when when)
{
    const struct product product = {
        .desc = {.flags = CLATTN_GEMM_TRANS_B | hidden_flag(lact), .m = lact->rows, .n = 2 * lact->F, .k = lact->K},
        .m = LENGTH_ROWS,
        .of = {operand(x), of_keys(lact, lact->weights), none, lact->hidden}};

    return add_product(lact, &product, when);
}

static clattn_status add_read(const struct lact *lact)
{
    const struct product out = {
        .desc = {.flags = CLATTN_GEMM_TRANS_B, .m = lact->rows, .n = lact->V, .k = lact->F},
        .m = LENGTH_ROWS,
        .of = {third(lact, lact->mixed), of_values(lact, lact->weights), none, operand(CLATTN_O)}};

    TRY(add_hidden(lact, CLATTN_Q, WHEN_ROWS));
    TRY(add_kernel(lact, KERNEL_LACT_MIX, WHEN_ROWS));
    return add_product(lact, &out, WHEN_ROWS);
}

static clattn_status add_gradients(const struct lact *lact, enum when when)
{
    const uint32_t sums = CLATTN_GEMM_TRANS_A | CLATTN_GEMM_F32_D;
    const struct product slope = {
        .desc = {.flags = hidden_flag(lact), .m = lact->rows, .n = lact->F, .k = lact->V},
        .m = LENGTH_ROWS,
        .of = {operand(CLATTN_V), of_values(lact, lact->weights), none, third(lact, lact->hidden)}};
    const struct product keys = {.desc = {.flags = sums, .m = 2 * lact->F, .n = lact->K, .k = lact->rows},
                                 .k = LENGTH_ROWS,
                                 .of = {lact->mixed, operand(CLATTN_K), none, of_keys(lact, lact->step)}};
    const struct product values = {
        .desc = {.flags = sums, .m = lact->V, .n = lact->F, .k = lact->rows},
        .k = LENGTH_ROWS,
        .of = {operand(CLATTN_V), third(lact, lact->mixed), none, of_values(lact, lact->step)}};

    TRY(add_hidden(lact, CLATTN_K, when));
    TRY(add_product(lact, &slope, when));
    TRY(add_kernel(lact, KERNEL_LACT_SLOPE, when));
    TRY(add_product(lact, &keys, when));
    return add_product(lact, &values, when);
}

/* ---- Muon ---------------------------------------------------------------------------------------------------------
 */

/* So many matrices of every sequence, [rows][columns], and the squares of the shorter side. */
struct alike {
    int64_t count, rows, columns, at, gram_at;
};

static struct matrix whole(const struct alike *alike, struct matrix x)
{
    x.at = alike->at;
    x.row = alike->columns;
    x.head = alike->rows * alike->columns;
    return x;
}

static struct matrix square(const struct alike *alike, struct matrix x)
{
    x.at = alike->gram_at;
    x.row = least(alike->rows, alike->columns);
    x.head = x.row * x.row;
    return x;
}

/* X <- a X + (b A + c A^2) X, A = X X^T; where X is tall, a X + X (b A + c A^2), A = X^T X. */
static clattn_status add_muon_step(const struct lact *lact, const struct alike *alike, const double abc[3],
                                   struct matrix from, struct matrix to, enum when when)
{
    const int tall = alike->rows > alike->columns;
    const int64_t few = least(alike->rows, alike->columns), many = alike->rows + alike->columns - few;
    const struct matrix X = whole(alike, from), A = square(alike, lact->gram), B = square(alike, lact->mix);
    const struct product gram = {.desc = {.flags = tall ? CLATTN_GEMM_TRANS_A : CLATTN_GEMM_TRANS_B,
                                          .m = few,
                                          .n = few,
                                          .k = many,
                                          .batch = alike->count},
                                 .of = {X, X, none, A}};
    const struct product mix = {.desc = {.flags = CLATTN_GEMM_WITH_C,
                                         .m = few,
                                         .n = few,
                                         .k = few,
                                         .batch = alike->count,
                                         .alpha = abc[2],
                                         .beta = abc[1]},
                                .of = {A, A, A, B}};
    const struct product next = {.desc = {.flags = CLATTN_GEMM_WITH_C,
                                          .m = alike->rows,
                                          .n = alike->columns,
                                          .k = few,
                                          .batch = alike->count,
                                          .beta = abc[0]},
                                 .of = {tall ? X : B, tall ? B : X, X, whole(alike, to)}};

    TRY(add_product(lact, &gram, when));
    TRY(add_product(lact, &mix, when));
    return add_product(lact, &next, when);
}

static clattn_status add_muon(const struct lact *lact, clattn_muon muon, enum when when)
{
    const int64_t H = lact->H, K = lact->K, V = lact->V, F = lact->F;
    const struct alike apart[] = {{2 * H, F, K, 0, 0}, {H, V, F, H * 2 * F * K, 2 * H * gram_of_keys(lact)}};
    const struct alike one = {3 * H, F, F, 0, 0};
    const int same = F == K && F == V;

    for (int i = 0; i < MUON_STEPS; i++)
        for (int kind = 0; kind < (same ? 1 : 2); kind++)
            TRY(add_muon_step(lact, same ? &one : &apart[kind], learner_muon(muon)[i],
                              i % 2 == 0 ? lact->unit : lact->next, i % 2 == 0 ? lact->next : lact->unit, when));
    return CLATTN_SUCCESS;
}

static clattn_status add_learning(const struct lact *lact, enum when when)
{
    clattn_muon muon = lact->maker->problem->desc.muon;

    TRY(add_gradients(lact, when));
    if (muon != CLATTN_MUON_NONE) {
        TRY(add_kernel(lact, KERNEL_LACT_MOMENT, when));
        TRY(add_kernel(lact, KERNEL_LACT_UNIT, when));
        TRY(add_muon(lact, muon, when));
    }
    return add_kernel(lact, KERNEL_LACT_STEP, when);
}

/* ---- The recipe ---------------------------------------------------------------------------------------------------
 */

static clattn_status make_lact(const struct recipe_maker *maker)
{
    const clattn_plan_desc *desc = &maker->problem->desc;
    const int whole = (desc->flags & CLATTN_NONCAUSAL) != 0, last = (desc->flags & CLATTN_FINAL_STATE) != 0;
    struct recipe *recipe = maker->recipe;
    struct lact lact = {.maker = maker,
                        .H = desc->heads,
                        .K = desc->key_dim,
                        .V = desc->value_dim,
                        .F = desc->hidden_dim,
                        .sequences = desc->batch,
                        .rows = whole ? desc->seq_len : least(desc->mini_batch, desc->seq_len),
                        .dtype = desc->dtype};

    lay_out(&lact);
    TRY(add_kernel(&lact, KERNEL_LACT_OPEN, last ? WHEN_ALWAYS : WHEN_ROWS));
    recipe->loop_first = recipe->step_count;
    if (whole)
        TRY(add_learning(&lact, WHEN_ROWS));
    TRY(add_read(&lact));
    if (!whole)
        TRY(add_learning(&lact, last ? WHEN_WHOLE : WHEN_NOT_LAST));
    recipe->loop_last = recipe->step_count - 1;
    recipe->loop_rows = whole ? 0 : desc->mini_batch;
    return last ? add_kernel(&lact, KERNEL_LACT_CLOSE, WHEN_ALWAYS) : CLATTN_SUCCESS;
}

const struct old_solver old_lact = {"lact", make_lact};
