/* A layer's desc completed and checked, and the parts that follow from it. */
#include "layer/layer.h"

#include "base/sized.h"
#include "base/text.h"
#include "op/options.h"
#include "op/rule.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_TOKENS = 1 << 30 };

clattn_layer clattn_layer_find(const char *name)
{
    const struct layer *layer;

    for (int i = 1; name != NULL && (layer = layer_get((clattn_layer)i)) != NULL; i++)
        if (strcmp(layer->name, name) == 0)
            return (clattn_layer)i;
    return CLATTN_LAYER_NONE;
}

clattn_status clattn_layer_describe_sized(clattn_layer id, clattn_layer_info *info, size_t info_size)
{
    const struct layer *layer = layer_get(id);
    clattn_layer_info ours;

    if (layer == NULL || info == NULL)
        return CLATTN_INVALID_ARGUMENT;
    ours = (clattn_layer_info){id, layer->name, layer->module, layer->formula, layer->paper};
    sized_write(info, info_size, &ours, sizeof ours);
    return CLATTN_SUCCESS;
}

/* ---- Operands of a call ------------------------------------------------------------------------------------- */

const char *gradient_name(const char *name)
{
    static const char *const names[] = {"d_x",     "d_y",          "d_weights", "d_conv_state", "d_final_conv_state",
                                        "d_state", "d_final_state"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i] + 2, name) == 0)
            return names[i];
    return "";
}

static void add_bound(struct module *module, const struct layer_bound *bound, int is_gradient, clattn_layer_role role)
{
    struct layer_bound *added = &module->bound[module->bound_count++];

    *added = *bound;
    added->role = role;
    if (is_gradient)
        added->name = gradient_name(bound->name);
}

/* Of the forward pass a state as it is; of the backward pass what was read and its gradient, or the gradient by what was
 * written. */
static void add_state(struct module *module, const struct layer_bound *state)
{
    const int is_input = state->role == CLATTN_LAYER_INPUT;
    const uint32_t asks = is_input ? CLATTN_LAYER_INITIAL_STATE : CLATTN_LAYER_FINAL_STATE;

    if (!(module->desc.flags & asks))
        return;
    if (!module_is_backward(module) || is_input)
        add_bound(module, state, 0, state->role);
    if (module_is_backward(module) && state->numbers != OF_WHOLE)
        add_bound(module, state, 1, is_input ? CLATTN_LAYER_OUTPUT : CLATTN_LAYER_INPUT);
}

static void add_bounds(struct module *module)
{
    static const struct layer_bound x = {"x", {"B", "T", "C"}, OF_DATA, CLATTN_LAYER_INPUT},
                                    y = {"y", {"B", "T", "C"}, OF_DATA, CLATTN_LAYER_OUTPUT},
                                    weights = {"weights", {NULL}, OF_WEIGHTS, CLATTN_LAYER_OUTPUT};
    const struct layer_bound *states = module->layer->states;
    const int backward = module_is_backward(module);

    module->bound_count = 0;
    add_bound(module, &x, 0, CLATTN_LAYER_INPUT);
    add_bound(module, &y, backward, backward ? CLATTN_LAYER_INPUT : CLATTN_LAYER_OUTPUT);
    if (backward) {
        add_bound(module, &x, 1, CLATTN_LAYER_OUTPUT);
        add_bound(module, &weights, 1, CLATTN_LAYER_OUTPUT);
    }
    for (int i = 0; i < LAYER_STATES && states[i].name != NULL; i++)
        add_state(module, &states[i]);
}

/* ---- The desc ----------------------------------------------------------------------------------------------- */

/* Whether all of its rules have a backward pass. */
static int has_backward(const struct layer *layer)
{
    for (const struct layer_step *step = layer->steps; step->refs[0].name != NULL; step++)
        if (step->fixed.rule != CLATTN_RULE_NONE && !rule_takes(rule_get(step->fixed.rule), OPTION_pass))
            return 0;
    return 1;
}

