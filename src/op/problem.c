/* Defaults, then checks, then shapes. */
#include "op/arguments.h"
#include "op/op.h"

#include "base/sized.h"

#include <math.h>
#include <string.h>

enum { MAX_HEADS = 65535, MOST_TYPES = sizeof((clattn_plan_desc *)NULL)->operand_types / sizeof(clattn_operand_type) };

size_t dtype_size(clattn_dtype dtype)
{
    return dtype == CLATTN_F32 ? 4 : 2;
}

const char *dtype_name(clattn_dtype dtype)
{
    static const char *const names[] = {[CLATTN_F32] = "f32", [CLATTN_F16] = "f16", [CLATTN_BF16] = "bf16"};
    return names[dtype];
}

static void set_default(int64_t *field, int64_t value)
{
    if (*field == 0)
        *field = value;
}

/* The nearest of the chunks there are: 8, 16, 32 and 64. */
static int32_t nearest_chunk(int32_t asked)
{
    int32_t chunk = 8;

    while (chunk < 64 && asked - chunk > chunk / 2)
        chunk *= 2;
    return asked > 0 ? chunk : asked;
}

/* Of each map the usual one; its sign is that of all */
static const double gate_scales[] = {
    [CLATTN_GATE_MAP_SIGMOID] = -5, [CLATTN_GATE_MAP_LOGSIGMOID] = 1, [CLATTN_GATE_MAP_EXP] = 0};

static void complete(clattn_plan_desc *desc, const struct rule *rule)
{
    op_of(rule)->complete(desc, rule);
    set_default(&desc->batch, 1);
    set_default(&desc->qk_heads, desc->heads);
    set_default(&desc->kv_heads, desc->heads);
    if (desc->scale == 0)
        desc->scale = rule->default_scale != 0 ? rule->default_scale : 1 / sqrt((double)desc->key_dim);
    desc->chunk = nearest_chunk(desc->chunk);
    if (desc->steps == 0)
        desc->steps = 1;
    if (desc->layers == 0)
        desc->layers = 1;
    if (desc->gate_scale == 0)
        desc->gate_scale = gate_scales[(unsigned)desc->gate_map <= CLATTN_GATE_MAP_EXP ? desc->gate_map : 0];
    if (desc->flags & CLATTN_CU_SEQLENS_INT64)
        desc->flags |= CLATTN_CU_SEQLENS;
}

static clattn_status check_number(const struct log *log, const char *name, double number)
{
    if (!isfinite(number) || fabs(number) > 1e30)
        return FAIL(log, INVALID_DESC, "%s is %g, expected a finite number up to 1e30", name, number);
    return CLATTN_SUCCESS;
}

