/* test_matrix ENGINE [some] [PATTERN]: the kernels of an emulated matrix engine against the reference, and on strided views
 * against contiguous ones. ENGINE_shuffles: the engine's own code, with its products made of shuffles. Compiling takes most
 * of a run: a row of the table is one rule in one type and chunk, its shapes share what they can. some: rows with a word of a
 * rule, or a shape, that none before has (of NVIDIA's, whose kernels take longest to compile, the first, and what no other engine
 * has: test_threads has the others in NVIDIA's own code); after the first not as views, and NaN in keys alone; what is no row
 * on one engine, with fewer points: each is a kernel or two to compile. */
#include "harness.h"
#include "op/options.h"

#include "device/opencl.h"
#include "plan/plan.h"
#include "op/rule.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const int64_t gaps[] = {0, 0, 1, 68, 69};
static const int64_t cut_anywhere[] = {0, 21, 21, 58, 69};
static const int64_t long_gaps[] = {0, 0, 1, 559, 560};

enum {
    FIRST = CLATTN_INITIAL_STATE,
    LAST = CLATTN_FINAL_STATE,
    BOTH = FIRST | LAST,
    VK = CLATTN_STATE_VK,
    NORM = CLATTN_QK_L2NORM,
    CU = CLATTN_CU_SEQLENS,
    LSE = CLATTN_WITH_LSE,
    SINK = CLATTN_WITH_SINK,
    CU64 = CLATTN_CU_SEQLENS | CLATTN_CU_SEQLENS_INT64
};
#define USUAL CHECK_GATES_USUAL
#define HARD CHECK_GATES_HARD
#define SLOW CHECK_GATES_SLOW

/* clang-format off */
static const struct check_case
    tail   = { "tail",   2, 75, 4, 2, 64, 48, BOTH,             USUAL, NULL, 0, 0, 0, 0, 0, 0, 0, 0 },
    odd    = { "odd",    2, 45, 3, 1, 40, 20, BOTH | VK | NORM, HARD,  NULL, 0, 0, 1, 0, 0, 0, 0, 0 },
    wide   = { "wide",   1, 33, 2, 2, 96, 72, BOTH,             HARD,  NULL, 0, 0, 0, 0, 0, 0, 0, 0 },
    narrow = { "narrow", 1, 17, 1, 1,  5,  3, LAST,             USUAL, NULL, 0, 0, 0, 0, 0, 0, 0, 0 },
    loud   = { "loud",   2, 75, 4, 2,  8, 48, BOTH,             USUAL, NULL, 0, 0x1p-13, 0, 0, 0, 0, 0, 0 },
    louder = { "louder", 2, 75, 4, 2,  8, 48, BOTH,             USUAL, NULL, 0, 0x1p-116, 0, 0, 0, 0, 0, 0 },
    packed = { "packed", 1, 69, 4, 2, 64, 48, BOTH | CU,        USUAL, gaps, 4, 0, 0, 0, 0, 0, 0, 0 },
    mixed  = { "mixed",  1, 69, 2, 1, 24, 20, BOTH | CU | NORM, USUAL, cut_anywhere, 4, 0, 0, 0, 0, 0, 0, 0 },
    fair   = { "fair",   2, 45, 3, 1, 40, 20, BOTH | VK | NORM, USUAL, NULL, 0, 0, 0, 0, 0, 0, 0, 0 },
    long64 = { "packed", 1, 69, 3, 1, 40, 20, LAST | VK | CU64, HARD,  gaps, 4, 0, 1, 0, 0, 0, 0, 0 },
    spans  = { "spans",  1, 530, 1, 1, 32, 128, BOTH | VK | NORM, SLOW, NULL, 0, 0, 0, 0, 0, 0, 0, 0 }, /* long enough for segments */
    lasts  = { "lasts",  1, 530, 1, 1, 32, 128, BOTH,             SLOW, NULL, 0, 0, 0, 0, 0, 0, 0, 0 }, /* the same without norms */
    resets = { "resets", 1, 530, 1, 1, 32, 128, BOTH | VK | NORM, HARD, NULL, 0, 0, 0, 0, 0, 0, 0, 0 },
    batches = { "batches", 2, 45, 2, 2, 32, 48, BOTH,            USUAL, NULL, 0, 0, 0, 0, 0, 0, 0, 0 },
    /* of a list */
    cached = { "cached",  2, 19, 6, 2,  7, 13, LSE,             HARD,  NULL, 0, 0, 0, 0, 0, 100, 0, 0 },
    early  = { "early",   1, 77, 4, 2, 64, 64, LSE | SINK,      HARD,  NULL, 0, -0.8, 0, 0, 0, 20, 0, 0 }, /* maxima that rise */
    nearby = { "nearby",  1, 77, 4, 2, 64, 48, LSE,             HARD,  NULL, 0, 0, 1, 0, 0, 0, 9, 0 },
    alone  = { "alone",   1, 33, 1, 1, 40, 20, LSE | NORM,      HARD,  NULL, 0, 0, 0, 0, 0, 0, 1, 0 },
    broad  = { "broad",   1, 40, 1, 1, 256, 256, NORM,          USUAL, NULL, 0, 0, 0, 0, 0, 0, 0, 0 },
    cuts   = { "cuts",   1, 560, 2, 1, 40,  20, BOTH | VK | CU, SLOW, long_gaps, 4, 0, 0, 0, 0, 0, 0, 0 };

