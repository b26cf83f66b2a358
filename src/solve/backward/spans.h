/* Spans of rows in which the backward pass in chunks goes through sequences when its workspace is limited. A span is for
 * kernels what a shorter call is: their operands are slices, and its length is theirs. */
#ifndef CLATTN_SRC_SOLVE_SPANS_H
#define CLATTN_SRC_SOLVE_SPANS_H

#include "solve/builder.h"

struct span {
    int64_t rows; /* at most; 0: the span is the whole call */
    int loop, names;
    ir_expression number, first_token, tokens, call_tokens; /* the number counts from the first rows */
    ir_expression lengths[IR_LENGTHS];
};

/* Begins the steps of a span: binds its operands and numbers, and sets the builder's lengths, which are in *span until
 * span_end. The steps are for all spans but the last, or down from the last one to the first. */
void span_begin(struct span *span, struct builder *b, int64_t rows, int down);
/* The last step before it is a kernel of the span's own. */
void span_end(const struct span *span, struct builder *b);
/* Adds a kernel that sees the call's own lengths and sequences, and the numbers first_token and span_tokens. cu, position:
 * the call's, as they were bound before the span. */
void span_outer_kernel(const struct span *span, struct builder *b, const struct kernel_step *step, struct grid3 grid);
/* Scratch memory for so many indices, of 64 bits if they are wide. */
int span_indices(struct builder *b, const char *name, int64_t count, int wide);
/* State number `at` of a tensor of states, each of so many numbers. */
int span_state(struct builder *b, int states, ir_expression at, int64_t numbers);

#endif
