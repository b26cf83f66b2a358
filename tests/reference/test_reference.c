/* The oracle against the table of algebra.md, written a second time and another way: every token is a dense K x K
 * transition A and a rank-one write, and outputs come from products of transitions, the parallel form:
 *
 *     o_t = sum_j (q_t^T A_t ... A_(j+1) k_j) x_j  +  (A_t ... A_1 S_0)^T q_t
 *
 * Column V of x and S is the normalizer, written with 1 where x is written with v. */
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { B = 2, T = 6, H = 4, HQ = 2, K = 6, V = 3, STEPS = 3, ROWS = T * STEPS, COLUMNS = V + 1 };

struct step {
    double A[K][K], k[K], x[COLUMNS], column_decay[COLUMNS];
};

/* One row (token, or one of a token's steps) of one head. */
struct place {
    const struct check_tensors *tensors;
    int64_t b, row, token, head;
};

static double get(const struct place *at, clattn_operand_id id, int64_t row, int64_t i)
{
    const clattn_operand_info *info = &at->tensors->tensor[id].info;
    int64_t heads = info->dims[2], width = info->rank == 4 ? info->dims[3] : 1;

    return test_get_mapped(at->tensors, id, ((at->b * info->dims[1] + row) * heads + at->head * heads / H) * width + i);
}

/* The log-decay that a gate says, of a token's n-th channel, or of any token's. */
static double get_gate(const struct place *at, clattn_operand_id id, int n)
{
    const clattn_operand_info *info = &at->tensors->tensor[id].info;

    if (at->tensors->desc.flags & CLATTN_GATE_PER_HEAD)
        return test_get_mapped(at->tensors, id, at->head * (info->rank == 2 ? info->dims[1] : 1) + n);
    return get(at, id, at->token, n);
}

static double mapped(clattn_feature_map map, double x)
{
    if (map == CLATTN_FEATURE_ELU1)
        return x > 0 ? x + 1 : exp(x);
    return map == CLATTN_FEATURE_RELU ? fmax(x, 0) : x;
}

static void get_key(const struct place *at, clattn_operand_id id, int64_t row, double out[K])
{
    const clattn_plan_desc *desc = &at->tensors->desc;
    double sum = 1e-6;

    for (int n = 0; n < K; n++)
        sum += pow(get(at, id, row, n), 2);
    for (int n = 0; n < K; n++)
        out[n] = mapped(desc->feature_map, get(at, id, row, n) / (desc->flags & CLATTN_QK_L2NORM ? sqrt(sum) : 1));
}

static void get_value(const struct place *at, struct step *step)
{
    for (int c = 0; c < V; c++)
        step->x[c] = get(at, OP(V), at->row, c);
    step->x[V] = 1;
}

static void set_diagonal(struct step *step, int n, double log_decay)
{
    step->A[n][n] = exp(log_decay);
}

static void scalar_decay(struct step *step, double log_decay)
{
    for (int n = 0; n < K; n++)
        set_diagonal(step, n, log_decay);
}

static void channel_decay(const struct place *at, struct step *step, clattn_operand_id id)
{
    for (int n = 0; n < K; n++)
        set_diagonal(step, n, get_gate(at, id, n));
}

/* A <- (I - e p^T) A */
static void erase(struct step *step, const double e[K], const double p[K])
{
    double before[K][K];

    memcpy(before, step->A, sizeof before);
    for (int n = 0; n < K; n++)
        for (int m = 0; m < K; m++)
            for (int l = 0; l < K; l++)
                step->A[n][m] -= e[n] * p[l] * before[l][m];
}

/* The delta rule's erase with key p, and its write: both times beta. */
static void delta(const struct place *at, struct step *step, const double p[K])
{
    double beta = get(at, OP(BETA), at->row, 0), e[K];

    for (int n = 0; n < K; n++)
        e[n] = beta * step->k[n];
    erase(step, e, p);
    for (int c = 0; c < V; c++)
        step->x[c] *= beta;
}

