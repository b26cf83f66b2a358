#include "cli/output.h"

#include "base/system.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* What the signal handler removes; one file is written at a time. */
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

/* An open file under a temporary name, and that name: pending and owned by the caller. NULL after one line. */
static FILE *open_temporary(const char *path, char **temporary)
{
    size_t size = strlen(path) + 40;
    FILE *file;

    *temporary = malloc(size);
    if (*temporary == NULL) {
        failed("%s: no memory", path);
        return NULL;
    }
    snprintf(*temporary, size, "%s.%lu.tmp", path, process_id());
    watch_signals();
    pending = *temporary;
    file = fopen(*temporary, "wbx");
    if (file == NULL) {
        bad("%s: cannot write: %s", path, strerror(errno));
        pending = NULL;
    }
    return file;
}

static void discard(char *temporary)
{
    if (pending != NULL)
        file_remove(temporary);
    pending = NULL;
    free(temporary);
}

int output_check(const char *path)
{
    uint64_t bytes;
    char *temporary;
    FILE *file;

    if (*path == '\0')
        return bad("the output's name is empty");
    if (file_kind(path, &bytes) == FILE_OTHER)
        return bad("%s: exists and is not a regular file", path);
    file = open_temporary(path, &temporary);
    if (file != NULL)
        fclose(file);
    discard(temporary);
    return file != NULL ? EXIT_OK : EXIT_BAD;
}

int output_write(const char *path, const struct safetensor *tensors, size_t count, const struct cJSON *metadata)
{
    char *temporary;
    FILE *file = open_temporary(path, &temporary);
    int status = file != NULL ? EXIT_OK : EXIT_BAD;

    if (file != NULL) {
        int broken = safetensors_write(file, tensors, count, metadata) != 0;
        broken |= fclose(file) != 0;
        if (broken || file_replace(temporary, path) != 0)
            status = failed("%s: cannot write: %s", path, strerror(errno));
        else
            pending = NULL;
    }
    discard(temporary);
    return status;
}