static const struct row {
    const char *engine, *rule;
    int variant;
    clattn_dtype dtype;
    int32_t chunk;
    const struct check_case *shape;
    int strided; /* also as strided views */
    int columns; /* of a group, and four segments; 0: by rule of thumb */
    int louder;  /* keys times 2^louder */
} rows[] = {
    { "nvidia",    "gated_delta_rule",    0, CLATTN_BF16, 32, &tail,   1, 0, 0 },
    { "nvidia",    "gated_delta_rule",    0, CLATTN_F16,  16, &packed, 0, 0, 0 },
    { "nvidia",    "retention",           0, CLATTN_F16,  32, &odd,    1, 0, 0 },
    { "nvidia",    "retention",           0, CLATTN_F16,  32, &packed, 0, 0, 0 }, /* factors alone are prepared */
    { "nvidia",    "simple_gla",          0, CLATTN_BF16, 16, &tail,   1, 0, 0 },
    { "nvidia",    "mlstm",               0, CLATTN_F16,  32, &tail,   0, 0, 0 },
    { "nvidia",    "ssd",                 1, CLATTN_BF16, 32, &odd,    0, 0, 0 }, /* softplus a_log dt_bias, softplus */
    { "nvidia",    "linear_attn",         4, CLATTN_BF16, 32, &long64, 0, 0, 0 }, /* elu1 normalize */
    { "nvidia",    "linear_attn",         1, CLATTN_F16,  16, &odd,    0, 0, 0 }, /* elu1 */
    { "nvidia",    "linear_attn",         0, CLATTN_F16,  32, &tail,   0, 0, 0 },
    { "nvidia",    "retention",           0, CLATTN_BF16, 16, &lasts,  0, 128, 0 },
    { "nvidia",    "iplr",                0, CLATTN_F16,  16, &odd,    0, 0, 0 },
    { "nvidia",    "gated_delta_product", 1, CLATTN_F16,  32, &tail,   0, 0, 0 }, /* 2 steps */
    { "nvidia",    "kda",                 0, CLATTN_BF16, 16, &odd,    1, 0, 0 },
    { "nvidia",    "rwkv6",               0, CLATTN_F16,  16, &wide,   0, 0, 0 },
    { "nvidia",    "rwkv7",               0, CLATTN_BF16, 16, &tail,   1, 0, 0 },
    { "nvidia",    "gdn2",                0, CLATTN_F16,  16, &narrow, 0, 0, 0 },
    { "nvidia",    "gla",                 0, CLATTN_BF16, 16, &spans,  0, 128, 0 },
    { "nvidia",    "gla",                 2, CLATTN_F16,  16, &odd,    0, 0, 0 }, /* gate per head */
    { "nvidia",    "gla",                 0, CLATTN_F16,  16, &loud,   0, 0, 13 },
    { "nvidia",    "gla",                 0, CLATTN_BF16, 16, &louder, 0, 0, 122 },
    { "nvidia",    "simple_gla",          0, CLATTN_BF16, 16, &spans,  0, 128, 0 },
    { "nvidia",    "linear_attn",         4, CLATTN_F16,  16, &spans,  0, 128, 0 }, /* elu1 normalize */
    { "nvidia",    "gated_delta_rule",    0, CLATTN_BF16, 16, &spans,  0, 64, 0 },
    { "nvidia",    "kda",                 0, CLATTN_F16,  16, &cuts,   0, 16, 0 },
    { "nvidia",    "rwkv7",               0, CLATTN_BF16, 16, &resets, 0, 64, 0 },
    { "nvidia",    "comba",               0, CLATTN_BF16, 16, &tail,   1, 0, 0 },
    { "nvidia",    "comba",               0, CLATTN_F16,  16, &resets, 0, 64, 0 },
    { "nvidia",    "precond_gated_delta_rule", 0, CLATTN_F16, 16, &odd, 0, 0, 0 },
    { "nvidia",    "mlstm",               1, CLATTN_BF16, 16, &odd,    0, 0, 0 }, /* eps */
    { "amd_cdna",  "gated_delta_rule",    0, CLATTN_BF16, 32, &odd,    1, 0, 0 },
    { "amd_cdna",  "comba",               0, CLATTN_F16,  16, &odd,    0, 0, 0 },
    { "amd_cdna",  "rwkv7",               0, CLATTN_F16,  16, &packed, 0, 0, 0 },
    { "amd_cdna",  "gated_delta_rule",    0, CLATTN_F16,  16, &cuts,   0, 16, 0 },
    { "amd_cdna",  "linear_attn",         4, CLATTN_BF16, 32, &long64, 0, 0, 0 }, /* elu1 normalize */
    { "amd_rdna3", "gated_delta_rule",    0, CLATTN_F16,  32, &packed, 0, 0, 0 },
    { "amd_rdna3", "kda",                 0, CLATTN_BF16, 16, &wide,   0, 0, 0 },
    { "amd_rdna3", "comba",               0, CLATTN_F16,  16, &spans,  0, 32, 0 },
    { "amd_rdna4", "gated_delta_rule",    0, CLATTN_BF16, 16, &long64, 0, 0, 0 },
    { "amd_rdna4", "rwkv6",               0, CLATTN_F16,  16, &tail,   0, 0, 0 },
    { "intel_8",   "gated_delta_rule",    0, CLATTN_BF16, 32, &wide,   0, 0, 0 },
    { "intel_8",   "dplr",                0, CLATTN_F16,  16, &odd,    1, 0, 0 },
    { "intel_8",   "linear_attn",         4, CLATTN_F16,  32, &narrow, 0, 0, 0 }, /* fewer lanes than a chunk has tokens */
    { "intel_8",   "comba",               0, CLATTN_BF16, 16, &odd,    0, 0, 0 },
    { "intel_16",  "gated_delta_product", 2, CLATTN_F16,  32, &packed, 0, 0, 0 }, /* 3 steps ungated */
    { "intel_16",  "comba",               0, CLATTN_BF16, 16, &odd,    0, 0, 0 },
    { "nvidia",    "mesa_net",            0, CLATTN_BF16, 32, &fair,    0, 0, 0 },
    { "nvidia",    "mesa_net",            1, CLATTN_F16,  16, &narrow, 0, 0, 0 }, /* ungated, 5 steps */
    { "nvidia",    "mesa_net",            2, CLATTN_BF16, 16, &mixed,  0, 0, 0 }, /* maps, reversed */
    { "amd_cdna",  "mesa_net",            0, CLATTN_BF16, 32, &fair,    0, 0, 0 },
    { "amd_rdna3", "mesa_net",            0, CLATTN_F16,  16, &mixed,  0, 0, 0 },
    { "amd_rdna4", "mesa_net",            0, CLATTN_BF16, 32, &narrow, 0, 0, 0 },
    { "intel_8",   "mesa_net",            0, CLATTN_F16,  32, &odd,    0, 0, 0 },
    { "intel_16",  "mesa_net",            2, CLATTN_BF16, 32, &narrow, 0, 0, 0 }, /* maps, reversed */
    { "nvidia",    "ttt_linear",           0, CLATTN_BF16, 16, &batches, 1, 0, 0 },
    { "nvidia",    "titans",               1, CLATTN_F16,  16, &batches, 0, 0, 0 }, /* alpha momentum gamma */
    { "amd_cdna",  "ttt_linear",           1, CLATTN_F16,  16, &batches, 0, 0, 0 }, /* theta, fla's readout */
    { "amd_rdna3", "titans",               3, CLATTN_BF16, 16, &batches, 0, 0, 0 }, /* eta, dot */
    { "amd_rdna4", "ttt_linear",           0, CLATTN_BF16, 16, &batches, 0, 0, 0 },
    { "intel_8",   "ttt_linear",           0, CLATTN_F16,  16, &batches, 0, 0, 0 },
    { "intel_16",  "titans",               0, CLATTN_BF16, 16, &batches, 0, 0, 0 },
    { "nvidia",    "softmax_attn",         1, CLATTN_BF16, 32, &tail,   1, 0, 0 },
    { "nvidia",    "softmax_attn",         0, CLATTN_F16,  64, &odd,    1, 0, 0 },
    { "nvidia",    "softmax_attn",         0, CLATTN_BF16, 16, &broad,  0, 0, 0 },
    { "nvidia",    "alibi_attn",           1, CLATTN_F16,  64, &packed, 0, 0, 0 },
    { "nvidia",    "forgetting_attn",      0, CLATTN_BF16, 64, &tail,   1, 0, 0 },
    { "nvidia",    "forgetting_attn",      1, CLATTN_F16,  32, &long64, 0, 0, 0 },
    { "nvidia",    "forgetting_attn",      0, CLATTN_F16,  16, &cached, 0, 0, 0 },
    { "nvidia",    "softmax_attn",         0, CLATTN_BF16, 32, &cached, 0, 0, 0 },
    { "nvidia",    "forgetting_attn",      0, CLATTN_BF16, 32, &early,  0, 0, 0 },
    { "nvidia",    "forgetting_attn",      0, CLATTN_F16,  32, &nearby, 0, 0, 0 },
    { "nvidia",    "forgetting_attn",      0, CLATTN_BF16, 16, &alone,  0, 0, 0 },
    { "nvidia",    "deltaformer",          0, CLATTN_BF16, 32, &tail,   1, 0, 0 },
    { "nvidia",    "deltaformer",          1, CLATTN_F16,  16, &packed, 0, 0, 0 }, /* p beta written lse */
    { "nvidia",    "deltaformer",          1, CLATTN_BF16, 16, &cached, 0, 0, 0 },
    { "nvidia",    "path_attn",            0, CLATTN_F16,  16, &wide,   0, 0, 0 },
    { "nvidia",    "path_attn",            2, CLATTN_BF16, 16, &tail,   1, 0, 0 }, /* ungated lse */
    { "nvidia",    "path_attn",            4, CLATTN_F16,  32, &packed, 0, 0, 0 }, /* sink lse window */
    { "nvidia",    "path_attn",            0, CLATTN_BF16, 16, &cached, 0, 0, 0 },
    { "nvidia",    "path_attn",            5, CLATTN_BF16, 32, &tail,   1, 0, 0 }, /* absolute lse */
    { "nvidia",    "path_attn",            5, CLATTN_F16,  32, &cached, 0, 0, 0 },
    { "amd_cdna",  "path_attn",            0, CLATTN_F16,  16, &tail,   0, 0, 0 },
    { "amd_rdna3", "path_attn",            2, CLATTN_BF16, 16, &nearby, 0, 0, 0 },
    { "amd_rdna4", "path_attn",            3, CLATTN_F16,  32, &cached, 0, 0, 0 },
    { "intel_8",   "path_attn",            0, CLATTN_BF16, 16, &tail,   0, 0, 0 },
    { "intel_16",  "path_attn",            2, CLATTN_F16,  16, &packed, 0, 0, 0 },
    { "amd_cdna",  "forgetting_attn",      1, CLATTN_BF16, 64, &odd,    1, 0, 0 },
    { "amd_cdna",  "deltaformer",          1, CLATTN_BF16, 16, &odd,    0, 0, 0 },
    { "amd_rdna3", "deltaformer",          1, CLATTN_F16,  16, &nearby, 0, 0, 0 },
    { "amd_rdna4", "deltaformer",          0, CLATTN_BF16, 16, &long64, 0, 0, 0 },
    { "intel_8",   "deltaformer",          1, CLATTN_BF16, 16, &tail,   0, 0, 0 },
    { "intel_16",  "deltaformer",          1, CLATTN_F16,  16, &wide,   0, 0, 0 },
    { "amd_cdna",  "softmax_attn",         0, CLATTN_F16,  32, &early,  0, 0, 0 },
    { "amd_cdna",  "alibi_attn",           0, CLATTN_BF16, 32, &packed, 0, 0, 0 },
    { "amd_rdna3", "forgetting_attn",      0, CLATTN_F16,  32, &nearby, 0, 0, 0 },
    { "amd_rdna3", "softmax_attn",         0, CLATTN_BF16, 16, &broad,  0, 0, 0 },
    { "amd_rdna3", "forgetting_attn",      1, CLATTN_BF16, 32, &packed, 0, 0, 0 },
    { "amd_rdna4", "forgetting_attn",      1, CLATTN_BF16, 32, &tail,   0, 0, 0 },
    { "amd_rdna4", "softmax_attn",         0, CLATTN_F16,  16, &cached, 0, 0, 0 },
    { "intel_8",   "forgetting_attn",      1, CLATTN_F16,  32, &odd,    1, 0, 0 },
    { "intel_8",   "softmax_attn",         0, CLATTN_BF16, 16, &broad,  0, 0, 0 },
    { "intel_8",   "forgetting_attn",      0, CLATTN_BF16, 16, &cached, 0, 0, 0 },
    { "intel_16",  "forgetting_attn",      0, CLATTN_BF16, 32, &long64, 0, 0, 0 },
    { "intel_16",  "softmax_attn",         1, CLATTN_F16,  32, &narrow, 0, 0, 0 },
    { "intel_16",  "forgetting_attn",      0, CLATTN_F16,  16, &early,  0, 0, 0 },
    { "nvidia",    "softmax_attn",         5, CLATTN_F16,  32, &early,  0, 0, 0 }, /* noncausal window */
    { "nvidia",    "softmax_attn",         4, CLATTN_BF16, 32, &cached, 0, 0, 0 }, /* noncausal softcap lse */
    { "nvidia",    "forgetting_attn",      2, CLATTN_F16,  32, &packed, 0, 0, 0 }, /* softcap */
    { "amd_cdna",  "alibi_attn",           2, CLATTN_F16,  32, &early,  0, 0, 0 }, /* noncausal lse */
    { "amd_rdna4", "alibi_attn",           3, CLATTN_BF16, 32, &packed, 0, 0, 0 }, /* softcap lse */
    { "intel_16",  "softmax_attn",         4, CLATTN_BF16, 32, &narrow, 0, 0, 0 }, /* noncausal softcap lse */
    { "nvidia",    "forgetting_attn",      3, CLATTN_F16,  32, &packed, 0, 0, 0 }, /* keys before lse */
    { "nvidia",    "alibi_attn",           4, CLATTN_BF16, 32, &cached, 0, 0, 0 }, /* keys before lse */
    { "amd_cdna",  "alibi_attn",           4, CLATTN_F16,  32, &packed, 0, 0, 0 }, /* keys before lse */
    { "amd_rdna3", "forgetting_attn",      3, CLATTN_BF16, 32, &cached, 0, 0, 0 }, /* keys before lse */
};
/* clang-format on */