static clattn_status check_sizes(const clattn_plan_desc *desc, int64_t most_dim, const struct log *log)
{
    TRY(check_range(log, "batch", desc->batch, 1, MAX_LENGTH));
    TRY(check_range(log, "steps", desc->steps, 1, 64));
    TRY(check_range(log, "seq_len", desc->seq_len, 1, MAX_LENGTH / desc->steps));
    TRY(check_range(log, "heads", desc->heads, 1, MAX_HEADS));
    TRY(check_range(log, "qk_heads", desc->qk_heads, 1, desc->heads));
    TRY(check_range(log, "kv_heads", desc->kv_heads, 1, desc->heads));
    TRY(check_range(log, "key_dim", desc->key_dim, 1, most_dim));
    TRY(check_range(log, "value_dim", desc->value_dim, 1, most_dim));
    TRY(check_range(log, "dtype", desc->dtype, CLATTN_F32, CLATTN_BF16));
    TRY(check_range(log, "gate_dtype", desc->gate_dtype, CLATTN_F32, CLATTN_BF16));
    TRY(check_range(log, "mode", desc->mode, CLATTN_MODE_AUTO, CLATTN_MODE_CHUNK));
    TRY(check_range(log, "feature_map", desc->feature_map, CLATTN_FEATURE_IDENTITY, CLATTN_FEATURE_RELU));
    TRY(check_range(log, "slopes", desc->slopes, CLATTN_SLOPES_LIGHTNING, CLATTN_SLOPES_MINIMAX));
    TRY(check_range(log, "kernel", desc->kernel, CLATTN_WEIGHTS_SOFTMAX, CLATTN_WEIGHTS_FLOOR));
    TRY(check_range(log, "write_kernel", desc->write_kernel, CLATTN_WEIGHTS_SOFTMAX, CLATTN_WEIGHTS_FLOOR));
    TRY(check_range(log, "gate_map", desc->gate_map, CLATTN_GATE_MAP_LOG, CLATTN_GATE_MAP_EXP));
    TRY(check_range(log, "beta_map", desc->beta_map, CLATTN_BETA_STRENGTH, CLATTN_BETA_TWICE_SIGMOID));
    TRY(check_range(log, "layers", desc->layers, 1, INT32_MAX));
    TRY(check_range(log, "layer", desc->layer, 0, desc->layers - 1));
    if (desc->heads % desc->qk_heads != 0)
        return FAIL(log, INVALID_DESC, "qk_heads %lld does not divide heads %lld", (long long)desc->qk_heads,
                    (long long)desc->heads);
    if (desc->heads % desc->kv_heads != 0)
        return FAIL(log, INVALID_DESC, "kv_heads %lld does not divide heads %lld", (long long)desc->kv_heads,
                    (long long)desc->heads);
    TRY(check_range(log, "chunk", desc->chunk, 0, INT32_MAX));
    if ((double)desc->batch * (double)(desc->seq_len * desc->steps) * (double)desc->heads * (double)most_dim >
        MAX_ELEMENTS)
        return FAIL(log, INVALID_DESC, "batch %lld times seq_len %lld times heads %lld is too large for 64-bit offsets",
                    (long long)desc->batch, (long long)desc->seq_len, (long long)desc->heads);
    TRY(check_number(log, "scale", desc->scale));
    if (!(desc->eps >= 0 && desc->eps <= 1e30))
        return FAIL(log, INVALID_DESC, "eps is %g, expected 0 to 1e30", desc->eps);
    return CLATTN_SUCCESS;
}

