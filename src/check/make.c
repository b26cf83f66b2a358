/* Draws inputs. Every element is a function of seed, operand and index alone, so that a tensor does not change if
 * another operand or a longer batch joins it, and is the same on every platform. */
#include "check/check.h"

#include "op/problem.h"
#include "reference/number.h"
#include "base/thread.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct source {
    const clattn_plan_desc *desc;
    uint64_t seed; /* of this operand */
    enum check_gates gates;
};

typedef double (*draw)(const struct source *source, int64_t i);

/* the finaliser of splitmix64 */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint64_t random_bits(const struct source *source, int64_t i, uint64_t lane)
{
    return mix(source->seed + ((uint64_t)i * 8 + lane + 1) * 0x9e3779b97f4a7c15u);
}

/* [0, 1) */
static double uniform(const struct source *source, int64_t i)
{
    return (double)(random_bits(source, i, 0) >> 11) * 0x1p-53;
}

/* Nearly N(0, 1), within +-6: the sum of twelve uniform numbers, exact on every platform. */
static double draw_normal(const struct source *source, int64_t i)
{
    double sum = 12 * 0x1p-17 - 6;

    for (uint64_t lane = 0; lane < 3; lane++)
        for (uint64_t bits = random_bits(source, i, lane), part = 0; part < 4; part++, bits >>= 16)
            sum += (double)(bits & 0xffff) * 0x1p-16;
    return sum;
}

/* Chooses among the kinds of hard values for element i: 0 to 31. 31 is none. */
static int hard_kind(const struct source *source, int64_t i)
{
    return source->gates == CHECK_GATES_HARD ? (int)(random_bits(source, i, 4) >> 59) : 31;
}

/* Dividing by the normalizer is well conditioned if its terms have one sign. */
static double draw_query(const struct source *source, int64_t i)
{
    double x = draw_normal(source, i);

    return source->desc->flags & CLATTN_NORMALIZE ? fabs(x) : x;
}

static double draw_key(const struct source *source, int64_t i)
{
    double x = draw_query(source, i);

    return source->desc->flags & CLATTN_QK_L2NORM ? x : x / sqrt((double)source->desc->key_dim);
}

static double slowed(const struct source *source, double decay)
{
    return source->gates == CHECK_GATES_SLOW ? decay / 100 : decay;
}

/* Log-decays: mostly small, with mean -1/4. Of the hard ones half are 0, one in 32 each is -1000 and -inf, some are
 * large. */
static double draw_decay(const struct source *source, int64_t i)
{
    double x = uniform(source, i);
    int kind = hard_kind(source, i);

    if (kind == 0)
        return -1000;
    if (kind == 1)
        return (double)-INFINITY;
    if (kind < 4)
        return -90 * x;
    return kind < 20 ? 0 : slowed(source, -x * x * x);
}

/* mlstm's forget gate: log-sigmoid of N(2, 1), or as hard as the other decays. */
static double draw_forget(const struct source *source, int64_t i)
{
    if (hard_kind(source, i) < 20)
        return draw_decay(source, i);
    return slowed(source, -log1p(exp(-2 - draw_normal(source, i))));
}

/* The input of a gate_map whose log-decay is mostly small. Hard ones forget all or nothing. */
static double draw_raw(const struct source *source, int64_t i)
{
    double sign = source->desc->gate_map == CLATTN_GATE_MAP_LOGSIGMOID ? -1 : 1;
    int kind = hard_kind(source, i);

    if (kind < 2)
        return sign * (kind == 0 ? 1000 : (double)INFINITY);
    return sign *
           (kind < 20 && kind >= 4 ? -1000 : draw_normal(source, i) - (source->gates == CHECK_GATES_SLOW ? 8 : 3));
}

static double draw_input(const struct source *source, int64_t i)
{
    int kind = hard_kind(source, i);

    if (kind == 0)
        return -1000;
    return kind == 1 ? (double)-INFINITY : draw_normal(source, i);
}