static int some; /* is wanted */

static int is_first(const struct row *row)
{
    const struct row *first = rows;

    while (strcmp(first->engine, row->engine) != 0)
        first++;
    return row == first;
}

/* Whether rows before, of the same engine, have all words of its rule and its shape; of NVIDIA's, whose first row runs, also
 * where rows of other engines have them. */
static int is_another(const struct row *row)
{
    const int nvidia = strcmp(row->engine, "nvidia") == 0;
    int words = 0, shape = 0;

    for (const struct row *other = rows; other < rows + COUNT(rows); other++) {
        const int same = strcmp(other->engine, row->engine) == 0;
        if (same ? other < row : nvidia) {
            words |= test_words_in_common(other->rule, row->rule);
            shape |= other->shape == row->shape;
        }
    }
    return words == TEST_ALL_WORDS && shape && !is_first(row);
}

/* ---- Strided views ------------------------------------------------------------------------------------------------
 */

/* A tensor in a buffer, `gap` elements after each token where it has tokens. */
struct strided {
    unsigned char *image;
    size_t rows, row, step; /* bytes */
    cl_mem buffer;
};

static void view_create(struct strided *view, clattn_operand *operand, const struct check_tensor *tensor,
                        const char *dims, int64_t gap)
{
    size_t element = tensor->bytes / (size_t)check_count(&tensor->info);
    int tokens = dims[0] == 'B';
    cl_int error;

    view->rows = tokens ? (size_t)(tensor->info.dims[0] * tensor->info.dims[1]) : 1;
    view->row = tensor->bytes / view->rows;
    view->step = view->row + (tokens ? (size_t)gap * element : 0);
    view->image = malloc(view->rows * view->step);
    assert_non_null(view->image);
    memset(view->image, 0xff, view->rows * view->step);
    for (size_t i = 0; i < view->rows; i++)
        memcpy(view->image + i * view->step, (char *)tensor->data + i * view->row, view->row);
    view->buffer = opencl_get()->CreateBuffer(test_engine_device.cl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                              view->rows * view->step, view->image, &error);
    assert_int_equal(error, CL_SUCCESS);
    *operand = (clattn_operand){.buffer = view->buffer};
    if (tokens) {
        operand->token_stride = (int64_t)(view->step / element);
        operand->batch_stride = tensor->info.dims[1] * operand->token_stride;
        operand->head_stride = (int64_t)(view->row / element) / tensor->info.dims[2];
    }
}

