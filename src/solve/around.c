/* The steps around a solver: what a problem asks for besides its rule. */
#include "solve/around.h"

#include "solve/solve.h"

#include <stdlib.h>
#include <string.h>

/* ---- Rotary positions ---------------------------------------------------------------------------------------------
 *
 * q, k and the erase keys are rotated before all other steps, by the solver `rope`. The rotated rows lie in scratch
 * memory, and all other steps read them in place of the operands. */

/* The operand's rows as rope sees them. For q these are the rows of one read of the states. */
static struct operand_row row_to_rotate(const struct problem *problem, const struct operand_row *row)
{
    struct operand_row like = *row;

    if (row->id == CLATTN_Q && problem_reads(problem) > 1 && !problem_is_backward(problem))
        like.dims = "BTGK";
    return like;
}

/* The problem that rope solves. Its rows are writes of tokens if the operand's rows are. */
static clattn_status rope_problem(const struct problem *problem, const struct operand_row *row, struct problem *piece)
{
    const struct extent most = problem_most(problem);
    const clattn_plan_desc *desc = &problem->desc;
    const uint64_t flags =
        CLATTN_CU_SEQLENS | CLATTN_CU_SEQLENS_INT64 | CLATTN_INTERLEAVED | CLATTN_WITH_POSITION | CLATTN_TURNED_BACK;
    const clattn_plan_desc rope_desc = {.rule = CLATTN_ROPE,
                                        .dtype = desc->dtype,
                                        .flags = desc->flags & flags,
                                        .batch = desc->batch,
                                        .seq_len = desc->seq_len,
                                        .sequences = desc->sequences,
                                        .heads = problem_dim(desc, &most, row->dims[2]),
                                        .value_dim = desc->key_dim,
                                        .rope_base = desc->rope_base,
                                        .rope_dim = desc->rope_dim};

    TRY(problem_init(piece, &rope_desc, NULL));
    piece->desc.flags |= desc->flags & CLATTN_REVERSED;
    piece->desc.steps = row->dims[1] == 'S' ? desc->steps : 1;
    return CLATTN_SUCCESS;
}

/* The length in a call of the dimension with this letter. */
static ir_expression dim(const struct builder *b, char letter)
{
    const struct extent most = problem_most(b->problem);

    switch (letter) {
    case 'B': return build_length(b, IR_BATCH);
    case 'T': return build_length(b, IR_TOKENS);
    case 'S': return build_times(b, build_length(b, IR_TOKENS), b->problem->desc.steps);
    case 'X': return build_length(b, IR_KEYS);
    case 'E': return build_length(b, IR_TAIL);
    default: return build_constant(b, problem_dim(&b->problem->desc, &most, letter));
    }
}

/* Contiguous strides of rows [batch, tokens, heads, channels]. */
static void contiguous_strides(const struct builder *b, const char *dims, ir_expression strides[3])
{
    strides[2] = dim(b, dims[3]);
    strides[1] = build_binary(b, IR_MULTIPLY, dim(b, dims[2]), strides[2]);
    strides[0] = build_binary(b, IR_MULTIPLY, dim(b, dims[1]), strides[1]);
}

/* The index of the first element when rows are read from the last token to the first, as in a reversed call. */
static int reversed_rows(const struct builder *b, int base, const char *dims, const ir_expression strides[3])
{
    const struct ir_tensor slice = {.home = IR_SLICE,
                                    .base = base,
                                    .element = b->ir->failed ? 1 : b->ir->tensors[base].element,
                                    .tokens = build_binary(b, IR_SUBTRACT, dim(b, dims[1]), build_constant(b, 1)),
                                    .heads = IR_NONE,
                                    .elements = IR_NONE,
                                    .strides = {strides[0], build_times(b, strides[1], -1), strides[2]}};

    return ir_tensor(b->ir, &slice);
}