static void linear_attn(const struct place *at, struct step *step)
{
    (void)at, (void)step;
}

static void retention(const struct place *at, struct step *step)
{
    scalar_decay(step, log(1 - pow(2, -5 - (double)at->head)));
}

static void lightning_attn(const struct place *at, struct step *step)
{
    const clattn_plan_desc *desc = &at->tensors->desc;
    double h = (double)at->head;

    if (desc->slopes == CLATTN_SLOPES_MINIMAX)
        scalar_decay(step, -pow(0.25, h + 1) * (1 - desc->layer / (desc->layers - 1 + 1e-5) + 1e-5)); /* H is 4 */
    else
        scalar_decay(step, -(8.0 / H) * (1 - (double)desc->layer / desc->layers) * h);
}

static void simple_gla(const struct place *at, struct step *step)
{
    scalar_decay(step, get_gate(at, OP(G), 0));
}

static void ssd(const struct place *at, struct step *step)
{
    scalar_decay(step, get(at, OP(G), at->token, 0));
    for (int c = 0; c < V; c++)
        step->x[c] *= get(at, OP(BETA), at->token, 0);
}

static void gla(const struct place *at, struct step *step)
{
    channel_decay(at, step, OP(G));
    for (int c = 0; c < V && (at->tensors->desc.flags & CLATTN_VALUE_GATE); c++)
        step->column_decay[c] = exp(get(at, OP(GV), at->token, c));
}

static void rwkv6(const struct place *at, struct step *step)
{
    channel_decay(at, step, OP(W));
}

static void delta_rule(const struct place *at, struct step *step)
{
    delta(at, step, step->k);
}

static void gated_delta_rule(const struct place *at, struct step *step)
{
    scalar_decay(step, get(at, OP(G), at->token, 0));
    delta(at, step, step->k);
}

static void kda(const struct place *at, struct step *step)
{
    channel_decay(at, step, OP(G));
    delta(at, step, step->k);
}

/* A = e^g - beta k p^T: the state before the decay is read. */
static void comba(const struct place *at, struct step *step)
{
    double p[K];

    get_key(at, OP(P), at->row, p);
    delta(at, step, p);
    for (int n = 0; n < K; n++)
        step->A[n][n] += exp(get(at, OP(G), at->token, 0)) - 1;
}

static void precond_gated_delta_rule(const struct place *at, struct step *step)
{
    double p[K];

    get_key(at, OP(P), at->row, p);
    scalar_decay(step, get(at, OP(G), at->token, 0));
    delta(at, step, p);
}

static void gdn2(const struct place *at, struct step *step)
{
    double p[K];

    for (int n = 0; n < K; n++)
        p[n] = get(at, OP(B), at->row, n) * step->k[n];
    channel_decay(at, step, OP(G));
    erase(step, step->k, p);
    for (int c = 0; c < V; c++)
        step->x[c] *= get(at, OP(W), at->row, c);
}

static void gated_delta_product(const struct place *at, struct step *step)
{
    if (at->row % at->tensors->desc.steps == 0 && !(at->tensors->desc.flags & CLATTN_UNGATED))
        scalar_decay(step, get(at, OP(G), at->token, 0));
    delta(at, step, step->k);
}

/* A = D + b a^T: the state before the decay is read. */
static void iplr(const struct place *at, struct step *step)
{
    for (int n = 0; n < K; n++)
        for (int m = 0; m < K; m++)
            step->A[n][m] += get(at, OP(B), at->row, n) * get(at, OP(A), at->row, m);
}

static void dplr(const struct place *at, struct step *step)
{
    channel_decay(at, step, OP(G));
    iplr(at, step);
}

static void rwkv7(const struct place *at, struct step *step)
{
    channel_decay(at, step, OP(W));
    iplr(at, step);
}