/* The options that only some rules take, and their names. */
static clattn_status check_options(const clattn_plan_desc *desc, const struct rule *rule, const struct log *log)
{
    static const struct {
        uint32_t flag;
        const char *name;
    } flags[] = {{CLATTN_NORMALIZE, "normalize"},
                 {CLATTN_GATE_PER_HEAD, "a gate per head"},
                 {CLATTN_VALUE_GATE, "gv"},
                 {CLATTN_UNGATED, "ungated"},
                 {CLATTN_WITH_SINK, "sink"},
                 {CLATTN_WITH_LSE, "lse"},
                 {CLATTN_WITH_KV_LENS, "kv_lens"},
                 {CLATTN_CU_SEQLENS_KV, "cu_seqlens_kv"},
                 {CLATTN_WITH_P, "p"},
                 {CLATTN_WITH_BETA, "beta"},
                 {CLATTN_WITH_WRITTEN, "written"},
                 {CLATTN_APPEND, "append"},
                 {CLATTN_SOFTPLUS, "softplus"},
                 {CLATTN_WITH_DT_BIAS, "dt_bias"},
                 {CLATTN_WITH_A_LOG, "a_log"},
                 {CLATTN_WITH_D, "d"},
                 {CLATTN_WITH_Z, "z"},
                 {CLATTN_NONCAUSAL, "noncausal"},
                 {CLATTN_COMPLEX, "complex"}};
    const uint32_t known = CLATTN_NONCAUSAL * 2 - 1 + 63 * CLATTN_SOFTPLUS + 7 * CLATTN_HEADS_TILED;
    const struct {
        uint32_t knob;
        int used;
        const char *name;
    } knobs[] = {{RULE_TAKES_FEATURE_MAP, desc->feature_map != CLATTN_FEATURE_IDENTITY, "feature_map"},
                 {RULE_TAKES_STEPS, desc->steps != 1, "steps"},
                 {RULE_TAKES_LAYER, desc->layer != 0 || desc->layers != 1, "layer"},
                 {RULE_TAKES_LAYER, desc->slopes != CLATTN_SLOPES_LIGHTNING, "slopes"},
                 {RULE_TAKES_EPS, desc->eps > 0, "eps"},
                 {RULE_TAKES_KERNEL, desc->kernel != CLATTN_WEIGHTS_SOFTMAX, "kernel"},
                 {RULE_TAKES_GATE_MAP, desc->gate_map != CLATTN_GATE_MAP_LOG, "gate_map"},
                 {RULE_TAKES_BETA_MAP, desc->beta_map != CLATTN_BETA_STRENGTH, "beta_map"},
                 {RULE_TAKES_WRITE_KERNEL, desc->write_kernel != CLATTN_WEIGHTS_SOFTMAX, "write_kernel"},
                 {RULE_TAKES_TAPS, desc->taps != 0, "taps"},
                 {RULE_TAKES_TAPS, desc->activation != CLATTN_ACTIVATION_SILU, "activation"},
                 {RULE_TAKES_TAPS, desc->with_bias != 0, "with_bias"},
                 {RULE_TAKES_TAPS, desc->residual != 0, "residual"},
                 {RULE_TAKES_NORM, desc->weighting != CLATTN_WEIGHTING_SHARED, "weighting"},
                 {RULE_TAKES_NORM, desc->gating != CLATTN_GATING_AFTER, "gating"},
                 {RULE_TAKES_NORM, desc->centered != 0, "centered"},
                 {RULE_TAKES_ROPE, desc->rope_base != 0, "rope_base"},
                 {RULE_TAKES_ROPE, desc->rope_dim != 0, "rope_dim"},
                 {RULE_TAKES_ROPE, desc->interleaved != 0, "interleaved"},
                 {RULE_TAKES_ROPE, desc->with_position != 0, "with_position"},
                 {RULE_TAKES_ROPE, desc->turned_back != 0, "turned_back"},
                 {RULE_TAKES_FEATURES, desc->features != CLATTN_FEATURES_FAVOR, "features"},
                 {RULE_TAKES_FEATURES, desc->of_queries != 0, "of_queries"},
                 {RULE_TAKES_LEARNING, desc->hidden_dim != 0, "hidden_dim"},
                 {RULE_TAKES_LEARNING, desc->mini_batch != 0, "mini_batch"},
                 {RULE_TAKES_LEARNING, desc->muon != CLATTN_MUON_NONE, "muon"},
                 {RULE_TAKES_LEARNING, desc->pre_norm != 0, "pre_norm"},
                 {RULE_TAKES_LEARNING, desc->with_momentum != 0, "with_momentum"},
                 {0, rule_has_list(rule) && desc->state_slots != 0, "state_slots"},
                 {0, (rule_has_list(rule) || rule->op != OP_MIXER) && desc->state_window != 0, "state_window"},
                 {0, (rule_has_list(rule) || rule->op != OP_MIXER) && desc->state_every != 0, "state_every"},
                 {0, !rule_has_list(rule) && desc->kv_len != 0, "kv_len"},
                 {0, !rule_has_list(rule) && desc->window != 0, "window"}};

    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if ((desc->flags & flags[i].flag) && !(rule->flags & flags[i].flag))
            return FAIL(log, INVALID_DESC, "%s takes no option %s", rule->name, flags[i].name);
    for (size_t i = 0; i < sizeof knobs / sizeof *knobs; i++)
        if (knobs[i].used && !(rule->knobs & knobs[i].knob))
            return FAIL(log, INVALID_DESC, "%s takes no option %s", rule->name, knobs[i].name);
    if (desc->flags & ~known)
        return FAIL(log, INVALID_DESC, "flags has unknown bits: 0x%x", desc->flags & ~known);
    return CLATTN_SUCCESS;
}

/* One matrix for all value columns, and small enough to be looked at. */
static clattn_status check_attn(const struct problem *problem, const struct log *log)
{
    enum { MOST_COLUMNS = 8192 };
    const clattn_plan_desc *desc = &problem->desc;
    const struct extent most = problem_most(problem);
    int list = rule_has_list(problem->rule);

    if (!(desc->flags & CLATTN_WITH_ATTN))
        return CLATTN_SUCCESS;
    if (!rule_has_matrix(problem->rule) || (desc->flags & CLATTN_VALUE_GATE))
        return FAIL(log, INVALID_DESC, "%s%s: each value column has an attention matrix of its own: no attn",
                    problem->rule->name, desc->flags & CLATTN_VALUE_GATE ? " with gv" : "");
    return check_range(log, list ? "with attn, the keys" : "with attn, seq_len times steps",
                       list ? most.kv_len : most.seq_len * desc->steps, 1, MOST_COLUMNS);
}

