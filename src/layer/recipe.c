#include "layer/recipe.h"

#include "plan/call.h"
#include "plan/gemm.h"

#include <stdlib.h>

/* A recipe that is put together. */
struct assembly {
    struct layer_recipe *recipe;
    const struct module *module;
    clattn_context *context;
    int64_t seq_len;
    int weights, values[LAYER_VALUES], gradients[LAYER_VALUES], bound[MOST_BOUND]; /* tensors */
};

/* ---- Tensors ------------------------------------------------------------------------------------------------ */

/* Operands are bytes; a step's slice says of which type. */
static int add_operand(struct ir_recipe *ir, const char *name, int number)
{
    return ir_tensor(ir, &(struct ir_tensor){.name = name, .home = IR_OPERAND, .element = 1, .operand = number});
}

static int add_value(const struct assembly *a, const struct layer_value *value)
{
    return ir_tensor(&a->recipe->ir, &(struct ir_tensor){.name = value->name,
                                                         .home = IR_SCRATCH,
                                                         .element = (int)element_of(value_type(a->module, value)),
                                                         .bytes = (int64_t)value_bytes(a->module, value),
                                                         .strides = {IR_NONE, IR_NONE, IR_NONE}});
}

static void add_tensors(struct assembly *a)
{
    const struct layer_value *values = a->module->layer->values;
    struct ir_recipe *ir = &a->recipe->ir;
    const struct layer_bound *bound;

    a->weights = add_operand(ir, "weights", 0);
    for (int i = 0; (bound = bound_get(a->module, i)) != NULL; i++)
        a->bound[i] = add_operand(ir, bound->name, 1 + i);
    for (int i = 0; i < LAYER_VALUES && values[i].name != NULL; i++) {
        a->values[i] = add_value(a, &values[i]);
        a->gradients[i] = module_is_backward(a->module) ? add_value(a, &values[i]) : IR_NONE;
    }
}

/* What lies at a place, from one batch element, token and head to the next as view says. Rows of tokens follow each other
 * in a call of any length. */
static struct ir_tensor slice_of(const struct assembly *a, const struct layer_place *place, size_t element,
                                 const struct view *view)
{
    struct ir_recipe *ir = &a->recipe->ir;
    struct ir_tensor slice = {.home = IR_SLICE,
                              .element = (int)element,
                              .tokens = IR_NONE,
                              .heads = IR_NONE,
                              .elements = ir_constant(ir, (int64_t)(place->at / element))};

    slice.base = place->in == PLACE_WEIGHTS    ? a->weights
                 : place->in == PLACE_VALUE    ? a->values[place->index]
                 : place->in == PLACE_GRADIENT ? a->gradients[place->index]
                                               : a->bound[place->index];
    slice.strides[0] = place->columns != 0
                           ? ir_binary(ir, IR_MULTIPLY, ir_length(ir, IR_TOKENS), ir_constant(ir, place->columns))
                           : ir_constant(ir, view->batch);
    slice.strides[1] = ir_constant(ir, view->token);
    slice.strides[2] = ir_constant(ir, view->head);
    return slice;
}

/* ---- Rules -------------------------------------------------------------------------------------------------- */

/* The slice that stands for an operand of the rule's problem; that is laid out as it is for a call by itself. */
static clattn_status slice_operand(const struct assembly *a, const struct problem *problem,
                                   const clattn_operand *operand, const struct layer_place *place,
                                   struct ir_tensor *slice, const struct log *log)
{
    const struct extent most = problem_most(problem);

    for (int i = 0; i < problem->operand_count; i++)
        if (problem->operands[i].id == operand->id) {
            struct placement placement;
            TRY(problem_place(problem, &most, &problem->operands[i], operand, 0, &placement, log));
            *slice = slice_of(a, place, placement.element, &placement.view);
        }
    return CLATTN_SUCCESS;
}

/* What a step's plan is called with. */
struct step_call {
    clattn_operand operands[BACK_OPERANDS];
    struct layer_place places[BACK_OPERANDS];
    size_t count;
};

