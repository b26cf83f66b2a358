#include "layer/bind.h"

#include "base/sized.h"
#include "op/options.h"
#include "op/rule.h"
#include "op/state.h"

#include <math.h>
#include <string.h>

enum { ALIGNMENT = 16 };

/* ---- The operands of a call --------------------------------------------------------------------------------- */

static struct memory *find_memory(struct memories *memories, const struct module *module, const char *name)
{
    const struct layer_bound *bound;

    if (strcmp(name, "weights") == 0)
        return &memories->weights;
    for (int i = 0; (bound = bound_get(module, i)) != NULL; i++)
        if (strcmp(name, bound->name) == 0)
            return &memories->bound[i];
    return NULL;
}

static clattn_status read_operand(struct memories *memories, const struct module *module,
                                  const clattn_layer_operand *operand, int host, const struct log *log)
{
    const char *name = operand->name != NULL ? operand->name : "";
    struct memory *memory = find_memory(memories, module, name);

    if (memory == NULL)
        return FAIL(log, INVALID_OPERAND, "operand '%s': layer %s with these flags has none of that name", name,
                    module->layer->name);
    if (memory->buffer != NULL || memory->host != NULL)
        return FAIL(log, INVALID_OPERAND, "operand %s is given twice", name);
    if (operand->offset % ALIGNMENT != 0)
        return FAIL(log, INVALID_OPERAND, "operand %s: offset is %zu, expected a multiple of %d", name, operand->offset,
                    ALIGNMENT);
    memory->buffer = host ? NULL : operand->buffer;
    memory->host = host && operand->host != NULL ? (char *)operand->host + operand->offset : NULL;
    memory->offset = host ? 0 : operand->offset;
    return CLATTN_SUCCESS;
}

static clattn_status check_given(const struct memory *memory, const char *name, int host, const struct log *log)
{
    if (memory->buffer == NULL && memory->host == NULL)
        return FAIL(log, INVALID_OPERAND, "operand %s is missing, or has no %s", name, host ? "host" : "buffer");
    return CLATTN_SUCCESS;
}

static clattn_status check_all(const struct memories *memories, const struct module *module, int64_t seq_len, int host,
                               const struct log *log)
{
    const struct layer_bound *bound;

    TRY(check_given(&memories->weights, "weights", host, log));
    for (int i = 0; (bound = bound_get(module, i)) != NULL; i++)
        if (seq_len > 0 || !bound_has_tokens(bound))
            TRY(check_given(&memories->bound[i], bound->name, host, log));
    return CLATTN_SUCCESS;
}

clattn_status call_read(struct memories *memories, int64_t *seq_len, const struct module *module,
                        const clattn_layer_call *call, size_t call_size, size_t operand_size, int host,
                        const struct log *log)
{
    clattn_layer_call ours;

    memset(memories, 0, sizeof *memories);
    if (call == NULL || !sized_read(&ours, sizeof ours, call, call_size) ||
        (ours.operand_count > 0 && ours.operands == NULL))
        return FAIL(log, INVALID_ARGUMENT, "layer: call is NULL, or has fields that this library does not know");
    *seq_len = ours.seq_len == CLATTN_WHOLE ? module->desc.seq_len : ours.seq_len;
    if (*seq_len < module_is_backward(module) || *seq_len > module->desc.seq_len)
        return FAIL(log, INVALID_OPERAND, "layer %s: the call's seq_len is %lld, the plan's %lld", module->layer->name,
                    (long long)ours.seq_len, (long long)module->desc.seq_len);
    for (size_t i = 0; i < ours.operand_count; i++) {
        clattn_layer_operand operand;
        if (!sized_read(&operand, sizeof operand, (const char *)ours.operands + i * operand_size, operand_size))
            return FAIL(log, INVALID_ARGUMENT, "layer: operand %zu has fields that this library does not know", i);
        TRY(read_operand(memories, module, &operand, host, log));
    }
    memories->work = (struct memory){ours.workspace, NULL, ours.workspace_offset};
    return check_all(memories, module, *seq_len, host, log);
}