/* Scratch memory for the operand's rows, laid out as the operand is by default. */
static int rotated_rows(struct builder *b, const struct operand_row *row, const char *name)
{
    const struct extent most = problem_most(b->problem);
    const int is_reversed = (b->problem->desc.flags & CLATTN_REVERSED) && (row->dims[1] == 'T' || row->dims[1] == 'S');
    ir_expression strides[3];
    int64_t elements = 1;
    int rows;

    for (const char *letter = row->dims; *letter != '\0'; letter++)
        elements *= problem_dim(&b->problem->desc, &most, *letter);
    contiguous_strides(b, row->dims, strides);
    rows = build_scratch_of(b, name, b->problem->desc.dtype, elements, strides);
    return is_reversed && rows != IR_NONE ? reversed_rows(b, rows, row->dims, strides) : rows;
}

static clattn_status turn(struct builder *b, const struct operand_row *operand, const char *name)
{
    const struct operand_row row = row_to_rotate(b->problem, operand);
    const int from = build_operand(b, row.id), to = rotated_rows(b, &row, name), names = b->name_count;
    struct problem *piece = malloc(sizeof *piece);
    clattn_status status = piece != NULL ? rope_problem(b->problem, &row, piece) : CLATTN_OUT_OF_MEMORY;

    build_bind(b, "v", from);
    build_bind(b, "o", to);
    if (status == CLATTN_SUCCESS)
        status = build_problem(b, piece);
    b->name_count = names;
    b->operands[row.id] = to;
    free(piece);
    return status;
}

clattn_status around_rope(struct builder *b)
{
    static const struct {
        clattn_operand_id id;
        const char *name;
    } turned[] = {{CLATTN_Q, "rotary queries"}, {CLATTN_K, "rotary keys"}, {CLATTN_P, "rotary erase keys"}};

    if (!(b->problem->desc.flags & CLATTN_WITH_ROPE))
        return CLATTN_SUCCESS;
    for (int n = 0; n < b->problem->operand_count; n++)
        for (size_t i = 0; i < sizeof turned / sizeof *turned; i++)
            if (b->problem->operands[n].id == turned[i].id)
                TRY(turn(b, &b->problem->operands[n], turned[i].name));
    return CLATTN_SUCCESS;
}

/* ---- Types --------------------------------------------------------------------------------------------------------
 *
 * Operands whose type is not that in which kernels read others like them are converted ahead of all other steps. */

/* The letter of an operand's dims that is one of these; '\0': none. */
static char letter_of(const char *dims, const char *letters)
{
    const size_t at = strcspn(dims, letters);

    return dims[at];
}

/* How an operand lies: rows of `inner` elements, along up to three axes. */
struct rows_of_operand {
    ir_expression batch, tokens;
    int64_t heads, inner, elements;
};

static struct rows_of_operand rows_of(const struct builder *b, const char *dims)
{
    const struct extent most = problem_most(b->problem);
    const char batch = letter_of(dims, "B"), tokens = letter_of(dims, "TSXE"), heads = letter_of(dims, "HQYGL");
    struct rows_of_operand rows = {.batch = batch ? dim(b, batch) : build_constant(b, 1),
                                   .tokens = tokens ? dim(b, tokens) : build_constant(b, 1),
                                   .heads = heads ? problem_dim(&b->problem->desc, &most, heads) : 1,
                                   .inner = 1,
                                   .elements = 1};

    for (const char *letter = dims; *letter != '\0'; letter++) {
        const int64_t count = problem_dim(&b->problem->desc, &most, *letter);
        rows.elements *= count;
        rows.inner *= *letter == batch || *letter == tokens || *letter == heads ? 1 : count;
    }
    return rows;
}

static int scratch_rows(struct builder *b, const struct rows_of_operand *rows, clattn_dtype type)
{
    const ir_expression token = build_constant(b, rows->heads * rows->inner);
    const ir_expression strides[3] = {build_binary(b, IR_MULTIPLY, rows->tokens, token), token,
                                      build_constant(b, rows->inner)};

    return build_scratch_of(b, "converted", type, rows->elements, strides);
}

/* A problem with the types of the copy, and a row of it as its values. */
static clattn_status convert_problem(const struct problem *problem, const struct rows_of_operand *rows,
                                     clattn_dtype from, clattn_dtype to, struct problem *piece)
{
    const clattn_plan_desc desc = {.rule = CLATTN_RMS_NORM,
                                   .dtype = from,
                                   .seq_len = problem->desc.seq_len,
                                   .heads = rows->heads,
                                   .value_dim = rows->inner};

    TRY(problem_init(piece, &desc, NULL));
    piece->types[CLATTN_O] = to;
    return CLATTN_SUCCESS;
}