/* What goes with a map, and with no other */
static clattn_status check_gate(const clattn_plan_desc *desc, const struct rule *rule, const struct log *log)
{
    static const char *const names[] = {"log", "softplus", "sigmoid", "logsigmoid", "exp"};
    const char *name = names[desc->gate_map];
    double usual = gate_scales[desc->gate_map];
    int rated = desc->gate_map == CLATTN_GATE_MAP_SOFTPLUS || desc->gate_map == CLATTN_GATE_MAP_SIGMOID;

    if (desc->gate_map != CLATTN_GATE_MAP_LOG && (desc->flags & CLATTN_UNGATED))
        return FAIL(log, INVALID_DESC, "%s: ungated, and so no gate_map %s", rule->name, name);
    if ((desc->flags & CLATTN_WITH_A_LOG) && !rated)
        return FAIL(log, INVALID_DESC, "%s: a_log is for gate_map softplus and sigmoid, not for %s", rule->name, name);
    if ((desc->flags & CLATTN_WITH_DT_BIAS) && desc->gate_map == CLATTN_GATE_MAP_LOG &&
        (rule->knobs & RULE_TAKES_GATE_MAP))
        return FAIL(log, INVALID_DESC, "%s: dt_bias is for gates with a gate_map", rule->name);
    if (rule->op == OP_PIECE)
        return check_number(log, "gate_scale", desc->gate_scale);
    if (!(desc->gate_scale * usual > 0 && fabs(desc->gate_scale) <= 1e30) && desc->gate_scale != usual)
        return FAIL(log, INVALID_DESC, "gate_scale is %g, expected %s0 for gate_map %s", desc->gate_scale,
                    usual < 0   ? "one below "
                    : usual > 0 ? "one above "
                                : "",
                    name);
    return CLATTN_SUCCESS;
}

static clattn_status check_packing(const clattn_plan_desc *desc, const struct log *log)
{
    if (!(desc->flags & CLATTN_CU_SEQLENS)) {
        if (desc->sequences != 0)
            return FAIL(log, INVALID_DESC, "sequences is %lld without CLATTN_CU_SEQLENS, expected 0",
                        (long long)desc->sequences);
        return CLATTN_SUCCESS;
    }
    if (desc->batch != 1)
        return FAIL(log, INVALID_DESC, "batch is %lld, expected 1 with cu_seqlens", (long long)desc->batch);
    return check_range(log, "sequences", desc->sequences, 1, MAX_LENGTH - 1);
}

/* ---- Types of operands --------------------------------------------------------------------------------------------
 */

static clattn_dtype class_type(const clattn_plan_desc *desc, enum storage storage)
{
    return storage == STORE_DATA ? desc->dtype : storage == STORE_GATE ? desc->gate_dtype : CLATTN_F32;
}

static const struct operand_row *find_row(const struct problem *problem, clattn_operand_id id)
{
    for (int i = 0; i < problem->operand_count; i++)
        if (problem->operands[i].id == id)
            return &problem->operands[i];
    return NULL;
}

static clattn_status set_type(struct problem *problem, const clattn_operand_type *type, const struct log *log)
{
    const struct operand_row *row = find_row(problem, type->id);
    int known = (int)type->id > CLATTN_OPERAND_NONE && (int)type->id < OPERAND_COUNT;

    if (row == NULL)
        return FAIL(log, INVALID_DESC, "operand_types names %s (id %d), which %s does not use",
                    known ? operand_name(type->id) : "an operand", (int)type->id, problem->rule->name);
    TRY(check_range(log, "a dtype of operand_types", type->dtype, CLATTN_F32, CLATTN_BF16));
    if (row->storage > STORE_MATRIX)
        return FAIL(log, INVALID_DESC, "operand_types names %s, whose type is fixed", operand_name(type->id));
    problem->types[type->id] = type->dtype;
    return CLATTN_SUCCESS;
}

/* The one type of all operands of a class; *mixed is one that differs from the first, or unchanged. */
static clattn_dtype common_type(const struct problem *problem, enum storage storage, clattn_operand_id *mixed)
{
    const struct operand_row *first = NULL;

    for (int i = 0; i < problem->operand_count; i++) {
        const struct operand_row *row = &problem->operands[i];
        if (row->storage != storage)
            continue;
        if (first == NULL)
            first = row;
        else if (problem->types[row->id] != problem->types[first->id])
            *mixed = row->id;
    }
    return first != NULL ? problem->types[first->id] : class_type(&problem->desc, storage);
}

