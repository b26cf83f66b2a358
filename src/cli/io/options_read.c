/* Reads the words of the command line by the table of options. */
#include "cli/io/options.h"

#include "cli/io/desc_options.h"
#include "cli/layer.h"
#include "cli/io/option_table.h"
#include "cli/io/words.h"
#include "cli/out/wrap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is_shown(const struct option *option, const struct command *command)
{
    return (option->commands & command->bit) && option->help != NULL;
}

int options_get(const struct command *command, size_t index, struct option_info *info)
{
    for (size_t i = 0; i < option_count; i++) {
        const struct option *option = &options[i];
        if (!is_shown(option, command) || index-- > 0)
            continue;
        *info = (struct option_info){option->name, option->argument, option->help, option->letter};
        return 1;
    }
    return 0;
}

/* The column of an option's help. */
enum { HELP = 30 };

static void print_desc_option(FILE *file, enum option_id option)
{
    char argument[96], left[128];

    snprintf(left, sizeof left, "  %s=%s", desc_options[option].name,
             desc_option_argument(option, CLATTN_RULE_NONE, argument, sizeof argument));
    wrap_print(file, wrap_width(file), left, HELP, desc_options[option].help);
}

/* What --option of layer takes; a rule's options stand in `clattn rules RULE`. */
static void print_desc_options(FILE *file, const struct command *command)
{
    const char *name;

    if (command->bit != COMMAND_LAYER)
        return;
    fputs("\n--option of layers:\n", file);
    for (size_t i = 0; (name = layer_option(i)) != NULL; i++)
        print_desc_option(file, desc_option_find(name));
}

void options_print(FILE *file, const struct command *command)
{
    int has_desc_options = 0;

    for (size_t i = 0; i < option_count; i++) {
        const struct option *option = &options[i];
        char left[96], letter[5] = "    ";
        if (!is_shown(option, command))
            continue;
        if (option->letter != '\0')
            snprintf(letter, sizeof letter, "-%c, ", option->letter);
        snprintf(left, sizeof left, "  %s--%s %s", letter, option->name, option->argument ? option->argument : "");
        wrap_print(file, wrap_width(file), left, HELP, option->help);
        has_desc_options |= strcmp(option->name, "option") == 0;
    }
    if (has_desc_options)
        print_desc_options(file, command);
}

/* The option that a word ("--name", "--name=value", "-x") means for the command, or NULL. */
static const struct option *find(const struct command *command, const char *word)
{
    size_t length = strcspn(word, "=");

    for (size_t i = 0; i < option_count; i++) {
        const struct option *option = &options[i];
        int is_long = strncmp(word, "--", 2) == 0 && strlen(option->name) == length - 2 &&
                      strncmp(option->name, word + 2, length - 2) == 0;
        int is_short = word[1] != '\0' && word[1] == option->letter && (word[2] == '\0' || option->argument != NULL);
        if ((is_long || is_short) && (option->commands & command->bit))
            return option;
    }
    return NULL;
}

/* "tune" or "verify, bench": the commands that take the option --name. 0: none does. */
static int list_takers(const char *word, char *text, size_t size)
{
    size_t used = 0;

    for (size_t c = 0; c < command_count && strncmp(word, "--", 2) == 0; c++) {
        const struct option *option = find(&command_table[c], word);
        if (option != NULL && option->help != NULL && used < size)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "", command_table[c].name);
    }
    return used > 0;
}

static int unknown(const struct command *command, const char *word)
{
    const struct option *nearest = NULL;
    size_t best = SIZE_MAX;
    char others[160];

    if (list_takers(word, others, sizeof others))
        return bad("%s takes no option '%s', which is for %s", command->name, word, others);
    for (size_t i = 0; i < option_count; i++) {
        size_t distance = edit_distance(word + strspn(word, "-"), options[i].name);
        if (is_shown(&options[i], command) && distance < best) {
            best = distance;
            nearest = &options[i];
        }
    }
    if (nearest != NULL && strncmp(word, "--", 2) == 0 && edit_close(word + 2, best))
        return bad("%s takes no option '%s', did you mean --%s?", command->name, word, nearest->name);
    return bad("%s takes no option '%s', see `clattn %s --help`", command->name, word, command->name);
}

/* An option of the desc that has a command-line option of its own. */
static int apply_desc(struct settings *settings, const struct option *option, const char *text)
{
    char what[32];

    snprintf(what, sizeof what, "--%s", option->name);
    return set_desc_option(settings, desc_option_find(option->name), what, text != NULL ? text : "on");
}

