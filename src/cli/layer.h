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
/* EXIT_BAD, with a line, if the checkpoint belongs to a model whose module has the layer's tensor names but computes
 * something else. Its metadata or the config.json beside it tells. */
int layer_check_origin(clattn_layer layer, const char *path, const struct safetensors *file);
/* EXIT_OK, or EXIT_BAD with a line that lists all layers. */
int layer_find(const char *name, clattn_layer *layer);

#endif