static clattn_status inline_rule(const struct assembly *a, const struct step_call *call, struct layer_child *child)
{
    const struct clattn_plan *rule = child->rule;
    struct ir_tensor slices[OPERAND_COUNT] = {{.name = NULL}};

    for (size_t i = 0; i < call->count; i++)
        TRY(slice_operand(a, &rule->problem, &call->operands[i], &call->places[i], &slices[call->operands[i].id],
                          &rule->log));
    for (int i = 0; i < rule->problem.operand_count; i++)
        if (slices[rule->problem.operands[i].id].home != IR_SLICE)
            return FAIL(&rule->log, INVALID_OPERAND, "%s: operand %s is missing", rule->problem.rule->name,
                        operand_name(rule->problem.operands[i].id));
    child->first = ir_inline(&a->recipe->ir, &rule->bound.ir, slices, NULL);
    return CLATTN_SUCCESS;
}

static clattn_status add_rule(const struct assembly *a, const struct layer_step *step, struct layer_child *child)
{
    const clattn_plan_desc desc = step_desc(a->module, step, a->seq_len);
    struct step_call call;

    TRY(clattn_plan_create(&child->rule, a->context, &desc));
    call.count = step_operands(a->module, step, a->seq_len, call.operands, call.places);
    return inline_rule(a, &call, child);
}

static clattn_status add_normed(const struct assembly *a, int index, struct layer_child *child)
{
    const clattn_plan_desc desc = step_normed_desc(a->module, index, a->seq_len);
    struct step_call call;

    TRY(clattn_plan_create(&child->rule, a->context, &desc));
    call.count = step_normed_operands(a->module, index, a->seq_len, call.operands, call.places);
    return inline_rule(a, &call, child);
}

static clattn_status add_rule_back(const struct assembly *a, int index, struct layer_child *child)
{
    const clattn_plan_desc desc = step_back_desc(a->module, index, a->seq_len);
    struct step_call call;

    TRY(clattn_plan_create(&child->rule, a->context, &desc));
    call.count = step_back_operands(a->module, index, a->seq_len, call.operands, call.places);
    return inline_rule(a, &call, child);
}

/* ---- Products ----------------------------------------------------------------------------------------------- */

static struct ir_tensor matrix_of(const struct assembly *a, const struct layer_place *place, clattn_dtype dtype)
{
    return slice_of(a, place, element_of(dtype), &(struct view){0, 0, place->columns, 0});
}

/* For any number of rows up to the recipe's, so that it may not be compiled for few; or for one token's alone. */
static int64_t most_rows(const struct assembly *a)
{
    enum { MANY_ROWS = 9 };
    const int64_t rows = a->module->desc.batch * a->seq_len;

    return a->seq_len == 1 || rows > MANY_ROWS ? rows : MANY_ROWS;
}

static clattn_status create_product(const struct assembly *a, const struct layer_product *p, clattn_gemm_plan **product)
{
    const clattn_gemm_desc desc = {.dtype = a->module->desc.dtype,
                                   .flags = CLATTN_GEMM_TRANS_B,
                                   .m = most_rows(a),
                                   .n = p->n,
                                   .k = p->k,
                                   .lda = p->lda,
                                   .ldd = p->ldd};

    return clattn_gemm_plan_create(product, a->context, &desc);
}

/* Puts the product in its place, of three matrices and so many rows and such a depth. */
static void inline_product(const struct assembly *a, const struct layer_place *const places[3], clattn_dtype out,
                           ir_expression rows, ir_expression depth, struct layer_child *child)
{
    struct ir_recipe *ir = &a->recipe->ir;
    const clattn_dtype dtype = a->module->desc.dtype;
    const ir_expression one = ir_constant(ir, 1), lengths[IR_LENGTHS] = {one, rows, one, depth, IR_NONE};
    const struct ir_tensor matrices[GEMM_OPERANDS] = {[GEMM_A] = matrix_of(a, places[0], dtype),
                                                      [GEMM_B] = matrix_of(a, places[1], dtype),
                                                      [GEMM_D] = matrix_of(a, places[2], out)};

    child->first = ir_inline(ir, &child->product->bound.ir, matrices, lengths);
}