/* Takes an output back; every gap is as it was. */
static void view_finish(struct strided *view, struct check_tensor *tensor)
{
    unsigned char *seen = malloc(view->rows * view->step);

    assert_non_null(seen);
    assert_int_equal(opencl_get()->EnqueueReadBuffer(test_engine_device.queue, view->buffer, CL_TRUE, 0,
                                                     view->rows * view->step, seen, 0, NULL, NULL),
                     CL_SUCCESS);
    for (size_t i = 0; i < view->rows; i++) {
        assert_memory_equal(seen + i * view->step + view->row, view->image + i * view->step + view->row,
                            view->step - view->row);
        if (tensor->info.output)
            memcpy((char *)tensor->data + i * view->row, seen + i * view->step, view->row);
    }
    opencl_get()->ReleaseMemObject(view->buffer);
    free(view->image);
    free(seen);
}

static void run_strided(struct check_tensors *tensors, int64_t gap)
{
    const struct opencl *cl = opencl_get();
    struct operand_row list[OPERAND_COUNT];
    struct strided views[OPERAND_COUNT];
    int count = rule_operands(&tensors->desc, list);
    struct arguments operands = {.seq_len = CLATTN_WHOLE};
    clattn_plan *plan;
    size_t workspace;
    cl_int error;

    for (int i = 0; i < count; i++)
        view_create(&views[i], &operands.of[list[i].id], &tensors->tensor[list[i].id], list[i].dims, gap);
    assert_status(clattn_plan_create(&plan, test_engine_device.context, &tensors->desc), SUCCESS);
    assert_status(clattn_plan_workspace_size(plan, &workspace), SUCCESS);
    operands.workspace.buffer = cl->CreateBuffer(test_engine_device.cl, CL_MEM_READ_WRITE, workspace + 4, NULL, &error);
    assert_status(check_enqueue(plan, test_engine_device.queue, &operands, 0, NULL, NULL), SUCCESS);
    for (int i = 0; i < count; i++)
        view_finish(&views[i], &tensors->tensor[list[i].id]);
    cl->ReleaseMemObject(operands.workspace.buffer);
    clattn_plan_destroy(plan);
}

/* Tokens that lie at multiples of 16 bytes, and that do not */
static void check_strided(const struct check_tensors *expected, const struct check_case *shape)
{
    struct check_tensors tensors;

    for (int64_t gap = 7; gap <= 8; gap++) {
        test_make(&tensors, &expected->desc, shape->gates, shape->cu_seqlens);
        run_strided(&tensors, gap);
        test_compare_all(&tensors, expected, 0, gap == 8 ? "aligned views" : "unaligned views");
        check_free(&tensors);
    }
}

/* ---- Rows of the table --------------------------------------------------------------------------------------------
 */

/* Runs the tensors, and says how. */
static clattn_status run(const struct row *row, struct check_tensors *tensors, char *text, size_t size)
{
    struct tuned tuned = tuned_default(space_find("matrix_scan"));
    clattn_status status;
    clattn_plan *plan;

    if (row->columns == 0)
        return check_run(tensors, &test_engine_device, text, size, test_log, NULL);
    test_tuned_set(&tuned, "scan.block_v", row->columns);
    test_tuned_set(&tuned, "scan.segments", 4);
    assert_status(plan_create(&plan, test_engine_device.context, &tensors->desc, &tuned), SUCCESS);
    assert_status(clattn_plan_describe(plan, text, size), SUCCESS);
    status = check_run_plan(tensors, &test_engine_device, plan, test_log, NULL);
    clattn_plan_destroy(plan);
    return status;
}

/* Keys times 2^more, by their exponents */
static void make_louder(struct check_tensors *tensors, int more)
{
    struct check_tensor *keys = &tensors->tensor[CLATTN_K];
    int bits = tensors->desc.dtype == CLATTN_F16 ? 10 : 7, most = tensors->desc.dtype == CLATTN_F16 ? 31 : 255;
    uint16_t *x = keys->data;

    for (size_t i = 0; more != 0 && i < keys->bytes / sizeof *x; i++)
        x[i] = (uint16_t)(x[i] >> bits & most ? x[i] + (more << bits) : 0);
}

/* The longest sequence of batch element 0: its first token, and their number. */
static void longest(const struct check_case *shape, int64_t *first, int64_t *count)
{
    *first = 0, *count = shape->cu_seqlens == NULL ? shape->seq_len : 0;
    for (int64_t n = 0; n < shape->sequences; n++)
        if (shape->cu_seqlens[n + 1] - shape->cu_seqlens[n] > *count) {
            *first = shape->cu_seqlens[n];
            *count = shape->cu_seqlens[n + 1] - *first;
        }
}

/* A NaN reaches outputs of the heads that read it, from the first row of its chunk to the end of its sequence, and
 * no others. */