/* beta, also per channel: in (0, 1). Hard ones are near 2, some are 0. */
static double draw_strength(const struct source *source, int64_t i)
{
    int kind = hard_kind(source, i);

    if (kind < 2)
        return 0;
    return kind < 24 ? 1.9 + 0.1 * uniform(source, i) : uniform(source, i);
}

/* dt: mostly a few hundredths. Hard ones are 0, or so large that everything is forgotten. */
static double draw_step(const struct source *source, int64_t i)
{
    int kind = hard_kind(source, i);

    if (kind < 2)
        return kind == 0 ? 0 : 40;
    return source->desc->flags & CLATTN_SOFTPLUS ? draw_normal(source, i) - 2
                                                 : slowed(source, 0.5 * uniform(source, i));
}

/* A decay that is the same for all tokens: below zero; hard ones forget at once. The second number of a pair is an
 * angle. */
static double draw_rate(const struct source *source, int64_t i)
{
    double x = draw_normal(source, i);

    if ((source->desc->flags & CLATTN_COMPLEX) && i % 2 == 1)
        return x;
    return hard_kind(source, i) < 2 ? -1000 : slowed(source, -exp(x));
}

/* Learning rates. Hard ones are 0. An MLP's second layer has as many inputs as there are hidden numbers, with a mean of
 * their own: with titans' loss, which grows with its output, steps for long keys would pass the least loss by ever more. */
static double draw_speed(const struct source *source, int64_t i)
{
    const struct rule *rule = rule_get(source->desc->rule);
    const int grows = rule->model == MODEL_MLP && rule->rates == RATES_THETA;
    const double most = grows ? 0.1 / (1 + (double)source->desc->hidden_dim / 8) : 0.1;

    return hard_kind(source, i) < 8 ? 0 : most * uniform(source, i);
}

/* Weights of levels: softplus of a normal number. Hard ones are 0. */
static double draw_level(const struct source *source, int64_t i)
{
    return hard_kind(source, i) < 4 ? 0 : log1p(exp(draw_normal(source, i)));
}

/* A part of a whole. Hard ones are nothing or all. */
static double draw_share(const struct source *source, int64_t i)
{
    int kind = hard_kind(source, i);

    return kind < 6 ? (double)(kind % 2) : 0.9 * uniform(source, i);
}

static double draw_state(const struct source *source, int64_t i)
{
    return 0.5 * draw_normal(source, i);
}

static double draw_normalizer(const struct source *source, int64_t i)
{
    return source->desc->flags & CLATTN_NORMALIZE ? 1 + fabs(draw_state(source, i)) : draw_state(source, i);
}

/* mesa_net's ridge: as in flash-linear-attention at least 1/4. */
static double draw_ridge(const struct source *source, int64_t i)
{
    return 0.25 + log1p(exp(draw_normal(source, i)));
}

/* An element of a gram matrix, which is symmetric and has no negative eigenvalue: that of one key, and a diagonal. */
static double draw_gram(const struct source *source, int64_t i)
{
    const int64_t K = source->desc->key_dim, matrix = i / (K * K), n = i / K % K, m = i % K;
    const double x = draw_normal(source, matrix * K + n) * draw_normal(source, matrix * K + m);

    return x / (double)K + (n == m ? 0.5 + 0.5 * uniform(source, matrix * K + n) : 0);
}

static const draw draws[] = {
#define DRAW(KIND, draw, ...) draw_##draw,
    NUMBERS(DRAW)
#undef DRAW
};

int64_t check_count(const clattn_operand_info *info)
{
    int64_t count = 1;

    for (int i = 0; i < info->rank; i++)
        count *= info->dims[i];
    return count;
}

/* Fills a tensor on all cores, BLOCK elements at a time. */
enum { BLOCK = 16384 };
struct filling {
    const struct check_tensor *tensor;
    const struct source *source;
    draw value;
    int64_t count;
};

static void fill_block(void *user, int64_t block)
{
    const struct filling *filling = user;
    int64_t end = (block + 1) * BLOCK < filling->count ? (block + 1) * BLOCK : filling->count;

    for (int64_t i = block * BLOCK; i < end; i++)
        number_store(filling->tensor->info.dtype, filling->tensor->data, i, filling->value(filling->source, i));
}

