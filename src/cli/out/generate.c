#include "cli/out/generate.h"

#include "cli/io/desc_options.h"
#include "cli/out/examples.h"
#include "cli/io/options.h"
#include "op/rule.h"

#include <stdio.h>
#include <string.h>

enum { NO_WORDS, RULES, FILES };

/* What the arguments of a command are. */
static int words_of(const struct command *command)
{
    if (command->words_max == 0 || (command->bit & (COMMAND_GEMM | COMMAND_LAYER)))
        return NO_WORDS;
    return command->bit & (COMMAND_DIFF | COMMAND_PLOT) ? FILES : RULES;
}

static void print_rules(const char *before)
{
    const char *between = before;

    for (int i = 1; rule_get((clattn_rule)i) != NULL; i++, between = " ")
        printf("%s%s", between, rule_get((clattn_rule)i)->name);
}

static int is_file(const struct option_info *option)
{
    return option->argument != NULL && strcmp(option->argument, "FILE") == 0;
}

/* "f32|f16|bf16", if the value is one of several words; else NULL. */
static const char *choices(const struct option_info *option)
{
    return option->argument != NULL && strchr(option->argument, '|') != NULL ? option->argument : NULL;
}

static void print_choices(const char *text)
{
    for (; *text != '\0'; text++)
        putchar(*text == '|' ? ' ' : *text);
}

/* ---- The manual page: man_text, in which a backslash and a point or quote that begins a line mean something ------ */

static void man_text(const char *text)
{
    if (*text == '.' || *text == '\'')
        fputs("\\&", stdout);
    for (; *text != '\0'; text++) {
        if (*text == '\\')
            fputs("\\e", stdout);
        else if (*text == '-')
            fputs("\\-", stdout);
        else
            putchar(*text);
    }
}

static void man_option(const struct option_info *option)
{
    puts(".TP");
    fputs(".B ", stdout);
    if (option->letter != '\0')
        printf("\\-%c, ", option->letter);
    fputs("\\-\\-", stdout);
    man_text(option->name);
    if (option->argument != NULL) {
        fputs(" \\fI", stdout);
        man_text(option->argument);
        fputs("\\fP", stdout);
    }
    putchar('\n');
    man_text(option->help);
    putchar('\n');
}

static void man_command(const struct command *command)
{
    struct option_info option;

    fputs(".SS clattn ", stdout);
    man_text(command->name);
    fputs("\n.B clattn ", stdout);
    man_text(command->name);
    putchar(' ');
    man_text(command->usage);
    puts("\n.PP");
    man_text(command->summary);
    puts(".");
    for (size_t i = 0; options_get(command, i, &option); i++)
        man_option(&option);
}

/* The command's examples, unchanged, under its summary. */
static void man_examples(const struct command *command)
{
    puts(".TP");
    man_text(command->summary);
    puts("\n.nf");
    for (size_t i = 0; example_get(command, i) != NULL; i++) {
        man_text(example_get(command, i));
        putchar('\n');
    }
    puts(".fi");
}

static const char man_end[] =
    ".SH EXIT STATUS\n0: all is well. 1: a check or the device failed. 2: bad usage or input. 130: interrupted.\n"
    ".SH ENVIRONMENT\n"
    ".TP\n.B CLATTN_CACHE_DIR\nThe folder of compiled programs; empty: none.\n"
    ".TP\n.B CLATTN_TUNING\nThe file of measured parameters; empty: none.\n"
    ".TP\n.B CLATTN_SELF_TEST\n0: kernels that are new to a device are not tried first.\n"
    ".TP\n.B CLATTN_VERBOSE\n1: a line on standard error for each kernel that is compiled, each plan and each call.\n"
    ".TP\n.B CLATTN_CLBLAST\nThe file of CLBlast, for matrix products; empty: none.\n"
    ".TP\n.B CLATTN_ENGINE\nThe matrix engine; none or empty: plain kernels.\n"
    ".TP\n.B CLATTN_DEVICE_FACTS\nA file of clattn report: plans as for its device.\n"
    ".SH FILES\n"
    "$XDG_CONFIG_HOME/clattn/tuning.json: measured parameters. $XDG_CACHE_HOME/clattn: compiled programs.\n";

