/* A problem is made of a desc: defaults, then checks. Its lengths in a call follow. */
#include "op/arguments.h"
#include "op/op.h"
#include "op/options.h"

#include "base/sized.h"

#include <math.h>
#include <string.h>

static void set_default(int64_t *field, int64_t value)
{
    if (*field == 0)
        *field = value;
}

/* The nearest supported chunk: 8, 16, 32 or 64. */
static int32_t nearest_chunk(int32_t asked)
{
    int32_t chunk = 8;

    while (chunk < 64 && asked - chunk > chunk / 2)
        chunk *= 2;
    return asked > 0 ? chunk : asked;
}

/* The default scale of each map; every scale has the sign of its map's default */
static const double gate_scales[] = {
    [CLATTN_GATE_MAP_SIGMOID] = -5, [CLATTN_GATE_MAP_LOGSIGMOID] = 1, [CLATTN_GATE_MAP_EXP] = 0};

static void complete(clattn_plan_desc *desc, const struct rule *rule)
{
    desc->eps += 0.0; /* turns -0.0 into 0 */
    desc->rope_base += 0.0;
    options_complete(desc, rule);
    if (desc->eps == 0)
        desc->eps = (desc->flags & CLATTN_NORM_OUTPUT ? rule_get(CLATTN_RMS_NORM) : rule)->default_eps;
    op_of(rule)->complete(desc, rule);
    rope_complete(desc, rule);
    set_default(&desc->qk_heads, desc->heads);
    set_default(&desc->kv_heads, desc->heads);
    if (desc->scale == 0)
        desc->scale = rule->default_scale != 0 ? rule->default_scale : 1 / sqrt((double)desc->key_dim);
    desc->chunk = nearest_chunk(desc->chunk);
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

/* Checks the dims first, because the default scale follows from them. */
static clattn_status check_dims(const clattn_plan_desc *desc, int64_t most_dim, const struct log *log)
{
    TRY(check_range(log, "key_dim", desc->key_dim, 1, most_dim));
    return check_range(log, "value_dim", desc->value_dim, 1, most_dim);
}

/* Checks that relate sizes to each other. The range of each one follows from the table of options. */
static clattn_status check_sizes(const clattn_plan_desc *desc, int64_t most_dim, const struct log *log)
{
    TRY(check_range(log, "seq_len", desc->seq_len, 1, MAX_LENGTH / desc->steps));
    TRY(check_range(log, "qk_heads", desc->qk_heads, 1, desc->heads));
    TRY(check_range(log, "kv_heads", desc->kv_heads, 1, desc->heads));
    TRY(check_range(log, "layer", desc->layer, 0, desc->layers - 1));
    if (desc->heads % desc->qk_heads != 0)
        return FAIL(log, INVALID_DESC, "qk_heads %lld does not divide heads %lld", (long long)desc->qk_heads,
                    (long long)desc->heads);
    if (desc->heads % desc->kv_heads != 0)
        return FAIL(log, INVALID_DESC, "kv_heads %lld does not divide heads %lld", (long long)desc->kv_heads,
                    (long long)desc->heads);
    if ((double)desc->batch * (double)(desc->seq_len * desc->steps) * (double)desc->heads * (double)most_dim >
        MAX_ELEMENTS)
        return FAIL(log, INVALID_DESC, "batch %lld times seq_len %lld times heads %lld is too large for 64-bit offsets",
                    (long long)desc->batch, (long long)desc->seq_len, (long long)desc->heads);
    return CLATTN_SUCCESS;
}

/* The attention matrix exists if all value columns share it, and for lengths that a person can look at. */
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

/* Options that belong to one map only */
static clattn_status check_gate(const clattn_plan_desc *desc, const struct rule *rule, const struct log *log)
{
    const char *name = option_word(OPTION_gate_map, (int)desc->gate_map);
    double usual = gate_scales[desc->gate_map];
    int rated = desc->gate_map == CLATTN_GATE_MAP_SOFTPLUS || desc->gate_map == CLATTN_GATE_MAP_SIGMOID;

    if (desc->gate_map != CLATTN_GATE_MAP_LOG && (desc->flags & CLATTN_UNGATED))
        return FAIL(log, INVALID_DESC, "%s: ungated, and so no gate_map %s", rule->name, name);
    if ((desc->flags & CLATTN_WITH_A_LOG) && !rated)
        return FAIL(log, INVALID_DESC, "%s: a_log is for gate_map softplus and sigmoid, not for %s", rule->name, name);
    if ((desc->flags & CLATTN_WITH_DT_BIAS) && desc->gate_map == CLATTN_GATE_MAP_LOG &&
        rule_takes(rule, OPTION_gate_map))
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

/* Limits of steps are for those of a softplus. */
static clattn_status check_steps(const clattn_plan_desc *desc, const struct rule *rule, const struct log *log)
{
    const int has_steps = desc->gate_map == CLATTN_GATE_MAP_SOFTPLUS || desc->beta_map == CLATTN_BETA_SOFTPLUS ||
                          (desc->flags & CLATTN_SOFTPLUS);

    if (desc->step_min == 0 && desc->step_max == 0)
        return CLATTN_SUCCESS;
    if (!has_steps)
        return FAIL(log, INVALID_DESC, "%s: step_min and step_max are for steps of %s", rule->name,
                    rule_takes(rule, OPTION_softplus) ? "softplus" : "gate_map or beta_map softplus");
    if (desc->step_max > 0 && desc->step_max < desc->step_min)
        return FAIL(log, INVALID_DESC, "step_max is %g, expected 0 or at least step_min %g", desc->step_max,
                    desc->step_min);
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
    TRY(check_dims(&problem->desc, op_of(problem->rule)->most_dim, log));
    TRY(options_check(&problem->desc, problem->rule, log));
    TRY(check_sizes(&problem->desc, op_of(problem->rule)->most_dim, log));
    TRY(rope_check(&problem->desc, problem->rule, log));
    TRY(check_gate(&problem->desc, problem->rule, log));
    TRY(check_steps(&problem->desc, problem->rule, log));
    TRY(check_packing(&problem->desc, log));
    TRY(op_of(problem->rule)->check(&problem->desc, problem->rule, log));
    TRY(check_attn(problem, log));
    problem->operand_count = rule_operands(&problem->desc, problem->operands);
    return problem_set_types(problem, log);
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

int problem_tokens_decay(const struct problem *problem)
{
    return problem_decay(problem) == DECAY_SCALAR && problem->rule->head_decay == NULL;
}

int problem_reads_whole(const struct problem *problem)
{
    return problem->rule->op == OP_MIXER && !rule_has_list(problem->rule) &&
           (problem->desc.flags & CLATTN_NONCAUSAL) != 0;
}

int problem_sees_all(const struct problem *problem)
{
    return rule_has_list(problem->rule) && (problem->desc.flags & (CLATTN_NONCAUSAL | CLATTN_KEYS_BEFORE)) != 0;
}

int problem_has_distances(const struct problem *problem)
{
    return problem_sees_all(problem) && problem->rule->head_decay != NULL &&
           !(problem->desc.flags & CLATTN_KEYS_BEFORE);
}

int problem_adds(const struct problem *problem, clattn_operand_id id)
{
    return id != NO_OPERAND && (problem->desc.added_gradients >> (int)id & 1) != 0;
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

int64_t problem_unit_columns(const struct problem *problem)
{
    const struct rule *rule = problem->rule;

    if (problem_stabilized(problem))
        return 0;
    if (rule->erase != ERASE_NONE)
        return problem->desc.key_dim;
    if (!rule_has_chunks(rule) || (problem->desc.flags & CLATTN_VALUE_GATE))
        return problem->desc.value_dim;
    return rule->decay != DECAY_NONE ? 1 : 0;
}

int problem_keeps_part(const struct problem *problem)
{
    return problem_stabilized(problem) || problem_unit_columns(problem) > 0;
}

enum unit problem_unit(const struct problem *problem)
{
    if (problem->rule->erase != ERASE_NONE)
        return UNIT_DIAGONAL;
    if (problem->rule->decay == DECAY_COMPLEX)
        return UNIT_COLUMN_PAIRS;
    return problem->desc.flags & CLATTN_COMPLEX ? UNIT_ROW_PAIRS : UNIT_ONES;
}

int problem_values(const struct problem *problem)
{
    const struct extent most = problem_most(problem);

    switch (problem->pass) {
    case PASS_OUTPUTS: break;
    case PASS_DENOMINATORS: return 1;
    case PASS_TRANSITION: return (int)problem_unit_columns(problem);
    case PASS_ATTENTION: return (int)(rule_has_list(problem->rule) ? most.kv_len : most.seq_len * problem->desc.steps);
    }
    return (int)problem->desc.value_dim;
}

/* Whether the library computes the log-decays that kernels read. */
static int computes_log_decays(const struct problem *problem)
{
    return problem_stabilized(problem) || problem->rule->head_decay != NULL;
}

clattn_dtype problem_gate_type(const struct problem *problem)
{
    return computes_log_decays(problem) ? CLATTN_F32 : problem->desc.gate_dtype;
}

clattn_dtype problem_strength_type(const struct problem *problem)
{
    const clattn_operand_id direct = operand_of_strength(problem->rule);

    return direct != NO_OPERAND ? problem->types[direct] : problem_gate_type(problem);
}

clattn_gate_map problem_gate_map(const struct problem *problem)
{
    return computes_log_decays(problem) ? CLATTN_GATE_MAP_LOG : problem->desc.gate_map;
}

int problem_limits_steps(const struct problem *problem)
{
    return problem->desc.step_min > 0 || problem->desc.step_max > 0;
}

clattn_dtype problem_out_type(const struct problem *problem)
{
    if (problem->pass != PASS_OUTPUTS)
        return CLATTN_F32;
    return rule_has_list(problem->rule) || problem_norms(problem) ? problem->desc.dtype : problem->types[CLATTN_O];
}

/* The number of keys that have not been carried; all of them in rules whose tokens erase from keys */
static int64_t raw_keys(const struct problem *problem, const struct extent *extent)
{
    return problem->rule->erase == ERASE_POSITION ? extent->kv_len : 0;
}

struct extent problem_most(const struct problem *problem)
{
    const clattn_plan_desc *desc = &problem->desc;
    int packed = (desc->flags & CLATTN_CU_SEQLENS) != 0;

    struct extent most = {desc->batch, desc->seq_len, packed ? desc->sequences : desc->batch,
                          desc->kv_len != 0 ? desc->kv_len : desc->seq_len, desc->tail};

    if (desc->tail == 0)
        most.tail = raw_keys(problem, &most);
    return most;
}

/* A call's length: `asked`, or the plan's if it equals `whole`. */
static clattn_status read_length(int64_t asked, int64_t whole, int64_t most, const char *name, int64_t *length,
                                 const struct log *log)
{
    if (asked != whole && (asked < 0 || asked > most))
        return FAIL(log, INVALID_OPERAND, "%s is %lld, expected %d to the plan's %lld, or %lld for it", name,
                    (long long)asked, whole == 0, (long long)most, (long long)whole);
    *length = asked == whole ? most : asked;
    return CLATTN_SUCCESS;
}

static clattn_status read_kv_len(const struct problem *problem, const struct arguments *arguments,
                                 struct extent *extent, const struct log *log)
{
    if (problem->desc.kv_len != 0)
        return read_length(arguments->kv_len, 0, problem->desc.kv_len, "kv_len", &extent->kv_len, log);
    if (arguments->kv_len != 0)
        return FAIL(log, INVALID_OPERAND, "kv_len is %lld, expected 0: the plan's keys are those of seq_len",
                    (long long)arguments->kv_len);
    extent->kv_len = extent->seq_len;
    return CLATTN_SUCCESS;
}

/* The number of rows of w and beta: at least those of all queries, at most those of all keys. */
static clattn_status read_tail(const struct problem *problem, const struct arguments *arguments, struct extent *extent,
                               const struct log *log)
{
    int64_t most = problem->desc.tail < extent->kv_len ? problem->desc.tail : extent->kv_len;

    if (problem->desc.tail == 0 && arguments->tail != 0)
        return FAIL(log, INVALID_OPERAND, "tail is %lld, expected 0: the plan has none", (long long)arguments->tail);
    extent->tail = problem->desc.tail == 0 ? raw_keys(problem, extent) : arguments->tail != 0 ? arguments->tail : most;
    if (problem->desc.tail != 0 && (extent->tail < extent->seq_len || extent->tail > most))
        return FAIL(log, INVALID_OPERAND,
                    "tail is %lld, expected seq_len %lld to %lld, of the plan's %lld and kv_len %lld",
                    (long long)extent->tail, (long long)extent->seq_len, (long long)most, (long long)problem->desc.tail,
                    (long long)extent->kv_len);
    return CLATTN_SUCCESS;
}

clattn_status problem_extent(const struct problem *problem, const struct arguments *arguments, struct extent *extent,
                             const struct log *log)
{
    const clattn_plan_desc *desc = &problem->desc;

    TRY(read_length(arguments->batch, 0, desc->batch, "batch", &extent->batch, log));
    TRY(read_length(arguments->seq_len, CLATTN_WHOLE, desc->seq_len, "seq_len", &extent->seq_len, log));
    TRY(read_length(arguments->sequences, 0, desc->sequences, "sequences", &extent->sequences, log));
    if (extent->sequences == 0)
        extent->sequences = extent->batch;
    TRY(read_kv_len(problem, arguments, extent, log));
    return read_tail(problem, arguments, extent, log);
}

int64_t problem_dim(const clattn_plan_desc *desc, const struct extent *extent, char letter)
{
    switch (letter) {
    case 'B': return extent->batch;
    case 'N': return extent->sequences;
    case 'M': return desc->state_slots != 0 ? desc->state_slots : extent->sequences;
    case 'W': return desc->state_every != 0 ? extent->seq_len / desc->state_every : desc->state_window;
    case 'k': return desc->key_dim * desc->key_dim;
    case 'Z': return desc->key_dim * desc->value_dim;
    case 'P': return extent->sequences + 1;
    case 'T': return extent->seq_len;
    case 'S': return extent->seq_len * desc->steps;
    case 'H': return desc->heads;
    case 'Q': return desc->qk_heads;
    case 'X': return extent->kv_len;
    case 'E': return extent->tail;
    case 'G':
    case 'Y': return desc->kv_heads;
    case 'L': return desc->kv_heads < desc->qk_heads ? desc->kv_heads : desc->qk_heads;
    case 'K': return desc->key_dim;
    case 'V': return desc->value_dim;
    case 'U': return desc->value_dim / 2;
    case 'R':
    case 'J': return desc->taps;
    case 'A': return desc->taps * problem_dim(desc, extent, 'W');
    case 'F': return desc->features == CLATTN_FEATURES_FAVOR ? desc->key_dim : desc->key_dim / 2;
    case 'D': return desc->hidden_dim;
    case 'I': return desc->levels;
    case 'O': return (desc->key_dim + desc->value_dim + 1) * desc->hidden_dim + desc->value_dim;
    case 'C': return rule_has_list(rule_get(desc->rule)) ? extent->kv_len : extent->seq_len * desc->steps;
    }
    return 0;
}