static void fill(const struct check_tensor *tensor, const struct source *source, draw value)
{
    struct filling filling = {tensor, source, value, check_count(&tensor->info)};

    parallel_for((filling.count + BLOCK - 1) / BLOCK, fill_block, &filling);
}

/* Gives every row of K numbers the norm 0.99, which stays below 1 after rounding. */
static void normalize_rows(const struct check_tensor *tensor, int64_t K)
{
    int64_t count = check_count(&tensor->info);
    clattn_dtype dtype = tensor->info.dtype;

    for (int64_t row = 0; row < count; row += K) {
        double sum = 1e-12;
        for (int64_t i = row; i < row + K; i++)
            sum += number_load(dtype, tensor->data, i) * number_load(dtype, tensor->data, i);
        for (int64_t i = row; i < row + K; i++)
            number_store(dtype, tensor->data, i, 0.99 * number_load(dtype, tensor->data, i) / sqrt(sum));
    }
}

/* Row by row: `to` is `from` times a factor in [low, low + span), plus some noise. */
static void fill_along(const struct check_tensor *to, const struct check_tensor *from, const struct source *source,
                       double low, double span, double own)
{
    int64_t count = check_count(&to->info), K = source->desc->key_dim;

    for (int64_t i = 0; i < count; i++) {
        double x = number_load(from->info.dtype, from->data, i) * (low + span * uniform(source, i / K));
        number_store(to->info.dtype, to->data, i, x + own * draw_normal(source, i) / sqrt((double)K));
    }
}

static void fill_elementwise(const struct check_tensor *to, const struct check_tensor *from,
                             const struct source *source)
{
    int64_t count = check_count(&to->info);

    for (int64_t i = 0; i < count; i++)
        number_store(to->info.dtype, to->data, i, -uniform(source, i) * number_load(from->info.dtype, from->data, i));
}

/* What each kind of erase needs for states to stay bounded over any number of tokens. */
static void bound_none(const struct check_tensors *tensors, const struct source *source)
{
    (void)tensors, (void)source;
}

static void bound_key(const struct check_tensors *tensors, const struct source *source)
{
    if (!(source->desc->flags & CLATTN_QK_L2NORM))
        normalize_rows(&tensors->tensor[CLATTN_K], source->desc->key_dim);
}

static void bound_operand(const struct check_tensors *tensors, const struct source *source)
{
    const struct check_tensor *tensor = tensors->tensor;

    bound_key(tensors, source);
    fill_along(&tensor[CLATTN_P], &tensor[CLATTN_K], source, 0.2, 0.6, 0.05);
}

static void bound_low_rank(const struct check_tensors *tensors, const struct source *source)
{
    const struct check_tensor *tensor = tensors->tensor;

    normalize_rows(&tensor[CLATTN_A], source->desc->key_dim);
    fill_elementwise(&tensor[CLATTN_B], &tensor[CLATTN_A], source);
}

static void bound_position(const struct check_tensors *tensors, const struct source *source)
{
    normalize_rows(&tensors->tensor[CLATTN_W], source->desc->key_dim);
}

static void make_positive(const struct check_tensor *tensor)
{
    for (int64_t i = 0; i < check_count(&tensor->info); i++)
        number_store(tensor->info.dtype, tensor->data, i, fabs(number_load(tensor->info.dtype, tensor->data, i)));
}

/* Without a denominator the keys are short, so that what is written stays bounded. CLATTN_WEIGHTS_FLOOR turns scores
 * below 0 into -1, which doubles what is written every other token, so there are none. */
static void bound_kernel(const struct check_tensors *tensors, const struct source *source)
{
    if (source->desc->write_kernel == CLATTN_WEIGHTS_SOFTMAX)
        return;
    if (source->desc->write_kernel == CLATTN_WEIGHTS_FLOOR) {
        make_positive(&tensors->tensor[CLATTN_K]);
        if (source->desc->flags & CLATTN_WITH_P)
            make_positive(&tensors->tensor[CLATTN_P]);
    }
    normalize_rows(&tensors->tensor[CLATTN_K], source->desc->key_dim);
    if (source->desc->flags & CLATTN_WITH_P)
        normalize_rows(&tensors->tensor[CLATTN_P], source->desc->key_dim);
}