static uint32_t flags_of(const struct layer *layer)
{
    uint32_t flags = CLATTN_LAYER_INITIAL_STATE | CLATTN_LAYER_FINAL_STATE;

    if (has_backward(layer))
        flags |= CLATTN_LAYER_BACKWARD | CLATTN_LAYER_ADDED;
    for (const struct layer_weight *weight = layer->weights; weight->name != NULL; weight++)
        flags |= weight->bias ? CLATTN_LAYER_BIASES : 0;
    return flags;
}

/* All but the sizes. */
static clattn_status read_desc(struct module *module, const clattn_layer_desc *desc, size_t desc_size,
                               const struct log *log)
{
    clattn_layer_desc *d = &module->desc;

    if (desc == NULL || !sized_read(d, sizeof *d, desc, desc_size))
        return FAIL(log, INVALID_DESC, "layer: the desc is NULL, or has fields that this library does not know");
    module->layer = layer_get(d->layer);
    if (module->layer == NULL)
        return FAIL(log, INVALID_DESC, "layer is %d, which none has", (int)d->layer);
    d->batch = d->batch != 0 ? d->batch : 1;
    d->eps = d->eps != 0 ? d->eps : module->layer->eps;
    if (d->flags & CLATTN_LAYER_BACKWARD && !has_backward(module->layer))
        return FAIL(log, INVALID_DESC, "layer %s has no backward pass, as its rule has no gradients",
                    module->layer->name);
    if ((unsigned)d->dtype > CLATTN_BF16 || d->flags & ~flags_of(module->layer))
        return FAIL(log, INVALID_DESC, "layer %s: dtype is %d, flags 0x%x", module->layer->name, (int)d->dtype,
                    (unsigned)d->flags);
    if (d->batch < 1 || d->seq_len < 0 || d->seq_len > MOST_TOKENS / d->batch)
        return FAIL(log, INVALID_DESC, "layer %s: batch is %lld, seq_len %lld: expected 0 to %d tokens of all",
                    module->layer->name, (long long)d->batch, (long long)d->seq_len, MOST_TOKENS);
    if (strchr(module->layer->letters, 'F') == NULL && (d->mini_batch != 0 || d->muon != CLATTN_MUON_NONE))
        return FAIL(log, INVALID_DESC, "layer %s: mini_batch is %d, muon %d, expected 0: it learns nothing",
                    module->layer->name, (int)d->mini_batch, (int)d->muon);
    if (!(d->eps > 0 && d->eps < 1))
        return FAIL(log, INVALID_DESC, "layer %s: eps is %g, expected above 0 and below 1", module->layer->name,
                    d->eps);
    add_bounds(module);
    return CLATTN_SUCCESS;
}

/* Limits of steps, in layers that have these. */
static clattn_status check_limits(const struct module *module, const struct log *log)
{
    const clattn_layer_desc *d = &module->desc;
    int has_steps = 0;

    for (int i = 0; i < LAYER_STEPS; i++)
        has_steps |= module->layer->steps[i].with_limits;
    if (!has_steps && (d->step_min != 0 || d->step_max != 0))
        return FAIL(log, INVALID_DESC, "layer %s: step_min is %g, step_max %g, expected 0: only mamba2 has limits",
                    module->layer->name, d->step_min, d->step_max);
    if (!(d->step_min >= 0 && d->step_max >= 0) || (d->step_max > 0 && d->step_max < d->step_min))
        return FAIL(log, INVALID_DESC,
                    "layer %s: step_min is %g, step_max %g, expected 0 or more, and step_max 0 or at least step_min",
                    module->layer->name, d->step_min, d->step_max);
    return CLATTN_SUCCESS;
}

