#include "cli/io/modes.h"

#include "check/check.h"
#include "cli/io/words.h"
#include "op/rule.h"

#include <stdio.h>
#include <string.h>

struct modes modes_wanted(const struct settings *settings, size_t without)
{
    /* the backward pass has one solver */
    const size_t otherwise = settings->desc.pass == CLATTN_PASS_BACKWARD ? 1 : without;
    struct modes modes = {.count = settings->mode_count > 0 ? settings->mode_count : otherwise};

    for (size_t i = 0; i < modes.count; i++)
        modes.at[i] = settings->mode_count > 0 ? settings->modes[i] : (clattn_mode)i;
    return modes;
}

static void add(struct modes *modes, clattn_mode mode)
{
    modes->at[modes->count++] = mode;
}

/* A window of states is computed token by token; so are states within chunks, of which the shortest have 8 tokens. */
static int by_tokens(const clattn_plan_desc *desc, clattn_rule rule)
{
    enum { SHORTEST = 8 };

    return desc->state_window != 0 ||
           (desc->state_every != 0 && (desc->state_every % SHORTEST != 0 || rule_is_solved(rule_get(rule))));
}

static int applies(const struct settings *settings, clattn_rule rule, clattn_mode mode)
{
    return check_mode_applies(rule, mode) && (mode != CLATTN_MODE_CHUNK || !by_tokens(&settings->desc, rule));
}

int modes_choose(const struct settings *settings, const struct modes *wanted, clattn_rule rule, struct modes *modes)
{
    struct modes missing = {.count = 0};
    const char *name = rule_get(rule)->name, *with = by_tokens(&settings->desc, rule) ? " with these states" : "";
    char text[64];

    modes->count = 0;
    for (size_t i = 0; i < wanted->count; i++)
        add(applies(settings, rule, wanted->at[i]) ? modes : &missing, wanted->at[i]);
    modes_name(&missing, text, sizeof text);
    if (modes->count == 0 && settings->rule_count > 0)
        return bad("%s has no solver of mode %s%s", name, text, with);
    if (missing.count > 0 && settings->mode_count > 0)
        note("%s has no solver of mode %s%s: not run", name, text, with);
    return EXIT_OK;
}

const char *modes_name(const struct modes *modes, char *text, size_t size)
{
    size_t length = 0;

    text[0] = '\0';
    for (size_t i = 0; i < modes->count && length < size; i++)
        length += (size_t)snprintf(text + length, size - length, "%s%s", i > 0 ? "," : "",
                                   word_name(mode_words, (int)modes->at[i]));
    return text;
}
