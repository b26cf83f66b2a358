/* clattn: linear attention from the command line. */
#include "cli/cli.h"

#include "cli/out/examples.h"
#include "cli/out/generate.h"
#include "cli/io/options.h"
#include "cli/out/origin.h"
#include "cli/process/process.h"
#include "cli/io/words.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static const struct command commands[] = {
    {"devices", COMMAND_DEVICES, 0, 0, devices_main, "[--json]", "the OpenCL devices of this machine, best first"},
    {"rules", COMMAND_RULES, 0, MAX_RULES, rules_main, "[RULE...] [--json]",
     "every rule: its recurrence, operands and paper"},
    {"make-input", COMMAND_MAKE_INPUT, 1, 1, make_input_main, "RULE --shape B=2,T=1000,H=4,K=64,V=64 -o FILE",
     "write random operands of a rule to a safetensors file"},
    {"run", COMMAND_RUN, 1, 1, run_main, "RULE -i IN.safetensors -o OUT.safetensors",
     "compute a rule over the tensors of a file"},
    {"plot", COMMAND_PLOT, 1, 1, plot_main, "FILE [-o OUT.svg]",
     "the attention matrix of a file that run --attn wrote, as CSV or as a picture"},
    {"diff", COMMAND_DIFF, 2, 2, diff_main, "FILE EXPECTED",
     "compare the tensors of a safetensors file with those of another"},
    {"verify", COMMAND_VERIFY, 0, MAX_RULES, verify_main, "[RULE...]",
     "compare a device's results with the double-precision reference"},
    {"bench", COMMAND_BENCH, 0, MAX_RULES, bench_main, "[RULE...]", "time rules on a device"},
    {"tune", COMMAND_TUNE, 0, MAX_RULES, tune_main, "[RULE...] [--budget 60s]",
     "find the fastest tile sizes for a device; every later plan uses them"},
    {"report", COMMAND_REPORT, 0, 0, report_main, "[--quick] -o FILE.json",
     "what an issue about a device needs: its facts, verified rules, times, and a command for each failure"},
    {"gemm", COMMAND_GEMM, 0, MAX_RULES, gemm_main, "[M=4096,N=4096,K=4096[,B=1]...]",
     "time matrix products by each provider on a device"},
    {"layer", COMMAND_LAYER, 0, 1, layer_main, "[LAYER [-i CHECKPOINT.safetensors -o OUT.safetensors]]",
     "compute a whole layer with the weights of a checkpoint; without one, list its tensors"},
    {"cache", COMMAND_CACHE, 0, 0, cache_main, "[--list | --clear]", "the compiled programs kept on disk"},
};

enum { COUNT = sizeof commands / sizeof *commands };

static int print_help(void)
{
    printf("clattn %s: linear attention for every OpenCL device\n\n", clattn_version());
    for (size_t i = 0; i < COUNT; i++)
        printf("  clattn %-11s %s\n", commands[i].name, commands[i].summary);
    puts("\n`clattn COMMAND --help`, or `clattn help COMMAND`, lists a command's options.\n"
         "Exit status: 0 all is well, 1 a check or the device failed, 2 bad usage or input.");
    return EXIT_OK;
}

static int print_command_help(const struct command *command)
{
    printf("clattn %s %s\n%s\n\n", command->name, command->usage, command->summary);
    options_print(stdout, command);
    puts("\nExamples:");
    for (size_t i = 0; example_get(command, i) != NULL; i++)
        printf("  %s\n", example_get(command, i));
    return EXIT_OK;
}

static const struct command *find(const char *name)
{
    for (size_t i = 0; i < COUNT; i++)
        if (word_equal(commands[i].name, name))
            return &commands[i];
    return NULL;
}

static int unknown(const char *name)
{
    for (size_t i = 0; i < COUNT; i++)
        if (edit_close(name, edit_distance(name, commands[i].name)))
            return bad("no command is named '%s', did you mean %s?", name, commands[i].name);
    return bad("no command is named '%s', see `clattn --help`", name);
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
    if (status == EXIT_OK)
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
        return generate(count > 0 ? words[0] : "", commands, COUNT);
    if (!version && strcmp(name, "--help") != 0 && strcmp(name, "-h") != 0 && strcmp(name, "help") != 0)
        return *name == '\0' ? bad("no command, see `clattn --help`") : unknown(name);
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
    signal(SIGPIPE, SIG_IGN); /* a closed pipe shows as a failed write below */
#endif
    if (command != NULL)
        status = run(command, count, words);
    else
        status = answer(name, count > 2 ? count - 2 : 0, words + (count > 2 ? 2 : count));
    if (fflush(stdout) != 0 || ferror(stdout))
        return failed("standard output: cannot write");
    return status;
}