/* Packed weights are counted in 64 bits. */
static clattn_status check_weights(const struct module *module, const struct log *log)
{
    const double most = 0x1p48;

    for (const struct layer_weight *weight = module->layer->weights; weight->name != NULL; weight++) {
        double count = (double)sizes_value(&module->sizes, weight->repeat);
        for (int i = 0; i < LAYER_DIMS && weight->dims[i] != NULL; i++)
            count *= (double)sizes_value(&module->sizes, weight->dims[i]);
        if (count > most)
            return FAIL(log, INVALID_DESC, "layer %s: weight %s would have %.3g numbers, expected up to %.3g",
                        module->layer->name, weight->name, count, most);
    }
    return CLATTN_SUCCESS;
}

clattn_status module_read(struct module *module, const clattn_layer_desc *desc, size_t desc_size, const struct log *log)
{
    TRY(read_desc(module, desc, desc_size, log));
    TRY(check_limits(module, log));
    TRY(sizes_fit(&module->desc, module->layer, NULL, 0, 0, log));
    TRY(sizes_check(&module->desc, module->layer, 0, log));
    module->sizes = sizes_of(&module->desc);
    return check_weights(module, log);
}

const struct layer_step *step_get(const struct module *module, int index)
{
    const int biased = (module->desc.flags & CLATTN_LAYER_BIASES) != 0;
    const struct layer_step *step = module->layer->steps;

    for (; step->refs[0].name != NULL; step++)
        if ((step->when == ALWAYS || (step->when == BIASED) == biased) && index-- == 0)
            return step;
    return NULL;
}

const struct layer_bound *bound_get(const struct module *module, int index)
{
    return index < module->bound_count ? &module->bound[index] : NULL;
}

size_t bound_bytes(const struct module *module, const struct layer_bound *bound)
{
    int64_t count = 1;

    if (bound->numbers == OF_WEIGHTS)
        return gradient_at(module, NULL);
    for (int i = 0; i < LAYER_DIMS && bound->dims[i] != NULL; i++)
        count *= sizes_value(&module->sizes, bound->dims[i]);
    return (size_t)count * element_of(bound->numbers == OF_DATA ? module->desc.dtype : CLATTN_F32);
}

int bound_has_tokens(const struct layer_bound *bound)
{
    return bound->dims[1] != NULL && strcmp(bound->dims[1], "T") == 0;
}

/* ---- Parts -------------------------------------------------------------------------------------------------- */

static void add_dims(clattn_layer_part *part, const char *const dims[LAYER_DIMS], const struct sizes *sizes)
{
    for (; part->rank < LAYER_DIMS && dims[part->rank] != NULL; part->rank++) {
        const char *dim = dims[part->rank];
        part->letters[part->rank] = dim;
        part->dims[part->rank] = size_known(sizes, dim) ? sizes_value(sizes, dim) : 0;
    }
}

/* Whether some size is not known. */
static int is_open(const struct module *module)
{
    const struct sizes sizes = sizes_of(&module->desc);

    return !size_known(&sizes, module->layer->letters);
}

static int describe(const struct module *module, size_t index, clattn_layer_part *part)
{
    const struct layer_weight *weights = module->layer->weights;
    const struct sizes sizes = sizes_of(&module->desc);
    const struct layer_bound *bound;
    size_t count = 0;

    while (count < LAYER_WEIGHTS && weights[count].name != NULL && !weight_is_made(&weights[count]))
        count++;
    if (index < count) {
        *part = (clattn_layer_part){.name = weights[index].name, .optional = weights[index].optional};
        add_dims(part, weights[index].dims, &sizes);
        return 1;
    }
    bound = index - count < MOST_BOUND ? bound_get(module, (int)(index - count)) : NULL;
    if (bound == NULL)
        return 0;
    *part = (clattn_layer_part){.name = bound->name, .role = bound->role, .whole = bound->numbers == OF_WHOLE};
    part->dtype = bound->numbers == OF_DATA ? module->desc.dtype : CLATTN_F32;
    add_dims(part, bound->dims, &sizes);
    if (bound->numbers == OF_WEIGHTS) {
        part->rank = 1;
        part->dims[0] = is_open(module) ? 0 : (int64_t)(bound_bytes(module, bound) / sizeof(float));
    }
    return 1;
}

