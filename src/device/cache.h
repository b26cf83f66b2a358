/* Blobs that outlive the process: compiled programs, and which of them passed the self-test. They are files of a
 * folder,
 *
 * | magic | key | checksum of all that follows | label | size | bytes |
 *
 * or lie in the application's own store. What is damaged, of another version or unreadable counts as missing. */
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

/* Opens the folder that the desc names, else $CLATTN_CACHE_DIR, else the user's cache. "" in the first of these that is
 * set means no folder. */
clattn_status cache_init(struct cache *cache, const clattn_context_desc *desc);
void cache_free(struct cache *cache);
int cache_enabled(const struct cache *cache);

/* The bytes stored under the key, to be freed. NULL: there are none. */
void *cache_load(const struct cache *cache, struct hash key, size_t *size);
/* Stores bytes under the key. If the cache is then above its limit, removes the least recently used entries. Failures
 * leave nothing behind. */
void cache_store(const struct cache *cache, struct hash key, const char *label, const void *bytes, size_t size);

/* Removes the entry from the folder. An application's own store keeps it until it is stored again. */
void cache_remove(const struct cache *cache, struct hash key);

/* An entry of the folder, for `clattn cache --list`. */
struct cache_entry {
    char key[HASH_DIGITS], label[CACHE_LABEL];
    uint64_t bytes;
    double used; /* seconds since its last use */
    int intact;
};
/* The folder of a context without a desc, to be freed. NULL: it has none. */
char *cache_folder(void);
/* Calls `each` for every entry. 0, or -1 if there is no such folder. */
int cache_list(const char *folder, void (*each)(void *user, const struct cache_entry *entry), void *user);
/* Removes every entry. Returns their number, or -1 if there is no such folder. */
int cache_clear(const char *folder);
/* In the folder of a context without a desc, removes files that a process began to write and will not finish. */
void cache_drop_unfinished(unsigned long process);

#endif
