/* The measured parameters that are compiled in: src/tune/shipped.json as the build writes it in C. */
#ifndef CLATTN_SRC_SHIPPED_H
#define CLATTN_SRC_SHIPPED_H

#include "base/hash.h"

struct shipped_device {
    const char *device, *vendor, *driver;
};

/* A row of the table of tuning_table.h. */
struct shipped_entry {
    uint16_t kernel, values;                   /* of shipped_kernels; its first of shipped_values */
    uint8_t device, parameters;                /* of shipped_devices, shipped_parameters */
    uint8_t group, dtype, solver, tuner, date; /* of shipped_texts */
    int16_t key_dim, value_dim, heads;
    int32_t from_rows, seq_len;
    float time_ms, default_ms, error;
};

extern const struct shipped_device shipped_devices[];
extern const char *const shipped_texts[]; /* from 1 on */
extern const struct hash shipped_kernels[];
extern const uint8_t shipped_parameters[][12]; /* of shipped_texts; 0 ends a list */
extern const int16_t shipped_values[];
extern const struct shipped_entry shipped_entries[];
extern const size_t shipped_entry_count;

#endif