/* Where all operands of a class have one type it becomes the class's, so that a problem is always said in one way. */
static void settle_types(struct problem *problem)
{
    clattn_operand_id mixed[3] = {NO_OPERAND, NO_OPERAND, NO_OPERAND};
    clattn_dtype data = common_type(problem, STORE_DATA, &mixed[0]);
    clattn_dtype gate = common_type(problem, STORE_GATE, &mixed[1]);
    clattn_plan_desc *desc = &problem->desc;

    common_type(problem, STORE_MATRIX, &mixed[2]);
    if (mixed[0] == NO_OPERAND)
        desc->dtype = data;
    if (mixed[1] == NO_OPERAND)
        desc->gate_dtype = gate;
    problem->mixed = mixed[0] != NO_OPERAND ? mixed[0] : mixed[1] != NO_OPERAND ? mixed[1] : mixed[2];
    desc->operand_type_count = 0;
    memset(desc->operand_types, 0, sizeof desc->operand_types);
    for (int i = 0; i < problem->operand_count; i++) {
        const struct operand_row *row = &problem->operands[i];
        if (problem->types[row->id] != class_type(desc, row->storage))
            desc->operand_types[desc->operand_type_count++] = (clattn_operand_type){row->id, problem->types[row->id]};
    }
}

static clattn_status set_types(struct problem *problem, const struct log *log)
{
    for (int i = 0; i < problem->operand_count; i++)
        problem->types[problem->operands[i].id] = class_type(&problem->desc, problem->operands[i].storage);
    TRY(check_range(log, "operand_type_count", problem->desc.operand_type_count, 0, MOST_TYPES));
    for (int i = 0; i < problem->desc.operand_type_count; i++)
        TRY(set_type(problem, &problem->desc.operand_types[i], log));
    settle_types(problem);
    return CLATTN_SUCCESS;
}

clattn_dtype problem_state_type(const struct problem *problem)
{
    clattn_operand_id none = NO_OPERAND;

    return common_type(problem, STORE_MATRIX, &none);
}

clattn_status problem_check_uniform(const struct problem *problem, const struct log *log)
{
    const struct operand_row *row = find_row(problem, problem->mixed);

    if (row == NULL)
        return CLATTN_SUCCESS;
    return FAIL(log, UNSUPPORTED, "%s: %s is %s and other %s are not: kernels take one type for them",
                problem->rule->name, operand_name(row->id), dtype_name(problem->types[row->id]),
                row->storage == STORE_GATE     ? "gates"
                : row->storage == STORE_MATRIX ? "states"
                                               : "vectors");
}

clattn_status problem_init(struct problem *problem, const clattn_plan_desc *desc, const struct log *log)
{
    memset(problem, 0, sizeof *problem);
    if (desc == NULL)
        return FAIL(log, INVALID_ARGUMENT, "desc is NULL");
    problem->rule = rule_get(desc->rule);
    if (problem->rule == NULL)
        return FAIL(log, INVALID_DESC, "rule is %d, expected 1 to %d", (int)desc->rule, RULE_COUNT - 1);
    problem->desc = *desc;
    complete(&problem->desc, problem->rule);
    TRY(check_sizes(&problem->desc, op_of(problem->rule)->most_dim, log));
    TRY(check_options(&problem->desc, problem->rule, log));
    TRY(check_gate(&problem->desc, problem->rule, log));
    TRY(check_packing(&problem->desc, log));
    TRY(op_of(problem->rule)->check(&problem->desc, problem->rule, log));
    TRY(check_attn(problem, log));
    problem->operand_count = rule_operands(&problem->desc, problem->operands);
    return set_types(problem, log);
}

clattn_status problem_read(struct problem *problem, const clattn_plan_desc *desc, size_t size, const struct log *log)
{
    clattn_plan_desc ours;

    if (desc == NULL)
        return FAIL(log, INVALID_ARGUMENT, "desc is NULL");
    if (!sized_read(&ours, sizeof ours, desc, size))
        return FAIL(log, INVALID_DESC, "the plan's desc has fields that this library (%s) does not know",
                    clattn_version());
    return problem_init(problem, &ours, log);
}

clattn_status clattn_plan_desc_complete_sized(clattn_plan_desc *full, const clattn_plan_desc *desc, size_t desc_size,
                                              clattn_log_fn log, void *log_user)
{
    struct problem problem;
    const struct log sink = {log, log_user};

    if (full == NULL)
        return FAIL(&sink, INVALID_ARGUMENT, "full is NULL");
    TRY(problem_read(&problem, desc, desc_size, &sink));
    sized_write(full, desc_size, &problem.desc, sizeof problem.desc);
    return CLATTN_SUCCESS;
}

