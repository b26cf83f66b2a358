/* Writes files that appear complete or not at all. */
#ifndef CLATTN_SRC_CLI_IO_OUTPUT_H
#define CLATTN_SRC_CLI_IO_OUTPUT_H

#include "cli/cli.h"
#include "cli/io/safetensors.h"

/* A path, or "-" for standard output. */
struct output {
    const char *path;
    int no_clobber; /* never replace a file */
    int ask;        /* output_check asks before a file is replaced, if there is somebody at a terminal */
};
/* With the settings' --clobber and --no-clobber. */
struct output output_of(const struct settings *settings, const char *path);

/* Checks before long work that the file can be written, and leaves nothing behind. EXIT_OK, or one line and
 * EXIT_BAD. */
int output_check(const struct output *output);

/* Writes the tensors to a file without a name or with a temporary one (base/file.h), then moves it to the path. A
 * failure, SIGINT or SIGTERM removes it. EXIT_OK, or one line and EXIT_BAD or EXIT_FAILED; main reports failures of
 * standard output. */
int output_write(const struct output *output, const struct safetensor *tensors, size_t count,
                 const struct cJSON *metadata);

/* The same for any content: write returns 0, or -1 with errno. */
int output_write_by(const struct output *output, int (*write)(FILE *file, const void *user), const void *user);

#endif
