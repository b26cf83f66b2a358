#include "cli/output.h"

#include "base/file.h"
#include "base/system.h"
#include "base/text.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* What the signal handler removes, a name of its own; one file is written at a time. */
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

/* A temporary file is known to the signal handler before it is there. close_output in all cases. */
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
        pending = NULL; /* the name is another's */
    status = file_output_close(output, error);
    pending = NULL;
    free(name);
    return status;
}

/* A file is begun and dropped. What is written into is not opened: who reads a pipe would take that for its end. */
int output_check(const char *path)
{
    struct file_output output;
    int error;

    if (*path == '\0')
        return bad("the output's name is empty");
    error = file_output_plan(&output, path) != 0 ? errno : 0;
    if (error == 0 && output.temporary != NULL && open_output(&output) != 0)
        error = errno;
    close_output(&output, error != 0 ? error : ECANCELED);
    return error != 0 ? bad("%s: cannot write: %s", path, strerror(error)) : EXIT_OK;
}

int output_write(const char *path, const struct safetensor *tensors, size_t count, const struct cJSON *metadata)
{
    struct file_output output;
    int error = 0;

    errno = ENOMEM; /* of a header that cannot be made */
    if (file_output_plan(&output, path) != 0 || open_output(&output) != 0 ||
        safetensors_write(output.file, tensors, count, metadata) != 0)
        error = errno;
    if (close_output(&output, error) != 0)
        return failed("%s: cannot write: %s", path, strerror(errno));
    return EXIT_OK;
}