/* What --option takes. */
static void man_desc_options(void)
{
    char argument[96];

    puts(".SH OPTIONS OF RULES\n\\-\\-option NAME=VALUE; clattn rules says which rule takes which.");
    for (enum option_id i = 0; i < OPTION_COUNT; i++) {
        if (!desc_option_is_named(i))
            continue;
        fputs(".TP\n.B ", stdout);
        man_text(desc_options[i].name);
        fputs("\\fR=", stdout);
        man_text(desc_option_argument(i, CLATTN_RULE_NONE, argument, sizeof argument));
        putchar('\n');
        man_text(desc_options[i].help);
        putchar('\n');
    }
}

static void man(const struct command *commands, size_t count)
{
    printf(".TH CLATTN 1 \"\" \"clattn %s\" \"User Commands\"\n.SH NAME\nclattn \\- linear attention for every OpenCL "
           "device\n"
           ".SH SYNOPSIS\n.B clattn\n.I COMMAND\n[\\fIARGUMENT\\fP ...]\n.SH DESCRIPTION\n"
           "Tensors come and go as safetensors files, named as the operands of a rule are. Results are on standard "
           "output,\n"
           "progress is on standard error.\n.SH COMMANDS\n",
           clattn_version());
    for (size_t i = 0; i < count; i++)
        man_command(&commands[i]);
    man_desc_options();
    fputs(man_end, stdout);
    puts(".SH EXAMPLES");
    for (size_t i = 0; i < count; i++)
        man_examples(&commands[i]);
}

/* ---- bash -------------------------------------------------------------------------------------------------------- */

static void bash_values(const struct option_info *option)
{
    if (!is_file(option) && choices(option) == NULL)
        return;
    printf("    --%s", option->name);
    if (option->letter != '\0')
        printf(" | -%c", option->letter);
    if (is_file(option)) {
        puts(") mapfile -t COMPREPLY < <(compgen -f -- \"$cur\"); return ;;");
        return;
    }
    fputs(") mapfile -t COMPREPLY < <(compgen -W \"", stdout);
    print_choices(choices(option));
    puts("\" -- \"$cur\"); return ;;");
}

static void bash_command(const struct command *command)
{
    struct option_info option;

    printf("    %s) words=\"", command->name);
    for (size_t i = 0; options_get(command, i, &option); i++)
        printf("%s--%s", i > 0 ? " " : "", option.name);
    puts(words_of(command) == RULES ? " $rules\" ;;" : "\" ;;");
}

static void bash(const struct command *commands, size_t count)
{
    const struct command any = {.bit = ~0U};
    struct option_info option;

    fputs("# bash completion for clattn\n_clattn() {\n    local cur=${COMP_WORDS[COMP_CWORD]} "
          "prev=${COMP_WORDS[COMP_CWORD-1]} "
          "words=''\n    local rules=\"",
          stdout);
    print_rules("");
    fputs("\"\n    if [ \"$COMP_CWORD\" = 1 ]; then\n        mapfile -t COMPREPLY < <(compgen -W \"help", stdout);
    for (size_t i = 0; i < count; i++)
        printf(" %s", commands[i].name);
    puts("\" -- \"$cur\")\n        return\n    fi\n    case $prev in");
    for (size_t i = 0; options_get(&any, i, &option); i++)
        bash_values(&option);
    puts("    esac\n    case ${COMP_WORDS[1]} in");
    for (size_t i = 0; i < count; i++)
        bash_command(&commands[i]);
    puts("    esac\n    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n}\n"
         "complete -o default -F _clattn clattn");
}

/* ---- zsh: in single quotes, with brackets and colons escaped ----------------------------------------------------- */

static void zsh_text(const char *text)
{
    for (; *text != '\0'; text++) {
        if (strchr("[]:\\", *text) != NULL)
            putchar('\\');
        fputs(*text == '\'' ? "'\\''" : (const char[]){*text, '\0'}, stdout);
    }
}

