#include "cli/io/metadata.h"

#include "base/json.h"
#include "base/text.h"
#include "cli/io/desc_options.h"
#include "op/rule.h"

#include <stdlib.h>
#include <string.h>

enum { VALUE = 64 };

/* Whether a file's metadata has the option. */
static int is_in_metadata(enum option_id option)
{
    return desc_option_is_named(option) && desc_options[option].seen != SEEN_SHOWN;
}

cJSON *metadata_make(const clattn_plan_desc *desc, const struct option_set *options)
{
    cJSON *metadata = cJSON_CreateObject();
    char text[VALUE];

    cJSON_AddStringToObject(metadata, "rule", rule_get(desc->rule)->name);
    for (enum option_id i = 0; i < OPTION_COUNT; i++)
        if ((options == NULL || options->has[i]) && is_in_metadata(i))
            cJSON_AddStringToObject(metadata, desc_options[i].name, desc_option_text(i, desc, text, sizeof text));
    cJSON_AddStringToObject(metadata, "version", clattn_version());
    return metadata;
}

/* NULL: the metadata has no such key. */
static const char *value_of(const struct safetensors *file, const char *key)
{
    const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(file->header, "__metadata__");

    return json_string(metadata, key);
}

/* Whether the value is the default, which the line about applied options leaves out. */
static int is_default(enum option_id option, const char *value)
{
    const clattn_plan_desc defaults = {.steps = 1, .layers = 1};
    char text[VALUE];

    return strcmp(desc_option_text(option, &defaults, text, sizeof text), value) == 0;
}

/* Stores the file's value of an option in the settings. It must not contradict the command line. */
static int apply_option(struct settings *settings, const char *path, enum option_id option, const char *value,
                        struct text *applied)
{
    clattn_plan_desc parsed = settings->desc;
    char what[512], given[VALUE], stored[VALUE];
    const char *name = desc_options[option].name;

    text_fit(what, sizeof what, "%s: its metadata: %s", path, name);
    if (desc_option_read(option, what, value, &parsed) != EXIT_OK)
        return EXIT_BAD;
    desc_option_text(option, &settings->desc, given, sizeof given);
    desc_option_text(option, &parsed, stored, sizeof stored);
    if (strcmp(given, stored) == 0)
        return EXIT_OK;
    if (settings->given.has[option])
        return bad("%s: its metadata say %s %s, the command line %s", path, name, stored, given);
    settings->desc = parsed;
    if (!is_default(option, stored))
        text_format(applied, " %s=%s", name, stored);
    return EXIT_OK;
}

static int apply_options(struct settings *settings, const char *path, const struct safetensors *file,
                         struct text *applied)
{
    int status = EXIT_OK;

    for (enum option_id i = 0; i < OPTION_COUNT && status == EXIT_OK; i++) {
        const char *value = is_in_metadata(i) ? value_of(file, desc_options[i].name) : NULL;
        if (value != NULL)
            status = apply_option(settings, path, i, value, applied);
    }
    return status;
}

static int is_known(const char *key)
{
    static const char *const others[] = {"rule", "version", "device", "driver", "solver", "seed", "format"};

    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(others[i], key) == 0)
            return 1;
    for (enum option_id i = 0; i < OPTION_COUNT; i++)
        if (is_in_metadata(i) && strcmp(desc_options[i].name, key) == 0)
            return 1;
    return 0;
}

/* A later version may have written what changes the results. */
static void warn_unknown(const char *path, const struct safetensors *file)
{
    const cJSON *item, *first = NULL;
    int unknown = 0;

    cJSON_ArrayForEach(item,
                       cJSON_GetObjectItemCaseSensitive(file->header, "__metadata__")) if (!is_known(item->string))
    {
        first = unknown++ == 0 ? item : first;
    }
    if (unknown == 1)
        warn("%s: its metadata have '%.64s', which this version does not know", path, first->string);
    if (unknown > 1)
        warn("%s: its metadata have '%.64s' and %d more that this version does not know", path, first->string,
             unknown - 1);
}

int metadata_apply(struct settings *settings, const char *path, const struct safetensors *file)
{
    const char *rule = value_of(file, "rule");
    struct text applied = {0};
    char *text;
    int status;

    if (rule == NULL)
        return EXIT_OK;
    if (clattn_rule_find(rule) != settings->rules[0])
        return bad("%s: its metadata say rule %s, the command line %s", path, rule, rule_get(settings->rules[0])->name);
    warn_unknown(path, file);
    status = apply_options(settings, path, file, &applied);
    text = text_take(&applied);
    if (settings->verbose && status == EXIT_OK && text != NULL && *text != '\0')
        note("%s: from its metadata:%s", path, text);
    free(text);
    return status;
}
