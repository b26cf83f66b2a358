#include "solve/kernel_step.h"

#include "device/engine.h"

#include <string.h>

void step_constant(struct kernel_step *step, const char *name, int64_t value)
{
    if (step->constant_count == STEP_CONSTANTS) {
        step->left_out = name;
        return;
    }
    step->constants[step->constant_count].name = name;
    step->constants[step->constant_count++].value = value;
}

void step_constants(struct kernel_step *step, const struct number *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        step_constant(step, numbers[i].name, numbers[i].value);
}

void step_replace(struct kernel_step *step, const char *name, int64_t value)
{
    for (int i = 0; i < step->constant_count; i++)
        if (strcmp(step->constants[i].name, name) == 0)
            step->constants[i].value = value;
}

void step_tile(struct kernel_step *step, int group, int vec, int chunk, int sub_group)
{
    step->group = group;
    step_constant(step, "GROUP", group);
    step_constant(step, "VEC", vec);
    step_constant(step, "CHUNK", chunk);
    if (sub_group != 0)
        step_constant(step, "SUB_GROUP", sub_group);
}

void step_locals(struct kernel_step *step, const char *name, int arrays, int64_t count, int64_t element)
{
    step_constant(step, name, count);
    step->local_bytes += (size_t)(arrays * count * element);
}

void step_local(struct kernel_step *step, const char *name, int64_t count, int64_t element)
{
    step_locals(step, name, 1, count, element);
}

void step_scratch(struct kernel_step *step, int bytes)
{
    if (bytes > 0) /* a device's own instructions need no scratch */
        step_local(step, "ENGINE_SCRATCH", (int64_t)bytes * step->group, 1);
}

void step_header(struct kernel_step *step, enum embedded_file header)
{
    if (step->header_count == STEP_HEADERS || header == FILE_nothing) {
        step->left_out = header == FILE_nothing ? "a header that does not exist" : embedded_files[header].name;
        return;
    }
    step->headers[step->header_count++] = header;
}

void step_team(struct kernel_step *step, const struct engine *engine, int teams, int moved_apart)
{
    enum { TEAMS = 2, COMPUTING = 232, MOVING = 40 }; /* registers of a lane, where a group has so many teams */
    const int divided = teams == TEAMS && moved_apart && engine->registers > 0;

    if (divided) { /* at first all have the same */
        step->registers = engine->registers / step->group / 8 * 8;
        step_constant(step, "BOUND_REGISTERS", step->registers);
    }
    step_constant(step, "COMPUTING_REGISTERS", divided ? COMPUTING : 0);
    step_constant(step, "MOVING_REGISTERS", divided ? MOVING : 0);
    if (engine->team != FILE_nothing)
        step_header(step, engine->team);
}

void step_copies(struct kernel_step *step, const struct engine *engine)
{
    const int asynchronous = engine->instructions == FILE_nvidia_sm90 || engine->instructions == FILE_nvidia_sm80;

    step_header(step, asynchronous ? FILE_copies_grouped_nvidia : FILE_copies_grouped);
}

