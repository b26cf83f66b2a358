/* Types of operands: of a class, or their own. */
#include "op/op.h"
#include "op/problem.h"

#include <string.h>

enum { MOST_TYPES = sizeof((clattn_plan_desc *)NULL)->operand_types / sizeof(clattn_operand_type) };

size_t dtype_size(clattn_dtype dtype)
{
    return dtype == CLATTN_F32 ? 4 : 2;
}

const char *dtype_name(clattn_dtype dtype)
{
    static const char *const names[] = {[CLATTN_F32] = "f32", [CLATTN_F16] = "f16", [CLATTN_BF16] = "bf16"};
    return names[dtype];
}

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
    int known = (int)type->id > CLATTN_OPERAND_NONE && (int)type->id <= (int)OPERAND_IDS;

    if (row == NULL)
        return FAIL(log, INVALID_DESC, "operand_types names %s (id %d), which %s does not use",
                    known ? operand_name(type->id) : "an operand", (int)type->id, problem->rule->name);
    TRY(check_range(log, "a dtype of operand_types", type->dtype, CLATTN_F32, CLATTN_BF16));
    if (row->storage > STORE_MATRIX)
        return FAIL(log, INVALID_DESC, "operand_types names %s, whose type is fixed", operand_name(type->id));
    problem->types[type->id] = type->dtype;
    return CLATTN_SUCCESS;
}

/* Whether kernels read the operand in the type that its class has in them: of the forward pass not outputs, and not a
 * strength. */
static int is_of_class(const struct problem *problem, const struct operand_row *row, enum storage storage)
{
    const int direct = row->id == CLATTN_O || (row->id == operand_of_strength(problem->rule) && problem->has_gates);

    return row->storage == storage && (problem_is_backward(problem) || !direct);
}

/* The one type of all these operands; *mixed is one that differs from the first, or unchanged. */
static clattn_dtype common_type(const struct problem *problem, enum storage storage, clattn_operand_id *mixed)
{
    const struct operand_row *first = NULL;

    for (int i = 0; i < problem->operand_count; i++) {
        const struct operand_row *row = &problem->operands[i];
        if (!is_of_class(problem, row, storage))
            continue;
        if (first == NULL)
            first = row;
        else if (problem->types[row->id] != problem->types[first->id])
            *mixed = row->id;
    }
    for (int i = 0; first == NULL && i < problem->operand_count; i++) /* the piece gates: o alone */
        if (problem->operands[i].storage == storage && problem->operands[i].id == CLATTN_O)
            first = &problem->operands[i];
    return first != NULL ? problem->types[first->id] : class_type(&problem->desc, storage);
}

/* In the desc those that differ from their class; gradients have the types of their operands. */
static clattn_status list_types(struct problem *problem, const struct log *log)
{
    clattn_plan_desc *desc = &problem->desc;

    desc->operand_type_count = 0;
    memset(desc->operand_types, 0, sizeof desc->operand_types);
    for (int i = 0; i < problem->operand_count; i++) {
        const struct operand_row *row = &problem->operands[i];
        if ((int)row->id > (int)OPERAND_IDS || problem->types[row->id] == class_type(desc, row->storage))
            continue;
        if (desc->operand_type_count == MOST_TYPES)
            return FAIL(log, INVALID_DESC, "%s: %s is one more than the %d operands whose types may differ",
                        problem->rule->name, operand_name(row->id), (int)MOST_TYPES);
        desc->operand_types[desc->operand_type_count++] = (clattn_operand_type){row->id, problem->types[row->id]};
    }
    return CLATTN_SUCCESS;
}

/* Where all operands of a class that are read have one type, it becomes the class's, so that a problem is always said in
 * one way; else that is f32, to which plans convert the others. */
static clattn_status settle_types(struct problem *problem, const struct log *log)
{
    clattn_operand_id vector = NO_OPERAND, gate = NO_OPERAND;
    clattn_dtype data = common_type(problem, STORE_DATA, &vector), gates;

    for (int i = 0; i < problem->operand_count; i++) /* apart from a strength */
        problem->has_gates |= problem->operands[i].storage == STORE_GATE && problem->operands[i].id != CLATTN_O &&
                              problem->operands[i].id != operand_of_strength(problem->rule);
    gates = common_type(problem, STORE_GATE, &gate);
    problem->desc.dtype = vector == NO_OPERAND ? data : CLATTN_F32;
    problem->desc.gate_dtype = gate == NO_OPERAND ? gates : CLATTN_F32;
    return list_types(problem, log);
}

/* A gradient has the type of what it is the gradient by. */
static void set_gradient_types(struct problem *problem)
{
    for (int i = 0; i < problem->operand_count; i++) {
        const struct operand_row *row = &problem->operands[i];
        const int base = (int)row->id - (int)OPERAND_IDS;
        if (base > 0 && row->storage != STORE_STATE && find_row(problem, (clattn_operand_id)base) != NULL)
            problem->types[row->id] = problem->types[base];
    }
}

clattn_status problem_set_types(struct problem *problem, const struct log *log)
{
    for (int i = 0; i < problem->operand_count; i++)
        problem->types[problem->operands[i].id] = class_type(&problem->desc, problem->operands[i].storage);
    TRY(check_range(log, "operand_type_count", problem->desc.operand_type_count, 0, MOST_TYPES));
    for (int i = 0; i < problem->desc.operand_type_count; i++)
        TRY(set_type(problem, &problem->desc.operand_types[i], log));
    set_gradient_types(problem);
    return settle_types(problem, log);
}

clattn_dtype problem_state_type(const struct problem *problem)
{
    clattn_operand_id none = NO_OPERAND;

    return common_type(problem, STORE_MATRIX, &none);
}

int problem_converts(const struct problem *problem, const struct operand_row *row)
{
    if (row->storage != STORE_DATA && row->storage != STORE_GATE)
        return 0;
    return is_of_class(problem, row, row->storage) &&
           problem->types[row->id] != class_type(&problem->desc, row->storage);
}

/* Whether a plan cannot have the type of the operand, which is not that of others like it. */
static int is_foreign(const struct problem *problem, const struct operand_row *row)
{
    const int updated = operand_is_updated(&problem->desc, row->id) || row->id == CLATTN_WRITTEN;

    if (row->storage == STORE_MATRIX)
        return problem->types[row->id] != problem_state_type(problem);
    if (problem->rule->op == OP_LEARNER || problem_is_backward(problem))
        return (row->storage == STORE_DATA || row->storage == STORE_GATE) &&
               problem->types[row->id] != class_type(&problem->desc, row->storage);
    return updated && problem->types[row->id] != problem->desc.dtype;
}

clattn_status problem_check_kernels(const struct problem *problem, const struct log *log)
{
    for (int i = 0; i < problem->operand_count; i++) {
        const struct operand_row *row = &problem->operands[i];
        if (is_foreign(problem, row))
            return FAIL(log, UNSUPPORTED, "%s: %s is %s and other %s are not: kernels take one type for them",
                        problem->rule->name, operand_name(row->id), dtype_name(problem->types[row->id]),
                        row->storage == STORE_GATE     ? "gates"
                        : row->storage == STORE_MATRIX ? "states"
                                                       : "vectors");
    }
    return CLATTN_SUCCESS;
}
