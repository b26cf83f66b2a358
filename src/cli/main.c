/* clattn: linear attention from the command line. */
#include "base/system.h"
#include "cli/cli.h"

#include "cli/out/examples.h"
#include "cli/out/generate.h"
#include "cli/io/options.h"
#include "cli/out/origin.h"
#include "cli/out/wrap.h"
#include "cli/process/process.h"
#include "cli/io/words.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static void print_summary(const struct command *command)
{
    char left[32];

    snprintf(left, sizeof left, "  clattn %s", command->name);
    wrap_print(stdout, wrap_width(stdout), left, 21, command->summary);
}

static int print_help(void)
{
    printf("clattn %s: linear attention for every OpenCL device\n\n", clattn_version());
    for (size_t i = 0; i < command_count; i++)
        print_summary(&command_table[i]);
    puts("\n`clattn COMMAND --help`, or `clattn help COMMAND`, lists a command's options.\n"
         "Exit status: 0 all is well, 1 a check or the device failed, 2 bad usage or\n"
         "input.");
    return EXIT_OK;
}

static int print_command_help(const struct command *command)
{
    printf("clattn %s %s\n", command->name, command->usage);
    wrap_print(stdout, wrap_width(stdout), "", 0, command->summary);
    puts("");
    options_print(stdout, command);
    puts("\nExamples:");
    for (size_t i = 0; example_get(command, i) != NULL; i++)
        printf("  %s\n", example_get(command, i));
    return EXIT_OK;
}

static const struct command *find(const char *name)
{
    for (size_t i = 0; i < command_count; i++)
        if (word_equal(command_table[i].name, name))
            return &command_table[i];
    return NULL;
}

static int unknown(const char *name)
{
    for (size_t i = 0; i < command_count; i++)
        if (edit_close(name, edit_distance(name, command_table[i].name)))
            return bad("no command is named '%s', did you mean %s?", name, command_table[i].name);
    return bad("no command is named '%s', see `clattn --help`", name);
}

/* Another program has MPI, which this one does not need. */
static int hand_over(char **words)
{
    process_replace("clattn_mpi", words);
    return failed(
        "--split is for the program clattn_mpi, which is neither beside this one nor in PATH: it is built where "
        "there is an MPI");
}

static int run(const struct command *command, int count, char **words)
{
    static struct settings settings;
    int status;

    settings.command = command;
    settings.program = words[0];
    status = options_read(&settings, count - 2, words + 2);
    if (settings.quiet)
        messages_quiet();
    if (settings.verbose)
        messages_verbose();
    if (status == EXIT_OK && !settings.help && settings.split != SPLIT_NONE)
        status = hand_over(words);
    else if (status == EXIT_OK)
        status = settings.help ? print_command_help(command) : command->main(&settings);
    options_free(&settings);
    return status;
}

/* "clattn 0.3.0 (97e7c32, gcc 12.2.0, linux, 64 bits)" */
static int print_version(void)
{
    const char *commit = origin_commit();

    printf("clattn %s (%s%s%s, %s, %d bits)\n", clattn_version(), commit, *commit != '\0' ? ", " : "",
           origin_compiler(), origin_system(), (int)(8 * sizeof(void *)));
    return EXIT_OK;
}

/* Answers `--help`, `help [COMMAND]` and `--version`, which are no commands. */
static int answer(const char *name, int count, char **words)
{
    const int version = strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0 || strcmp(name, "version") == 0;
    const struct command *about = count > 0 ? find(words[0]) : NULL;

    if (strcmp(name, "--generate") == 0) /* for the build: the manual page and completions */
        return generate(count > 0 ? words[0] : "", command_table, command_count);
    if (!version && strcmp(name, "--help") != 0 && strcmp(name, "-h") != 0 && strcmp(name, "help") != 0)
        return *name == '\0' ? (print_help(), bad("no command")) : unknown(name);
    if (count > !version)
        return bad("unexpected '%s' after %s", words[!version], name);
    if (version)
        return print_version();
    if (count == 0)
        return print_help();
    return about != NULL ? print_command_help(about) : unknown(words[0]);
}

int main(int count, char **arguments)
{
    char **words = process_words(&count, arguments);
    const char *name = count > 1 ? words[1] : "";
    const struct command *command = find(name);
    int status;

#ifdef SIGPIPE
    signal(SIGPIPE, SIG_IGN); /* a closed pipe shows as a failed write: its reader has what it wanted */
#endif
    if (command != NULL)
        status = run(command, count, words);
    else
        status = answer(name, count > 2 ? count - 2 : 0, words + (count > 2 ? 2 : count));
    if ((fflush(stdout) != 0 || ferror(stdout)) && !stdout_is_closed_pipe())
        return failed("standard output: cannot write");
    return status;
}
