/* The layers of measured parameters: the application's, the user's file, the table in the library; in this order. */
#ifndef CLATTN_SRC_TUNING_LAYERS_H
#define CLATTN_SRC_TUNING_LAYERS_H

#include "device/device.h"
#include "tune/tuning_table.h"

enum { LAYER_APPLICATION, LAYER_FILE, LAYER_SHIPPED, LAYER_COUNT };

struct tuning_layers {
    struct tuning_table tables[LAYER_COUNT]; /* for this device */
    char *path;                              /* of LAYER_FILE; or NULL */
};

/* Reads the file and the library's table. `path` is allocated, and the layers take ownership; NULL: there is no file.
 * If it is "", neither is read. A missing or damaged file counts as empty, which is logged. */
void tuning_layers_load(struct tuning_layers *layers, char *path, int named, const struct device *device,
                        const struct log *log);
void tuning_layers_free(struct tuning_layers *layers);

/* "the application", "the shipped table", or a path */
const char *tuning_layer_name(const struct tuning_layers *layers, int layer);

/* The best entry for a problem and solver. It has the solver's format and the context's engine, and the number of heads
 * nearest to the problem's. An entry measured with this driver is preferred; others count only with any_driver. NULL:
 * there is none. */
const struct tuning_entry *tuning_find(const clattn_context *context, const struct problem *problem,
                                       const struct space *space, int any_driver, int *layer);

/* The same for a complete key. */
const struct tuning_entry *tuning_find_key(const clattn_context *context, const struct tuning_entry *key,
                                           int any_driver, int *layer);
/* Whether the solver was the fastest at the problem's length or a shorter one, according to an entry that is near. The
 * entry may have any format, engine and driver. Layers after `last` are not considered. */
int tuning_was_fastest(const clattn_context *context, const struct problem *problem, const struct space *space,
                       int last);
/* Whether there are no measurements for the device. */
int tuning_is_empty(const clattn_context *context);

/* Whether the entry's tiles suit the problem's number of heads. The best tiles for few groups are not the best for
 * many, unless a group is a single work-item. The lengths from which solvers are fastest hold for any number of
 * heads. */
int tuning_is_near(const struct tuning_entry *entry, const clattn_context *context, const struct problem *problem);

/* Fills the key for a problem on a context's device. */
void tuning_key(struct tuning_entry *entry, const clattn_context *context, const struct problem *problem,
                const struct space *space);

/* "scalar+key": decay and erase. The rules of a group differ only in words that cost little. */
const char *tuning_group(const struct problem *problem, char name[32]);
/* That of a rule without options. */
const char *tuning_group_of(clattn_rule rule, char name[32]);
/* The rule that is measured for the whole group of the problem's rule. */
clattn_rule tuning_representative(const struct problem *problem);

#endif