/* ---- Places by name ----------------------------------------------------------------------------------------- */

clattn_dtype value_type(const struct module *module, const struct layer_value *value)
{
    return value->floats ? CLATTN_F32 : module->desc.dtype;
}

size_t value_bytes(const struct module *module, const struct layer_value *value)
{
    int64_t count = module->desc.batch * module->desc.seq_len * sizes_value(&module->sizes, value->columns);
    size_t bytes = (size_t)count * element_of(value_type(module, value));

    return (bytes + SECTION - 1) / SECTION * SECTION;
}

static const struct layer_weight *find_weight(const struct module *module, const char *name)
{
    for (const struct layer_weight *weight = module->layer->weights; weight->name != NULL; weight++)
        if (strcmp(weight->name, name) == 0)
            return weight;
    return NULL;
}

static struct layer_place value_place(const struct module *module, const struct layer_ref *ref)
{
    const struct layer_value *values = module->layer->values;

    for (int i = 0; i < LAYER_VALUES && values[i].name != NULL; i++)
        if (strcmp(values[i].name, ref->name) == 0) {
            int64_t first = ref->at != NULL ? sizes_value(&module->sizes, ref->at) : 0;
            return (struct layer_place){PLACE_VALUE, i, (size_t)first * element_of(value_type(module, &values[i])),
                                        sizes_value(&module->sizes, values[i].columns)};
        }
    return (struct layer_place){.in = PLACE_NONE};
}

static struct layer_place place_of(const struct module *module, const struct layer_ref *ref)
{
    const struct layer_weight *weight = find_weight(module, ref->name);
    const struct layer_bound *bound;

    if (weight != NULL)
        return (struct layer_place){PLACE_WEIGHTS, 0, packed_at(module, weight), 0};
    for (int i = 0; (bound = bound_get(module, i)) != NULL; i++)
        if (strcmp(bound->name, ref->name) == 0)
            return (struct layer_place){PLACE_BOUND, i, 0,
                                        bound_has_tokens(bound) ? sizes_value(&module->sizes, bound->dims[2]) : 0};
    return value_place(module, ref);
}

/* ---- Steps -------------------------------------------------------------------------------------------------- */

/* Whether the call has a state, or a position, that the step names. */
static int has_state(const struct module *module, const struct layer_step *step, clattn_operand_id id)
{
    for (int i = 0; i < LAYER_REFS && step->refs[i].name != NULL; i++)
        if (step->refs[i].id == id)
            return place_of(module, &step->refs[i]).in != PLACE_NONE;
    return 0;
}

/* As heads of as many channels as a rule takes. */
static void cut_channels(clattn_plan_desc *desc, int64_t channels)
{
    enum { MOST_CHANNELS = 256 };
    int64_t width = channels < MOST_CHANNELS ? channels : MOST_CHANNELS;

    while (channels % width != 0)
        width--;
    desc->value_dim = width;
    desc->heads = channels / width;
}