static ir_expression rows_of_call(const struct assembly *a)
{
    struct ir_recipe *ir = &a->recipe->ir;

    return ir_binary(ir, IR_MULTIPLY, ir_length(ir, IR_BATCH), ir_length(ir, IR_TOKENS));
}

/* All rows of the call at once, whose sequences touch: a matrix that is read once for all of them. */
static clattn_status add_product(const struct assembly *a, const struct layer_step *step, struct layer_child *child)
{
    const struct layer_product p = step_product(a->module, step);
    const struct layer_place *const places[] = {&p.a, &p.b, &p.d};

    TRY(create_product(a, &p, &child->product));
    inline_product(a, places, a->module->desc.dtype, rows_of_call(a), IR_NONE, child);
    return CLATTN_SUCCESS;
}

/* The gradient by A, dD B, ... */
static clattn_status add_product_back(const struct assembly *a, int index, struct layer_child *child)
{
    const struct layer_product p = step_product(a->module, step_get(a->module, index));
    const struct layer_product_back back = step_product_back(a->module, index);
    const struct layer_place *const places[] = {&back.d, &p.b, &back.a};
    const clattn_gemm_desc desc = {.dtype = a->module->desc.dtype,
                                   .m = most_rows(a),
                                   .n = p.k,
                                   .k = p.n,
                                   .lda = p.ldd,
                                   .ldd = p.lda,
                                   .beta = back.adds};

    TRY(clattn_gemm_plan_create(&child->product, a->context, &desc));
    inline_product(a, places, a->module->desc.dtype, rows_of_call(a), IR_NONE, child);
    return CLATTN_SUCCESS;
}

/* ... and that by B, dD^T A: a sum over all rows of the call */
static clattn_status add_weights_back(const struct assembly *a, int index, struct layer_child *child)
{
    const struct layer_product p = step_product(a->module, step_get(a->module, index));
    const struct layer_product_back back = step_product_back(a->module, index);
    const struct layer_place *const places[] = {&back.d, &p.a, &back.b};
    const clattn_gemm_desc desc = {.dtype = a->module->desc.dtype,
                                   .flags = CLATTN_GEMM_TRANS_A | CLATTN_GEMM_F32_D,
                                   .m = p.n,
                                   .n = p.k,
                                   .k = a->module->desc.batch * a->seq_len,
                                   .lda = p.ldd,
                                   .ldb = p.lda,
                                   .beta = (a->module->desc.flags & CLATTN_LAYER_ADDED) != 0};

    TRY(gemm_plan_deep(&child->product, a->context, &desc));
    inline_product(a, places, CLATTN_F32, ir_constant(&a->recipe->ir, p.n), rows_of_call(a), child);
    return CLATTN_SUCCESS;
}

/* ---- All steps ---------------------------------------------------------------------------------------------- */

static struct layer_child *next_child(const struct assembly *a)
{
    return &a->recipe->children[a->recipe->child_count++];
}

static clattn_status add_step(const struct assembly *a, int index)
{
    const struct layer_step *step = step_get(a->module, index);

    return (step->fixed.rule != CLATTN_RULE_NONE ? add_rule : add_product)(a, step, next_child(a));
}

static clattn_status add_step_back(const struct assembly *a, int index)
{
    if (step_get(a->module, index)->fixed.rule != CLATTN_RULE_NONE)
        return add_rule_back(a, index, next_child(a));
    TRY(add_weights_back(a, index, next_child(a)));
    return add_product_back(a, index, next_child(a));
}

static clattn_status told(const struct assembly *a, int index, clattn_status status, const struct log *log)
{
    if (status != CLATTN_SUCCESS)
        log_line(log, CLATTN_LOG_ERROR, "layer %s: step %d for %lld tokens cannot be had", a->module->layer->name,
                 index + 1, (long long)a->seq_len);
    return status;
}

