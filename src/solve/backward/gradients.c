#include "solve/backward/gradients.h"

#include "solve/around.h"
#include "solve/backward/walks.h"

#include <stddef.h>

enum { FLOAT = 4 };

int power_of_two_from(int64_t x)
{
    const int below = power_of_two_below(x);

    return below < x ? 2 * below : below;
}

int64_t gradient_columns(const struct problem *problem)
{
    return problem->desc.value_dim + problem_normalized(problem);
}

static int has_operand(const struct problem *problem, clattn_operand_id id)
{
    for (int i = 0; i < problem->operand_count; i++)
        if (id != NO_OPERAND && problem->operands[i].id == id)
            return 1;
    return 0;
}

static int64_t gate_width(const struct problem *problem)
{
    return problem_decay(problem) == DECAY_CHANNEL ? problem->desc.key_dim : 1;
}

int add_shares(const struct problem *problem, struct kernel_step *step)
{
    const clattn_plan_desc *desc = &problem->desc;
    const struct {
        const char *name;
        int has;
        int64_t width;
    } shares[] = {
        {"AT_GATE", (desc->flags & CLATTN_GATE_PER_HEAD) != 0, gate_width(problem)},
        {"AT_BONUS", reads_bonus(problem), desc->key_dim},
        {"AT_RATE", has_operand(problem, CLATTN_A_LOG), 1},
        {"AT_BIAS", has_operand(problem, CLATTN_DT_BIAS), gate_width(problem)},
    };
    int64_t count = 0;

    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        step_constant(step, shares[i].name, shares[i].has ? count : -1);
        count += shares[i].has ? shares[i].width : 0;
    }
    step_constant(step, "SHARES", count);
    step_constant(step, "GATE_SHARES", gate_width(problem));
    return (int)count;
}

static int has_flow(const struct problem *problem)
{
    return has_operand(problem, problem->rule->gate);
}

int flows_apart(const struct problem *problem, int padded)
{
    return padded && has_flow(problem) && problem_decay(problem) == DECAY_SCALAR;
}

int stream_count(const struct problem *problem, int padded)
{
    const int erases = erase_words(problem).streams, flow = has_flow(problem) && !flows_apart(problem, padded);

    return (padded ? 1 : (int)problem_reads(problem)) + 1 + erases + flow;
}

/* Which gradients are added to what is there. */
static void add_additions(struct kernel_step *step, const struct problem *problem)
{
    const struct rule *rule = problem->rule;
    const struct {
        const char *name;
        clattn_operand_id id;
    } additions[] = {
        {"ADD_Q", CLATTN_Q},
        {"ADD_K", CLATTN_K},
        {"ADD_V", CLATTN_V},
        {"ADD_W", CLATTN_W},
        {"ADD_GV", CLATTN_GV},
        {"ADD_G", rule->gate},
        {"ADD_BETA", write_operand(rule->write)->id},
        {"ADD_P", erase_operands(rule->erase)[0].id},
        {"ADD_B", erase_operands(rule->erase)[0].id},
        {"ADD_E", erase_operands(rule->erase)[1].id},
        {"ADD_U", CLATTN_U},
        {"ADD_A_LOG", CLATTN_A_LOG},
        {"ADD_BIAS", CLATTN_DT_BIAS},
        {"ADD_STATE", CLATTN_STATE_IN},
        {"ADD_NORMALIZER", CLATTN_NORMALIZER_IN},
    };

    for (size_t i = 0; i < sizeof additions / sizeof *additions; i++)
        step_constant(step, additions[i].name, problem_adds(problem, additions[i].id));
}

static void add_constants(struct kernel_step *step, const struct problem *problem, const struct state_tile *t,
                          int padded)
{
    const clattn_plan_desc *desc = &problem->desc;
    const struct rule *rule = problem->rule;
    const struct erase_words erase = erase_words(problem);
    const struct number numbers[] = {
        {"HEADS", problem_work_heads(problem)},
        {"READS", problem_reads(problem)},
        {"READ_TILED", (desc->flags & CLATTN_HEADS_TILED) != 0},
        {"TILES", divide_up(gradient_columns(problem), t->block_v)},
        {"STREAMS", stream_count(problem, padded)},
        {"NORMALIZED", problem_normalized(problem)},
        {"STABLE", problem_stabilized(problem)},
        {"NONCAUSAL", problem_reads_whole(problem)},
        {"BONUS", reads_bonus(problem)},
        {"FLOWS", has_flow(problem)},
        {"FLOW_OF_CHANNELS", problem_decay(problem) == DECAY_CHANNEL},
        {"ERASE_STREAMS", erase.streams},
        {"ERASE_NORMED", erase.norms > 0 && (desc->flags & CLATTN_QK_L2NORM) != 0},
        {"ERASE_IS_KEY", rule->erase == ERASE_KEY},
        {"ERASE_IS_GATED", rule->erase == ERASE_GATED},
        {"ERASE_IS_OPERAND", rule->erase == ERASE_OPERAND},
        {"EXP_STRENGTH", rule->write == WRITE_EXP},
        {"ROPE", desc->rope_dim != 0},
        {"NARROW", 0},
        {"NUMBER_PARTS", 1},
    };

    step_constants(step, numbers, sizeof numbers / sizeof *numbers);
    add_additions(step, problem);
    if (desc->rope_dim != 0)
        add_rope_angles(step, desc);
}