/* Without its stabiliser: what it computes is the same. */
static void mlstm(const struct place *at, struct step *step)
{
    scalar_decay(step, get(at, OP(F), at->token, 0));
    for (int c = 0; c < COLUMNS; c++)
        step->x[c] *= exp(get(at, OP(I), at->token, 0));
}

/* The same from the rule's columns: what a rule is held to that has no transition of its own, and all others too. */
static void erase_columns(const struct place *at, const struct rule *rule, double e[K], double p[K])
{
    const struct operand_row *read = &erase_operands(rule->erase)[0], *written = &erase_operands(rule->erase)[1];
    double k[K];

    get_key(at, OP(K), at->row, k);
    for (int n = 0; n < K; n++) {
        e[n] = k[n] * (rule->write == WRITE_BETA ? get(at, OP(BETA), at->row, 0) : 1);
        p[n] = k[n];
        if (written->id != NO_OPERAND)
            e[n] = -get(at, written->id, at->row, n);
        if (read->id != NO_OPERAND && read->storage == STORE_GATE)
            p[n] *= get(at, read->id, at->row, n);
    }
    for (int n = 0; n < K && read->id != NO_OPERAND && written->id != NO_OPERAND; n++)
        p[n] = get(at, read->id, at->row, n);
    if (read->id != NO_OPERAND && read->storage == STORE_DATA && written->id == NO_OPERAND)
        get_key(at, read->id, at->row, p);
}

static void decay_columns(const struct place *at, const struct rule *rule, struct step *step)
{
    const clattn_plan_desc *desc = &at->tensors->desc;

    if (at->row % desc->steps != 0 || desc->flags & CLATTN_UNGATED)
        return;
    if (rule->head_decay != NULL)
        scalar_decay(step, rule->head_decay(desc, at->head));
    else if (rule->decay == DECAY_SCALAR)
        scalar_decay(step, get_gate(at, rule->gate, 0));
    else if (rule->decay == DECAY_CHANNEL)
        channel_decay(at, step, rule->gate);
    for (int c = 0; c < V && (desc->flags & CLATTN_VALUE_GATE); c++)
        step->column_decay[c] = exp(get(at, OP(GV), at->token, c));
}

static void from_columns(const struct place *at, struct step *step)
{
    const struct rule *rule = rule_get(at->tensors->desc.rule);
    double e[K], p[K];

    decay_columns(at, rule, step);
    if (rule->erase != ERASE_NONE) {
        erase_columns(at, rule, e, p);
        if (rule->order == DECAY_FIRST)
            erase(step, e, p);
        for (int n = 0; n < K && rule->order == ERASE_FIRST; n++)
            for (int m = 0; m < K; m++)
                step->A[n][m] -= e[n] * p[m];
    }
    for (int c = 0; c < COLUMNS; c++) {
        if (rule->write == WRITE_EXP)
            step->x[c] *= exp(get(at, OP(I), at->token, 0));
        if (rule->write == WRITE_BETA && c < V)
            step->x[c] *= get(at, OP(BETA), at->row, 0);
        if (rule->write == WRITE_GATED && c < V)
            step->x[c] *= get(at, OP(W), at->row, c);
    }
}

static int by_columns; /* the transition is taken from the columns, whether or not the rule has its own */

static void (*const steps_of[RULE_COUNT])(const struct place *at, struct step *step) = {
    [CLATTN_LINEAR_ATTN] = linear_attn,
    [CLATTN_RETENTION] = retention,
    [CLATTN_LIGHTNING_ATTN] = lightning_attn,
    [CLATTN_SIMPLE_GLA] = simple_gla,
    [CLATTN_SSD] = ssd,
    [CLATTN_GLA] = gla,
    [CLATTN_RWKV6] = rwkv6,
    [CLATTN_DELTA_RULE] = delta_rule,
    [CLATTN_GATED_DELTA_RULE] = gated_delta_rule,
    [CLATTN_KDA] = kda,
    [CLATTN_COMBA] = comba,
    [CLATTN_GDN2] = gdn2,
    [CLATTN_GATED_DELTA_PRODUCT] = gated_delta_product,
    [CLATTN_DPLR] = dplr,
    [CLATTN_IPLR] = iplr,
    [CLATTN_RWKV7] = rwkv7,
    [CLATTN_MLSTM] = mlstm,
    [CLATTN_PRECOND_GATED_DELTA_RULE] = precond_gated_delta_rule,
};