enum decay problem_decay(const struct problem *problem)
{
    return problem->desc.flags & CLATTN_UNGATED ? DECAY_NONE : problem->rule->decay;
}

int problem_normalized(const struct problem *problem)
{
    return problem_stabilized(problem) || (problem->desc.flags & CLATTN_NORMALIZE) != 0;
}

int problem_stabilized(const struct problem *problem)
{
    return problem->rule->read == READ_STABILIZED;
}

double problem_eps(const struct problem *problem)
{
    return problem_stabilized(problem) || problem->rule->op == OP_PIECE ? problem->desc.eps : 1e-10;
}

struct extent problem_most(const struct problem *problem)
{
    const clattn_plan_desc *desc = &problem->desc;
    int packed = (desc->flags & CLATTN_CU_SEQLENS) != 0;

    return (struct extent){desc->batch, desc->seq_len, packed ? desc->sequences : desc->batch,
                           desc->kv_len != 0 ? desc->kv_len : desc->seq_len};
}

void problem_share_heads(clattn_plan_desc *desc, int64_t shared)
{
    int64_t *keys = desc->kv_heads != desc->heads ? &desc->kv_heads : &desc->qk_heads;

    if (rule_has_list(rule_get(desc->rule)))
        keys = &desc->kv_heads;
    desc->heads = shared * desc->heads / *keys;
    desc->qk_heads = desc->kv_heads = desc->heads;
    *keys = shared;
}

int64_t problem_work_heads(const struct problem *problem)
{
    return rule_has_list(problem->rule) ? problem->desc.heads : problem->desc.kv_heads;
}

int64_t problem_reads(const struct problem *problem)
{
    return problem->desc.heads / problem_work_heads(problem);
}

int64_t problem_heads(const struct problem *problem)
{
    return problem_most(problem).sequences * problem_work_heads(problem);
}

/* A number that stands for the plan's is `whole`. */
static clattn_status take_length(int64_t asked, int64_t whole, int64_t most, const char *name, int64_t *length,
                                 const struct log *log)
{
    if (asked != whole && (asked < 0 || asked > most))
        return FAIL(log, INVALID_OPERAND, "%s is %lld, expected %d to the plan's %lld, or %lld for it", name,
                    (long long)asked, whole == 0, (long long)most, (long long)whole);
    *length = asked == whole ? most : asked;
    return CLATTN_SUCCESS;
}

clattn_status problem_extent(const struct problem *problem, const struct arguments *arguments, struct extent *extent,
                             const struct log *log)
{
    const clattn_plan_desc *desc = &problem->desc;

    TRY(take_length(arguments->batch, 0, desc->batch, "batch", &extent->batch, log));
    TRY(take_length(arguments->seq_len, CLATTN_WHOLE, desc->seq_len, "seq_len", &extent->seq_len, log));
    TRY(take_length(arguments->sequences, 0, desc->sequences, "sequences", &extent->sequences, log));
    if (extent->sequences == 0)
        extent->sequences = extent->batch;
    if (desc->kv_len != 0)
        return take_length(arguments->kv_len, 0, desc->kv_len, "kv_len", &extent->kv_len, log);
    if (arguments->kv_len != 0)
        return FAIL(log, INVALID_OPERAND, "kv_len is %lld, expected 0: the plan's keys are those of seq_len",
                    (long long)arguments->kv_len);
    extent->kv_len = extent->seq_len;
    return CLATTN_SUCCESS;
}

