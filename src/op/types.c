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

/* In the desc those that differ from their class; gradients have the types of their operands. */
static void list_types(struct problem *problem)
{
    clattn_plan_desc *desc = &problem->desc;

    desc->operand_type_count = 0;
    memset(desc->operand_types, 0, sizeof desc->operand_types);
    for (int i = 0; i < problem->operand_count; i++) {
        const struct operand_row *row = &problem->operands[i];
        if ((int)row->id <= (int)OPERAND_IDS && problem->types[row->id] != class_type(desc, row->storage))
            desc->operand_types[desc->operand_type_count++] = (clattn_operand_type){row->id, problem->types[row->id]};
    }
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
    list_types(problem);
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
    settle_types(problem);
    return CLATTN_SUCCESS;
}

clattn_dtype problem_state_type(const struct problem *problem)
{
    clattn_operand_id none = NO_OPERAND;

    return common_type(problem, STORE_MATRIX, &none);
}

clattn_status problem_check_kernels(const struct problem *problem, const struct log *log)
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
