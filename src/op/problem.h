/* A caller's desc, completed and checked, and the shapes that follow from it. */
#ifndef CLATTN_SRC_PROBLEM_H
#define CLATTN_SRC_PROBLEM_H

#include "base/log.h"
#include "op/rule.h"

struct arguments;

/* What one pass over the sequences computes: the outputs, with the problem's values; their denominators, with one value
 * column of ones; the attention matrix, with unit vectors as values; or what a summary keeps of a state, with values of
 * zero and a unit for the initial state. */
enum pass { PASS_OUTPUTS, PASS_DENOMINATORS, PASS_ATTENTION, PASS_TRANSITION };

struct problem {
    clattn_plan_desc desc; /* completed */
    enum pass pass;
    const struct rule *rule;
    int operand_count;
    struct operand_row operands[OPERAND_COUNT]; /* those that the problem uses */
    clattn_dtype types[OPERAND_COUNT];          /* of these operands */
    int has_gates;                              /* there are gates besides a strength */
    int64_t span;        /* a backward pass goes by spans of so many rows, rounded up to what its solver can cut; 0: all
                          * rows at once */
    int states_in_order; /* the states on the way of packed sequences follow each other in the order of rows, each
                          * sequence's from the whole interval in which it begins; else each has as many */
    int states_narrow;   /* the states on the way are in dtype, which scan_matrix.cl alone leaves; the others in f32 */
    int leaves_erased; /* what a row erases is left beside the outputs: p^T S of the state that it meets, or of low rank
                          * a^T S, times scale, rows of V floats */
};

/* The lengths of one call. `sequences` is the number of states: batch, or N with cu_seqlens. */
struct extent {
    int64_t batch, seq_len, sequences, kv_len; /* kv_len: number of keys */
    int64_t tail; /* path_attn: the last keys, which have not been carried; all keys without a tail. Other rules: 0 */
};

/* The address of an operand's elements, in elements: offset + batch*b + token*t + head*h + inner index. */
struct view {
    int64_t offset, batch, token, head;
};

/* Where an operand's elements lie: count[] rows of `inner` elements along batch, token and head. */
struct placement {
    struct view view;
    int64_t count[3], inner;
    int64_t low;  /* elements before the view's first one, if a stride is negative */
    int64_t span; /* elements from the lowest to the highest address; 0: none */
    size_t element;
    int output, updated; /* it is written; it is read and written */
};

clattn_status problem_init(struct problem *problem, const clattn_plan_desc *desc, const struct log *log);
/* The same for a caller's desc of desc_size bytes. */
clattn_status problem_read(struct problem *problem, const clattn_plan_desc *desc, size_t size, const struct log *log);

/* Sets the types of the operands from the desc's own and its list of exceptions. */
clattn_status problem_set_types(struct problem *problem, const struct log *log);

/* The number of value columns of the pass. */
int problem_values(const struct problem *problem);
/* The type and map of the gates that kernels read: the problem's own, or f32 log-decays that the library computes. */
clattn_dtype problem_gate_type(const struct problem *problem);
/* The type of beta, which kernels read directly in rules of a state where it is a strength. */
clattn_dtype problem_strength_type(const struct problem *problem);
clattn_gate_map problem_gate_map(const struct problem *problem);
/* Whether steps of a softplus have limits. */
int problem_limits_steps(const struct problem *problem);
/* The type of what the pass writes. */
clattn_dtype problem_out_type(const struct problem *problem);

/* The type of initial_state, final_state and states. */
clattn_dtype problem_state_type(const struct problem *problem);

/* Whether a plan converts the operand to the type that kernels read, in a step of its own: vectors to dtype, gates to
 * gate_dtype. In a completed desc these are the types of all vectors or gates that are read, or f32 if they differ. */
int problem_converts(const struct problem *problem, const struct operand_row *row);

/* UNSUPPORTED: only the reference computes the problem, which has types that plans do not convert. */
clattn_status problem_check_kernels(const struct problem *problem, const struct log *log);

/* The desc's lengths, which are the maxima of a plan. */
struct extent problem_most(const struct problem *problem);

/* The lengths of a call. INVALID_OPERAND: they are above the desc's. */
clattn_status problem_extent(const struct problem *problem, const struct arguments *arguments, struct extent *extent,
                             const struct log *log);

/* The length that a letter in an operand's dims stands for. */
int64_t problem_dim(const clattn_plan_desc *desc, const struct extent *extent, char letter);

/* The slot of a sequence's state in the pool, from state_indices on the host. -1: its index is negative or beyond the
 * pool, so the sequence has no state. */