static clattn_status convert(struct builder *b, const struct rows_of_operand *rows, int from, clattn_dtype from_type,
                             int to, clattn_dtype to_type)
{
    struct problem *piece = malloc(sizeof *piece);
    const int names = b->name_count;
    clattn_status status =
        piece != NULL ? convert_problem(b->problem, rows, from_type, to_type, piece) : CLATTN_OUT_OF_MEMORY;

    build_bind(b, "v", from);
    build_bind(b, "o", to);
    build_number(b, "seq_len", rows->tokens);
    build_number(b, "rows", build_binary(b, IR_MULTIPLY, rows->batch, rows->tokens));
    if (status == CLATTN_SUCCESS)
        status = build_child(b, &solver_convert, piece);
    b->name_count = names;
    free(piece);
    return status;
}

static clattn_status convert_input(struct builder *b, const struct operand_row *operand)
{
    const struct operand_row row = row_to_rotate(b->problem, operand);
    const struct rows_of_operand rows = rows_of(b, row.dims);
    const clattn_plan_desc *desc = &b->problem->desc;
    const clattn_dtype type = row.storage == STORE_DATA ? desc->dtype : desc->gate_dtype;
    const int from = build_operand(b, row.id), to = scratch_rows(b, &rows, type);

    b->operands[row.id] = to;
    return convert(b, &rows, from, b->problem->types[row.id], to, type);
}

clattn_status around_convert(struct builder *b)
{
    const struct problem *problem = b->problem;

    for (int i = 0; i < problem->operand_count; i++) {
        const struct operand_row *row = &problem->operands[i];
        struct rows_of_operand rows;
        if (problem_converts(problem, row))
            TRY(convert_input(b, row));
        if (row->id != CLATTN_O || !rule_has_list(problem->rule) || problem->types[CLATTN_O] == problem->desc.dtype)
            continue;
        rows = rows_of(b, row->dims);
        b->converted_output = build_operand(b, CLATTN_O);
        b->operands[CLATTN_O] = scratch_rows(b, &rows, problem->desc.dtype);
    }
    return CLATTN_SUCCESS;
}

clattn_status around_output(struct builder *b)
{
    const struct problem *problem = b->problem;
    struct rows_of_operand rows;

    if (b->converted_output == IR_NONE)
        return CLATTN_SUCCESS;
    rows = rows_of(b, "BTHV");
    return convert(b, &rows, b->operands[CLATTN_O], problem->desc.dtype, b->converted_output, problem->types[CLATTN_O]);
}

/* ---- The norm of outputs ------------------------------------------------------------------------------------------
 */

void around_norm_memory(struct builder *b)
{
    const struct problem *problem = b->problem;
    struct rows_of_operand rows;

    if (!problem_norms(problem))
        return;
    rows = rows_of(b, "BTHV");
    rows.heads = problem_work_heads(problem);
    rows.elements = rows.elements / problem->desc.heads * rows.heads;
    b->normed_output = build_operand(b, CLATTN_O);
    b->operands[CLATTN_O] = scratch_rows(b, &rows, problem->desc.dtype);
    build_bind(b, "norm", IR_NONE);
    build_bind(b, "z", IR_NONE);
}

/* The problem that rms_norm solves: its rows are those of one read of the states. */
static clattn_status norm_problem(const struct problem *problem, struct problem *piece)
{
    const clattn_plan_desc *desc = &problem->desc;
    const clattn_plan_desc norm = {.rule = CLATTN_RMS_NORM,
                                   .dtype = desc->dtype,
                                   .flags = desc->flags & CLATTN_WITH_Z,
                                   .batch = desc->batch,
                                   .seq_len = desc->seq_len,
                                   .heads = problem_work_heads(problem),
                                   .value_dim = desc->value_dim,
                                   .eps = desc->eps,
                                   .gating = desc->gating};

    TRY(problem_init(piece, &norm, NULL));
    piece->types[CLATTN_O] = problem->types[CLATTN_O];
    return CLATTN_SUCCESS;
}

