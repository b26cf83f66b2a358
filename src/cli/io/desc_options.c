#include "cli/io/desc_options.h"

#include "base/text.h"
#include "cli/io/words.h"

#include <stdio.h>
#include <string.h>

int desc_option_is_named(enum option_id option)
{
    return desc_options[option].said_by == NULL;
}

enum option_id desc_option_find(const char *name)
{
    enum option_id option = 0;

    while (option < OPTION_COUNT && !(desc_option_is_named(option) && word_equal(desc_options[option].name, name)))
        option++;
    return option;
}

const char *desc_option_nearest(const char *typed)
{
    const char *nearest = NULL;
    size_t best = SIZE_MAX;

    for (enum option_id i = 0; i < OPTION_COUNT; i++) {
        const char *name = desc_options[i].name;
        size_t distance = strncmp(name, typed, strlen(typed)) == 0 ? 0 : edit_distance(typed, name);
        if (!desc_option_is_named(i) || distance >= best)
            continue;
        best = distance;
        nearest = name;
    }
    return nearest != NULL && *typed != '\0' && edit_close(typed, best) ? nearest : NULL;
}

static int read_word(enum option_id option, const char *what, const char *text, double *number)
{
    enum { MOST = 16 };
    const struct option_value *values = option_values(option);
    struct word words[MOST + 1] = {{NULL, 0}};
    int value;

    for (size_t i = 0; i < MOST && values[i].word != NULL; i++)
        words[i] = (struct word){values[i].word, values[i].value};
    if (word_read(what, words, text, &value) != EXIT_OK)
        return EXIT_BAD;
    *number = value;
    return EXIT_OK;
}

static int read_count(const char *what, const char *text, double *number)
{
    int64_t whole;

    if (number_read(what, text, 0, INT32_MAX, &whole) != EXIT_OK)
        return EXIT_BAD;
    *number = (double)whole;
    return EXIT_OK;
}

int desc_option_read(enum option_id option, const char *what, const char *text, clattn_plan_desc *desc)
{
    double number = 0;
    int status;

    if (option_values(option) != NULL)
        status = read_word(option, what, text, &number);
    else if (desc_options[option].type == OPTION_DOUBLE)
        status = real_read(what, text, &number);
    else
        status = read_count(what, text, &number);
    if (status == EXIT_OK)
        option_put(option, number, desc);
    return status;
}

const char *desc_option_text(enum option_id option, const clattn_plan_desc *desc, char *text, size_t size)
{
    if (option_values(option) != NULL)
        snprintf(text, size, "%s", option_word(option, (int)option_whole(option, desc)));
    else
        text_fit(text, size, "%.17g", option_get(option, desc));
    return text;
}

const char *desc_option_argument(enum option_id option, clattn_rule rule, char *text, size_t size)
{
    const struct desc_option *row = &desc_options[option];
    const struct option_value *value = option_values(option);
    size_t used = 0;

    if (value == NULL) {
        snprintf(text, size, "%s", row->type == OPTION_DOUBLE ? "X" : "N");
        return text;
    }
    if (row->values == NULL) /* "off" and "on" */
        value++;
    for (; value->word != NULL && used < size; value++)
        if (rule == CLATTN_RULE_NONE || value->only == CLATTN_RULE_NONE || value->only == rule)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? "|" : "", value->word);
    return text;
}
