/* clattn layer: the tables of what there is, EXIT_OK or EXIT_FAILED. */
#ifndef CLATTN_SRC_CLI_LAYER_H
#define CLATTN_SRC_CLI_LAYER_H

#include "clattn_layer.h"
#include "cli/cli.h"

int layer_list(enum format format);
int layer_list_parts(clattn_layer layer, enum format format);
/* The fields of clattn_layer_desc that --option sets, by name; NULL past the last. */
const char *layer_option(size_t index);
/* EXIT_OK or EXIT_BAD, with a line that names all. */
int layer_find(const char *name, clattn_layer *layer);

#endif