clattn_status step_fits(const struct kernel_step *step, const struct device *device)
{
    return step->local_bytes <= device->info.local_memory ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

/* ---- What every kernel needs to know of a problem
 * ----------------------------------------------------------------- */

static int cu_stride(const clattn_plan_desc *desc)
{
    if (!(desc->flags & CLATTN_CU_SEQLENS))
        return 0;
    return desc->flags & CLATTN_CU_SEQLENS_INT64 ? 2 : 1;
}

/* The types of the state's values, and how the kernel finds the states of a call. */
static void add_states(struct kernel_step *step, const struct problem *problem)
{
    const clattn_plan_desc *desc = &problem->desc;
    int ones = problem->pass == PASS_DENOMINATORS, units = problem->pass == PASS_ATTENTION,
        transition = problem->pass == PASS_TRANSITION;
    const struct number numbers[] = {
        {"KEY_DIM", desc->key_dim},
        {"VALUE_DIM", units ? desc->value_dim : problem_values(problem)}, /* the attention matrix has a column for each
                                                                           * key of the call */
        {"STEPS", desc->steps},
        {"QK_GROUP", desc->heads / desc->qk_heads}, /* 1 if heads share a state */
        {"QK_TILED", desc->flags & CLATTN_HEADS_TILED && desc->qk_heads != desc->heads ? desc->qk_heads : 0},
        {"CU_STRIDE", cu_stride(desc)},
        {"STATE_VK", !ones && !transition && (desc->flags & CLATTN_STATE_VK) != 0},
        {"STATE_POOL", (desc->flags & CLATTN_WITH_STATE_INDICES) != 0},
        {"SNAPSHOTS", !units && (desc->state_window != 0 || desc->state_every != 0)},
        {"SNAPSHOTS_IN_ORDER", problem->states_in_order},
        {"ACCEPTED", !units && (desc->flags & CLATTN_WITH_ACCEPTED) != 0},
        {"STATE_ROWS", problem->rule->op == OP_PIECE ? desc->taps : 1}, /* of a state among several */
        {"ERASE_BEFORE", problem->rule->order == ERASE_FIRST},
        {"REVERSED", (desc->flags & CLATTN_REVERSED) != 0},
        {"NONCAUSAL", problem_sees_all(problem)},
        {"CAPPED", desc->softcap > 0},
    };

    step_constants(step, numbers, sizeof numbers / sizeof *numbers);
    if (problem->states_narrow)
        step_constant(step, "STATES_NARROW", 1);
}

/* The maps that are applied to queries, keys and gates when they are read. */
static void add_maps(struct kernel_step *step, const struct problem *problem)
{
    const clattn_plan_desc *desc = &problem->desc;
    const struct number numbers[] = {
        {"L2NORM", (desc->flags & CLATTN_QK_L2NORM) != 0},
        {"TURNED", 0},
        {"FEATURE", desc->feature_map},
        {"FEATURE_ELU1", CLATTN_FEATURE_ELU1},
        {"FEATURE_RELU", CLATTN_FEATURE_RELU},
        {"GATE_MAP", problem_gate_map(problem)},
        {"GATE_SOFTPLUS", CLATTN_GATE_MAP_SOFTPLUS},
        {"GATE_SIGMOID", CLATTN_GATE_MAP_SIGMOID},
        {"GATE_LOGSIGMOID", CLATTN_GATE_MAP_LOGSIGMOID},
        {"GATE_EXP", CLATTN_GATE_MAP_EXP},
        {"BETA_MAP", desc->beta_map},
        {"BETA_SOFTPLUS", CLATTN_BETA_SOFTPLUS},
        {"STEP_LIMITED", problem_limits_steps(problem)},
        {"HAS_A_LOG", (desc->flags & CLATTN_WITH_A_LOG) != 0},
        {"HAS_GATE_BIAS", (desc->flags & CLATTN_WITH_DT_BIAS) != 0},
    };

    step_constants(step, numbers, sizeof numbers / sizeof *numbers);
}

struct kernel_step kernel_step(enum embedded_file file, const struct problem *problem)
{
    const int own_states = problem->pass == PASS_DENOMINATORS || problem->pass == PASS_TRANSITION;
    int has_eps = problem->pass == PASS_DENOMINATORS || problem->rule->op == OP_PIECE;
    struct kernel_step step = {.file = file,
                               .name = file != FILE_nothing ? kernel_signatures[file].name : NULL,
                               .options = PLAIN_OPTIONS,
                               .data = problem->desc.dtype,
                               .gate = problem_gate_type(problem),
                               .strength = problem_strength_type(problem),
                               .out = problem_out_type(problem),
                               .state = own_states ? CLATTN_F32 : problem_state_type(problem),
                               .gate_scale = problem->desc.gate_scale,
                               .softcap = problem->desc.softcap,
                               .step_min = problem->desc.step_min,
                               .step_max = problem->desc.step_max,
                               .eps = has_eps ? problem_eps(problem) : -1};

    add_states(&step, problem);
    add_maps(&step, problem);
    return step;
}