clattn_plan_desc step_desc(const struct module *module, const struct layer_step *step, int64_t seq_len)
{
    const struct sizes *sizes = &module->sizes;
    clattn_plan_desc desc = step->fixed;

    desc.dtype = module->desc.dtype;
    desc.gate_dtype = step->gates_as_values ? desc.dtype : CLATTN_F32;
    desc.batch = module->desc.batch;
    desc.seq_len = seq_len;
    desc.heads = sizes_value(sizes, step->heads);
    desc.qk_heads = step->qk_heads != NULL ? sizes_value(sizes, step->qk_heads) : 0;
    desc.key_dim = sizes_value(sizes, step->key_dim);
    desc.value_dim = sizes_value(sizes, step->value_dim);
    desc.taps = step->taps != NULL ? (int32_t)sizes_value(sizes, step->taps) : 0;
    desc.eps = step->with_eps ? module->desc.eps : step->fixed.eps;
    desc.step_min = step->with_limits ? module->desc.step_min : 0;
    desc.step_max = step->with_limits ? module->desc.step_max : 0;
    if (step->norm_eps > 0) {
        desc.flags |= CLATTN_EPS_OUTSIDE;
        desc.eps = step->norm_eps / sqrt((double)desc.value_dim);
    }
    if (step->channels != NULL)
        cut_channels(&desc, sizes_value(sizes, step->channels));
    if (step->inner != NULL) {
        desc.hidden_dim = sizes_value(sizes, step->inner);
        desc.mini_batch = module->desc.mini_batch;
        desc.muon = module->desc.muon;
    }
    for (const struct state_tensor *state = rule_get(desc.rule)->state; state->name != NULL; state++) {
        if (!state->required && has_state(module, step, state->before))
            desc.flags |= CLATTN_INITIAL_STATE;
        if (has_state(module, step, state->after))
            desc.flags |= CLATTN_FINAL_STATE;
    }
    if (has_state(module, step, CLATTN_POSITION))
        desc.flags |= CLATTN_WITH_POSITION;
    return desc;
}

/* Rows of tokens: a head's columns beside the ones of the head before. */
static void set_strides(clattn_operand *operand, const clattn_plan_desc *desc, int64_t columns, int64_t seq_len)
{
    clattn_operand_info info;
    int heads;

    if (clattn_operand_describe(desc, operand_to_public(operand->id), &info) != CLATTN_SUCCESS)
        return;
    heads = info.rank == LAYER_DIMS;
    operand->batch_stride = seq_len * columns;
    operand->token_stride = columns;
    operand->head_stride = heads ? info.dims[LAYER_DIMS - 1] : 1;
}

size_t step_operands(const struct module *module, const struct layer_step *step, int64_t seq_len,
                     clattn_operand operands[LAYER_REFS], struct layer_place places[LAYER_REFS])
{
    const clattn_plan_desc desc = step_desc(module, step, seq_len > 0 ? seq_len : 1);
    size_t count = 0;

    for (int i = 0; i < LAYER_REFS && step->refs[i].name != NULL; i++) {
        const struct layer_place place = place_of(module, &step->refs[i]);
        if (place.in == PLACE_NONE || (place.columns != 0 && seq_len == 0) ||
            (count > 0 && operands[count - 1].id == step->refs[i].id))
            continue;
        operands[count] = (clattn_operand){.id = step->refs[i].id};
        if (place.columns != 0)
            set_strides(&operands[count], &desc, place.columns, seq_len);
        places[count++] = place;
    }
    return count;
}

/* ---- A rule whose output is normalised ---------------------------------------------------------------------- */

static const struct layer_ref *ref_of(const struct layer_step *step, clattn_operand_id id)
{
    for (int i = 0; i < LAYER_REFS && step->refs[i].name != NULL; i++)
        if (step->refs[i].id == id)
            return &step->refs[i];
    return NULL;
}

const struct layer_step *step_norm(const struct module *module, int index)
{
    const struct layer_step *step = step_get(module, index), *norm = step_get(module, index + 1);
    const struct layer_ref *out, *in;

    if (norm == NULL || step->fixed.rule == CLATTN_RULE_NONE || norm->fixed.rule != CLATTN_RMS_NORM)
        return NULL;
    if (!rule_takes(rule_get(step->fixed.rule), OPTION_norm) || norm->fixed.weighting != CLATTN_WEIGHTING_SHARED ||
        (norm->fixed.flags & ~(uint64_t)CLATTN_WITH_Z) || strcmp(step->heads, norm->heads) != 0)
        return NULL;
    out = ref_of(step, CLATTN_O);
    in = ref_of(norm, CLATTN_V);
    return strcmp(out->name, in->name) == 0 && out->at == NULL && in->at == NULL ? norm : NULL;
}

