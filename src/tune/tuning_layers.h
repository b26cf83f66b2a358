/* Where measured parameters come from: the application, the user's file, the table compiled in; in this order. */
#ifndef CLATTN_SRC_TUNING_LAYERS_H
#define CLATTN_SRC_TUNING_LAYERS_H

#include "device/device.h"
#include "tune/tuning_table.h"

enum { LAYER_APPLICATION, LAYER_FILE, LAYER_SHIPPED, LAYER_COUNT };

struct tuning_layers {
    struct tuning_table tables[LAYER_COUNT]; /* of this device */
    char *path;                              /* of LAYER_FILE; NULL */
};

/* Reads the file (its path, allocated, is the layers' from here on; NULL: none) and the compiled-in table; neither
 * where the path is "". A file that is missing or damaged is an empty one; the log says so. */
void tuning_layers_load(struct tuning_layers *layers, char *path, const struct device *device, const struct log *log);
void tuning_layers_free(struct tuning_layers *layers);

/* "the application", "the shipped table", a path */
const char *tuning_layer_name(const struct tuning_layers *layers, int layer);

/* The best entry for a problem and solver: of the solver's format and the context's engine, the nearest number of heads; the driver's own
 * entry before another's, which counts only with any_driver. NULL when there is none. */
const struct tuning_entry *tuning_find(const clattn_context *context, const struct problem *problem,
                                       const struct space *space, int any_driver, int *layer);

/* The same by a key that is made. */
const struct tuning_entry *tuning_find_key(const clattn_context *context, const struct tuning_entry *key,
                                           int any_driver, int *layer);
/* Whether the solver was the fastest for the problem's length or a shorter one, by an entry that is near, of whatever
 * format, engine and driver, in the layers up to the last. */
int tuning_was_first(const clattn_context *context, const struct problem *problem, const struct space *space, int last);
/* Whether nothing is known of the device. */
int tuning_is_empty(const clattn_context *context);

/* Whether the entry's tiles are for so many heads too: what is best for few groups is not for many, unless a group is
 * one work-item. The lengths at which solvers begin hold further. */
int tuning_is_near(const struct tuning_entry *entry, const clattn_context *context, const struct problem *problem);

/* The key of a problem on a context's device: every field of the key filled. */
void tuning_key(struct tuning_entry *entry, const clattn_context *context, const struct problem *problem,
                const struct space *space);

/* "scalar+key": decay and erase. Rules of a group differ in words that cost little. */
const char *tuning_group(const struct problem *problem, char name[32]);
/* A rule of the group that the problem belongs to: the one that is measured for all. */
clattn_rule tuning_representative(const struct problem *problem);

#endif
