/* Sums of products of letters, and the letters from shapes. */
#include "layer/layer.h"

#include <ctype.h>
#include <string.h>

static const struct field {
    char letter;
    size_t offset;
    const char *name;
} fields[] = {
    {'C', offsetof(clattn_layer_desc, hidden), "hidden"},       {'H', offsetof(clattn_layer_desc, heads), "heads"},
    {'Q', offsetof(clattn_layer_desc, qk_heads), "qk_heads"},   {'K', offsetof(clattn_layer_desc, key_dim), "key_dim"},
    {'V', offsetof(clattn_layer_desc, value_dim), "value_dim"}, {'W', offsetof(clattn_layer_desc, taps), "taps"},
    {'R', offsetof(clattn_layer_desc, rank), "rank"},           {'F', offsetof(clattn_layer_desc, inner), "inner"},
};
enum { FIELDS = sizeof fields / sizeof *fields, MOST_SIZE = 1 << 20 };

static int64_t *field_of(clattn_layer_desc *desc, const struct field *field)
{
    return (int64_t *)(void *)((char *)desc + field->offset);
}

struct sizes sizes_of(const clattn_layer_desc *desc)
{
    struct sizes sizes = {{0}};

    sizes.of['B' - 'A'] = desc->batch;
    sizes.of['T' - 'A'] = desc->seq_len;
    for (int i = 0; i < FIELDS; i++)
        memcpy(&sizes.of[fields[i].letter - 'A'], (const char *)desc + fields[i].offset, sizeof(int64_t));
    return sizes;
}

int64_t sizes_value(const struct sizes *sizes, const char *text)
{
    int64_t sum = 0, term = 1;

    for (; text != NULL && *text != '\0'; text++)
        if (*text == '+') {
            sum += term;
            term = 1;
        } else if (*text == '/') {
            term /= sizes->of[*++text - 'A'];
        } else {
            term *= isdigit((unsigned char)*text) ? *text - '0' : sizes->of[*text - 'A'];
        }
    return sum + term;
}

int size_known(const struct sizes *sizes, const char *text)
{
    for (; text != NULL && *text != '\0'; text++)
        if (isupper((unsigned char)*text) && sizes->of[*text - 'A'] == 0)
            return 0;
    return 1;
}

/* The one letter of text that is not known, or '\0' where there is none or several. */
static char unknown_of(const struct sizes *sizes, const char *text)
{
    char found = '\0';

    for (; text != NULL && *text != '\0'; text++)
        if (isupper((unsigned char)*text) && sizes->of[*text - 'A'] == 0) {
            if (found != '\0' && found != *text)
                return '\0';
            found = *text;
        }
    return found;
}

/* The letter's size where text's is value: text is linear in each letter. 0: there is none. */
static int64_t solve(struct sizes sizes, const char *text, char letter, int64_t value)
{
    int64_t without, factor;

    sizes.of[letter - 'A'] = 0;
    without = sizes_value(&sizes, text);
    sizes.of[letter - 'A'] = 1;
    factor = sizes_value(&sizes, text) - without;
    if (value <= without || (value - without) % factor != 0 || (value - without) / factor > MOST_SIZE)
        return 0;
    return (value - without) / factor;
}

/* Whether a size was found. */
static int fit_weight(struct sizes *sizes, const struct layer_weight *weight, const clattn_layer_tensor *tensor)
{
    int found = 0;

    for (int i = 0; i < tensor->rank && i < LAYER_DIMS && weight->dims[i] != NULL; i++) {
        char letter = unknown_of(sizes, weight->dims[i]);
        int64_t size = letter != '\0' ? solve(*sizes, weight->dims[i], letter, tensor->dims[i]) : 0;
        if (size > 0) {
            sizes->of[letter - 'A'] = size;
            found = 1;
        }
    }
    return found;
}

static int fit_usual(struct sizes *sizes, const struct layer *layer)
{
    for (int i = 0; i < LAYER_USUAL && layer->usual[i].letter != '\0'; i++)
        if (sizes->of[layer->usual[i].letter - 'A'] == 0 && size_known(sizes, layer->usual[i].size)) {
            sizes->of[layer->usual[i].letter - 'A'] = sizes_value(sizes, layer->usual[i].size);
            return 1;
        }
    return 0;
}

clattn_status sizes_check(const clattn_layer_desc *desc, const struct layer *layer, int open, const struct log *log)
{
    const struct sizes sizes = sizes_of(desc);

    for (int i = 0; i < FIELDS; i++) {
        int64_t size = sizes.of[fields[i].letter - 'A'];
        int has = strchr(layer->letters, fields[i].letter) != NULL;
        if (size < (has && !open) || size > (has ? MOST_SIZE : 0))
            return FAIL(log, INVALID_DESC, "layer %s: %s is %lld, expected %d to %d", layer->name, fields[i].name,
                        (long long)size, has, has ? MOST_SIZE : 0);
    }
    if (strchr(layer->letters, 'Q') != NULL && !open && desc->heads % desc->qk_heads != 0)
        return FAIL(log, INVALID_DESC, "layer %s: heads is %lld, no multiple of qk_heads %lld", layer->name,
                    (long long)desc->heads, (long long)desc->qk_heads);
    return CLATTN_SUCCESS;
}

clattn_status sizes_fit(clattn_layer_desc *desc, const struct layer *layer, const clattn_layer_tensor *tensors,
                        size_t tensor_size, size_t count, const struct log *log)
{
    struct sizes sizes = sizes_of(desc);
    clattn_layer_tensor tensor;
    int found;

    TRY(sizes_check(desc, layer, 1, log));
    do {
        found = 0;
        for (int i = 0; i < LAYER_WEIGHTS && layer->weights[i].name != NULL; i++)
            if (tensor_read(tensors, tensor_size, count, layer->weights[i].name, &tensor))
                found |= fit_weight(&sizes, &layer->weights[i], &tensor);
        if (!found)
            found = fit_usual(&sizes, layer);
    } while (found);
    for (int i = 0; i < FIELDS; i++)
        if (strchr(layer->letters, fields[i].letter) != NULL)
            *field_of(desc, &fields[i]) = sizes.of[fields[i].letter - 'A'];
    return CLATTN_SUCCESS;
}