clattn_plan_desc step_normed_desc(const struct module *module, int index, int64_t seq_len)
{
    const struct layer_step *norm = step_norm(module, index);
    clattn_plan_desc desc = step_desc(module, step_get(module, index), seq_len);

    desc.flags |= norm->fixed.flags | CLATTN_NORM_OUTPUT;
    desc.gating = norm->fixed.gating;
    desc.eps = norm->with_eps ? module->desc.eps : norm->fixed.eps;
    return desc;
}

size_t step_normed_operands(const struct module *module, int index, int64_t seq_len, clattn_operand operands[],
                            struct layer_place places[])
{
    const size_t own = step_operands(module, step_get(module, index), seq_len, operands, places);
    const size_t all = own + step_operands(module, step_norm(module, index), seq_len, operands + own, places + own);
    size_t count = 0;

    for (size_t i = 0; i < all; i++) {
        if (i < own ? operands[i].id == CLATTN_O : operands[i].id == CLATTN_V)
            continue;
        operands[count] = operands[i];
        operands[count].id = i >= own && operands[i].id == CLATTN_W ? CLATTN_NORM : operands[i].id;
        places[count++] = places[i];
    }
    return count;
}

/* ---- The backward pass -------------------------------------------------------------------------------------- */

/* What a step writes: the output of a rule, or of a product; and its final state. */
static int is_written(const struct layer_step *step, const struct layer_ref *ref)
{
    if (step->fixed.rule == CLATTN_RULE_NONE)
        return ref->id == CLATTN_D;
    return ref->id == CLATTN_O || ref->id == CLATTN_STATE_OUT;
}

int step_is_again(const struct layer_step *step)
{
    for (int i = 0; i < LAYER_REFS && step->refs[i].name != NULL; i++)
        if (is_written(step, &step->refs[i]) && strcmp(step->refs[i].name, "y") == 0)
            return 0;
    return 1;
}

static int64_t column_of(const struct module *module, const struct layer_ref *ref)
{
    return ref->at != NULL ? sizes_value(&module->sizes, ref->at) : 0;
}

static int are_one_place(const struct module *module, const struct layer_ref *a, const struct layer_ref *b)
{
    return strcmp(a->name, b->name) == 0 && column_of(module, a) == column_of(module, b);
}

/* Whether the step reads the place, and does not write it as well: then the gradient of what it reads replaces that of
 * what it writes. */
static int reads_place(const struct module *module, const struct layer_step *step, const struct layer_ref *place)
{
    int reads = 0;

    for (int i = 0; i < LAYER_REFS && step->refs[i].name != NULL; i++)
        if (are_one_place(module, &step->refs[i], place)) {
            if (is_written(step, &step->refs[i]))
                return 0;
            reads = 1;
        }
    return reads;
}

/* Whether a later step has left a gradient in the place. Steps that read the same numbers read them from one column on. */
static int is_left_there(const struct module *module, int index, const struct layer_ref *place)
{
    const struct layer_step *later;

    if (!reads_place(module, step_get(module, index), place))
        return 0;
    for (int i = index + 1; (later = step_get(module, i)) != NULL; i++)
        if (reads_place(module, later, place))
            return 1;
    return 0;
}

/* Whether the step reads the place as another operand, too, whose gradient kernels leave before: that by a strength is left
 * before that by a decay. */
static int is_second(const struct module *module, const struct layer_step *step, const struct layer_ref *ref)
{
    for (int i = 0; i < LAYER_REFS && step->refs[i].name != NULL; i++)
        if (ref->id != CLATTN_BETA && step->refs[i].id == CLATTN_BETA && are_one_place(module, &step->refs[i], ref))
            return 1;
    return 0;
}

static struct layer_place gradient_place(const struct module *module, const struct layer_ref *ref)
{
    const struct layer_weight *weight = find_weight(module, ref->name);
    const struct layer_ref gradient = {ref->id, gradient_name(weight != NULL ? "weights" : ref->name), ref->at};
    struct layer_place place = value_place(module, ref);

