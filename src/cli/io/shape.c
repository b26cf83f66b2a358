/* Reads and prints shapes, and finds rules by name. */
#include "cli/io/words.h"
#include "base/text.h"
#include "op/rule.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    size_t shape, desc;
} axes[] = {{"B", offsetof(struct shape, batch), offsetof(clattn_plan_desc, batch)},
            {"T", offsetof(struct shape, seq_len), offsetof(clattn_plan_desc, seq_len)},
            {"H", offsetof(struct shape, heads), offsetof(clattn_plan_desc, heads)},
            {"HQ", offsetof(struct shape, qk_heads), offsetof(clattn_plan_desc, qk_heads)},
            {"K", offsetof(struct shape, key_dim), offsetof(clattn_plan_desc, key_dim)},
            {"V", offsetof(struct shape, value_dim), offsetof(clattn_plan_desc, value_dim)},
            {"HK", offsetof(struct shape, kv_heads), offsetof(clattn_plan_desc, kv_heads)},
            {"TK", offsetof(struct shape, kv_len), offsetof(clattn_plan_desc, kv_len)}};

enum { AXIS_COUNT = sizeof axes / sizeof *axes };

static int64_t *field(void *base, size_t offset)
{
    return (int64_t *)(void *)((char *)base + offset);
}

static int64_t value(const void *base, size_t offset)
{
    int64_t number;

    memcpy(&number, (const char *)base + offset, sizeof number);
    return number;
}

static int same_letters(const char *name, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (toupper((unsigned char)text[i]) != name[i])
            return 0;
    return 1;
}

static int axis_read(const char *text, size_t length, struct shape *shape)
{
    char number[32], what[24];
    const char *equals = memchr(text, '=', length);

    for (size_t i = 0; i < AXIS_COUNT && equals != NULL; i++) {
        int64_t *to = field(shape, axes[i].shape);
        if (strlen(axes[i].name) != (size_t)(equals - text) ||
            !same_letters(axes[i].name, text, (size_t)(equals - text)))
            continue;
        if (*to != 0)
            return bad("--shape gives %s twice", axes[i].name);
        snprintf(what, sizeof what, "--shape %s", axes[i].name);
        text_fit(number, sizeof number, "%.*s", (int)(text + length - equals - 1), equals + 1);
        return number_read(what, number, 1, INT32_MAX, to);
    }
    return bad("--shape has '%.*s', expected B=…, T=…, H=…, HQ=…, K=…, V=…, HK=… or TK=…", (int)length, text);
}

int shape_read(const char *text, struct shape *shape)
{
    memset(shape, 0, sizeof *shape);
    for (;;) {
        size_t length = strcspn(text, ",");
        if (axis_read(text, length, shape) != EXIT_OK)
            return EXIT_BAD;
        if (text[length] == '\0')
            break;
        text += length + 1;
    }
    if (shape->heads != 0 && shape->qk_heads != 0 && shape->heads % shape->qk_heads != 0)
        return bad("--shape HQ is %lld, expected a divisor of H=%lld", (long long)shape->qk_heads,
                   (long long)shape->heads);
    if (shape->heads != 0 && shape->kv_heads != 0 && shape->heads % shape->kv_heads != 0)
        return bad("--shape HK is %lld, expected a divisor of H=%lld", (long long)shape->kv_heads,
                   (long long)shape->heads);
    return EXIT_OK;
}

/* Heads that several others share. Without them each head has its own. */
static int is_shared(const char *name)
{
    return strcmp(name, "HQ") == 0 || strcmp(name, "HK") == 0;
}

int shape_check(const struct shape *shape, int packed, int asks_key_dim)
{
    for (size_t i = 0; i < AXIS_COUNT; i++) {
        const char *name = axes[i].name;
        int has_default = *name == 'B' || is_shared(name) || strcmp(name, "TK") == 0 || (*name == 'T' && packed) ||
                          (*name == 'K' && !asks_key_dim);
        if (value(shape, axes[i].shape) == 0 && !has_default)
            return bad("--shape has no %s", name);
    }
    return EXIT_OK;
}

void shape_apply(clattn_plan_desc *desc, const struct shape *shape, const struct shape *defaults)
{
    for (size_t i = 0; i < AXIS_COUNT; i++) {
        int64_t *to = field(desc, axes[i].desc);
        *to = value(shape, axes[i].shape);
        if (*to == 0 && defaults != NULL)
            *to = value(defaults, axes[i].shape);
    }
}