static int64_t dim(const clattn_plan_desc *desc, const struct extent *extent, char letter)
{
    switch (letter) {
    case 'B': return extent->batch;
    case 'N': return extent->sequences;
    case 'M': return desc->state_slots != 0 ? desc->state_slots : extent->sequences;
    case 'W': return desc->state_every != 0 ? extent->seq_len / desc->state_every : desc->state_window;
    case 'Z': return desc->key_dim * desc->value_dim;
    case 'P': return extent->sequences + 1;
    case 'T': return extent->seq_len;
    case 'S': return extent->seq_len * desc->steps;
    case 'H': return desc->heads;
    case 'Q': return desc->qk_heads;
    case 'X': return extent->kv_len;
    case 'G':
    case 'Y': return desc->kv_heads;
    case 'L': return desc->kv_heads < desc->qk_heads ? desc->kv_heads : desc->qk_heads;
    case 'K': return desc->key_dim;
    case 'V': return desc->value_dim;
    case 'U': return desc->value_dim / 2;
    case 'R':
    case 'J': return desc->taps;
    case 'F': return desc->features == CLATTN_FEATURES_FAVOR ? desc->key_dim : desc->key_dim / 2;
    case 'E': return desc->hidden_dim;
    case 'C': return rule_has_list(rule_get(desc->rule)) ? extent->kv_len : extent->seq_len * desc->steps;
    }
    return 0;
}

static size_t element_size(const struct problem *problem, const struct operand_row *row)
{
    if (row->storage == STORE_LENGTH)
        return 4;
    if (row->storage == STORE_INDEX)
        return problem->desc.flags & CLATTN_CU_SEQLENS_INT64 ? 8 : 4;
    return dtype_size(problem->types[row->id]);
}

void problem_operand_info(const struct problem *problem, const struct extent *extent, const struct operand_row *row,
                          clattn_operand_info *info)
{
    const clattn_plan_desc *desc = &problem->desc;

    memset(info, 0, sizeof *info);
    info->name = operand_name(row->id);
    info->output = operand_is_output(row->id);
    info->dtype = problem->types[row->id];
    info->element_size = (int32_t)element_size(problem, row);
    for (const char *letter = row->dims; *letter != '\0'; letter++)
        info->dims[info->rank++] = dim(desc, extent, *letter);
}

clattn_status clattn_operand_describe_sized(const clattn_plan_desc *desc, size_t desc_size, clattn_operand_id id,
                                            clattn_operand_info *info, size_t info_size)
{
    clattn_operand_info ours;
    struct problem problem;
    struct extent extent;

    if (info == NULL || (int)id <= CLATTN_OPERAND_NONE || (int)id >= OPERAND_COUNT)
        return CLATTN_INVALID_ARGUMENT;
    TRY(problem_read(&problem, desc, desc_size, NULL));
    extent = problem_most(&problem);
    ours = (clattn_operand_info){.name = operand_name(id), .output = operand_is_output(id)};
    for (int i = 0; i < problem.operand_count; i++)
        if (problem.operands[i].id == id)
            problem_operand_info(&problem, &extent, &problem.operands[i], &ours);
    sized_write(info, info_size, &ours, sizeof ours);
    return CLATTN_SUCCESS;
}

/* One outer axis of an operand: how many, and how far apart. */
struct axis {
    const char *name, *letters;
    int64_t count, stride;
};

/* The contiguous strides, from the last dim to the first; *inner counts the innermost contiguous elements. */
static void contiguous(const clattn_plan_desc *desc, const struct extent *extent, const char *dims, struct axis axes[3],
                       int64_t *inner)
{
    int64_t stride = 1;

    *inner = 1;
    for (size_t i = strlen(dims); i-- > 0;) {
        int64_t count = dim(desc, extent, dims[i]);
        int axis = 0;
        while (axis < 3 && strchr(axes[axis].letters, dims[i]) == NULL)
            axis++;
        if (axis < 3) {
            axes[axis].count = count;
            axes[axis].stride = stride;
        } else
            *inner *= count;
        if (i > 0)
            stride *= count;
    }
}

/* Keeps every sum of offsets within 63 bits, in bytes. */
static clattn_status check_stride(const char *operand, const struct axis *axis, int may_turn, const struct log *log)
{
    int64_t limit = axis->count > 1 ? INT64_MAX / 64 / (axis->count - 1) : INT64_MAX, least = may_turn ? -limit : 0;

    if (axis->stride < least || axis->stride > limit)
        return FAIL(log, INVALID_OPERAND, "%s: its %s stride is %lld, expected %lld to %lld elements", operand,
                    axis->name, (long long)axis->stride, (long long)least, (long long)limit);
    return CLATTN_SUCCESS;
}

static void sort_by_stride(struct axis axes[3])
{
    for (int i = 1; i < 3; i++)
        for (int j = i; j > 0 && axes[j].stride < axes[j - 1].stride; j--) {
            struct axis swap = axes[j];
            axes[j] = axes[j - 1];
            axes[j - 1] = swap;
        }
}

