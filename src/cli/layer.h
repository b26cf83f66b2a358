/* clattn layer: the tables of what there is, EXIT_OK or EXIT_FAILED. */
#ifndef CLATTN_SRC_CLI_LAYER_H
#define CLATTN_SRC_CLI_LAYER_H

#include "clattn_layer.h"
#include "cli/cli.h"

int layer_list(enum format format);
int layer_list_parts(clattn_layer layer, enum format format);
/* The fields of clattn_layer_desc that --option sets, by name; NULL past the last. */
const char *layer_option(size_t index);
struct safetensors;
/* EXIT_BAD, with a line, for the checkpoint of a model whose module has the layer's tensor names and computes something
 * else: as its metadata, or config.json beside it, say. */
int layer_check_origin(clattn_layer layer, const char *path, const struct safetensors *file);
/* EXIT_OK or EXIT_BAD, with a line that names all. */
int layer_find(const char *name, clattn_layer *layer);

#endif
