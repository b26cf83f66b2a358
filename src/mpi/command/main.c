/* clattn_mpi: the commands of clattn that take --split, on every process of mpirun. `clattn … --split` becomes this
 * program, as clattn itself needs no MPI. */
#include "mpi/command/split.h"

#include "base/system.h"
#include "cli/io/options.h"
#include "cli/process/process.h"

#include <stdio.h>
#include <string.h>

static const struct command *find(const char *name)
{
    for (size_t i = 0; i < command_count; i++)
        if (strcmp(command_table[i].name, name) == 0 &&
            (command_table[i].bit & (COMMAND_RUN | COMMAND_VERIFY | COMMAND_BENCH)))
            return &command_table[i];
    return NULL;
}

static int start(const struct command *command, struct settings *settings)
{
    if (settings->help || settings->split == SPLIT_NONE)
        return bad("expected --split tokens, heads or batch; `clattn %s --help` lists all options", command->name);
    return command->main(settings);
}

static int run(struct split_ranks *ranks, int count, char **words)
{
    static struct settings settings;
    int status;

    settings.command = count > 1 ? find(words[1]) : NULL;
    if (settings.command == NULL)
        return bad("mpirun -n N clattn_mpi run, verify or bench … --split tokens|heads|batch");
    settings.program = words[0];
    settings.ranks = &ranks->ranks;
    status = options_read(&settings, count - 2, words + 2);
    ranks->split = (clattn_mpi_split)settings.split;
    ranks->input = settings.input;
    settings.verbose = settings.verbose && ranks->ranks.rank == 0;
    if (settings.quiet)
        messages_quiet();
    if (settings.verbose)
        messages_verbose();
    if (status == EXIT_OK)
        status = start(settings.command, &settings);
    options_free(&settings);
    return status;
}

/* Only rank 0 prints. */
static int silence(struct split_ranks *ranks)
{
#ifdef _WIN32
    static const char nowhere[] = "NUL";
#else
    static const char nowhere[] = "/dev/null";
#endif

    if (ranks->ranks.rank == 0)
        return EXIT_OK;
    messages_keep(ranks->line, sizeof ranks->line);
    return freopen(nowhere, "w", stdout) != NULL ? EXIT_OK : EXIT_FAILED;
}

int main(int count, char **arguments)
{
    static struct split_ranks ranks;
    char **words;
    int status;

    MPI_Init(&count, &arguments);
    words = process_words(&count, arguments);
    split_init(&ranks);
    status = ranks.ranks.agree(&ranks.ranks, silence(&ranks));
    if (status == EXIT_OK)
        status = ranks.ranks.agree(&ranks.ranks, run(&ranks, count, words));
    if ((fflush(stdout) != 0 || ferror(stdout)) && !stdout_is_closed_pipe())
        status = failed("standard output: cannot write");
    MPI_Finalize();
    return status;
}
