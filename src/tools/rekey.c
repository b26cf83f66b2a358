/* clattn_rekey [--check] FILE [ENGINE]: an entry of measured parameters has a hash of the words of the kernels that it
 * was measured with, and is not used when they have others. This gives every entry of a tuning file the hash that its
 * kernels have now, and changes nothing else: nothing is measured again. A solver on matrix engines gets the words of
 * ENGINE (nvidia), unless those of another engine are the entry's already. With --check nothing is written, and the
 * exit status is 1 when an entry is stale; 2 when the file cannot be read or written. No OpenCL is needed. */
#include "base/file.h"
#include "device/engine.h"
#include "tune/tuning_layers.h"
#include "device/context.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_STALE = 1, EXIT_BAD = 2 };

static int bad(const char *path, const char *why)
{
    fprintf(stderr, "clattn_rekey: %s: %s\n", path, why);
    return EXIT_BAD;
}

/* Whether the entry has the hash of its kernels on an engine; or on none, where it is NULL. */
static int is_current(const struct tuning_entry *entry, const struct engine *engine)
{
    const struct clattn_context context = {.engine = engine};
    char kernel[HASH_DIGITS];

    return tuning_kernel(entry, &context, kernel) && strcmp(kernel, entry->kernel) == 0;
}

/* The same of any engine that there is. */
static int is_current_somewhere(const struct tuning_entry *entry)
{
    char name[32];

    for (const char *names = engine_names(); *names != '\0'; names += strspn(names, ", ")) {
        size_t length = strcspn(names, ",");
        snprintf(name, sizeof name, "%.*s", (int)length, names);
        if (is_current(entry, engine_get(name)))
            return 1;
        names += length;
    }
    return 0;
}

/* Where the next entry's hash stands in the text; NULL where it is not the one expected. */
static char *find_hash(char *text, const struct tuning_entry *entry)
{
    static const char key[] = "\"kernel\":\"";
    char *at = text != NULL ? strstr(text, key) : NULL;

    if (at == NULL)
        return NULL;
    at += sizeof key - 1;
    return strlen(entry->kernel) == HASH_DIGITS - 1 && memcmp(at, entry->kernel, HASH_DIGITS - 1) == 0 ? at : NULL;
}

/* Writes the hashes into the text; returns how many were stale, or -1 where an entry has none that can be told. */
static int rekey(char *text, const struct tuning_table *table, const struct engine *engine)
{
    const struct clattn_context context = {.engine = engine};
    int stale = 0;

    for (size_t i = 0; i < table->count; i++) {
        const struct tuning_entry *entry = &table->entries[i];
        char kernel[HASH_DIGITS];
        text = find_hash(text, entry);
        if (text == NULL || !tuning_kernel(entry, &context, kernel)) {
            fprintf(stderr, "clattn_rekey: entry %zu, %s %s %s: %s\n", i + 1, entry->group, entry->dtype, entry->solver,
                    text == NULL ? "its hash is not where it is expected" : "no rule has this group");
            return -1;
        }
        if (is_current_somewhere(entry))
            continue;
        printf("stale: %s, %s %s %s\n", entry->device, entry->group, entry->dtype, entry->solver);
        memcpy(text, kernel, HASH_DIGITS - 1);
        stale++;
    }
    return stale;
}

/* The text of a file, and its entries. */
static int run(const char *path, char *text, struct tuning_table *table, const struct engine *engine, int check)
{
    char why[96];
    int left_out = tuning_table_parse(table, text, NULL, why, sizeof why), stale;

    if (left_out != 0)
        return bad(path, left_out < 0 ? why : "has entries that are not understood");
    stale = rekey(text, table, engine);
    if (stale < 0)
        return EXIT_BAD;
    printf("%s: %zu entries, %d stale%s\n", path, table->count, stale,
           stale == 0 ? ""
           : check    ? "; clattn_rekey gives them the hashes of today's kernels"
                      : ", which have the hashes of today's kernels now");
    if (check)
        return stale > 0 ? EXIT_STALE : 0;
    return stale > 0 && file_write(path, text, strlen(text), NULL, 0) != 0 ? bad(path, strerror(errno)) : 0;
}

int main(int argc, char **argv)
{
    int check = argc > 1 && strcmp(argv[1], "--check") == 0, status;
    const char *path = argc > 1 + check ? argv[1 + check] : NULL;
    const struct engine *engine = engine_get(argc > 2 + check ? argv[2 + check] : "nvidia");
    struct tuning_table table = {NULL, 0};
    size_t size;
    char *text;

    if (path == NULL || argc > 3 + check || engine == NULL) {
        fprintf(stderr, "usage: clattn_rekey [--check] FILE [ENGINE]; engines are %s\n", engine_names());
        return EXIT_BAD;
    }
    text = file_read(path, TUNING_FILE_LIMIT, &size);
    if (text == NULL)
        return bad(path, "cannot be read");
    status = run(path, text, &table, engine, check);
    tuning_table_free(&table);
    free(text);
    return status;
}