/* Gives each token one of a few channels. Muon makes a direction of every singular value of a step, also of rounding
 * errors if fewer tokens than channels were summed. Channels without a token stay 0. */
static void separate_channels(const struct check_tensor *tensor)
{
    enum { CHANNELS = 4 };
    const int64_t *dims = tensor->info.dims, few = dims[3] < CHANNELS ? dims[3] : CHANNELS;

    for (int64_t i = 0; i < check_count(&tensor->info); i++) {
        double x = copysign(2, number_load(tensor->info.dtype, tensor->data, i));
        number_store(tensor->info.dtype, tensor->data, i, i / dims[3] / dims[2] % few == i % dims[3] ? x : 0);
    }
}

static void bound_steps(const struct check_tensors *tensors)
{
    if (tensors->desc.muon == CLATTN_MUON_NONE)
        return;
    separate_channels(&tensors->tensor[CLATTN_K]);
    separate_channels(&tensors->tensor[CLATTN_V]);
}

static void (*const bounds[])(const struct check_tensors *tensors, const struct source *source) = {
#define ERASE(value, name, p, e, draw, ...) bound_##draw,
#include "op/words.def"
};

/* Boundary n of `length` tokens, which are divided as the given boundaries divide seq_len. Given ones for `length`
 * itself are used unchanged, even if they are invalid. */
static int64_t boundary(const clattn_plan_desc *desc, const int64_t *given, int64_t length, int64_t n)
{
    if (given && length == desc->seq_len)
        return given[n];
    return given ? given[n] * length / desc->seq_len : n * length / desc->sequences;
}

static void fill_cu_seqlens(const struct check_tensor *tensor, const clattn_plan_desc *desc, const int64_t *given,
                            int64_t length)
{
    for (int64_t n = 0; n <= desc->sequences; n++) {
        int64_t at = boundary(desc, given, length, n);
        if (desc->flags & CLATTN_CU_SEQLENS_INT64)
            ((int64_t *)tensor->data)[n] = at;
        else
            ((int32_t *)tensor->data)[n] = (int32_t)at;
    }
}

/* The first sequence has all its keys, the second none, others a random number. */
static void fill_lengths(const struct check_tensor *tensor, const struct source *source, const int64_t *given)
{
    const clattn_plan_desc *desc = source->desc;

    for (int64_t n = 0; n < tensor->info.dims[0]; n++) {
        int64_t most = desc->kv_len, length;
        if (desc->flags & CLATTN_CU_SEQLENS_KV)
            most = boundary(desc, given, desc->kv_len, n + 1) - boundary(desc, given, desc->kv_len, n);
        length = n == 0 ? most : n == 1 ? 0 : (int64_t)(uniform(source, n) * (double)(most + 1));
        ((int32_t *)tensor->data)[n] = (int32_t)length;
    }
}

/* A position for rope, or one up to which a state has levels. */
static int32_t draw_position(const struct source *source, int64_t n)
{
    const int32_t levels = source->desc->levels;

    return (int32_t)(levels != 0 ? uniform(source, n) * ldexp(1, levels - 1) : (uniform(source, n) - 0.25) * 0x1p24);
}

/* Fills an operand of whole numbers. Returns whether it is one. */
static int fill_index(const struct check_tensor *tensor, enum numbers numbers, const struct source *source,
                      const int64_t *cu_seqlens)
{
    if (numbers == NUMBERS_CUTS)
        fill_cu_seqlens(tensor, source->desc, cu_seqlens, source->desc->seq_len);
    if (numbers == NUMBERS_CUTS_KV)
        fill_cu_seqlens(tensor, source->desc, cu_seqlens, source->desc->kv_len);
    if (numbers == NUMBERS_LENGTHS)
        fill_lengths(tensor, source, cu_seqlens);
    for (int64_t n = 0; numbers == NUMBERS_SLOTS && n < tensor->info.dims[0]; n++)
        ((int32_t *)tensor->data)[n] = (int32_t)((n + 1) % tensor->info.dims[0]);
    for (int64_t n = 0; numbers == NUMBERS_POSITIONS && n < tensor->info.dims[0]; n++)
        ((int32_t *)tensor->data)[n] = draw_position(source, n);
    for (int64_t n = 0; numbers == NUMBERS_COUNTS && n < tensor->info.dims[0]; n++)
        ((int32_t *)tensor->data)[n] = (int32_t)((n + 1) % (source->desc->state_window + 2));
    return numbers == NUMBERS_SLOTS || numbers == NUMBERS_COUNTS || numbers == NUMBERS_CUTS ||
           numbers == NUMBERS_CUTS_KV || numbers == NUMBERS_LENGTHS || numbers == NUMBERS_POSITIONS;
}

