/* test_nodes: the node tests of ONNX's LinearAttention and the shapes of ggml's tests of GATED_DELTA_NET, as their tensors lie there: a
 * row an attribute, its memory handed over as it is, and the results against the definition, which stands here once for both. */
#include "harness.h"

#include "reference/number.h"

#include <math.h>
#include <string.h>

enum { NONE, PER_HEAD, PER_KEY, FOR_ALL };
static const struct node {
    const char *name;
    clattn_rule rule;
    int64_t batch, tokens, q_heads, k_heads, heads, dim; /* heads: of v and states */
    int decay, beta;
    int past;     /* PAST_… */
    int window;   /* states of the last tokens; 0: the final one */
    int ggml;     /* heads in turn, states [V][K], snapshots newest first behind the outputs */
    int permuted; /* q, k and v lie [B,H,T,D] */
    double scale; /* 0: 1/sqrt(D) */
    clattn_dtype dtype;
} nodes[] = {
#define LINEAR CLATTN_LINEAR_ATTN
#define GATED CLATTN_GLA
#define DELTA CLATTN_DELTA_RULE
#define GATED_DELTA CLATTN_KDA
    /* ONNX: decay per key dim unless the name says otherwise */
    {"linear", LINEAR, 2, 4, 4, 4, 4, 8, NONE, NONE, 0, 0, 0, 0, 0, 0},
    {"gated", GATED, 2, 4, 4, 4, 4, 8, PER_KEY, NONE, 0, 0, 0, 0, 0, 0},
    {"gated_per_head_decay", CLATTN_SIMPLE_GLA, 2, 4, 4, 4, 4, 8, PER_HEAD, NONE, 0, 0, 0, 0, 0, 0},
    {"delta", DELTA, 2, 4, 4, 4, 4, 8, NONE, PER_HEAD, 0, 0, 0, 0, 0, 0},
    {"gated_delta", GATED_DELTA, 2, 4, 4, 4, 4, 8, PER_KEY, PER_HEAD, 0, 0, 0, 0, 0, 0},
    {"gated_delta_beta_scalar", GATED_DELTA, 2, 4, 4, 4, 4, 8, PER_KEY, FOR_ALL, 0, 0, 0, 0, 0, 0},
    {"gated_delta_gqa", GATED_DELTA, 2, 4, 8, 4, 4, 8, PER_KEY, PER_HEAD, 0, 0, 0, 0, 0, 0},
    {"gated_delta_mqa", GATED_DELTA, 2, 4, 8, 1, 1, 8, PER_KEY, PER_HEAD, 0, 0, 0, 0, 0, 0},
    {"decode_step", GATED_DELTA, 2, 1, 4, 4, 4, 8, PER_KEY, PER_HEAD, 1, 0, 0, 0, 0, 0},
    {"prefill_with_past", GATED_DELTA, 2, 4, 4, 4, 4, 8, PER_KEY, PER_HEAD, 1, 0, 0, 0, 0, 0},
    {"no_past_explicit_zeros", GATED_DELTA, 2, 4, 4, 4, 4, 8, PER_KEY, PER_HEAD, 2, 0, 0, 0, 0, 0},
    {"explicit_scale", GATED_DELTA, 2, 4, 4, 4, 4, 8, PER_KEY, PER_HEAD, 0, 0, 0, 0, 0.25, 0},
    {"fp16", GATED_DELTA, 2, 4, 8, 4, 4, 8, PER_KEY, PER_HEAD, 0, 0, 0, 0, 0, CLATTN_F16},
    {"linear_t1_no_past", LINEAR, 2, 1, 4, 4, 4, 8, NONE, NONE, 0, 0, 0, 0, 0, 0},
/* ggml's own tests, by its numbers: head_count, head_size, n_seq_tokens, n_seqs, v_repeat, permuted, kda, K */
#define GGML(heads_, head_size, tokens_, seqs, repeat, permuted_, kda, snapshots)                                      \
    {                                                                                                                  \
        "ggml " #heads_ "," #head_size "," #tokens_ "," #seqs "," #repeat "," #permuted_ "," #kda "," #snapshots,      \
            kda ? CLATTN_KDA : CLATTN_GATED_DELTA_RULE, seqs, tokens_, heads_, heads_, (heads_) * (repeat), head_size, \
            kda ? PER_KEY : PER_HEAD, PER_HEAD, 1, snapshots, 1, permuted_, 0, 0                                       \
    }
    GGML(32, 128, 1, 1, 1, 0, 0, 1),
    GGML(32, 16, 1, 1, 1, 0, 0, 1),
    GGML(32, 16, 1, 1, 1, 1, 1, 1),
    GGML(32, 16, 1, 1, 1, 0, 1, 1),
    GGML(16, 64, 1, 2, 1, 0, 0, 1),
    GGML(4, 64, 4, 1, 1, 0, 0, 1),
    GGML(4, 64, 4, 2, 1, 0, 0, 1),
    GGML(8, 32, 4, 2, 2, 0, 0, 1),
    GGML(4, 64, 4, 2, 1, 1, 0, 1),
    GGML(4, 64, 4, 1, 1, 1, 0, 1),
    GGML(4, 64, 1, 1, 1, 0, 1, 1),
    GGML(4, 64, 1, 2, 1, 0, 1, 1),
    GGML(4, 16, 1, 2, 1, 0, 1, 1),
    GGML(4, 32, 4, 1, 1, 0, 1, 1),
    GGML(4, 64, 4, 2, 1, 0, 1, 1),
    GGML(8, 32, 4, 2, 2, 0, 1, 1),
    GGML(4, 64, 4, 2, 1, 1, 1, 1),
    GGML(4, 16, 4, 2, 1, 1, 1, 1),
    GGML(4, 64, 64, 1, 1, 0, 0, 1),
    GGML(4, 64, 127, 1, 1, 0, 0, 1),
    GGML(4, 64, 256, 1, 1, 0, 0, 1),
    GGML(4, 64, 65, 1, 1, 0, 0, 1),
    GGML(4, 64, 100, 1, 1, 0, 0, 1),
    GGML(4, 64, 200, 1, 1, 0, 0, 1),
    GGML(4, 64, 127, 2, 1, 0, 0, 1),
    GGML(4, 64, 64, 1, 1, 0, 1, 1),
    GGML(4, 64, 33, 1, 1, 0, 1, 1),
    GGML(4, 64, 100, 1, 1, 0, 1, 1),
    GGML(4, 16, 2, 1, 1, 0, 0, 2),
    GGML(4, 32, 4, 1, 1, 0, 0, 4),
    GGML(4, 64, 4, 2, 1, 0, 0, 4),
    GGML(8, 128, 4, 1, 1, 0, 0, 4),
    GGML(4, 64, 4, 2, 1, 0, 1, 4),
    GGML(8, 32, 4, 2, 2, 0, 1, 4),
    GGML(4, 32, 8, 1, 1, 0, 0, 3),
    GGML(4, 64, 16, 2, 1, 0, 0, 4),
    /* and all at once; more snapshots than tokens */
    GGML(4, 16, 5, 2, 2, 1, 1, 3),
    GGML(4, 16, 2, 2, 1, 0, 0, 4),
    GGML(4, 64, 200, 1, 2, 0, 0, 2),
};

