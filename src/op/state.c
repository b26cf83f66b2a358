/* The states that rules keep. */
#include "op/state.h"

#include "op/op.h"

/* clang-format off */
#define DIMS(letters) { "N" letters, "M" letters }
#define NO_DIMS { NULL, NULL }

#define MATRIX                                                                                                         \
    { "state", OP(STATE_IN), OP(STATE_OUT), OP(STATES), DIMS("GKV"), DIMS("GVK"), DIMS("WGZ"), STORE_MATRIX,           \
      NUMBERS_STATE, 0, 0 }
#define NORMALIZER(flag)                                                                                               \
    { "normalizer", OP(NORMALIZER_IN), OP(NORMALIZER_OUT), OP(NORMALIZERS), DIMS("GK"), NO_DIMS, DIMS("WGK"),          \
      STORE_STATE, NUMBERS_NORMALIZER, flag, 0 }
#define STABILIZER                                                                                                     \
    { "stabilizer", OP(STABILIZER_IN), OP(STABILIZER_OUT), OP(STABILIZERS), DIMS("G"), NO_DIMS, DIMS("WG"),            \
      STORE_STATE, NUMBERS_STABILIZER, 0, 0 }
#define LEVELS                                                                                                         \
    { "state", OP(STATE_IN), OP(STATE_OUT), NO_OPERAND, DIMS("GIZ"), NO_DIMS, NO_DIMS, STORE_MATRIX, NUMBERS_STATE, 0, 0 }
#define POSITION                                                                                                       \
    { "position", OP(POSITION), OP(POSITION_OUT), NO_OPERAND, DIMS(""), NO_DIMS, NO_DIMS, STORE_LENGTH,                \
      NUMBERS_POSITIONS, 0, 0 }
#define INPUTS                                                                                                         \
    { "state", OP(STATE_IN), OP(STATE_OUT), OP(STATES), DIMS("RHV"), NO_DIMS, DIMS("AHV"), STORE_MATRIX,               \
      NUMBERS_STATE, 0, 0 }
#define LEARNED(name, before, after, letters, kind, flag, required)                                                    \
    { name, OP(before), OP(after), NO_OPERAND, DIMS(letters), NO_DIMS, NO_DIMS, STORE_STATE, NUMBERS_##kind, flag, required }
#define WEIGHT(name, before, after, letters) LEARNED(name, before, after, letters, WEIGHT, 0, 1)
#define MOMENTUM(letters)                                                                                              \
    LEARNED("momentum", INITIAL_MOMENTUM, FINAL_MOMENTUM, letters, WEIGHT, CLATTN_WITH_MOMENTUM, 0)
#define MLP                                                                                                            \
    LEARNED("w1", W1, FINAL_W1, "HKD", STATE, 0, 1), WEIGHT("b1", B1, FINAL_B1, "HD"),                                 \
    WEIGHT("w2", W2, FINAL_W2, "HDV"), WEIGHT("b2", B2, FINAL_B2, "HV")
#define GRAM                                                                                                           \
    { "gram", OP(GRAM_IN), OP(GRAM_OUT), OP(GRAMS), DIMS("GKK"), NO_DIMS, DIMS("WGk"), STORE_STATE, NUMBERS_GRAM, 0, 0 }
#define END                                                                                                            \
    { NULL, NO_OPERAND, NO_OPERAND, NO_OPERAND, NO_DIMS, NO_DIMS, NO_DIMS, STORE_STATE, NUMBERS_STATE, 0, 0 }

const struct state_tensor state_none[] = { END };
const struct state_tensor state_matrix[] = { MATRIX, END };
const struct state_tensor state_normalized[] = { MATRIX, NORMALIZER(CLATTN_NORMALIZE), END };
const struct state_tensor state_stabilized[] = { MATRIX, NORMALIZER(0), STABILIZER, END };
const struct state_tensor state_levels[] = { LEVELS, POSITION, END };
const struct state_tensor state_solved[] = { MATRIX, GRAM, END };
const struct state_tensor state_inputs[] = { INPUTS, END };
const struct state_tensor state_network[] = {
    WEIGHT("w0", W0, FINAL_W0, "HDK"), WEIGHT("w1", W1, FINAL_W1, "HVD"), WEIGHT("w2", W2, FINAL_W2, "HDK"), END };
const struct state_tensor state_biased_weights[] = {
    LEARNED("state", STATE_IN, STATE_OUT, "HKV", STATE, 0, 1), WEIGHT("bias", INITIAL_BIAS, FINAL_BIAS, "HV"), END };
const struct state_tensor state_mlp[] = { MLP, END };
const struct state_tensor state_moving_weights[] = {
    LEARNED("state", STATE_IN, STATE_OUT, "HKV", STATE, 0, 0), MOMENTUM("HKV"), END };
const struct state_tensor state_moving_mlp[] = { MLP, MOMENTUM("HO"), END };
/* clang-format on */

const struct state_dims *state_dims(const clattn_plan_desc *desc, const struct state_tensor *tensor)
{
    return (desc->flags & CLATTN_STATE_VK) && tensor->turned.sequence != NULL ? &tensor->turned : &tensor->dims;
}

/* Adds an operand that holds the tensor; returns how many. */
static int add(struct operand_row *row, clattn_operand_id id, const char *dims, const struct state_tensor *tensor,
               enum numbers numbers)
{
    if (id == NO_OPERAND)
        return 0;
    *row = (struct operand_row){id, dims, tensor->storage, numbers};
    return 1;
}

static int add_tensor(const clattn_plan_desc *desc, const struct state_tensor *tensor, struct operand_row *rows)
{
    const int pool = (desc->flags & CLATTN_WITH_STATE_INDICES) != 0, ring = (desc->flags & CLATTN_WITH_ACCEPTED) != 0;
    const struct state_dims *dims = state_dims(desc, tensor);
    const char *one = pool ? dims->pool : dims->sequence;
    const char *many = pool && ring ? tensor->many.pool : tensor->many.sequence;
    int count = 0;

    if (tensor->required || (desc->flags & CLATTN_INITIAL_STATE))
        count += add(rows, tensor->before, ring ? many : one, tensor, tensor->numbers);
    if (desc->flags & CLATTN_FINAL_STATE)
        count += add(rows + count, tensor->after, one, tensor, NUMBERS_WRITTEN);
    if (desc->state_window != 0 || desc->state_every != 0)
        count += add(rows + count, tensor->between, many, tensor, NUMBERS_WRITTEN);
    return count;
}

int state_operands(const clattn_plan_desc *desc, const struct rule *rule, struct operand_row rows[OPERAND_COUNT])
{
    int count = 0;

    for (const struct state_tensor *tensor = rule->state; tensor->name != NULL; tensor++)
        if (tensor->flag == 0 || (desc->flags & tensor->flag))
            count += add_tensor(desc, tensor, rows + count);
    return count;
}

const struct state_tensor *state_of_operand(const struct rule *rule, clattn_operand_id id)
{
    for (const struct state_tensor *tensor = rule->state; tensor->name != NULL && id != NO_OPERAND; tensor++)
        if (id == tensor->before || id == tensor->after || id == tensor->between)
            return tensor;
    return NULL;
}

clattn_operand_id state_before(const struct rule *rule, clattn_operand_id after)
{
    const struct state_tensor *tensor = state_of_operand(rule, after);

    return tensor != NULL && after == tensor->after ? tensor->before : NO_OPERAND;
}