const char *shape_name(const clattn_plan_desc *desc, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < AXIS_COUNT && used < size; i++) {
        int64_t number = value(desc, axes[i].desc);
        if ((is_shared(axes[i].name) && number == desc->heads) || (number == 0 && i > 0))
            continue;
        used +=
            (size_t)snprintf(text + used, size - used, "%s%s=%lld", i > 0 ? "," : "", axes[i].name, (long long)number);
    }
    return text;
}

const char *dims_name(int rank, const int64_t *dims, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "[");

    for (int i = 0; i < rank && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%lld", i > 0 ? "," : "", (long long)dims[i]);
    if (used < size)
        snprintf(text + used, size - used, "]");
    return text;
}

/* Finds the closest of the space-separated words, if it is closer than *best. A word that begins with the typed text
 * has distance 0. */
static void closest(const char *words, const char *typed, const char *name, const char **nearest, size_t *best)
{
    char word[64];

    while (*words != '\0') {
        size_t length = strcspn(words, " "), distance;
        snprintf(word, sizeof word, "%.*s", (int)length, words);
        distance = strncmp(word, typed, strlen(typed)) == 0 ? 0 : edit_distance(typed, word);
        if (distance < *best) {
            *best = distance;
            *nearest = name;
        }
        words += length + strspn(words + length, " ");
    }
}

static int rule_unknown(const char *typed, const char *lower)
{
    const char *nearest = NULL;
    size_t best = SIZE_MAX;
    clattn_rule_info info;

    for (clattn_rule rule = CLATTN_RULE_NONE + 1; rule < RULE_COUNT; rule++) {
        clattn_rule_describe(rule, &info);
        closest(info.name, lower, info.name, &nearest, &best);
    }
    for (clattn_rule rule = CLATTN_RULE_NONE + 1; rule < RULE_COUNT; rule++) {
        clattn_rule_describe(rule, &info);
        closest(info.aliases, lower, info.name, &nearest, &best);
    }
    if (nearest != NULL && *typed != '\0' && edit_close(typed, best))
        return bad("no rule is named '%s', did you mean %s?", typed, nearest);
    return bad("no rule is named '%s', see `clattn rules`", typed);
}

int rule_read(const char *text, clattn_rule *rule)
{
    char lower[64];
    clattn_rule_info info;

    text_fit(lower, sizeof lower, "%s", text);
    for (char *at = lower; *at != '\0'; at++)
        *at = (char)tolower((unsigned char)*at);
    *rule = clattn_rule_find(lower);
    for (clattn_rule r = CLATTN_RULE_NONE + 1; *rule == CLATTN_RULE_NONE && r < RULE_COUNT; r++) {
        clattn_rule_describe(r, &info);
        if (word_equal(info.name, lower))
            *rule = r;
    }
    return *rule != CLATTN_RULE_NONE ? EXIT_OK : rule_unknown(text, lower);
}

/* Reads one size of a product from `length` characters: "M=64". */
static int product_size(const char *text, size_t length, struct shape *shape)
{
    int64_t *const to[] = {&shape->seq_len, &shape->value_dim, &shape->key_dim, &shape->batch};
    const char letters[] = "MNKB", *at = strchr(letters, toupper((unsigned char)*text));
    char number[32];

    if (at == NULL || *at == '\0' || text[1] != '=' || *to[at - letters] != 0)
        return bad("'%s': expected M=..,N=..,K=.. and perhaps B=.., each once", text);
    text_fit(number, sizeof number, "%.*s", (int)length - 2, text + 2);
    return number_read("a product's size", number, 1, INT32_MAX, to[at - letters]);
}

int product_read(const char *text, struct shape *shape)
{
    memset(shape, 0, sizeof *shape);
    for (; *text != '\0'; text += *text == ',') {
        size_t length = strcspn(text, ",");
        if (product_size(text, length, shape) != EXIT_OK)
            return EXIT_BAD;
        text += length;
    }
    if (shape->seq_len == 0 || shape->value_dim == 0 || shape->key_dim == 0)
        return bad("a product needs M=..,N=..,K=..");
    return EXIT_OK;
}