/* A token alone, whose steps are many small launches: a rule whose output is normalised is one plan. */
static clattn_status add_token_steps(const struct assembly *a, const struct log *log)
{
    for (int i = 0; step_get(a->module, i) != NULL; i++)
        if (step_norm(a->module, i) != NULL) {
            TRY(told(a, i, add_normed(a, i, next_child(a)), log));
            i++;
        } else
            TRY(told(a, i, add_step(a, i), log));
    return CLATTN_SUCCESS;
}

static clattn_status add_steps(const struct assembly *a, const struct log *log)
{
    const int backward = module_is_backward(a->module);
    int count = 0;

    if (!backward && a->seq_len == 1)
        return add_token_steps(a, log);
    for (; step_get(a->module, count) != NULL; count++)
        if (!backward || step_is_again(step_get(a->module, count)))
            TRY(told(a, count, add_step(a, count), log));
    for (int i = count - 1; i >= 0 && backward; i--)
        TRY(told(a, i, add_step_back(a, i), log));
    return CLATTN_SUCCESS;
}

static struct bound *bound_of(const struct layer_child *child)
{
    return child->rule != NULL ? &child->rule->bound : &child->product->bound;
}

static int steps_of(const struct layer_child *child)
{
    return bound_of(child)->ir.step_count;
}

static clattn_status take_kernels(struct layer_recipe *recipe)
{
    recipe->kernels = calloc((size_t)recipe->ir.step_count, sizeof *recipe->kernels);
    recipe->set = ir_set_create(&recipe->ir);
    if (recipe->kernels == NULL || recipe->set == NULL)
        return CLATTN_OUT_OF_MEMORY;
    for (int i = 0; i < recipe->child_count; i++) {
        const struct layer_child *child = &recipe->children[i];
        for (int step = 0; step < steps_of(child); step++)
            recipe->kernels[child->first + step] = bound_of(child)->launched[step];
    }
    return CLATTN_SUCCESS;
}

clattn_status layer_recipe_open(struct layer_recipe *recipe, const struct module *module, clattn_context *context,
                                int64_t seq_len, const struct log *log)
{
    struct module of_length = *module;
    struct assembly a = {.recipe = recipe, .module = &of_length, .context = context, .seq_len = seq_len};

    of_length.desc.seq_len = seq_len;
    of_length.sizes = sizes_of(&of_length.desc);
    add_tensors(&a);
    TRY(add_steps(&a, log));
    TRY(ir_finish(&recipe->ir));
    return take_kernels(recipe);
}

void layer_recipe_close(struct layer_recipe *recipe)
{
    for (int i = 0; i < recipe->child_count; i++) {
        clattn_plan_destroy(recipe->children[i].rule);
        clattn_gemm_plan_destroy(recipe->children[i].product);
    }
    ir_close(&recipe->ir);
    free(recipe->kernels);
    free(recipe->set);
}

/* ---- Kernels and text --------------------------------------------------------------------------------------- */

static const struct layer_child *child_of(const struct layer_recipe *recipe, int step)
{
    const struct layer_child *child = recipe->children;

    while (step >= child->first + steps_of(child))
        child++;
    return child;
}

clattn_status layer_recipe_renew(struct layer_recipe *recipe, int step, mutex *lock)
{
    const struct layer_child *child;

    if (step >= recipe->ir.step_count)
        return CLATTN_UNSUPPORTED;
    child = child_of(recipe, step);
    TRY(bound_renew_step(bound_of(child), step - child->first));
    lock_take(lock);
    recipe->kernels[step] = bound_of(child)->launched[step - child->first];
    ir_set_forget(&recipe->ir, recipe->set, step);
    lock_give(lock);
    return CLATTN_SUCCESS;
}

clattn_status layer_recipe_write(struct text *text, const struct layer_recipe *recipe)
{
    for (int i = 0; i < recipe->child_count; i++) {
        const struct layer_child *child = &recipe->children[i];
        char lines[1024] = "";
        text_format(text, "%d. ", i + 1);
        if (child->rule != NULL)
            plan_write_steps(text, child->rule);
        else
            TRY(clattn_gemm_plan_describe(child->product, lines, sizeof lines));
        text_format(text, "%s", lines);
    }
    plan_write_workspace(text, &recipe->ir);
    return CLATTN_SUCCESS;
}
