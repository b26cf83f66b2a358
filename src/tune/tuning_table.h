/* Measured parameters in a JSON file that people can read. There is one entry for each solver, rule group, type, sizes
 * and device. */
#ifndef CLATTN_SRC_TUNING_TABLE_H
#define CLATTN_SRC_TUNING_TABLE_H

#include "op/problem.h"
#include "tune/space.h"

/* X(key, size): texts. X(key): integers and real numbers. This is the only list of what an entry has besides its
 * parameters. */
#define TUNING_TEXTS(X)                                                                                                \
    X(device, 128)                                                                                                     \
    X(vendor, 64)                                                                                                      \
    X(driver, 64)                                                                                                      \
    X(group, 32) /* of rules: "scalar+key" */                                                                          \
    X(dtype, 8)                                                                                                        \
    X(solver, 32)                                                                                                      \
    X(engine, 32) /* the one that the solver uses; "" without */                                                       \
    X(tuner, 16)  /* the version of clattn that measured */                                                            \
    X(date, 16)
#define TUNING_NUMBERS(X)                                                                                              \
    X(format) /* the format of the solver's parameters, as in struct space */                                          \
    X(key_dim)                                                                                                         \
    X(value_dim)                                                                                                       \
    X(heads)     /* batch times heads, rounded up to a power of two */                                                 \
    X(from_rows) /* rows (tokens times steps) from which on this solver is the fastest; negative: never */             \
    X(seq_len)   /* the length that the times are for */
#define TUNING_REALS(X)                                                                                                \
    X(time_ms)                                                                                                         \
    X(default_ms)                                                                                                      \
    X(error)

struct tuning_entry {
#define TUNING_TEXT(key, size) char key[size];
#define TUNING_NUMBER(key) int64_t key;
#define TUNING_REAL(key) double key;
    TUNING_TEXTS(TUNING_TEXT)
    TUNING_NUMBERS(TUNING_NUMBER)
    TUNING_REALS(TUNING_REAL)
#undef TUNING_TEXT
#undef TUNING_NUMBER
#undef TUNING_REAL
    struct tuned tuned;
};

struct tuning_table {
    struct tuning_entry *entries;
    size_t count;
};

/* Adds the entries of a text to the table. Returns how many were left out because they are invalid, or -1 if the whole
 * text is. `why` gives the reason, for the first entry that was left out. If `device` is given, entries of other
 * devices are skipped. */
int tuning_table_parse(struct tuning_table *table, const char *json, const char *device, char *why, size_t why_size);
void tuning_table_free(struct tuning_table *table);

/* Adds an entry, replacing one with the same key. OUT_OF_MEMORY. */
clattn_status tuning_table_put(struct tuning_table *table, const struct tuning_entry *entry);
/* Whether two entries have the same key: device, vendor, driver, group, type, sizes, solver and engine. */
int tuning_same_key(const struct tuning_entry *a, const struct tuning_entry *b);

/* The table as JSON text, to be freed. NULL: out of memory. */
char *tuning_table_print(const struct tuning_table *table);

/* Merges the entries into the file at path, under its lock, and replaces it atomically. */
clattn_status tuning_table_save(const struct tuning_table *table, const char *path, const struct log *log);

/* The user's file: $CLATTN_TUNING if it is set, else tuning.json in the user's configuration. To be freed. NULL: there
 * is none. */
char *tuning_user_path(void);

enum { TUNING_FILE_LIMIT = 16 << 20 };

#endif