static void make_step(const struct place *at, struct step *step)
{
    memset(step, 0, sizeof *step);
    scalar_decay(step, 0);
    for (int c = 0; c < COLUMNS; c++)
        step->column_decay[c] = 1;
    get_key(at, OP(K), at->row, step->k);
    get_value(at, step);
    if (by_columns || steps_of[at->tensors->desc.rule] == NULL)
        from_columns(at, step);
    else
        steps_of[at->tensors->desc.rule](at, step);
}

/* S after `rows` steps: each write carried on by every later transition, and S0 by all. */
static void state_after(const struct step *steps, int64_t rows, double S0[K][COLUMNS], double S[K][COLUMNS])
{
    double carry[K][K] = {{0}}, columns[COLUMNS], next[K][K];

    memset(S, 0, sizeof(double[K][COLUMNS]));
    for (int n = 0; n < K; n++)
        carry[n][n] = 1;
    for (int c = 0; c < COLUMNS; c++)
        columns[c] = 1;
    for (int64_t j = rows; j-- > 0;) {
        for (int n = 0; n < K; n++)
            for (int m = 0; m < K; m++)
                for (int c = 0; c < COLUMNS; c++)
                    S[n][c] += carry[n][m] * steps[j].k[m] * steps[j].x[c] * columns[c];
        memset(next, 0, sizeof next);
        for (int n = 0; n < K; n++)
            for (int m = 0; m < K; m++)
                for (int l = 0; l < K; l++)
                    next[n][m] += carry[n][l] * steps[j].A[l][m];
        memcpy(carry, next, sizeof carry);
        for (int c = 0; c < COLUMNS; c++)
            columns[c] *= steps[j].column_decay[c];
    }
    for (int n = 0; n < K; n++)
        for (int m = 0; m < K; m++)
            for (int c = 0; c < COLUMNS; c++)
                S[n][c] += carry[n][m] * S0[m][c] * columns[c];
}

static int64_t state_at(const struct place *at, int n, int c)
{
    int64_t head = at->b * H + at->head;

    return at->tensors->desc.flags & CLATTN_STATE_VK ? (head * V + c) * K + n : (head * K + n) * V + c;
}

/* mlstm stores its states times e^-m. */
static double stored_scale(const struct place *at, const struct check_tensors *tensors, clattn_operand_id id)
{
    return tensors->tensor[id].data ? exp(test_get(tensors, id, at->b * H + at->head)) : 1;
}

static void initial(const struct place *at, double S0[K][COLUMNS])
{
    const struct check_tensors *t = at->tensors;
    double scale = stored_scale(at, t, OP(STABILIZER_IN));

    for (int n = 0; n < K; n++) {
        for (int c = 0; c < V; c++)
            S0[n][c] = test_get(t, OP(STATE_IN), state_at(at, n, c)) * scale;
        S0[n][V] = t->tensor[OP(NORMALIZER_IN)].data
                       ? test_get(t, OP(NORMALIZER_IN), (at->b * H + at->head) * K + n) * scale
                       : 0;
    }
}

/* m after that many tokens: the maximum of the input gates, each with all later forget gates, and of m_0 with all of
 * them. */
static double stabilizer(const struct place *at, int64_t tokens)
{
    double forget = 0, most = (double)-INFINITY;

    for (int64_t t = tokens; t-- > 0;) {
        most = fmax(most, get(at, OP(I), t, 0) + forget);
        forget += get(at, OP(F), t, 0);
    }
    return fmax(most, test_get(at->tensors, OP(STABILIZER_IN), at->b * H + at->head) + forget);
}

