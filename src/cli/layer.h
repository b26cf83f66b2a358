/* Parts of `clattn layer`. The lists return EXIT_OK or EXIT_FAILED. */
#ifndef CLATTN_SRC_CLI_LAYER_H
#define CLATTN_SRC_CLI_LAYER_H

#include "clattn_layer.h"
#include "cli/cli.h"

int layer_list(enum format format);
int layer_list_parts(clattn_layer layer, enum format format);
/* The fields of clattn_layer_desc that --option sets, by name. NULL past the last. */
const char *layer_option(size_t index);
struct safetensors;
/* Reads what the checkpoint's metadata and the config.json beside it say of its model, which is the limits of steps.
 * EXIT_BAD, with a line, if the model's module has the layer's tensor names but computes something else. */
int layer_read_origin(clattn_layer_desc *desc, const char *path, const struct safetensors *file);
/* EXIT_OK, or EXIT_BAD with a line that lists all layers. */
int layer_find(const char *name, clattn_layer *layer);

#endif