static void check_reach(const struct row *row, const struct check_tensors *clean)
{
    struct operand_row operands[OPERAND_COUNT];
    const clattn_plan_desc *desc = &clean->desc;
    int count = rule_operands(desc, operands);
    int64_t first, tokens, token;
    char text[4096], what[96];
    int runs = 0;

    longest(row->shape, &first, &tokens);
    token = tokens / 2 | 1;
    for (int i = 0; i < count; i++) {
        struct check_tensors tensors;
        int64_t heads = desc->heads / clean->tensor[operands[i].id].info.dims[2];
        int64_t chunk = ((token + 1) * desc->steps - 1) / row->chunk * row->chunk / desc->steps;
        if (!test_has_tokens(&operands[i]) || clean->tensor[operands[i].id].info.output ||
            ((row->columns > 0 || (some && !is_first(row))) && operands[i].id != OP(K))) /* long ones: k alone */
            continue;
        test_make(&tensors, desc, row->shape->gates, row->shape->cu_seqlens);
        make_louder(&tensors, row->louder);
        test_spoil(&tensors, operands[i].id, first + token, (double)NAN);
        test_log_clear();
        test_assert_spoiled(run(row, &tensors, text, sizeof text), row->dtype);
        snprintf(what, sizeof what, "%s, %s: NaN in %s at %d", row->rule, row->shape->name,
                 clean->tensor[operands[i].id].info.name, (int)(first + token));
        test_compare_beyond(&tensors, clean, (struct test_reach){heads, first + chunk, first + tokens}, what);
        check_free(&tensors);
        runs++;
    }
    test_ran(runs);
}

static void test_row(void **state)
{
    const struct row *row = *state;
    struct check_tensors tensors, expected;
    clattn_plan_desc desc = check_case_desc(row->shape, clattn_rule_find(row->rule), row->dtype, CLATTN_MODE_CHUNK);
    char text[4096], what[160];

    assert_non_null(check_variant(desc.rule, row->variant, &desc));
    desc.chunk = row->chunk;
    test_make(&tensors, &desc, row->shape->gates, row->shape->cu_seqlens);
    make_louder(&tensors, row->louder);
    assert_status(check_reference(&expected, &tensors, test_log, NULL), SUCCESS);
    test_log_clear();
    assert_status(run(row, &tensors, text, sizeof text), SUCCESS);
    if (strstr(text, "matrix") == NULL && strstr(text, "_team") == NULL)
        fail_msg("%s %s: not on the matrix engine:\n%s", row->rule, row->shape->name, text);
    if (rule_is_solved(rule_get(desc.rule)) && strstr(text, "mesa_matrix") == NULL)
        fail_msg("%s %s: not solved on the matrix engine:\n%s", row->rule, row->shape->name, text);
    if (row->columns > 0 && strstr(text, "segments 4, gathers") == NULL)
        fail_msg("%s %s: not in segments:\n%s", row->rule, row->shape->name, text);
    snprintf(what, sizeof what, "%s, variant %d, %s, chunk %d", row->rule, row->variant, row->shape->name, row->chunk);
    test_compare_all(&tensors, &expected, check_bound(row->dtype), what);
    if (row->strided && (!some || is_first(row)))
        check_strided(&tensors, row->shape);
    if (row->shape->kv_len == 0 && !(desc.flags & CLATTN_REVERSED)) /* whose reach is to the first token */
        check_reach(row, &tensors);
    check_free(&tensors);
    check_free(&expected);
}

/* A query of zeros reads zeros, though mLSTM's denominator, e^-95 then, is so small that its reciprocal is no number.
 */
static void test_silent_query(void **state)
{
    struct check_tensors tensors, expected;
    clattn_plan_desc desc = check_case_desc(&narrow, CLATTN_MLSTM, CLATTN_BF16, CLATTN_MODE_CHUNK);
    char text[4096];

    (void)state;
    test_make(&tensors, &desc, narrow.gates, narrow.cu_seqlens);
    test_set_all(&tensors, OP(Q), 0);
    test_set_all(&tensors, OP(I), 95);
    assert_status(check_reference(&expected, &tensors, test_log, NULL), SUCCESS);
    assert_status(check_run(&tensors, &test_engine_device, text, sizeof text, test_log, NULL), SUCCESS);
    assert_non_null(strstr(text, "scan_matrix"));
    test_compare_all(&tensors, &expected, check_bound(CLATTN_BF16), "mlstm, q 0, i 95");
    check_free(&tensors);
    check_free(&expected);
}

/* A run of 45 tokens in f16 with inputs that `change` has made its own */
static void run_changed(const char *rule, void (*change)(struct check_tensors *), struct check_tensors *tensors,
                        struct check_tensors *expected)
{
    static const struct check_case shape = {"changed", 1, 45, 1, 1, 32, 32, LAST, USUAL, NULL, 0, 0, 0, 0, 0, 0, 0, 0};
    clattn_plan_desc desc = check_case_desc(&shape, clattn_rule_find(rule), CLATTN_F16, CLATTN_MODE_CHUNK);
    char text[4096];

    desc.chunk = 16;
    test_make(tensors, &desc, shape.gates, shape.cu_seqlens);
    change(tensors);
    assert_status(check_reference(expected, tensors, test_log, NULL), SUCCESS);
    assert_status(check_run(tensors, &test_engine_device, text, sizeof text, test_log, NULL), SUCCESS);
    assert_non_null(strstr(text, "scan_matrix"));
}

/* A gate of -inf, and nothing is written from then on. */
enum { FORGOTTEN = 20 };
static void forget(struct check_tensors *tensors)
{
    test_set(tensors, OP(G), FORGOTTEN, (double)-INFINITY);
    for (int64_t i = FORGOTTEN * 32; i < 45 * 32; i++)
        test_set(tensors, OP(V), i, 0);
}

/* What a gate of -inf forgets leaves nothing at all, in its chunk or in those after it. */
static void test_forgets(void **state)
{
    static const char *const rules[] = {"gated_delta_rule", "simple_gla"};
    struct check_tensors tensors, expected;

    (void)state;
    for (size_t r = 0; r < COUNT(rules); r++) {
        run_changed(rules[r], forget, &tensors, &expected);
        test_compare_all(&tensors, &expected, check_bound(CLATTN_F16), rules[r]);
        for (int64_t i = FORGOTTEN * 32; i < 45 * 32; i++)
            if (test_get(&tensors, OP(O), i) != 0)
                fail_msg("%s: token %d of o is %g", rules[r], (int)i / 32, test_get(&tensors, OP(O), i));
        for (int64_t i = 0; i < 32 * 32; i++)
            assert_true(test_get(&tensors, OP(STATE_OUT), i) == 0);
        check_free(&tensors);
        check_free(&expected);
    }
}

/* Decays to 2^-20 within a chunk, and keys so small that none over that is infinite in 16 bits */
static void steepen(struct check_tensors *tensors)
{
    int64_t count = check_count(&tensors->tensor[OP(K)].info);

    test_set_all(tensors, OP(G), -0.9);
    for (int64_t i = 0; i < count; i++)
        test_set(tensors, OP(K), i, 0x1p-8 * test_get(tensors, OP(K), i));
}

/* Scores of rows whose decays have no place in the 16 bits of split_scores.clh: they are made in floats. */
static void test_steep(void **state)
{
    struct check_tensors tensors, expected;

    (void)state;
    run_changed("gla", steepen, &tensors, &expected);
    test_compare_all(&tensors, &expected, check_bound(CLATTN_F16), "gla, steep decays and small keys");
    check_free(&tensors);
    check_free(&expected);
}

