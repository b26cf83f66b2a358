/* What a file says of itself, beside its tensors: the __metadata__ of safetensors, an object of strings. */
#ifndef CLATTN_SRC_CLI_IO_METADATA_H
#define CLATTN_SRC_CLI_IO_METADATA_H

#include "cli/cli.h"
#include "cli/io/safetensors.h"

#include <cjson/cJSON.h>

/* The rule of a completed desc, our version, and the options of that set (NULL: all) that no tensor shows; to be
 * deleted. */
cJSON *metadata_make(const clattn_plan_desc *desc, const struct option_set *options);

/* Of a file whose metadata names a rule: it must be the settings', and so must the options that were given. Those that
 * were not are taken from the file. EXIT_OK, or one line with both values and EXIT_BAD. */
int metadata_follow(struct settings *settings, const char *path, const struct safetensors *file);

#endif