/* Whether an output's elements are apart: each axis steps over all that those of smaller strides reach. */
static clattn_status check_apart(const char *operand, const struct axis given[3], int64_t inner, const struct log *log)
{
    struct axis axes[3] = {given[0], given[1], given[2]};
    int64_t reach = inner;

    for (int i = 0; i < 3; i++)
        axes[i].stride = axes[i].stride < 0 ? -axes[i].stride : axes[i].stride;
    sort_by_stride(axes);
    for (int i = 0; i < 3; i++) {
        if (axes[i].count <= 1)
            continue;
        if (axes[i].stride < reach)
            return FAIL(log, INVALID_OPERAND, "%s overlaps itself: its %s stride is %lld, expected %lld or more",
                        operand, axes[i].name, (long long)axes[i].stride, (long long)reach);
        reach += (axes[i].count - 1) * axes[i].stride;
    }
    return CLATTN_SUCCESS;
}

int problem_is_empty(const struct problem *problem, const struct extent *extent, const struct operand_row *row)
{
    for (const char *letter = row->dims; *letter != '\0'; letter++)
        if (dim(&problem->desc, extent, *letter) == 0)
            return 1;
    return 0;
}

clattn_status problem_place(const struct problem *problem, const struct extent *extent, const struct operand_row *row,
                            const clattn_operand *operand, size_t size, struct placement *place, const struct log *log)
{
    struct axis axes[3] = {{"batch", "BNMP", 1, 0}, {"token", "TSXWR", 1, 0}, {"head", "HQYGL", 1, 0}};
    const char *name = operand_name(row->id);
    size_t element = element_size(problem, row);
    int64_t inner, last, low = 0;

    contiguous(&problem->desc, extent, row->dims, axes, &inner);
    if (operand->batch_stride != 0 || operand->token_stride != 0 || operand->head_stride != 0) {
        if (operand_is_index(row->id))
            return FAIL(log, INVALID_OPERAND, "%s takes no strides", name);
        const int64_t strides[3] = {operand->batch_stride, operand->token_stride, operand->head_stride};
        for (int i = 0; i < 3; i++)
            if (axes[i].stride != 0) /* an axis that the operand has */
                axes[i].stride = strides[i];
    }
    if (operand->offset % element != 0)
        return FAIL(log, INVALID_OPERAND, "%s: offset %zu is no multiple of its element size %zu", name,
                    operand->offset, element);
    last = inner;
    for (int i = 0; i < 3; i++) {
        int64_t reach;
        TRY(check_stride(name, &axes[i], i == 1 && row->id == CLATTN_STATES, log));
        reach = (axes[i].count - 1) * axes[i].stride;
        *(reach < 0 ? &low : &last) += reach;
    }
    if (problem_is_empty(problem, extent, row))
        last = low = 0;
    else if (operand_is_output(row->id) || operand_is_updated(&problem->desc, row->id))
        TRY(check_apart(name, axes, inner, log));
    if (size != 0 && (uint64_t)last > size / element)
        return FAIL(log, INVALID_OPERAND, "%s needs %lld elements of %zu bytes, its memory holds %zu", name,
                    (long long)last, element, size / element);
    if ((uint64_t)-low > operand->offset / element)
        return FAIL(log, INVALID_OPERAND, "%s: offset %zu is less than the %lld bytes that lie before it", name,
                    operand->offset, (long long)-low * (long long)element);
    *place = (struct placement){
        .view = {(int64_t)(operand->offset / element), axes[0].stride, axes[1].stride, axes[2].stride},
        .count = {axes[0].count, axes[1].count, axes[2].count},
        .inner = inner,
        .low = -low,
        .span = last - low,
        .element = element,
        .output = operand_is_output(row->id),
        .updated = operand_is_updated(&problem->desc, row->id)};
    return CLATTN_SUCCESS;
}

clattn_status problem_view(const struct problem *problem, const struct extent *extent, const struct operand_row *row,
                           const clattn_operand *operand, size_t size, struct view *view, const struct log *log)
{
    struct placement place;

    TRY(problem_place(problem, extent, row, operand, size, &place, log));
    *view = place.view;
    if ((problem->desc.flags & CLATTN_REVERSED) && (row->dims[1] == 'T' || row->dims[1] == 'S')) {
        view->offset += (place.count[1] - 1) * view->token;
        view->token = -view->token;
    }
    return CLATTN_SUCCESS;
}