clattn_status around_norm(struct builder *b)
{
    struct problem *piece;
    const int names = b->name_count;
    clattn_status status;

    if (b->normed_output == IR_NONE)
        return CLATTN_SUCCESS;
    piece = malloc(sizeof *piece);
    status = piece != NULL ? norm_problem(b->problem, piece) : CLATTN_OUT_OF_MEMORY;
    build_bind(b, "v", b->operands[CLATTN_O]);
    build_bind(b, "o", b->normed_output);
    build_bind(b, "weights", build_operand(b, CLATTN_NORM));
    build_bind(b, "z", build_operand(b, CLATTN_Z));
    if (status == CLATTN_SUCCESS)
        status = build_problem(b, piece);
    b->name_count = names;
    free(piece);
    return status;
}

/* ---- A cache to which the call appends its keys and values
 * -------------------------------------------------------- */

clattn_status around_append(struct builder *b)
{
    return b->problem->desc.flags & CLATTN_APPEND ? build_child(b, &solver_append, b->problem) : CLATTN_SUCCESS;
}

/* ---- Gates --------------------------------------------------------------------------------------------------------
 */

/* The elements of a tensor with one number for each token and head. */
static int64_t tokens_of_all(const struct problem *problem)
{
    return problem->desc.batch * problem->desc.seq_len * problem_work_heads(problem);
}

clattn_status around_gates(struct builder *b)
{
    const int64_t numbers = tokens_of_all(b->problem);
    int decay, strength;

    if (!problem_stabilized(b->problem))
        return CLATTN_SUCCESS;
    decay = build_scratch(b, "decay", CLATTN_F32, numbers);
    strength = build_scratch(b, "strength", CLATTN_F32, numbers);
    build_bind(b, "g", decay);
    build_bind(b, "decay", decay);
    build_bind(b, "beta", strength);
    build_bind(b, "strength", strength);
    build_bind(b, "m", build_scratch(b, "stabilizer", CLATTN_F32, numbers));
    return build_child(b, &solver_stabilize, b->problem);
}

/* ---- Memory -------------------------------------------------------------------------------------------------------
 */

/* Scratch memory for the states of all sequences and heads, in a pass with that many value columns. */
static int whole_state(struct builder *b, const char *name, int64_t columns)
{
    const int64_t heads = problem_work_heads(b->problem), K = b->problem->desc.key_dim;
    const ir_expression strides[3] = {build_constant(b, heads * K * columns), build_constant(b, K),
                                      build_constant(b, K * columns)};

    return build_scratch_of(b, name, CLATTN_F32, problem_most(b->problem).sequences * heads * K * columns, strides);
}

void around_memory(struct builder *b)
{
    if (problem_is_summary(b->problem))
        return;
    if (problem_normalized(b->problem))
        b->denominators = build_scratch(b, "denominators", CLATTN_F32, tokens_of_all(b->problem));
    if (!problem_reads_whole(b->problem) || (b->problem->desc.flags & CLATTN_FINAL_STATE))
        return;
    b->whole = whole_state(b, "whole", b->problem->desc.value_dim);
    if (problem_normalized(b->problem))
        b->whole_sums = whole_state(b, "whole sums", 1);
}

/* ---- Reads --------------------------------------------------------------------------------------------------------
 */

static clattn_status read_whole(struct builder *b, const struct problem *problem, const void *shape)
{
    (void)shape;
    return build_child(b, &solver_read_state, problem);
}

static clattn_status add_attention(struct builder *b, const struct problem *problem, const void *shape)
{
    (void)shape;
    return build_problem(b, problem);
}

/* Whether a solver leaves the attention matrix to others: of a list whose keys turn on their way to a query it does
 * not. */
static int is_read_by_others(const struct problem *problem)
{
    return !rule_has_list(problem->rule) || problem->rule->erase == ERASE_NONE ||
           (problem->desc.flags & CLATTN_ABSOLUTE) != 0;
}

clattn_status around_reads(struct builder *b)
{
    if (problem_reads_whole(b->problem))
        TRY(build_passes(b, NULL, read_whole));
    if ((b->problem->desc.flags & CLATTN_WITH_ATTN) && is_read_by_others(b->problem))
        return build_pass(b, PASS_ATTENTION, NULL, add_attention);
    return CLATTN_SUCCESS;
}