static int apply(struct settings *settings, const struct option *option, const char *text)
{
    int one = 1;
    char *field;

    if (option->set != NULL)
        return option->set(settings, text);
    if (option->offset == DESC_OPTION)
        return apply_desc(settings, option, text);
    field = (char *)settings + option->offset;
    if (option->argument != NULL && *(const char **)(void *)field != NULL)
        return bad("--%s is given twice", option->name);
    if (option->argument != NULL)
        memcpy(field, &text, sizeof text);
    else
        memcpy(field, &one, sizeof one);
    return EXIT_OK;
}

static int add_rule(struct settings *settings, const char *word)
{
    return rule_read(word, &settings->rules[settings->rule_count++]);
}

static int add_file(struct settings *settings, const char *word)
{
    settings->files[settings->file_count++] = word;
    return EXIT_OK;
}

/* An argument that is not an option. */
static int add_word(struct settings *settings, const char *word)
{
    const struct command *command = settings->command;

    if (settings->rule_count + settings->file_count + settings->shape_count >= command->words_max)
        return bad("%s takes no argument '%s'", command->name, word);
    if (command->bit == COMMAND_GEMM || settings->gemm)
        return product_read(word, &settings->shapes[settings->shape_count++]);
    return command->bit & (COMMAND_DIFF | COMMAND_LAYER | COMMAND_PLOT) ? add_file(settings, word)
                                                                        : add_rule(settings, word);
}

static int check_words(const struct settings *settings)
{
    const struct command *command = settings->command;

    if (settings->help || settings->rule_count + settings->file_count >= command->words_min)
        return EXIT_OK;
    if (command->bit == COMMAND_DIFF)
        return bad("%s needs two files, see `clattn %s --help`", command->name, command->name);
    if (command->bit == COMMAND_PLOT)
        return bad("plot needs a file, see `clattn plot --help`");
    return bad("%s needs a rule, see `clattn rules`", command->name);
}

/* The value in the same word, after "=" or directly after a letter: "--jobs=4", "-j=4", "-j4". NULL: none. */
static const char *value_in_word(const char *word)
{
    const char *equals = strchr(word, '=');

    if (word[1] != '-' && word[2] != '=')
        return word[2] != '\0' ? word + 2 : NULL;
    return equals != NULL ? equals + 1 : NULL;
}

static void pass_on(struct settings *settings, const struct option *option, const char *word, const char *value)
{
    if (option->commands & PER_WORKER)
        return;
    settings->passed_on[settings->passed_on_count++] = word;
    if (value != NULL)
        settings->passed_on[settings->passed_on_count++] = value;
}

/* Reads the option at words[*at]. If its value is the next word, *at moves there. */
static int read_option_at(struct settings *settings, int count, char **words, int *at)
{
    const char *word = words[*at], *attached, *separate = NULL;
    const struct option *option = find(settings->command, word);

    if (option == NULL)
        return unknown(settings->command, word);
    attached = value_in_word(word);
    if (option->argument == NULL && attached != NULL)
        return bad("--%s takes no value", option->name);
    if (option->argument != NULL && attached == NULL) {
        if (*at + 1 == count)
            return bad("--%s needs a value: %s", option->name, option->argument);
        separate = words[++*at];
    }
    pass_on(settings, option, word, separate);
    return apply(settings, option, separate != NULL ? separate : attached);
}

/* Whatever else was typed. */
static int asks_for_help(int count, char **words)
{
    for (int i = 0; i < count && strcmp(words[i], "--") != 0; i++)
        if (strcmp(words[i], "--help") == 0 || strcmp(words[i], "-h") == 0)
            return 1;
    return 0;
}

int options_read(struct settings *settings, int count, char **words)
{
    int only_words = 0;

    if (asks_for_help(count, words)) {
        settings->help = 1;
        return EXIT_OK;
    }
    settings->bound = -1;
    settings->passed_on = calloc((size_t)count + 1, sizeof *settings->passed_on);
    if (settings->passed_on == NULL)
        return failed("no memory for the options");
    for (int i = 0; i < count; i++) {
        int status = EXIT_OK;
        if (only_words || words[i][0] != '-' || words[i][1] == '\0')
            status = add_word(settings, words[i]);
        else if (strcmp(words[i], "--") == 0)
            only_words = 1;
        else
            status = read_option_at(settings, count, words, &i);
        if (status != EXIT_OK)
            return status;
    }
    if (settings->quiet && settings->verbose)
        return bad("--quiet and --verbose: expected one of them");
    return check_words(settings);
}

void options_free(struct settings *settings)
{
    free(settings->cu_seqlens);
    free(settings->passed_on);
}
