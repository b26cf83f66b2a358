#include "solve/backward/spans.h"

#include <stddef.h>

/* Tensors with a row for each token, or for each write of a token. */
static const struct {
    const char *name;
    int of_writes;
} of_tokens[] = {
    {"q", 0},   {"o", 0},   {"d_o", 0}, {"m", 0},      {"g", 0},   {"raw", 0}, {"d_q", 0},
    {"d_g", 0}, {"k", 1},   {"v", 1},   {"beta", 1},   {"p", 1},   {"e", 1},   {"w", 1},
    {"d_k", 1}, {"d_v", 1}, {"d_w", 1}, {"d_beta", 1}, {"d_p", 1}, {"d_b", 1}, {"d_e", 1},
};

static int slice_of(struct builder *b, int tensor, ir_expression tokens, ir_expression elements)
{
    const struct ir_tensor slice = {.home = IR_SLICE,
                                    .base = tensor,
                                    .element = b->ir->failed ? 1 : b->ir->tensors[tensor].element,
                                    .tokens = tokens,
                                    .heads = IR_NONE,
                                    .elements = elements,
                                    .strides = {IR_NONE, IR_NONE, IR_NONE}};

    return ir_tensor(b->ir, &slice);
}

int span_state(struct builder *b, int states, ir_expression at, int64_t numbers)
{
    return slice_of(b, states, IR_NONE, build_times(b, at, numbers));
}

int span_indices(struct builder *b, const char *name, int64_t count, int wide)
{
    const int words = build_scratch(b, name, CLATTN_F32, wide ? 2 * count : count);
    int indices = words;

    if (wide && words != IR_NONE && !b->ir->failed) {
        indices = slice_of(b, words, IR_NONE, IR_NONE);
        if (indices != IR_NONE)
            b->ir->tensors[indices].element = 8;
    }
    return indices;
}

static void bind_slices(const struct span *span, struct builder *b)
{
    const ir_expression first_row = build_times(b, span->first_token, b->problem->desc.steps);

    for (size_t i = 0; i < sizeof of_tokens / sizeof *of_tokens; i++) {
        const int tensor = build_bound(b, of_tokens[i].name);
        if (tensor != IR_NONE)
            build_bind(b, of_tokens[i].name,
                       slice_of(b, tensor, of_tokens[i].of_writes ? first_row : span->first_token, IR_NONE));
    }
}

/* Spans from the first to the last but one, or from the last to the first. Tensors of the loop live within a turn. */
static int open_loop(struct builder *b, int64_t rows, int down)
{
    const ir_expression all = build_rows(b);
    const struct ir_loop loop = {.first = b->ir->step_count,
                                 .last = b->ir->step_count,
                                 .rows = down ? all : build_binary(b, IR_SUBTRACT, all, build_constant(b, rows)),
                                 .per_turn = rows,
                                 .down = down};

    return ir_loop(b->ir, &loop);
}

void span_begin(struct span *span, struct builder *b, int64_t rows, int down)
{
    const int64_t tokens = rows / b->problem->desc.steps;

    *span = (struct span){.rows = rows, .names = b->name_count};
    span->call_tokens = span->tokens = build_length(b, IR_TOKENS);
    span->first_token = span->number = build_constant(b, 0);
    for (int i = 0; i < IR_LENGTHS; i++)
        span->lengths[i] = IR_NONE;
    if (rows != 0) {
        span->loop = open_loop(b, rows, down);
        span->first_token = build_binary(b, IR_DIVIDE, ir_loop_value(b->ir, IR_LOOP_FIRST, span->loop),
                                         build_constant(b, b->problem->desc.steps));
        span->number = build_binary(b, IR_DIVIDE, span->first_token, build_constant(b, tokens));
        span->tokens = build_binary(b, IR_LOWER, build_constant(b, tokens),
                                    build_binary(b, IR_SUBTRACT, span->call_tokens, span->first_token));
        span->lengths[IR_TOKENS] = span->tokens;
        b->lengths = span->lengths;
        bind_slices(span, b);
    }
    build_number(b, "first_token", span->first_token);
    build_number(b, "span_tokens", span->tokens);
}

void span_end(const struct span *span, struct builder *b)
{
    b->lengths = NULL;
    b->name_count = span->names;
    if (span->rows != 0)
        build_close_loop(b, span->loop);
}

void span_outer_kernel(const struct span *span, struct builder *b, const struct kernel_step *step, struct grid3 grid)
{
    const ir_expression *lengths = b->lengths;
    const int names = b->name_count;

    b->lengths = NULL;
    build_bind(b, "cu", build_operand(b, CLATTN_SEQLENS));
    build_bind(b, "position", build_operand(b, CLATTN_POSITION));
    build_number(b, "seq_len", span->call_tokens);
    build_kernel(b, step, grid);
    b->name_count = names;
    b->lengths = lengths;
}