/* Numbers in memory: strides in elements. */
struct laid {
    clattn_operand_id id;
    clattn_dtype dtype;
    char *memory;
    int64_t count, first, batch, token, head;
};
enum { Q, K, V, G, BETA, PAST, O, STATES, TENSORS };

struct call {
    const struct node *node;
    struct laid at[TENSORS];
};

static struct laid *lay(struct call *call, int which, clattn_operand_id id, int64_t count)
{
    struct laid *laid = &call->at[which];

    *laid = (struct laid){.id = id, .dtype = call->node->dtype, .count = count};
    laid->memory = calloc((size_t)count, sizeof(float));
    assert_non_null(laid->memory);
    return laid;
}

/* [B,T,H,D], or permuted [B,H,T,D] */
static void lay_rows(struct call *call, int which, clattn_operand_id id, int64_t heads, int64_t dim)
{
    const struct node *n = call->node;
    int permuted = n->permuted && which <= V;
    struct laid *laid = lay(call, which, id, n->batch * n->tokens * heads * dim);

    laid->batch = n->tokens * heads * dim;
    laid->token = permuted ? dim : heads * dim;
    laid->head = permuted ? n->tokens * dim : dim;
}

static void lay_states(struct call *call)
{
    const struct node *n = call->node;
    int64_t cell = n->dim * n->dim, all = n->batch * n->heads * cell;
    struct laid *states =
        lay(call, STATES, n->window > 0 ? OP(STATES) : OP(STATE_OUT), all * (n->window > 0 ? n->window : 1));

    states->batch = n->heads * cell;
    states->head = cell;
    states->token = n->window > 0 ? -all : 0; /* the newest first */
    states->first = n->window > 0 ? (n->window - 1) * all : 0;
    if (n->past == 0)
        return;
    lay(call, PAST, OP(STATE_IN), all)->batch = n->heads * cell;
    call->at[PAST].head = cell;
}