    if (place.in == PLACE_VALUE) {
        place.in = PLACE_GRADIENT;
        return place;
    }
    place = place_of(module, &gradient);
    place.at = weight != NULL ? gradient_at(module, weight) : 0;
    return place;
}

static int adds_gradient(const struct module *module, int index, const struct layer_ref *ref)
{
    const struct layer_step *step = step_get(module, index);

    if (find_weight(module, ref->name) != NULL)
        return (module->desc.flags & CLATTN_LAYER_ADDED) != 0;
    return is_left_there(module, index, ref) || is_second(module, step, ref);
}

clattn_plan_desc step_back_desc(const struct module *module, int index, int64_t seq_len)
{
    const struct layer_step *step = step_get(module, index);
    clattn_plan_desc desc = step_desc(module, step, seq_len);

    desc.pass = CLATTN_PASS_BACKWARD;
    for (int i = 0; i < LAYER_REFS && step->refs[i].name != NULL; i++) {
        const struct layer_ref *ref = &step->refs[i];
        if (ref->id == CLATTN_STATE_OUT && gradient_place(module, ref).in != PLACE_NONE)
            desc.flags |= CLATTN_FINAL_STATE;
        if (!is_written(step, ref) && adds_gradient(module, index, ref))
            desc.added_gradients |= (int64_t)1 << (int)ref->id;
    }
    return desc;
}

/* Appends an operand, if the call has it. */
static size_t append(const clattn_plan_desc *desc, clattn_operand_id id, const struct layer_place *place,
                     int64_t seq_len, clattn_operand *operand, struct layer_place *at)
{
    if (place->in == PLACE_NONE)
        return 0;
    *operand = (clattn_operand){.id = id};
    if (place->columns != 0)
        set_strides(operand, desc, place->columns, seq_len);
    *at = *place;
    return 1;
}

size_t step_back_operands(const struct module *module, int index, int64_t seq_len, clattn_operand operands[],
                          struct layer_place places[])
{
    const struct layer_step *step = step_get(module, index);
    const clattn_plan_desc desc = step_back_desc(module, index, seq_len);
    size_t count = 0;

    for (int i = 0; i < LAYER_REFS && step->refs[i].name != NULL; i++) {
        const struct layer_ref *ref = &step->refs[i];
        const struct layer_place value = place_of(module, ref), gradient = gradient_place(module, ref);
        if (!is_written(step, ref))
            count += append(&desc, ref->id, &value, seq_len, &operands[count], &places[count]);
        count += append(&desc, gradient_of(ref->id), &gradient, seq_len, &operands[count], &places[count]);
    }
    return count;
}

static const struct layer_ref *find_ref(const struct layer_step *step, clattn_operand_id id)
{
    const struct layer_ref *ref = step->refs;

    while (ref->id != id)
        ref++;
    return ref;
}

struct layer_product step_product(const struct module *module, const struct layer_step *step)
{
    const struct layer_ref *b = find_ref(step, CLATTN_B);
    const struct layer_weight *weight = find_weight(module, b->name);
    struct layer_product product = {.a = place_of(module, find_ref(step, CLATTN_A)),
                                    .b = place_of(module, b),
                                    .d = place_of(module, find_ref(step, CLATTN_D)),
                                    .n = matrix_rows(module, weight),
                                    .k = sizes_value(&module->sizes, weight->dims[1])};

    product.lda = product.a.columns;
    product.ldd = product.d.in != PLACE_NONE ? product.d.columns /* a backward pass has no y, but d_y */
                                             : gradient_place(module, find_ref(step, CLATTN_D)).columns;
    return product;
}

struct layer_product_back step_product_back(const struct module *module, int index)
{
    const struct layer_step *step = step_get(module, index);
    const struct layer_ref *a = find_ref(step, CLATTN_A);

    return (struct layer_product_back){.a = gradient_place(module, a),
                                       .b = gradient_place(module, find_ref(step, CLATTN_B)),
                                       .d = gradient_place(module, find_ref(step, CLATTN_D)),
                                       .adds = adds_gradient(module, index, a)};
}