int64_t problem_slot(const struct problem *problem, const struct extent *extent, const void *indices, int64_t sequence);
/* INVALID_OPERAND, naming both sequences: they have the same slot, so each would overwrite the other's state. */
clattn_status problem_check_slots(const struct problem *problem, const struct extent *extent, const void *indices,
                                  const struct log *log);

/* Checks cu_seqlens, cu_seqlens_kv and kv_lens of the host, whose memory was checked. INVALID_OPERAND, naming the entry
 * and what it may be. */
clattn_status problem_check_lengths(const struct problem *problem, const struct extent *extent,
                                    const struct arguments *host, const struct log *log);

/* The rule's decay; none if the problem has no gate. */
enum decay problem_decay(const struct problem *problem);
/* Whether tokens have a decay of their own for each head. A decay that the rule fixes is the same for all tokens. */
int problem_tokens_decay(const struct problem *problem);

/* Whether a backward pass adds the operand's gradient to what is there. */
int problem_adds(const struct problem *problem, clattn_operand_id id);

/* Whether the state has a normalizer (z, n) and a stabilizer (m) besides S. */
int problem_normalized(const struct problem *problem);
/* Whether every token of a sequence reads the state after the last token. */
int problem_reads_whole(const struct problem *problem);
/* Whether every query of a list sees all keys of its sequence, and whether their biases then depend on distances. */
int problem_sees_all(const struct problem *problem);
int problem_has_distances(const struct problem *problem);
int problem_stabilized(const struct problem *problem);
/* The number that is added to the denominators of a normalised problem. */
double problem_eps(const struct problem *problem);

/* Gives a completed desc that many key heads. Each is shared by as many other heads as before. */
void problem_share_heads(clattn_plan_desc *desc, int64_t shared);

/* Whether the tokens' effect on a state is computed in place of outputs. */
static inline int problem_is_summary(const struct problem *problem)
{
    return (problem->desc.flags & CLATTN_SUMMARY) != 0;
}
/* Whether the rows of o are normalised, as the last operation. */
static inline int problem_norms(const struct problem *problem)
{
    return (problem->desc.flags & CLATTN_NORM_OUTPUT) != 0 && !problem_is_summary(problem);
}
/* What a summary keeps of the state before is what tokens that write nothing make of a unit state. That has this many
 * columns; 0: the summary keeps everything, or the sum of log-decays stands for it. */
int64_t problem_unit_columns(const struct problem *problem);
/* Whether a summary keeps less than the whole state, and so has final_transition. */
int problem_keeps_part(const struct problem *problem);
/* The unit state's elements. */
enum unit { UNIT_ONES, UNIT_DIAGONAL, UNIT_ROW_PAIRS, UNIT_COLUMN_PAIRS };
enum unit problem_unit(const struct problem *problem);

/* Whether the problem is the backward pass. */
static inline int problem_is_backward(const struct problem *problem)
{
    return problem->desc.pass == CLATTN_PASS_BACKWARD;
}

/* The number of rows of keys and values: each step of each token is one. */
static inline int64_t problem_rows(const struct problem *problem)
{
    return problem->desc.seq_len * problem->desc.steps;
}

/* The number of heads that are computed in parallel: query heads for a list, else heads that have a state. And the
 * number of query heads that read each of these, one after the other. */
int64_t problem_work_heads(const struct problem *problem);
int64_t problem_reads(const struct problem *problem);

/* The same over all sequences: the heads of work that a device has in parallel. */
int64_t problem_heads(const struct problem *problem);

void problem_operand_info(const struct problem *problem, const struct extent *extent, const struct operand_row *row,
                          clattn_operand_info *info);

/* Whether the operand is empty in a call without tokens, so that its memory may be missing. */
int problem_is_empty(const struct problem *problem, const struct extent *extent, const struct operand_row *row);

/* Places an operand, with checks: alignment, valid strides, elements of an output that do not overlap, and all within
 * `size` bytes unless size is 0. */
clattn_status problem_place(const struct problem *problem, const struct extent *extent, const struct operand_row *row,
                            const clattn_operand *operand, size_t size, struct placement *place, const struct log *log);
/* The view of a placed operand. With CLATTN_REVERSED it begins at the last token. */
struct view placement_view(const struct problem *problem, const struct operand_row *row, const struct placement *place);
/* problem_place, then placement_view. */
clattn_status problem_view(const struct problem *problem, const struct extent *extent, const struct operand_row *row,
                           const clattn_operand *operand, size_t size, struct view *view, const struct log *log);

size_t dtype_size(clattn_dtype dtype);
const char *dtype_name(clattn_dtype dtype); /* "f32" … */

#endif