/* All keys of a head are its first one's, and what it finds is turned round nearly whole: what 16 bits take from the
 * numbers of T = (I + M)^-1 adds up over all rows of a chunk, unless rounding sees to it that it does not. Without that
 * delta_rule has an error of 0.27, with it 0.017. */
static void test_alike(void **state)
{
    enum { HEADS = 16, KEY_DIM = 32 };
    static const struct check_case shape = {"alike", 1, 70, HEADS, HEADS, KEY_DIM, 32, LAST | NORM, USUAL,
                                            NULL,    0, 0,  0,     0,     0,       0,  0,           0};
    static const clattn_rule rules[] = {CLATTN_DELTA_RULE, CLATTN_KDA}; /* chunks of 32 and of 16 */

    (void)state;
    for (size_t r = 0; r < (some ? 1 : COUNT(rules)); r++) {
        struct check_tensors tensors, expected;
        clattn_plan_desc desc = check_case_desc(&shape, rules[r], CLATTN_BF16, CLATTN_MODE_CHUNK);
        char text[4096];
        test_make(&tensors, &desc, shape.gates, NULL);
        for (int64_t i = 0; i < check_count(&tensors.tensor[OP(K)].info); i++)
            test_set(&tensors, OP(K), i, test_get(&tensors, OP(K), i % (HEADS * KEY_DIM)));
        test_set_all(&tensors, OP(BETA), 1.9);
        if (rules[r] == CLATTN_KDA)
            test_set_all(&tensors, OP(G), -0.01);
        assert_status(check_reference(&expected, &tensors, test_log, NULL), SUCCESS);
        assert_status(check_run(&tensors, &test_engine_device, text, sizeof text, test_log, NULL), SUCCESS);
        assert_non_null(strstr(text, "scan_matrix"));
        test_compare(&tensors.tensor[OP(O)], &expected.tensor[OP(O)], 0.04, test_rule_name(rules[r]));
        check_free(&tensors);
        check_free(&expected);
    }
}

/* ---- Lists --------------------------------------------------------------------------------------------------------
 */

/* Runs a list's tensors and holds them to the reference; the plan's text has all that is said. */
static void check_packed_list(const clattn_plan_desc *desc, const int64_t *cu_seqlens, const struct tuned *tuned,
                              const char *said)
{
    struct check_tensors tensors, expected;
    clattn_plan *plan;
    char text[4096];

    test_make(&tensors, desc, HARD, cu_seqlens);
    assert_status(check_reference(&expected, &tensors, test_log, NULL), SUCCESS);
    assert_status(plan_create(&plan, test_engine_device.context, desc, tuned), SUCCESS);
    assert_status(clattn_plan_describe(plan, text, sizeof text), SUCCESS);
    if (strstr(text, tuned->space->name) == NULL || strstr(text, said) == NULL)
        fail_msg("no %s in the plan:\n%s", said, text);
    assert_status(check_run_plan(&tensors, &test_engine_device, plan, test_log, NULL), SUCCESS);
    test_compare_all(&tensors, &expected, check_bound(desc->dtype), said);
    clattn_plan_destroy(plan);
    check_free(&tensors);
    check_free(&expected);
}

static void check_list(const clattn_plan_desc *desc, const struct tuned *tuned, const char *said)
{
    check_packed_list(desc, NULL, tuned, said);
}

static clattn_plan_desc list_desc(clattn_rule rule, int64_t tokens, int64_t keys)
{
    return (clattn_plan_desc){.rule = rule,
                              .dtype = CLATTN_BF16,
                              .flags = CLATTN_WITH_LSE | CLATTN_WITH_SINK,
                              .batch = 1,
                              .seq_len = tokens,
                              .heads = 6,
                              .kv_heads = 1,
                              .key_dim = 32,
                              .value_dim = 32,
                              .kv_len = keys,
                              .mode = CLATTN_MODE_CHUNK};
}

/* The solvers of a list that the engine has */
static int list_solvers(const char *solvers[2])
{
    solvers[0] = "flash_matrix";
    solvers[1] = "flash_team";
    return test_engine_device.context->engine->team != FILE_nothing ? 2 : 1;
}

/* Heads of a key head share a group where tokens are few; with gates they do not. Only with all: gates, many heads. */
static void check_shared_heads(const char *solver, int all)
{
    const struct tuned usual = tuned_default(space_find(solver));
    clattn_plan_desc step = list_desc(CLATTN_SOFTMAX_ATTN, 1, 75), few = list_desc(CLATTN_SOFTMAX_ATTN, 5, 37),
                     gated = list_desc(CLATTN_FORGETTING_ATTN, 1, 75), many = list_desc(CLATTN_SOFTMAX_ATTN, 1, 75);

    many.heads = 24; /* more than the rows of a few sub-groups */
    few.window = 9;
    few.flags |= CLATTN_QK_L2NORM;
    check_list(&step, &usual, "heads 6");
    check_list(&few, &usual, "heads 6");
    if (!all)
        return;
    check_list(&gated, &usual, "heads 1");
    check_list(&many, &usual, "heads 24");
}

static void test_shared_heads(void **state)
{
    const char *solvers[2];

    (void)state;
    for (int i = 0; i < list_solvers(solvers); i++)
        check_shared_heads(solvers[i], !some || i == 0);
}

/* Keys in caches of several lengths: some sequences have fewer keys than queries. Of some, lengths by one rule, parts by the
 * other. */
static void check_caches(const char *solver)
{
    static const int64_t at[] = {0, 0, 1, 70, 71};
    static const clattn_rule rules[] = {CLATTN_SOFTMAX_ATTN, CLATTN_FORGETTING_ATTN};
    const struct tuned usual = tuned_default(space_find(solver));

    for (size_t i = 0; i < COUNT(rules); i++) {
        clattn_plan_desc lens = list_desc(rules[i], 19, 75), parts = list_desc(rules[i], 71, 300);
        lens.flags |= CLATTN_WITH_KV_LENS;
        lens.batch = 4;
        parts.flags |= CLATTN_CU_SEQLENS | CLATTN_CU_SEQLENS_KV | (i == 0 ? CLATTN_WITH_KV_LENS : 0);
        parts.sequences = COUNT(at) - 1;
        parts.heads = parts.kv_heads = 2;
        if (!some || i == 0)
            check_list(&lens, &usual, solver);
        if (!some || i == 1)
            check_packed_list(&parts, at, &usual, solver);
    }
}

static void test_caches(void **state)
{
    const char *solvers[2];

    (void)state;
    for (int i = 0; i < list_solvers(solvers); i++)
        check_caches(solvers[i]);
}

/* Two teams, blocks of either size, keys and values by turns in three slots, norms, and columns that are no whole
 * panels */
