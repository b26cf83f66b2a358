/* The __metadata__ of a safetensors file: an object of strings that describes the tensors. */
#ifndef CLATTN_SRC_CLI_IO_METADATA_H
#define CLATTN_SRC_CLI_IO_METADATA_H

#include "cli/cli.h"
#include "cli/io/safetensors.h"

#include <cjson/cJSON.h>

/* The rule of a completed desc, the version, and those options of the set (NULL: all) that no tensor shows. To be
 * deleted. */
cJSON *metadata_make(const clattn_plan_desc *desc, const struct option_set *options);

/* If the file's metadata names a rule: checks that it is the one of the settings and that the options that were given
 * agree, and takes the other options from the file. EXIT_OK, or one line with both values and EXIT_BAD. */
int metadata_apply(struct settings *settings, const char *path, const struct safetensors *file);

#endif