clattn_status clattn_layer_part_describe_sized(const clattn_layer_desc *desc, size_t desc_size, size_t index,
                                               clattn_layer_part *part, size_t part_size)
{
    const struct log silent = {NULL, NULL};
    clattn_layer_part ours;
    struct module module;

    if (part == NULL)
        return CLATTN_INVALID_ARGUMENT;
    TRY(read_desc(&module, desc, desc_size, &silent));
    module.sizes = sizes_of(&module.desc);
    if (!describe(&module, index, &ours))
        return CLATTN_INVALID_ARGUMENT;
    sized_write(part, part_size, &ours, sizeof ours);
    return CLATTN_SUCCESS;
}

/* ---- The checkpoint ----------------------------------------------------------------------------------------- */

static void dims_text(char *text, size_t size, int rank, const int64_t *dims)
{
    struct text whole = {0};
    char *taken;

    for (int i = 0; i < rank && i < LAYER_DIMS; i++)
        text_format(&whole, "%s%lld", i > 0 ? "," : "", (long long)dims[i]);
    text_format(&whole, "%s", rank > LAYER_DIMS ? ",..." : "");
    taken = text_take(&whole);
    text_fit(text, size, "[%s]", taken != NULL ? taken : "");
    free(taken);
}

/* "[QK+QK+HV+HV,C] with C 32, H 4, K 16, V 16" */
static void letters_text(char *to, size_t size, const struct layer_weight *weight, const struct sizes *sizes)
{
    struct text text = {0};
    const char *joint = "[";
    char *taken;

    for (int i = 0; i < LAYER_DIMS && weight->dims[i] != NULL; i++, joint = ",")
        text_format(&text, "%s%s", joint, weight->dims[i]);
    joint = "] with";
    for (char letter = 'A'; letter <= 'Z'; letter++)
        for (int i = 0; i < LAYER_DIMS && weight->dims[i] != NULL; i++)
            if (sizes->of[letter - 'A'] != 0 && strchr(weight->dims[i], letter) != NULL) {
                text_format(&text, "%s %c %lld", joint, letter, (long long)sizes->of[letter - 'A']);
                joint = ",";
                break;
            }
    taken = text_take(&text);
    text_fit(to, size, "%s", taken != NULL ? taken : "");
    free(taken);
}

/* No size may be open: there is a tensor whose shape none fits then, or too many do. */
static clattn_status check_open(const struct module *module, const clattn_layer_tensor *tensors, size_t tensor_size,
                                size_t count, const struct log *log)
{
    clattn_layer_tensor tensor;
    char found[128], expected[256];

    for (const struct layer_weight *weight = module->layer->weights; weight->name != NULL; weight++)
        for (int i = 0; i < LAYER_DIMS && weight->dims[i] != NULL; i++)
            if (!size_known(&module->sizes, weight->dims[i]) &&
                tensor_read(tensors, tensor_size, count, weight->name, &tensor)) {
                dims_text(found, sizeof found, tensor.rank, tensor.dims);
                letters_text(expected, sizeof expected, weight, &module->sizes);
                return FAIL(
                    log, INVALID_OPERAND,
                    "tensor %s is %s, layer %s expects %s: no sizes fit %s; K (key_dim) or HQ (qk_heads) must be "
                    "given if they are not V and H",
                    weight->name, found, module->layer->name, expected, weight->dims[i]);
            }
    return CLATTN_SUCCESS;
}