static void test_teams(void **state)
{
    static const struct {
        clattn_rule rule;
        int step, stages, key_dim, value_dim;
        int64_t tokens;
        uint64_t flags;
        const char *said;
    } points[] = {{CLATTN_SOFTMAX_ATTN, 4, 3, 40, 112, 200, CLATTN_QK_L2NORM, "128 rows: chunk 128, heads 1, by 8"},
                  {CLATTN_FORGETTING_ATTN, 4, 2, 80, 24, 200, 0, "keys 64 in steps of 64, value tile 32, stages 2"},
                  {CLATTN_FORGETTING_ATTN, 2, 3, 32, 16, 190, 0, "keys 32 in steps of 32, value tile 16, stages 3"},
                  {CLATTN_SOFTMAX_ATTN, 2, 2, 96, 72, 70, CLATTN_QK_L2NORM, "keys 32 in steps of 32, value tile 80"}};

    (void)state;
    if (test_engine_device.context->engine->team == FILE_nothing)
        skip();
    for (size_t i = 0; i < COUNT(points); i += some ? 2 : 1) {
        struct tuned tuned = tuned_default(space_find("flash_team"));
        clattn_plan_desc desc = list_desc(points[i].rule, points[i].tokens, 0);
        desc.key_dim = points[i].key_dim;
        desc.value_dim = points[i].value_dim;
        desc.heads = desc.kv_heads = 1;
        desc.flags |= points[i].flags;
        desc.window = i == 1 ? 99 : 0;
        test_tuned_set(&tuned, "chunk", points[i].tokens > 128 ? 128 : 64);
        test_tuned_set(&tuned, "step", points[i].step);
        test_tuned_set(&tuned, "stages", points[i].stages);
        check_list(&desc, &tuned, points[i].said);
    }
}

/* What is before a span by teams: spans and parts of what is before them, norms, and many columns */
static void test_writing_teams(void **state)
{
    static const struct {
        int64_t tokens;
        int key_dim, value_dim, splits;
        uint64_t flags;
        const char *said;
    } points[] = {{200, 40, 24, 2, CLATTN_QK_L2NORM | CLATTN_WITH_P, "in 2 parts"},
                  {140, 16, 144, 1, CLATTN_WITH_BETA, "value tile 144"}};

    (void)state;
    if (test_engine_device.context->engine->team == FILE_nothing)
        skip();
    for (size_t i = 0; i < (some ? 1 : COUNT(points)); i++) {
        struct tuned tuned = tuned_default(space_find("delta_team"));
        clattn_plan_desc desc = list_desc(CLATTN_DELTAFORMER, points[i].tokens, 0);
        desc.key_dim = points[i].key_dim;
        desc.value_dim = points[i].value_dim;
        desc.heads = 2;
        desc.flags = points[i].flags;
        test_tuned_set(&tuned, "span", 128);
        test_tuned_set(&tuned, "splits", points[i].splits);
        check_list(&desc, &tuned, points[i].said);
    }
}

/* What is not finite reaches no token before its unit of keys: not what is written, of which it spoils a tile, either. */
static void test_written_causes(void **state)
{
    static const clattn_operand_id ids[] = {OP(Q), OP(K), OP(V), OP(P)};
    struct tuned tuned = tuned_default(space_find("delta_team"));
    clattn_plan_desc desc = list_desc(CLATTN_DELTAFORMER, 150, 0);
    struct check_tensors clean, spoiled;
    clattn_plan *plan;

    (void)state;
    if (test_engine_device.context->engine->team == FILE_nothing)
        skip();
    desc.heads = 1;
    desc.flags = CLATTN_WITH_P | CLATTN_WITH_WRITTEN;
    test_tuned_set(&tuned, "span", 128);
    assert_status(plan_create(&plan, test_engine_device.context, &desc, &tuned), SUCCESS);
    test_make(&clean, &desc, USUAL, NULL);
    assert_status(check_run_plan(&clean, &test_engine_device, plan, test_log, NULL), SUCCESS);
    for (size_t i = 0; i < COUNT(ids); i++) {
        test_make(&spoiled, &desc, USUAL, NULL);
        test_spoil(&spoiled, ids[i], 140, (double)NAN);
        assert_status(check_run_plan(&spoiled, &test_engine_device, plan, test_log, NULL), SUCCESS);
        test_compare_beyond(&spoiled, &clean, (struct test_reach){1, 128, 150}, spoiled.tensor[ids[i]].info.name);
        check_free(&spoiled);
    }
    check_free(&clean);
    clattn_plan_destroy(plan);
}

/* Keys that turn, by teams: spans that are crossed, heads that share keys, a cache, a window, and widths that are no whole
 * panels */
static void test_turning_teams(void **state)
{
    static const struct {
        int64_t tokens, keys;
        int key_dim, value_dim, window;
        uint64_t flags;
    } points[] = {{140, 0, 40, 24, 0, 0}, {33, 200, 72, 112, 150, CLATTN_UNGATED}};
    static const int64_t at[] = {0, 0, 1, 140, 141};
    clattn_plan_desc parts = list_desc(CLATTN_PATH_ATTN, at[COUNT(at) - 1], 0);
    struct tuned tuned = tuned_default(space_find("path_team"));

    (void)state;
    if (test_engine_device.context->engine->team == FILE_nothing)
        skip();
    test_tuned_set(&tuned, "span", 128);
    for (size_t i = 0; !some && i < COUNT(points); i++) {
        clattn_plan_desc desc = list_desc(CLATTN_PATH_ATTN, points[i].tokens, points[i].keys);
        desc.key_dim = points[i].key_dim;
        desc.value_dim = points[i].value_dim;
        desc.heads = i == 1 ? 2 : 1;
        desc.flags |= points[i].flags;
        desc.window = points[i].window;
        check_list(&desc, &tuned, "blocks of 64 keys, span of 128 keys");
    }
    parts.flags |= CLATTN_CU_SEQLENS; /* sequences that cross spans */
    parts.sequences = COUNT(at) - 1;
    parts.key_dim = 40;
    parts.value_dim = 24;
    parts.heads = 2;
    parts.window = 130;
    check_packed_list(&parts, at, &tuned, "span of 128 keys");
}

/* A key as large as the type has it costs earlier queries of its block no bit, and is read. */
static void run_great_key(struct check_tensors *spoiled, clattn_plan *plan, const clattn_plan_desc *desc, int64_t row,
                          double key)
{
    test_make(spoiled, desc, USUAL, NULL);
    test_spoil(spoiled, OP(K), row, key);
    assert_status(check_run_plan(spoiled, &test_engine_device, plan, test_log, NULL), SUCCESS);
}

/* Greater ones have scores that differ by more than 1 from a float to the next. */
static void check_great_key(clattn_plan *plan, const clattn_plan_desc *desc, int64_t row, double key)
{
    struct check_tensors spoiled, expected;

    run_great_key(&spoiled, plan, desc, row, key);
    assert_status(check_reference(&expected, &spoiled, test_log, NULL), SUCCESS);
    test_compare_all(&spoiled, &expected, check_bound(desc->dtype), "path_team: a great key");
    check_free(&expected);
    check_free(&spoiled);
}

