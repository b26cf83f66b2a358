/* The measured parameters that are compiled in: src/tune/shipped.json as the build writes it in C. */
#ifndef CLATTN_SRC_SHIPPED_H
#define CLATTN_SRC_SHIPPED_H

#include "base/hash.h"

struct shipped_device {
    const char *device, *vendor, *driver;
};

/* A row of the table of tuning_table.h. */
struct shipped_entry {
    struct hash kernel;
    uint8_t device;                            /* of shipped_devices */
    uint8_t group, dtype, solver, tuner, date; /* of shipped_texts */
    int16_t key_dim, value_dim, heads;
    int32_t from_rows, seq_len;
    float time_ms, default_ms, error;
    uint8_t parameters[12]; /* of shipped_texts; 0 ends the list */
    int16_t values[12];
};

extern const struct shipped_device shipped_devices[];
extern const char *const shipped_texts[]; /* from 1 on */
extern const struct shipped_entry shipped_entries[];
extern const size_t shipped_entry_count;

#endif