/* What z multiplies a number by. */
static double gate_of(const struct place *at, int c)
{
    double z;

    if (!(at->tensors->desc.flags & CLATTN_WITH_Z))
        return 1;
    z = get(at, OP(Z), at->token, c);
    return at->tensors->desc.gating == CLATTN_GATING_SIGMOID ? 1 / (1 + exp(-z)) : z / (1 + exp(-z));
}

/* A norm of the row with norm as weights, and z before it or after. */
static void normalise(const struct place *at, double o[COLUMNS])
{
    const clattn_plan_desc *desc = &at->tensors->desc;
    const int before = desc->gating == CLATTN_GATING_BEFORE;
    double mean = 0;

    for (int c = 0; c < V; c++)
        mean += pow(o[c] * (before ? gate_of(at, c) : 1), 2) / V;
    for (int c = 0; c < V; c++)
        o[c] *= gate_of(at, c) * test_get(at->tensors, OP(NORM), c) / sqrt(mean + desc->eps);
}

static void read(const struct place *at, const struct step *steps, double S0[K][COLUMNS],
                 const struct check_tensors *out)
{
    const clattn_plan_desc *desc = &at->tensors->desc;
    int before = read_is_before(rule_get(desc->rule)->read), bonus = at->tensors->tensor[OP(U)].data != NULL;
    double S[K][COLUMNS], q[K], o[COLUMNS] = {0}, divisor = 1;
    struct check_tensors target = *out;

    state_after(steps, (at->token + !before) * desc->steps, S0, S);
    get_key(at, OP(Q), at->token, q);
    for (int n = 0; n < K; n++)
        for (int c = 0; c < COLUMNS; c++) {
            double own = bonus ? test_get(at->tensors, OP(U), at->head * K + n) * steps[at->token].k[n] : 0;
            o[c] += desc->scale * q[n] * (S[n][c] + own * steps[at->token].x[c]);
        }
    if (desc->flags & CLATTN_NORMALIZE)
        divisor = o[V] + 1e-10;
    if (desc->rule == CLATTN_MLSTM)
        divisor = fmax(fabs(o[V]), 1) + desc->eps * exp(stabilizer(at, at->token + 1));
    if (desc->flags & CLATTN_NORM_OUTPUT)
        normalise(at, o);
    for (int c = 0; c < V; c++)
        test_set(&target, OP(O), ((at->b * T + at->token) * H + at->head) * V + c, o[c] / divisor);
}

static void finish(const struct place *at, const struct step *steps, double S0[K][COLUMNS], struct check_tensors *out)
{
    double S[K][COLUMNS], scale;

    if (out->tensor[OP(STABILIZER_OUT)].data)
        test_set(out, OP(STABILIZER_OUT), at->b * H + at->head, stabilizer(at, T));
    scale = stored_scale(at, out, OP(STABILIZER_OUT));
    state_after(steps, T * at->tensors->desc.steps, S0, S);
    for (int n = 0; n < K; n++) {
        for (int c = 0; c < V; c++)
            test_set(out, OP(STATE_OUT), state_at(at, n, c), S[n][c] / scale);
        if (out->tensor[OP(NORMALIZER_OUT)].data)
            test_set(out, OP(NORMALIZER_OUT), (at->b * H + at->head) * K + n, S[n][V] / scale);
    }
}

static void dense(const struct check_tensors *in, struct check_tensors *out)
{
    struct step steps[ROWS];
    double S0[K][COLUMNS];

    for (int64_t job = 0; job < B * H; job++) {
        struct place at = {.tensors = in, .b = job / H, .head = job % H};
        initial(&at, S0);
        for (at.row = 0; at.row < T * in->desc.steps; at.row++) {
            at.token = at.row / in->desc.steps;
            make_step(&at, &steps[at.row]);
        }
        for (at.token = 0; at.token < T; at.token++)
            read(&at, steps, S0, out);
        finish(&at, steps, S0, out);
    }
}

