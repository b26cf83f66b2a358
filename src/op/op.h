/* Families of rules: what their rows in the table mean. The folders after this one find a family's reference and
 * kernels by enum op_id of rule.h. */
#ifndef CLATTN_SRC_OP_H
#define CLATTN_SRC_OP_H

#include "base/log.h"
#include "op/rule.h"

struct op {
    int64_t most_dim; /* the largest key_dim and value_dim */
    /* Sets defaults of this family, before those that all families share. */
    void (*complete)(clattn_plan_desc *desc, const struct rule *rule);
    /* Checks the rest of a completed desc, after its sizes and its rule's options. */
    clattn_status (*check)(const clattn_plan_desc *desc, const struct rule *rule, const struct log *log);
    /* Lists every operand of a completed desc. Returns their number. */
    int (*operands)(const clattn_plan_desc *desc, const struct rule *rule, struct operand_row rows[OPERAND_COUNT]);
};

const struct op *op_of(const struct rule *rule);

extern const struct op op_mixer, op_piece, op_learner;

/* ---- Checks that families share
 * ----------------------------------------------------------------------------------- */

enum {
    MAX_DIM = 1024, /* channels of keys, and value columns */
    MAX_HEADS = 65535,
    MAX_LENGTH = INT32_MAX - 64, /* batch, sequences and tokens */
    MAX_INTERVAL = 1 << 27       /* state_window and state_every: kernels have them in one number with three flags */
};
#define MAX_ELEMENTS 9007199254740992.0 /* elements of an operand, 2^53: offsets have 64 bits */

/* INVALID_DESC, with the field's name, outside of low … high. */
clattn_status check_range(const struct log *log, const char *name, int64_t value, int64_t low, int64_t high);

/* Options of rotary positions, whether as a piece or before a rule. */
void rope_complete(clattn_plan_desc *desc, const struct rule *rule);
clattn_status rope_check(const clattn_plan_desc *desc, const struct rule *rule, const struct log *log);

/* INVALID_DESC: there is a pool of states, but no indices into it. */
clattn_status check_slots(const clattn_plan_desc *desc, const struct log *log);
/* INVALID_DESC: the desc asks for something that its pass does not have. */
clattn_status check_pass(const clattn_plan_desc *desc, const struct rule *rule, const struct log *log);
/* INVALID_DESC: contradictions between the options of states on the way. */
clattn_status check_snapshots(const clattn_plan_desc *desc, const struct rule *rule, const struct log *log);

/* Copies the rows that are used and have an id. Returns their number. */
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

/* The coefficients a, b and c of Muon's five steps. */
enum { MUON_STEPS = 5 };
const double (*learner_muon(clattn_muon muon))[3];
/* Whether a completed desc of ttt or titans has LN, in its loss or in its readout. */
int learner_has_norm(const clattn_plan_desc *desc);
/* Puts the rule's own loss and readout where the desc leaves them open. */
void learner_complete_kinds(clattn_plan_desc *desc, const struct rule *rule);

/* The operands of the backward pass, from those of the forward pass. Returns their number. */
int backward_operands(const clattn_plan_desc *desc, const struct rule *rule, const struct operand_row *forward,
                      int count, struct operand_row rows[OPERAND_COUNT]);
/* op_mixer's operands, which follow from the rule's columns. */
int mixer_operands(const clattn_plan_desc *desc, const struct rule *rule, struct operand_row rows[OPERAND_COUNT]);

#endif
