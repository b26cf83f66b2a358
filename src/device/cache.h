/* Blobs that outlive the process: compiled programs, and which of them passed the self-test. Files of a folder
 *
 *     | magic | key | checksum of all that follows | label | size | bytes |
 *
 * or the application's own store. Whatever is damaged, foreign or unreadable counts as missing. */
#ifndef CLATTN_SRC_CACHE_H
#define CLATTN_SRC_CACHE_H

#include "clattn.h"
#include "base/hash.h"

enum { CACHE_LABEL = 192 };
#define CACHE_SUFFIX ".clattn"

struct cache {
    char *folder; /* NULL: no files */
    uint64_t limit;
    void (*remove)(const char *path); /* file_remove */
    clattn_blob_load_fn load;
    clattn_blob_store_fn store;
    void *user;
};

/* The folder: the desc's, else $CLATTN_CACHE_DIR, else the user's; none where one of these is "". */
clattn_status cache_init(struct cache *cache, const clattn_context_desc *desc);
void cache_free(struct cache *cache);
int cache_enabled(const struct cache *cache);

/* The bytes kept under key, to be freed; NULL when there are none. */
void *cache_load(const struct cache *cache, struct hash key, size_t *size);
/* Keeps bytes under key, and drops what was not used for longest where the limit is passed. Failures leave no trace. */
void cache_store(const struct cache *cache, struct hash key, const char *label, const void *bytes, size_t size);

/* Forgets what is kept under key; an application's own store has it until it is stored anew. */
void cache_remove(const struct cache *cache, struct hash key);

/* What a file of the folder holds: for `clattn cache --list`. */
struct cache_entry {
    char key[HASH_DIGITS], label[CACHE_LABEL];
    uint64_t bytes;
    double used; /* seconds since it was last used */
    int intact;
};
/* The folder that a context without desc uses, to be freed; NULL: none. */
char *cache_folder(void);
/* Calls each for every entry; 0, or -1 when there is no such folder. */
int cache_list(const char *folder, void (*each)(void *user, const struct cache_entry *entry), void *user);
/* Removes every entry; returns their number, or -1 when there is no such folder. */
int cache_clear(const char *folder);
/* Removes from the folder of a context without desc what a process has begun to write and will not finish. */
void cache_drop_unfinished(unsigned long process);

#endif