static clattn_status check_tensor(const struct module *module, const struct layer_weight *weight,
                                  const clattn_layer_tensor *tensor, const struct log *log)
{
    clattn_layer_part part = {.name = weight->name};
    char found[128], expected[128];
    int same;

    add_dims(&part, weight->dims, &module->sizes);
    same = tensor->rank == part.rank;
    for (int i = 0; i < part.rank && same; i++)
        same = tensor->dims[i] == part.dims[i];
    if (same && (unsigned)tensor->dtype <= CLATTN_BF16)
        return CLATTN_SUCCESS;
    dims_text(found, sizeof found, tensor->rank, tensor->dims);
    dims_text(expected, sizeof expected, part.rank, part.dims);
    return FAIL(log, INVALID_OPERAND, "tensor %s is %s, layer %s expects %s", weight->name, found, module->layer->name,
                expected);
}

static clattn_status check_there(const struct layer *layer, const clattn_layer_tensor *tensors, size_t tensor_size,
                                 size_t count, const struct log *log)
{
    clattn_layer_tensor tensor;

    for (const struct layer_weight *weight = layer->weights; weight->name != NULL; weight++)
        if (!weight->optional && !weight_is_made(weight) &&
            !tensor_read(tensors, tensor_size, count, weight->name, &tensor))
            return FAIL(log, INVALID_OPERAND, "tensor %s is missing, layer %s needs it", weight->name, layer->name);
    return CLATTN_SUCCESS;
}

clattn_status module_check(const struct module *module, const clattn_layer_tensor *tensors, size_t tensor_size,
                           size_t count, const struct log *log)
{
    clattn_layer_tensor tensor;

    TRY(check_there(module->layer, tensors, tensor_size, count, log));
    for (const struct layer_weight *weight = module->layer->weights; weight->name != NULL; weight++) {
        if (weight_is_made(weight) || !tensor_read(tensors, tensor_size, count, weight->name, &tensor))
            continue;
        TRY(check_tensor(module, weight, &tensor, log));
        if (weight->bias && !(module->desc.flags & CLATTN_LAYER_BIASES))
            return FAIL(log, INVALID_OPERAND, "tensor %s is given, the desc of layer %s lacks CLATTN_LAYER_BIASES",
                        weight->name, module->layer->name);
    }
    return CLATTN_SUCCESS;
}

/* The flags that the tensors ask for. */
static uint32_t flags_for(const struct layer *layer, const clattn_layer_tensor *tensors, size_t tensor_size,
                          size_t count)
{
    clattn_layer_tensor tensor;
    uint32_t flags = 0;

    for (const struct layer_weight *weight = layer->weights; weight->name != NULL; weight++)
        if (weight->bias && tensor_read(tensors, tensor_size, count, weight->name, &tensor))
            flags |= CLATTN_LAYER_BIASES;
    return flags;
}

clattn_status clattn_layer_fit_sized(clattn_layer_desc *full, const clattn_layer_desc *desc, size_t desc_size,
                                     const clattn_layer_tensor *tensors, size_t tensor_size, size_t count,
                                     clattn_log_fn log_fn, void *log_user)
{
    const struct log log = {log_fn, log_user};
    struct module module;

    if (full == NULL || (count > 0 && tensors == NULL))
        return FAIL(&log, INVALID_ARGUMENT, "layer: full or tensors is NULL");
    TRY(read_desc(&module, desc, desc_size, &log));
    TRY(check_there(module.layer, tensors, tensor_size, count, &log));
    module.desc.flags |= flags_for(module.layer, tensors, tensor_size, count);
    TRY(sizes_fit(&module.desc, module.layer, tensors, tensor_size, count, &log));
    module.sizes = sizes_of(&module.desc);
    TRY(check_open(&module, tensors, tensor_size, count, &log));
    TRY(sizes_check(&module.desc, module.layer, 0, &log));
    TRY(module_check(&module, tensors, tensor_size, count, &log));
    sized_write(full, desc_size, &module.desc, sizeof module.desc);
    return CLATTN_SUCCESS;
}