static void check_great_key_causes(clattn_plan *plan, const clattn_plan_desc *desc, int64_t row, double key)
{
    struct check_tensors clean, spoiled;

    test_make(&clean, desc, USUAL, NULL);
    assert_status(check_run_plan(&clean, &test_engine_device, plan, test_log, NULL), SUCCESS);
    run_great_key(&spoiled, plan, desc, row, key);
    test_compare_beyond(&spoiled, &clean, (struct test_reach){1, row, desc->seq_len}, "path_team: a great key");
    check_free(&spoiled);
    check_free(&clean);
}

/* In a block of the queries' own span; and carried to the end of its span, which is one to four before it: one whose
 * scores are not so great that the errors of a walk turn the weights over. */
static void test_great_key(void **state)
{
    static const int64_t carried[] = {63, 200, 300, 400};
    struct tuned tuned = tuned_default(space_find("path_team"));
    clattn_plan_desc desc = list_desc(CLATTN_PATH_ATTN, 530, 0);
    clattn_plan *plan;

    (void)state;
    if (test_engine_device.context->engine->team == FILE_nothing)
        skip();
    desc.heads = 1;
    desc.flags |= CLATTN_UNGATED;
    test_tuned_set(&tuned, "span", 128);
    assert_status(plan_create(&plan, test_engine_device.context, &desc, &tuned), SUCCESS);
    check_great_key_causes(plan, &desc, 63, 1e30);
    check_great_key_causes(plan, &desc, 63, 1e6);
    check_great_key(plan, &desc, 515, 1e6);
    check_great_key(plan, &desc, 515, -1e6);
    for (size_t i = 0; i < COUNT(carried); i++)
        check_great_key(plan, &desc, carried[i], -70);
    clattn_plan_destroy(plan);
}

/* Packed, each sequence has the bits that it has alone, where groups have fewer rows, or heads that share them. */
static void check_packed_alone(clattn_rule rule, int64_t heads)
{
    static const int64_t at[] = {0, 0, 1, 21, 131};
    clattn_plan_desc desc = list_desc(rule, at[COUNT(at) - 1], 0);
    struct check_tensors whole, own, expected;
    char text[4096], what[64];

    desc.flags |= CLATTN_CU_SEQLENS;
    desc.flags &= rule_flags(rule_get(rule));
    desc.sequences = COUNT(at) - 1;
    desc.heads = heads;
    test_make(&whole, &desc, USUAL, at);
    assert_status(check_run(&whole, &test_engine_device, text, sizeof text, test_log, NULL), SUCCESS);
    assert_true(strstr(text, "matrix") != NULL || strstr(text, "_team") != NULL);
    for (int64_t n = 1; n < desc.sequences; n++) {
        const struct test_slice slice = {0, n, at[n], at[n + 1] - at[n]};
        snprintf(what, sizeof what, "%s, %lld tokens alone", test_rule_name(rule), (long long)slice.count);
        test_take(&expected, &whole, slice);
        test_take(&own, &whole, slice);
        assert_status(check_run(&own, &test_engine_device, NULL, 0, test_log, NULL), SUCCESS);
        test_compare_all(&own, &expected, 0, what);
        check_free(&expected);
        check_free(&own);
    }
    check_free(&whole);
}

static void test_packed_alone(void **state)
{
    static const clattn_rule rules[] = {CLATTN_SOFTMAX_ATTN, CLATTN_FORGETTING_ATTN, CLATTN_ALIBI_ATTN,
                                        CLATTN_PATH_ATTN, CLATTN_DELTAFORMER};
    int all = !some && strcmp(test_engine_device.context->engine->name, "nvidia_emulated") == 0;

    (void)state;
    for (size_t i = 0; i < (all ? COUNT(rules) : 2); i++)
        check_packed_alone(rules[i], 2);
    check_packed_alone(CLATTN_SOFTMAX_ATTN, 6); /* three share a group, whose tokens are no whole units */
}

/* Several tiles of keys at once, one block in local memory and three, blocks of one step */
static void test_steps(void **state)
{
    static const struct {
        int keys, step, stages;
        const char *said;
    } points[] = {{64, 4, 1, "keys 64 in steps of 64, value tile 32, stages 1"},
                  {32, 2, 3, "keys 32 in steps of 32, value tile 32, stages 3"},
                  {16, 1, 2, "keys 16 in steps of 16, value tile 32, stages 2"}};

    (void)state;
    for (size_t i = 0; i < COUNT(points); i++) {
        struct tuned tuned = tuned_default(space_find("flash_matrix"));
        clattn_plan_desc desc = list_desc(CLATTN_FORGETTING_ATTN, 45, 0);
        desc.window = i == 1 ? 33 : 0;
        desc.heads = 2;
        test_tuned_set(&tuned, "keys", points[i].keys);
        test_tuned_set(&tuned, "step", points[i].step);
        test_tuned_set(&tuned, "stages", points[i].stages);
        check_list(&desc, &tuned, points[i].said);
    }
}

/* Whether what is no row runs as well: of some, on the engine that has everything. */
static int has_others(const char *engine)
{
    return !some || strcmp(engine, "nvidia") == 0;
}

/* The engine to test by the program's first word, which loses what the rows do not have. */
static const char *engine_of_word(char *word)
{
    static char engine[64];
    char *suffix = strstr(word, "_shuffles");

    snprintf(engine, sizeof engine, "%s%s", word, suffix != NULL ? "" : "_emulated");
    if (suffix != NULL)
        *suffix = '\0';
    return engine;
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest others[] = {
        cmocka_unit_test(test_silent_query),  cmocka_unit_test(test_forgets),
        cmocka_unit_test(test_steep),         cmocka_unit_test(test_alike),
        cmocka_unit_test(test_shared_heads),  cmocka_unit_test(test_steps),
        cmocka_unit_test(test_caches),        cmocka_unit_test(test_teams),
        cmocka_unit_test(test_writing_teams), cmocka_unit_test(test_written_causes),
        cmocka_unit_test(test_turning_teams), cmocka_unit_test(test_great_key),
        cmocka_unit_test(test_packed_alone)};
    struct CMUnitTest tests[COUNT(rows) + COUNT(others)];
    size_t count = 0;

    test_engine = argc > 1 ? engine_of_word(argv[1]) : NULL;
    some = argc > 2 && strcmp(argv[2], "some") == 0;
    for (size_t i = 0; i < COUNT(rows); i++)
        if (argc > 1 && strcmp(rows[i].engine, argv[1]) == 0 && !(some && is_another(&rows[i])))
            tests[count++] = (struct CMUnitTest){rows[i].rule, test_row, NULL, NULL, (void *)(uintptr_t)&rows[i]};
    if (count == 0) {
        print_error("usage: test_matrix ENGINE [some] [PATTERN]\n");
        return 2;
    }
    for (size_t i = 0; i < COUNT(others) && has_others(argv[1]); i++)
        tests[count++] = others[i];
    if (argc > 2 + some)
        test_filter(argv[2 + some]);
    return test_run_group("matrix", tests, count, test_engine_open, test_engine_close);
}
