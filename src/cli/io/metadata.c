#include "cli/io/metadata.h"

#include "base/text.h"
#include "cli/io/desc_options.h"
#include "op/rule.h"

#include <stdlib.h>
#include <string.h>

enum { VALUE = 64 };

/* Whether the metadata of a file say it. */
static int is_said(enum option_id option)
{
    return desc_option_is_named(option) && desc_options[option].seen != SEEN_SHOWN;
}

cJSON *metadata_make(const clattn_plan_desc *desc, const struct option_set *options)
{
    cJSON *metadata = cJSON_CreateObject();
    char text[VALUE];

    cJSON_AddStringToObject(metadata, "rule", rule_get(desc->rule)->name);
    for (enum option_id i = 0; i < OPTION_COUNT; i++)
        if ((options == NULL || options->has[i]) && is_said(i))
            cJSON_AddStringToObject(metadata, desc_options[i].name, desc_option_text(i, desc, text, sizeof text));
    cJSON_AddStringToObject(metadata, "version", clattn_version());
    return metadata;
}

/* NULL: the file says nothing of it. */
static const char *value_of(const struct safetensors *file, const char *key)
{
    const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(file->header, "__metadata__");

    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(metadata, key));
}

/* Whether a line of what is taken from a file need not name it. */
static int is_usual(enum option_id option, const char *value)
{
    const clattn_plan_desc usual = {.steps = 1, .layers = 1};
    char text[VALUE];

    return strcmp(desc_option_text(option, &usual, text, sizeof text), value) == 0;
}

/* The file's value of an option, put into the settings unless they have one. */
static int follow(struct settings *settings, const char *path, enum option_id option, const char *value,
                  struct text *followed)
{
    clattn_plan_desc said = settings->desc;
    char what[512], here[VALUE], there[VALUE];
    const char *name = desc_options[option].name;

    text_fit(what, sizeof what, "%s: its metadata: %s", path, name);
    if (desc_option_read(option, what, value, &said) != EXIT_OK)
        return EXIT_BAD;
    desc_option_text(option, &settings->desc, here, sizeof here);
    desc_option_text(option, &said, there, sizeof there);
    if (strcmp(here, there) == 0)
        return EXIT_OK;
    if (settings->given.has[option])
        return bad("%s: its metadata say %s %s, the command line %s", path, name, there, here);
    settings->desc = said;
    if (!is_usual(option, there))
        text_format(followed, " %s=%s", name, there);
    return EXIT_OK;
}

static int follow_all(struct settings *settings, const char *path, const struct safetensors *file,
                      struct text *followed)
{
    int status = EXIT_OK;

    for (enum option_id i = 0; i < OPTION_COUNT && status == EXIT_OK; i++) {
        const char *value = is_said(i) ? value_of(file, desc_options[i].name) : NULL;
        if (value != NULL)
            status = follow(settings, path, i, value, followed);
    }
    return status;
}

int metadata_follow(struct settings *settings, const char *path, const struct safetensors *file)
{
    const char *rule = value_of(file, "rule");
    struct text followed = {0};
    char *text;
    int status;

    if (rule == NULL)
        return EXIT_OK;
    if (clattn_rule_find(rule) != settings->rules[0])
        return bad("%s: its metadata say rule %s, the command line %s", path, rule, rule_get(settings->rules[0])->name);
    status = follow_all(settings, path, file, &followed);
    text = text_take(&followed);
    if (settings->verbose && status == EXIT_OK && text != NULL && *text != '\0')
        note("%s: of its metadata:%s", path, text);
    free(text);
    return status;
}
