/* Families of rules: what their rows mean. Where a family's oracle and kernels are, the folders after this one say by
 * enum op of rule.h. */
#ifndef CLATTN_SRC_OP_H
#define CLATTN_SRC_OP_H

#include "base/log.h"
#include "op/rule.h"

struct op {
    int64_t most_dim; /* of key_dim and value_dim */
    /* Defaults that are the family's own, ahead of those that all have. */
    void (*complete)(clattn_plan_desc *desc, const struct rule *rule);
    /* What else a completed desc must be, its sizes and the options of its rule being checked. */
    clattn_status (*check)(const clattn_plan_desc *desc, const struct rule *rule, const struct log *log);
    /* Every operand of a completed desc; how many. */
    int (*operands)(const clattn_plan_desc *desc, const struct rule *rule, struct operand_row rows[OPERAND_COUNT]);
};

const struct op *op_of(const struct rule *rule);

extern const struct op op_mixer, op_piece, op_learner;

/* ---- What families check alike ------------------------------------------------------------------------------------
 */

enum { MAX_DIM = 256, MAX_HEADS = 65535, MAX_LENGTH = INT32_MAX - 64 /* tokens, batch and sequences */ };
#define MAX_ELEMENTS 9007199254740992.0 /* of one operand, 2^53: offsets are 64-bit */

/* INVALID_DESC, naming the field, outside of low … high. */
clattn_status check_range(const struct log *log, const char *name, int64_t value, int64_t low, int64_t high);

/* What turns rows with their positions, of a piece or ahead of a rule. */
void rope_complete(clattn_plan_desc *desc, const struct rule *rule);
clattn_status rope_check(const clattn_plan_desc *desc, const struct rule *rule, const struct log *log);

/* INVALID_DESC where there is a pool of states without indices into it. */
clattn_status check_slots(const clattn_plan_desc *desc, const struct log *log);

/* Of rows those that are used and have an id; how many. */
struct operand_choice {
    int used;
    struct operand_row row;
};
int operands_used(const struct operand_choice *all, size_t count, struct operand_row rows[OPERAND_COUNT]);
#define OP(name) CLATTN_##name
#define ROW(id, dims, storage, kind)                                                                                   \
    {                                                                                                                  \
        id, dims, storage, NUMBERS_##kind                                                                              \
    }

/* a, b and c of each of Muon's five steps. */
enum { MUON_STEPS = 5 };
const double (*learner_muon(clattn_muon muon))[3];

/* op_mixer's: they follow from the words. */
int mixer_operands(const clattn_plan_desc *desc, const struct rule *rule, struct operand_row rows[OPERAND_COUNT]);

#endif