static void add_locals(struct kernel_step *step, const struct problem *problem, const struct state_tile *t,
                       const struct state_sizes *sizes)
{
    const struct erase_words erase = erase_words(problem);
    const int sums_columns =
        step->file == FILE_backward_adjoint || (step->file == FILE_backward_states && erase.streams > 0);
    static const char *const erase_rows[] = {"LOCAL_ERASE_P", "LOCAL_ERASE_B"}, *const erase_squares[] = {
                                                                                    "LOCAL_ERASE_SQUARES"};

    step_locals(step, "LOCAL_ROWS", 2, sizes->channels, FLOAT);
    step_local(step, "LOCAL_VALUES", t->block_v, FLOAT);
    step_local(step, "LOCAL_SUMS", sums_columns ? 2 * (int64_t)t->group * t->block_v : t->group + t->vec, FLOAT);
    step_local(step, "LOCAL_SQUARES", sizes->token_parts, FLOAT);
    step_local(step, "FACTORS", sizes->factors, FLOAT);
    add_decay_locals(step, problem, t, sizes);
    add_some_locals(step, erase_rows, erase.streams, sizes->slice);
    add_some_locals(step, erase_squares, erase.norms, sizes->token_parts);
    if (reads_bonus(problem))
        step_local(step, "LOCAL_BONUS_PARTS", sizes->token_parts, FLOAT);
    if (problem->desc.flags & CLATTN_VALUE_GATE)
        step_local(step, "LOCAL_MIX_FACTOR", t->block_v, FLOAT);
}

struct kernel_step gradient_step(enum embedded_file file, const struct problem *problem, const struct state_tile *t,
                                 int padded)
{
    const struct state_sizes sizes = state_sizes(problem, t);
    struct kernel_step step = state_step(file, problem, t, &sizes, OUTPUTS_NONE);

    step.out = problem->desc.gate_dtype;
    step.eps = problem_normalized(problem) ? problem_eps(problem) : 0;
    add_constants(&step, problem, t, padded);
    add_shares(problem, &step);
    add_locals(&step, problem, t, &sizes);
    step_constant(&step, "PADDED", padded);
    step_constant(&step, "COLUMNS", walk_columns(problem));
    if (file == FILE_backward_rows)
        step_replace(&step, "GATE_MAP", problem->desc.gate_map);
    return step;
}

void bind_gradients(struct builder *b, const struct problem *problem)
{
    const struct rule *rule = problem->rule;
    const clattn_operand_id *const erase[] = {&erase_operands(rule->erase)[0].id, &erase_operands(rule->erase)[1].id};
    const struct {
        const char *name;
        clattn_operand_id id;
    } gradients[] = {
        {"d_q", CLATTN_Q},
        {"d_k", CLATTN_K},
        {"d_v", CLATTN_V},
        {"d_o", CLATTN_O},
        {"d_gv", CLATTN_GV},
        {"d_w", rule->write == WRITE_GATED ? CLATTN_W : NO_OPERAND},
        {"d_g", rule->gate},
        {"d_shared", rule->gate},
        {"d_beta", write_operand(rule->write)->id},
        {"d_p", rule->erase == ERASE_GATED ? NO_OPERAND : *erase[0]},
        {"d_b", rule->erase == ERASE_GATED ? *erase[0] : NO_OPERAND},
        {"d_e", *erase[1]},
        {"d_u", CLATTN_U},
        {"d_a_log", CLATTN_A_LOG},
        {"d_bias", CLATTN_DT_BIAS},
        {"d_final", CLATTN_STATE_OUT},
        {"d_final_z", CLATTN_NORMALIZER_OUT},
        {"d_initial", CLATTN_STATE_IN},
        {"d_initial_z", CLATTN_NORMALIZER_IN},
    };

    for (size_t i = 0; i < sizeof gradients / sizeof *gradients; i++)
        build_bind(b, gradients[i].name,
                   gradients[i].id != NO_OPERAND ? build_operand(b, gradient_of(gradients[i].id)) : IR_NONE);
    build_bind(b, "raw", build_operand(b, rule->gate));
    build_bind(b, "flows", IR_NONE);
    build_bind(b, "betas", IR_NONE);
    build_bind(b, "initial_z", build_operand(b, CLATTN_NORMALIZER_IN));
}
