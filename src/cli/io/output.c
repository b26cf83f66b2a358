#include "cli/io/output.h"

#include "base/file.h"
#include "base/system.h"
#include "base/text.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* The temporary file that the signal handler removes. One file is written at a time. */
static char *volatile pending;

static void on_signal(int number)
{
    char *path = pending;

    if (path != NULL)
        file_remove(path);
    signal(number, SIG_DFL);
    raise(number);
}

static void watch_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM,
#ifdef SIGHUP
                                  SIGHUP
#endif
    };

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (signal(numbers[i], on_signal) == SIG_IGN)
            signal(numbers[i], SIG_IGN);
}

/* The signal handler knows the temporary name before the file exists. close_output in all cases. */
static int open_output(struct file_output *output)
{
    watch_signals();
    pending = output->temporary != NULL ? text_copy(output->temporary) : NULL;
    return file_output_open(output);
}

static int close_output(struct file_output *output, int error)
{
    char *name = pending;
    int status;

    if (output->file == NULL)
        pending = NULL; /* another process has that name */
    status = file_output_close(output, error);
    pending = NULL;
    free(name);
    return status;
}

static int is_stream(const struct output *output)
{
    return strcmp(output->path, "-") == 0;
}

static int check_stream(void)
{
    return stdout_is_terminal() ? bad("standard output is a terminal, expected a file or a pipe") : EXIT_OK;
}

/* --no-clobber protects files only: writing into a pipe or a device loses nothing. */
static int check_not_existing(const struct output *output)
{
    uint64_t bytes;

    if (output->no_clobber && file_kind(output->path, &bytes) == FILE_REGULAR)
        return bad("%s: exists, and --no-clobber is given", output->path);
    return EXIT_OK;
}

struct output output_of(const struct settings *settings, const char *path)
{
    return (struct output){path, settings->no_clobber, !settings->clobber};
}

/* Asks before a file is replaced, if a person is there to answer. */
static int ask(const struct output *output)
{
    uint64_t bytes;
    int answer, next;

    if (!output->ask || !stdin_is_terminal() || !stderr_is_terminal() ||
        file_kind(output->path, &bytes) != FILE_REGULAR)
        return EXIT_OK;
    fprintf(stderr, "clattn: %s exists; replace it? [y/N] ", output->path);
    fflush(stderr);
    answer = next = getchar();
    while (next != '\n' && next != EOF)
        next = getchar();
    return answer == 'y' || answer == 'Y' ? EXIT_OK : bad("%s: not replaced", output->path);
}

/* Begins a file and drops it. A pipe or a device is not opened: its reader would take that for the end. */
int output_check(const struct output *to)
{
    struct file_output output;
    int error;

    if (*to->path == '\0')
        return bad("the output's name is empty");
    if (is_stream(to))
        return check_stream();
    if (check_not_existing(to) != EXIT_OK || ask(to) != EXIT_OK)
        return EXIT_BAD;
    error = file_output_plan(&output, to->path) != 0 ? errno : 0;
    if (error == 0 && output.temporary != NULL && open_output(&output) != 0)
        error = errno;
    close_output(&output, error != 0 ? error : ECANCELED);
    return error != 0 ? bad("%s: cannot write: %s", to->path, strerror(error)) : EXIT_OK;
}

int output_write_by(const struct output *to, int (*write)(FILE *file, const void *user), const void *user)
{
    struct file_output output;
    int error = 0;

    if (is_stream(to)) {
        stream_make_binary(stdout);
        return write(stdout, user) != 0 && !ferror(stdout) ? failed("no memory for the output") : EXIT_OK;
    }
    if (check_not_existing(to) != EXIT_OK)
        return EXIT_BAD;
    errno = ENOMEM; /* if something fails before the write */
    if (file_output_plan(&output, to->path) != 0 || open_output(&output) != 0 || write(output.file, user) != 0)
        error = errno;
    if (close_output(&output, error) != 0)
        return failed("%s: cannot write: %s", to->path, strerror(errno));
    return EXIT_OK;
}

struct tensors {
    const struct safetensor *list;
    size_t count;
    const struct cJSON *metadata;
};

static int write_tensors(FILE *file, const void *user)
{
    const struct tensors *tensors = user;

    return safetensors_write(file, tensors->list, tensors->count, tensors->metadata);
}

int output_write(const struct output *to, const struct safetensor *tensors, size_t count, const struct cJSON *metadata)
{
    const struct tensors list = {tensors, count, metadata};

    return output_write_by(to, write_tensors, &list);
}