static clattn_status allocate(struct check_tensors *tensors, clattn_operand_id id)
{
    struct check_tensor *tensor = &tensors->tensor[id];

    TRY(clattn_operand_describe(&tensors->desc, operand_to_public(id), &tensor->info));
    if (tensor->info.rank == 0)
        return CLATTN_SUCCESS;
    tensor->bytes = (size_t)check_count(&tensor->info) * (size_t)tensor->info.element_size;
    tensor->data = malloc(tensor->bytes);
    if (tensor->data == NULL)
        return CLATTN_OUT_OF_MEMORY;
    memset(tensor->data, 0xff, tensor->bytes);
    return CLATTN_SUCCESS;
}

clattn_status check_allocate(struct check_tensors *tensors, const clattn_plan_desc *desc)
{
    clattn_status status;

    memset(tensors, 0, sizeof *tensors);
    status = clattn_plan_desc_complete(&tensors->desc, desc, NULL, NULL);
    for (int id = 1; id < OPERAND_COUNT && status == CLATTN_SUCCESS; id++)
        status = allocate(tensors, (clattn_operand_id)id);
    if (status != CLATTN_SUCCESS)
        check_free(tensors);
    return status;
}

/* Not the number of operands, so that a new operand leaves the numbers of the others as they are. */
enum { SEEDS = 21 };

static uint64_t seed_of(uint64_t seed, int id)
{
    return mix(seed * SEEDS + (uint64_t)id);
}

clattn_status check_make(struct check_tensors *tensors, const clattn_plan_desc *desc, uint64_t seed,
                         enum check_gates gates, const int64_t *cu_seqlens)
{
    struct source source = {.desc = &tensors->desc, .gates = gates};
    struct operand_row rows[OPERAND_COUNT];
    int count;

    TRY(check_allocate(tensors, desc));
    count = rule_operands(&tensors->desc, rows);
    for (int i = 0; i < count; i++) {
        const struct check_tensor *tensor = &tensors->tensor[rows[i].id];
        source.seed = seed_of(seed, (int)rows[i].id);
        if (!fill_index(tensor, rows[i].numbers, &source, cu_seqlens) && rows[i].numbers != NUMBERS_WRITTEN)
            fill(tensor, &source, draws[rows[i].numbers]);
    }
    source.seed = seed_of(seed, SEEDS);
    bounds[rule_get(tensors->desc.rule)->erase](tensors, &source);
    bound_steps(tensors);
    return CLATTN_SUCCESS;
}

clattn_status check_copy_updated(struct check_tensors *tensors)
{
    for (int id = 1; id < OPERAND_COUNT; id++) {
        const struct check_tensor *tensor = &tensors->tensor[id];
        if (tensor->data == NULL || !operand_is_updated(&tensors->desc, (clattn_operand_id)id))
            continue;
        if (tensors->after[id] == NULL)
            tensors->after[id] = malloc(tensor->bytes);
        if (tensors->after[id] == NULL)
            return CLATTN_OUT_OF_MEMORY;
        memcpy(tensors->after[id], tensor->data, tensor->bytes);
    }
    return CLATTN_SUCCESS;
}

void check_free(struct check_tensors *tensors)
{
    for (int id = 1; id < OPERAND_COUNT; id++)
        free(tensors->tensor[id].data), free(tensors->after[id]);
    memset(tensors, 0, sizeof *tensors);
}