/* Rows of a token as the flag turns them: pair n by t base^(-2n/dim). */
static void turn_rows(struct check_tensors *in, clattn_operand_id id)
{
    const clattn_plan_desc *desc = &in->desc;
    int dim = desc->rope_dim, apart = desc->flags & CLATTN_INTERLEAVED ? 1 : dim / 2;
    int64_t of_token = check_count(&in->tensor[id].info) / (B * T);

    for (int64_t row = 0; row < B * T * of_token / K && in->tensor[id].data != NULL; row++)
        for (int n = 0; n < dim / 2; n++) {
            int64_t first = row * K + (desc->flags & CLATTN_INTERLEAVED ? 2 * n : n), t = row * K / of_token % T;
            double x = test_get(in, id, first), y = test_get(in, id, first + apart);
            double angle = (double)t * exp(-2.0 * n / dim * log(desc->rope_base));
            test_set(in, id, first, x * cos(angle) - y * sin(angle));
            test_set(in, id, first + apart, x * sin(angle) + y * cos(angle));
        }
}

static void check_rule(clattn_plan_desc *desc, enum check_gates gates, const char *variant)
{
    struct check_tensors in, turned, expected, actual;
    char what[96];

    snprintf(what, sizeof what, "%s %s", test_rule_name(desc->rule), variant);
    test_make(&in, desc, gates, NULL);
    test_make(&turned, desc, gates, NULL);
    turn_rows(&turned, OP(Q)), turn_rows(&turned, OP(K));
    assert_status(check_allocate(&expected, desc), SUCCESS);
    dense(&turned, &expected);
    assert_status(check_reference(&actual, &in, test_log, NULL), SUCCESS);
    test_compare_all(&actual, &expected, 1e-6, what);
    check_free(&in);
    check_free(&turned);
    check_free(&expected);
    check_free(&actual);
}

static void test_rule(void **state)
{
    const uint32_t both = CLATTN_INITIAL_STATE | CLATTN_FINAL_STATE;
    const uint64_t flags[] = {both, both | CLATTN_STATE_VK | CLATTN_QK_L2NORM};
    clattn_rule rule = *(const clattn_rule *)*state;

    for (by_columns = 0; by_columns < 2; by_columns++)
        for (size_t f = 0; f < COUNT(flags); f++)
            for (int variant = 0;; variant++) {
                clattn_plan_desc desc = {.rule = rule,
                                         .flags = flags[f],
                                         .batch = B,
                                         .seq_len = T,
                                         .heads = H,
                                         .qk_heads = HQ,
                                         .key_dim = K,
                                         .value_dim = V};
                const char *name = check_variant(rule, variant, &desc);
                if (name == NULL)
                    break;
                if (desc.flags & (CLATTN_REVERSED | CLATTN_NONCAUSAL)) /* test_invariance, test_noncausal */
                    continue;
                check_rule(&desc, CHECK_GATES_USUAL, name);
                check_rule(&desc, CHECK_GATES_HARD, name);
            }
}

int main(void)
{
    static clattn_rule rules[RULE_COUNT];
    struct CMUnitTest tests[RULE_COUNT];
    size_t count = 0;

    for (clattn_rule rule = CLATTN_RULE_NONE + 1; rule < RULE_COUNT; rule++) {
        rules[rule] = rule;
        if (rule_has_tokens(rule_get(rule)) &&
            rule_has_chunks(rule_get(rule)) &&  /* test_list, test_families, test_lact */
            !rule_has_levels(rule_get(rule)) && /* test_levels */
            !rule_is_solved(rule_get(rule)))    /* test_mesa */
            tests[count++] = (struct CMUnitTest){
                .name = test_rule_name(rule), .test_func = test_rule, .initial_state = &rules[rule]};
    }
    return test_run_group("reference", tests, count, NULL, NULL);
}
