#include "cli/output.h"

#include "cli/system.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* What the signal handler removes; one output is open at a time. */
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

int output_open(struct output *output, const char *path)
{
    size_t size = strlen(path) + 40;
    uint64_t bytes;

    memset(output, 0, sizeof *output);
    if (*path == '\0')
        return bad("the output's name is empty");
    if (file_kind(path, &bytes) == FILE_OTHER)
        return bad("%s: exists and is not a regular file", path);
    output->path = path;
    output->temporary = malloc(size);
    if (output->temporary == NULL)
        return failed("%s: no memory", path);
    snprintf(output->temporary, size, "%s.%lu.tmp", path, process_id());
    watch_signals();
    pending = output->temporary;
    output->file = fopen(output->temporary, "wbx");
    if (output->file == NULL) {
        pending = NULL;
        return bad("%s: cannot write: %s", path, strerror(errno));
    }
    return EXIT_OK;
}

int output_commit(struct output *output, const struct safetensor *tensors, size_t count, const struct cJSON *metadata)
{
    int broken = safetensors_write(output->file, tensors, count, metadata) != 0;

    broken |= fclose(output->file) != 0;
    output->file = NULL;
    if (broken || file_replace(output->temporary, output->path) != 0)
        return failed("%s: cannot write: %s", output->path, strerror(errno));
    pending = NULL;
    return EXIT_OK;
}

void output_close(struct output *output)
{
    if (output->file != NULL)
        fclose(output->file);
    if (pending != NULL)
        file_remove(pending);
    pending = NULL;
    free(output->temporary);
    memset(output, 0, sizeof *output);
}