static void zsh_option(const struct option_info *option)
{
    fputs(" \\\n            '", stdout);
    printf("*--%s%s[", option->name, option->argument != NULL ? "=" : "");
    zsh_text(option->help);
    putchar(']');
    if (is_file(option))
        fputs(":file:_files", stdout);
    else if (option->argument != NULL) {
        fputs(":value:", stdout);
        if (choices(option) != NULL) {
            putchar('(');
            print_choices(choices(option));
            putchar(')');
        }
    }
    putchar('\'');
}

static void zsh(const struct command *commands, size_t count)
{
    struct option_info option;

    fputs("#compdef clattn\n_clattn() {\n    local -a rules=(", stdout);
    print_rules("");
    puts(")\n    if (( CURRENT == 2 )); then\n        local -a commands=(");
    for (size_t i = 0; i < count; i++) {
        printf("            '%s:", commands[i].name);
        zsh_text(commands[i].summary);
        puts("'");
    }
    puts("        )\n        _describe command commands\n        return\n    fi\n    local command=$words[2]\n    "
         "shift words\n"
         "    (( CURRENT-- ))\n    case $command in");
    for (size_t i = 0; i < count; i++) {
        printf("        %s) _arguments", commands[i].name);
        for (size_t j = 0; options_get(&commands[i], j, &option); j++)
            zsh_option(&option);
        if (words_of(&commands[i]) != NO_WORDS)
            fputs(words_of(&commands[i]) == RULES ? " \\\n            \"*:rule:($rules)\""
                                                  : " \\\n            '*:file:_files'",
                  stdout);
        puts(" ;;");
    }
    puts("    esac\n}\n_clattn \"$@\"");
}

/* ---- fish -------------------------------------------------------------------------------------------------------- */

static void fish_text(const char *text)
{
    putchar('\'');
    for (; *text != '\0'; text++) {
        if (*text == '\'' || *text == '\\')
            putchar('\\');
        putchar(*text);
    }
    putchar('\'');
}

static void fish_option(const struct command *command, const struct option_info *option)
{
    printf("complete -c clattn -n '__fish_seen_subcommand_from %s' -l %s", command->name, option->name);
    if (option->letter != '\0')
        printf(" -s %c", option->letter);
    if (option->argument != NULL)
        fputs(is_file(option) ? " -r -F" : " -x", stdout);
    if (choices(option) != NULL) {
        fputs(" -a '", stdout);
        print_choices(choices(option));
        putchar('\'');
    }
    fputs(" -d ", stdout);
    fish_text(option->help);
    putchar('\n');
}

static void fish(const struct command *commands, size_t count)
{
    struct option_info option;

    puts("# fish completion for clattn\ncomplete -c clattn -f");
    for (size_t i = 0; i < count; i++) {
        printf("complete -c clattn -n __fish_use_subcommand -a %s -d ", commands[i].name);
        fish_text(commands[i].summary);
        putchar('\n');
        if (words_of(&commands[i]) == RULES) {
            printf("complete -c clattn -n '__fish_seen_subcommand_from %s' -a '", commands[i].name);
            print_rules("");
            puts("'");
        } else if (words_of(&commands[i]) == FILES) {
            printf("complete -c clattn -n '__fish_seen_subcommand_from %s' -F\n", commands[i].name);
        }
        for (size_t j = 0; options_get(&commands[i], j, &option); j++)
            fish_option(&commands[i], &option);
    }
}

int generate(const char *what, const struct command *commands, size_t count)
{
    static const struct {
        const char *name;
        void (*print)(const struct command *commands, size_t count);
    } kinds[] = {{"man", man}, {"bash", bash}, {"zsh", zsh}, {"fish", fish}};

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, what) == 0) {
            kinds[i].print(commands, count);
            return EXIT_OK;
        }
    return bad("--generate is '%s', expected man, bash, zsh or fish", what);
}
