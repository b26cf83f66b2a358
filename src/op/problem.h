/* A caller's desc completed and checked, and the shapes that follow from it. */
#ifndef CLATTN_SRC_PROBLEM_H
#define CLATTN_SRC_PROBLEM_H

#include "base/log.h"
#include "op/rule.h"

struct arguments;

/* What a run over the sequences computes: the outputs, of the values that the problem has; what outputs are divided by,
 * whose one value column is of ones; or the attention matrix, whose values are unit vectors. */
enum pass { PASS_OUTPUTS, PASS_DENOMINATORS, PASS_ATTENTION };

struct problem {
    clattn_plan_desc desc; /* completed */
    enum pass pass;
    const struct rule *rule;
    int operand_count;
    struct operand_row operands[OPERAND_COUNT]; /* those the problem uses */
    clattn_dtype types[OPERAND_COUNT];          /* of those */
    clattn_operand_id mixed;                    /* one whose type others of its class do not have; or NONE */
};

/* The lengths of one call; sequences is the number of states: batch, or N with cu_seqlens. */
struct extent {
    int64_t batch, seq_len, sequences, kv_len; /* kv_len: tokens of keys */
    int64_t tail; /* of path_attn: the last of them, whose keys none has carried: all without a tail; else 0 */
};

/* An operand as code addresses it, in elements: offset + batch*b + token*t + head*h + inner index. */
struct view {
    int64_t offset, batch, token, head;
};

/* Where an operand's elements lie: rows of `inner` elements, count[] of them along batch, token and head. */
struct placement {
    struct view view;
    int64_t count[3], inner;
    int64_t low;  /* elements that lie before the view's first, where a stride is negative */
    int64_t span; /* elements from the lowest to the last, and what lies between; 0: it has none */
    size_t element;
    int output, updated; /* written; read and written */
};

clattn_status problem_init(struct problem *problem, const clattn_plan_desc *desc, const struct log *log);
/* The same of a caller's desc of that size. */
clattn_status problem_read(struct problem *problem, const clattn_plan_desc *desc, size_t size, const struct log *log);

/* Types of the problem's operands, the desc's own among them, whose list is what differs from its class. */
clattn_status problem_set_types(struct problem *problem, const struct log *log);

/* The pass's value columns. */
int problem_values(const struct problem *problem);
/* The type and map of the gates that kernels read: the problem's own, or log-decays in f32 that the library makes. */
clattn_dtype problem_gate_type(const struct problem *problem);
clattn_gate_map problem_gate_map(const struct problem *problem);
/* The type of what the pass writes. */
clattn_dtype problem_out_type(const struct problem *problem);

/* The type of initial_state, final_state and states. */
clattn_dtype problem_state_type(const struct problem *problem);

/* UNSUPPORTED where the reference alone computes it: operands with types of their own, the backward pass. */
clattn_status problem_check_kernels(const struct problem *problem, const struct log *log);

/* The desc's lengths: a plan's maxima. */
struct extent problem_most(const struct problem *problem);

/* The lengths that a call asks for; INVALID_OPERAND above the desc's. */
clattn_status problem_extent(const struct problem *problem, const struct arguments *arguments, struct extent *extent,
                             const struct log *log);

/* What a letter of an operand's dims stands for. */
int64_t problem_dim(const clattn_plan_desc *desc, const struct extent *extent, char letter);

/* Of state_indices on the host: the place of a sequence's state in the pool, -1 where its index is below 0 or past the
 * pool: it has none. */
int64_t problem_slot(const struct problem *problem, const struct extent *extent, const void *indices, int64_t sequence);
/* INVALID_OPERAND, naming both, where two sequences have the same place: each would overwrite the other's state. */
clattn_status problem_check_slots(const struct problem *problem, const struct extent *extent, const void *indices,
                                  const struct log *log);

/* The rule's decay, or none where the problem leaves its gate out. */
enum decay problem_decay(const struct problem *problem);
/* Whether each token has one a head; what a rule fixes is the same for all. */
int problem_tokens_decay(const struct problem *problem);

/* Whether the problem's state has a normalizer (z, n) and a stabilizer (m) beside S. */
int problem_normalized(const struct problem *problem);
/* Whether every token of a sequence reads the state after the last. */
int problem_reads_whole(const struct problem *problem);
int problem_stabilized(const struct problem *problem);
/* What the denominator of a normalised problem has added. */
double problem_eps(const struct problem *problem);

/* A completed desc with that many heads of keys, each for as many others as before. */
void problem_share_heads(clattn_plan_desc *desc, int64_t shared);

/* Rows of keys and values, a step of a token each. */
static inline int64_t problem_rows(const struct problem *problem)
{
    return problem->desc.seq_len * problem->desc.steps;
}

/* Heads that are worked at once: of a list those of the queries, else those that have a state; and how many heads of
 * queries read each of these, one after the other. */
int64_t problem_work_heads(const struct problem *problem);
int64_t problem_reads(const struct problem *problem);

/* Those of all sequences together: what devices have work for at once. */
int64_t problem_heads(const struct problem *problem);

void problem_operand_info(const struct problem *problem, const struct extent *extent, const struct operand_row *row,
                          clattn_operand_info *info);

/* Whether the operand has no elements in a call of no tokens: then its memory may be missing. */
int problem_is_empty(const struct problem *problem, const struct extent *extent, const struct operand_row *row);

/* One operand's place, checked: aligned, strides that fit, an output's elements apart, within size bytes unless size is
 * 0. */
clattn_status problem_place(const struct problem *problem, const struct extent *extent, const struct operand_row *row,
                            const clattn_operand *operand, size_t size, struct placement *place, const struct log *log);
/* Its view; with CLATTN_REVERSED from the last token on. */
struct view placement_view(const struct problem *problem, const struct operand_row *row, const struct placement *place);
/* The view alone. */
clattn_status problem_view(const struct problem *problem, const struct extent *extent, const struct operand_row *row,
                           const clattn_operand *operand, size_t size, struct view *view, const struct log *log);

size_t dtype_size(clattn_dtype dtype);
const char *dtype_name(clattn_dtype dtype); /* "f32" … */

#endif
