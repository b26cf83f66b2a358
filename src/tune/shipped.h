/* The measured parameters that are compiled in: src/tune/shipped.json as the build writes it in C. */
#ifndef CLATTN_SRC_SHIPPED_H
#define CLATTN_SRC_SHIPPED_H

#include <stddef.h>
#include <stdint.h>

struct shipped_device {
    const char *device, *vendor, *driver;
};

/* A row of the table of tuning_table.h, its texts no longer than they are. */
struct shipped_entry {
    uint8_t device; /* of shipped_devices */
    char group[20], dtype[5], solver[12], kernel[33], tuner[8], date[11];
    int32_t key_dim, value_dim, heads, from_rows, seq_len;
    float time_ms, default_ms, error;
    struct {
        uint8_t name; /* of shipped_names, plus 1; 0 closes the list */
        int16_t value;
    } parameters[12];
};

extern const struct shipped_device shipped_devices[];
extern const char *const shipped_names[];
extern const struct shipped_entry shipped_entries[];
extern const size_t shipped_entry_count;

#endif
