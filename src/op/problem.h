/* A caller's desc completed and checked, and the shapes that follow from it. */
#ifndef CLATTN_SRC_PROBLEM_H
#define CLATTN_SRC_PROBLEM_H

#include "base/log.h"
#include "op/rule.h"

struct problem {
    clattn_plan_desc desc; /* completed */
    const struct rule *rule;
    int operand_count;
    struct operand_row operands[CLATTN_OPERAND_COUNT]; /* those the problem uses */
};

/* The lengths of one call; sequences is the number of states: batch, or N with cu_seqlens. */
struct extent {
    int64_t batch, seq_len, sequences;
};

/* An operand as code addresses it, in elements: offset + batch*b + token*t + head*h + inner index. */
struct view {
    int64_t offset, batch, token, head;
};

clattn_status problem_init(struct problem *problem, const clattn_plan_desc *desc, const struct log *log);

/* The desc's lengths: a plan's maxima. */
struct extent problem_most(const struct problem *problem);

/* The lengths that a call asks for; INVALID_OPERAND above the desc's. */
clattn_status problem_extent(const struct problem *problem, const clattn_operands *operands, struct extent *extent,
                             const struct log *log);

/* The rule's decay, or none where the problem leaves its gate out. */
enum decay problem_decay(const struct problem *problem);

/* Whether the problem's state has a normalizer (z, n) and a stabilizer (m) beside S. */
int problem_normalized(const struct problem *problem);
int problem_stabilized(const struct problem *problem);
/* What the denominator of a normalised problem has added. */
double problem_eps(const struct problem *problem);

/* Heads of all sequences together: what devices have work for at once. */
int64_t problem_heads(const struct problem *problem);

void problem_operand_info(const struct problem *problem, const struct extent *extent, const struct operand_row *row,
                          clattn_operand_info *info);

/* Whether the operand has no elements in a call of no tokens: then its memory may be missing. */
int problem_is_empty(const struct problem *problem, const struct extent *extent, const struct operand_row *row);

/* Strides and offset of one operand, checked: present, aligned, strides that fit, within size bytes unless size is 0. */
clattn_status problem_view(const struct problem *problem, const struct extent *extent, const struct operand_row *row,
                           const clattn_operand *operand, size_t size, struct view *view, const struct log *log);

/* operands->NAME by id. */
const clattn_operand *operand_get(const clattn_operands *operands, clattn_operand_id id);

size_t dtype_size(clattn_dtype dtype);
const char *dtype_name(clattn_dtype dtype); /* "f32" … */

#endif