static void lay_all(struct call *call)
{
    const struct node *n = call->node;

    lay_rows(call, Q, OP(Q), n->q_heads, n->dim);
    lay_rows(call, K, OP(K), n->k_heads, n->dim);
    lay_rows(call, V, OP(V), n->heads, n->dim);
    lay_rows(call, O, OP(O), n->ggml ? n->heads : n->q_heads, n->dim);
    if (n->decay != NONE)
        lay_rows(call, G, OP(G), n->heads, n->decay == PER_KEY ? n->dim : 1);
    if (n->beta == PER_HEAD)
        lay_rows(call, BETA, OP(BETA), n->heads, 1);
    if (n->beta == FOR_ALL) {
        lay_rows(call, BETA, OP(BETA), 1, 1);
        call->at[BETA].head = 0;
    }
    lay_states(call);
}

static double get(const struct call *call, int which, int64_t b, int64_t t, int64_t h, int64_t i)
{
    const struct laid *laid = &call->at[which];

    return number_load(laid->dtype, laid->memory, laid->first + b * laid->batch + t * laid->token + h * laid->head + i);
}

/* Log-decays of 0 or less, ggml's down to -20; strengths between 0 and 1; keys short enough for a delta rule. */
static void draw(struct call *call)
{
    uint32_t seed = 1;

    for (int which = Q; which <= PAST; which++) {
        const struct laid *laid = &call->at[which];
        for (int64_t i = 0; i < laid->count && laid->memory != NULL; i++) {
            double x;
            seed = seed * 1664525u + 1013904223u;
            x = (double)(seed >> 8) / (1 << 23) - 1;
            x = which == G      ? (call->node->ggml ? -20 * x * x * x * x : -0.1 * fabs(x))
                : which == BETA ? fabs(x)
                : which == K    ? x / sqrt((double)call->node->dim)
                                : x;
            number_store(laid->dtype, laid->memory, i, which == PAST && call->node->past == 2 ? 0 : x);
        }
    }
}

/* ---- The definition ---------------------------------------------------------------------------------------------- */

static double decay_of(const struct call *call, int64_t b, int64_t t, int64_t s, int64_t i)
{
    const struct node *n = call->node;

    return n->decay == NONE ? 1 : exp(get(call, G, b, t, s, n->decay == PER_KEY ? i : 0));
}

/* S = e^g S; S += beta k (v - S^T k)^T, or S += k v^T without beta. S: [K][V] */
static void step(const struct call *call, double *S, int64_t b, int64_t t, int64_t s)
{
    const struct node *n = call->node;
    const int64_t D = n->dim, k = n->ggml ? s % n->k_heads : s;

    for (int64_t i = 0; i < D * D; i++)
        S[i] *= decay_of(call, b, t, s, i / D);
    for (int64_t j = 0; j < D; j++) {
        double x = get(call, V, b, t, s, j);
        for (int64_t i = 0; i < D && n->beta != NONE; i++)
            x -= S[i * D + j] * get(call, K, b, t, k, i);
        x *= n->beta != NONE ? get(call, BETA, b, t, s, 0) : 1;
        for (int64_t i = 0; i < D; i++)
            S[i * D + j] += get(call, K, b, t, k, i) * x;
    }
}

static void assert_near(const struct call *call, double actual, double expected, const char *what, int64_t at)
{
    double bound = call->node->dtype == CLATTN_F32 ? 2e-5 : 5e-3;

    if (!(fabs(actual - expected) <= bound * (1 + fabs(expected))))
        fail_msg("%s: %s[%lld] is %g, expected %g", call->node->name, what, (long long)at, actual, expected);
}

/* o of the heads of queries that read the state s */
static void check_read(const struct call *call, const double *S, int64_t b, int64_t t, int64_t s)
{
    const struct node *n = call->node;
    const int64_t D = n->dim, share = n->ggml ? 1 : n->q_heads / n->heads;
    const double scale = n->scale != 0 ? n->scale : 1 / sqrt((double)D);

    for (int64_t h = s * share; h < (s + 1) * share; h++)
        for (int64_t j = 0; j < D; j++) {
            double o = 0;
            for (int64_t i = 0; i < D; i++)
                o += scale * get(call, Q, b, t, n->ggml ? h % n->q_heads : h, i) * S[i * D + j];
            assert_near(call, get(call, O, b, t, h, j), o, "o", ((b * n->tokens + t) * n->heads * share + h) * D + j);
        }
}

/* The state behind token t, where the call leaves it */
static void check_state(const struct call *call, const double *S, int64_t b, int64_t t, int64_t s)
{
    const struct node *n = call->node;
    const int64_t D = n->dim, window = n->window > 0 ? n->window : 1, place = t - (n->tokens - window);

    for (int64_t i = 0; i < D * D && place >= 0; i++)
        assert_near(call, get(call, STATES, b, place, s, n->ggml ? i % D * D + i / D : i), S[i], "state", i);
}

static void check_results(const struct call *call)
{
    const struct node *n = call->node;
    const int64_t D = n->dim;
    double *S = malloc((size_t)(D * D) * sizeof *S);

    assert_non_null(S);
    for (int64_t b = 0; b < n->batch; b++)
        for (int64_t s = 0; s < n->heads; s++) {
            for (int64_t i = 0; i < D * D; i++)
                S[i] = n->past > 0 ? get(call, PAST, b, 0, s, n->ggml ? i % D * D + i / D : i) : 0;
            for (int64_t t = 0; t < n->tokens; t++) {
                step(call, S, b, t, s);
                check_read(call, S, b, t, s);
                check_state(call, S, b, t, s);
            }
        }
    free(S);
}

/* ---- The call ---------------------------------------------------------------------------------------------------- */

static clattn_plan_desc desc_of(const struct node *n)
{
    clattn_plan_desc desc = {.rule = n->rule,
                             .dtype = n->dtype,
                             .gate_dtype = n->dtype,
                             .batch = n->batch,
                             .seq_len = n->tokens,
                             .heads = n->ggml ? n->heads : n->q_heads,
                             .key_dim = n->dim,
                             .value_dim = n->dim,
                             .scale = n->scale,
                             .flags = (n->past > 0 ? CLATTN_INITIAL_STATE : 0) |
                                      (n->window > 0 ? 0 : CLATTN_FINAL_STATE) |
                                      (n->ggml ? CLATTN_STATE_VK | CLATTN_HEADS_TILED : 0),
                             .state_window = n->window};

    *(n->ggml ? &desc.qk_heads : &desc.kv_heads) = n->k_heads;
    if (n->dtype != CLATTN_F32) {
        desc.operand_type_count = 1;
        desc.operand_types[0] = (clattn_operand_type){OP(STATE_OUT), n->dtype};
    }
    return desc;
}

static void run(const struct call *call)
{
    const clattn_plan_desc desc = desc_of(call->node);
    clattn_operand operands[TENSORS];
    clattn_call all = {.operands = operands, .seq_len = CLATTN_WHOLE};
    clattn_plan *plan = NULL;
    clattn_status status;

    for (int which = Q; which < TENSORS; which++) {
        const struct laid *laid = &call->at[which];
        const size_t element = dtype_size(laid->dtype);
        if (laid->memory == NULL)
            continue;
        operands[all.operand_count++] = (clattn_operand){.id = laid->id,
                                                         .host = laid->memory,
                                                         .offset = (size_t)laid->first * element,
                                                         .size = (size_t)(laid->count - laid->first) * element,
                                                         .batch_stride = laid->batch,
                                                         .token_stride = laid->token,
                                                         .head_stride = laid->head};
    }
    test_log_clear();
    if (test_is_reference()) {
        status = clattn_reference(&desc, &all, test_log, NULL);
    } else {
        status = clattn_plan_create(&plan, test_device.context, &desc);
        if (status == CLATTN_SUCCESS)
            status = clattn_run(plan, &all);
        clattn_plan_destroy(plan);
    }
    if (status != CLATTN_SUCCESS)
        fail_msg("%s: %s", call->node->name, test_log_text);
}

static void test_node(void **state)
{
    struct call call = {.node = *state};

    lay_all(&call);
    draw(&call);
    run(&call);
    check_results(&call);
    for (int which = Q; which < TENSORS; which++)
        free(call.at[which].memory);
}

int main(void)
{
    struct CMUnitTest tests[COUNT(nodes)];

    for (size_t i = 0; i < COUNT(nodes); i++)
        tests[i] = (struct CMUnitTest){nodes[i].name, test_node, NULL, NULL, (void *)(uintptr_t)&nodes[i]};
    return test_run_group("nodes", tests, COUNT(nodes), test_device_open, test_device_close);
}
