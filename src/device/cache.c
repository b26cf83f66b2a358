#include "device/cache.h"

#include "base/file.h"
#include "base/system.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char magic[8] = {'c', 'l', 'a', 't', 't', 'n', '0', '1'};
static const uint64_t default_limit = UINT64_C(256) << 20;
static const size_t most_bytes = (size_t)64 << 20; /* of one entry */
static const double stale = 600;                   /* age in seconds at which a temporary file counts as abandoned */

struct header {
    char magic[8];
    struct hash key, checksum; /* checksum: of the label, the size and the bytes that follow */
    char label[CACHE_LABEL];
    uint64_t size;
};

static struct hash checksum(const struct header *header, const void *bytes)
{
    struct hash hash = hash_add((struct hash){0, 0}, header->label, sizeof header->label);

    hash = hash_add(hash, &header->size, sizeof header->size);
    return hash_add(hash, bytes, (size_t)header->size);
}

static int same_hash(struct hash a, struct hash b)
{
    return a.high == b.high && a.low == b.low;
}

/* Whether data is a complete, undamaged entry. */
static int is_intact(const char *data, size_t size, struct header *header)
{
    if (size < sizeof *header)
        return 0;
    memcpy(header, data, sizeof *header);
    return memcmp(header->magic, magic, sizeof magic) == 0 && header->size == size - sizeof *header &&
           same_hash(header->checksum, checksum(header, data + sizeof *header));
}

/* ---- Where --------------------------------------------------------------------------------------------------------
 */

char *cache_folder(void)
{
    char *folder_variable = environment_copy("CLATTN_CACHE_DIR");

    if (folder_variable == NULL)
        return file_user_folder(USER_CACHE);
    if (*folder_variable != '\0')
        return folder_variable;
    free(folder_variable);
    return NULL;
}

clattn_status cache_init(struct cache *cache, const clattn_context_desc *desc)
{
    *cache = (struct cache){.limit = desc->cache_limit != 0 ? desc->cache_limit : default_limit,
                            .remove = file_remove,
                            .load = desc->blob_load,
                            .store = desc->blob_store,
                            .user = desc->blob_user};
    if (cache->load != NULL || cache->store != NULL)
        return CLATTN_SUCCESS;
    if (desc->cache_dir == NULL)
        cache->folder = desc->flags & CLATTN_ISOLATED ? NULL : cache_folder();
    else if (*desc->cache_dir != '\0') {
        cache->folder = text_copy(desc->cache_dir);
        return cache->folder != NULL ? CLATTN_SUCCESS : CLATTN_OUT_OF_MEMORY;
    }
    return CLATTN_SUCCESS;
}

void cache_free(struct cache *cache)
{
    free(cache->folder);
    cache->folder = NULL;
}

int cache_enabled(const struct cache *cache)
{
    return cache->folder != NULL || cache->load != NULL || cache->store != NULL;
}

static char *entry_path(const struct cache *cache, struct hash key)
{
    char name[HASH_DIGITS + sizeof CACHE_SUFFIX];

    hash_name(key, name);
    strcat(name, CACHE_SUFFIX);
    return file_join(cache->folder, name);
}

/* ---- Load ---------------------------------------------------------------------------------------------------------
 */

static char *load_blob(const struct cache *cache, struct hash key, size_t *size)
{
    char name[HASH_DIGITS], *data;

    if (cache->load == NULL)
        return NULL;
    hash_name(key, name);
    *size = cache->load(cache->user, name, NULL, 0);
    if (*size == 0 || *size > most_bytes)
        return NULL;
    data = malloc(*size);
    if (data != NULL && cache->load(cache->user, name, data, *size) != *size) {
        free(data);
        data = NULL;
    }
    return data;
}

static char *load_file(const struct cache *cache, struct hash key, size_t *size)
{
    char *path = entry_path(cache, key), *data = NULL;

    if (path != NULL)
        data = file_read(path, most_bytes, size);
    if (data != NULL)
        file_touch(path);
    free(path);
    return data;
}

void *cache_load(const struct cache *cache, struct hash key, size_t *size)
{
    size_t whole = 0;
    char *data = cache->folder != NULL ? load_file(cache, key, &whole) : load_blob(cache, key, &whole);
    struct header header;

    if (data == NULL)
        return NULL;
    if (!is_intact(data, whole, &header) || !same_hash(header.key, key)) {
        free(data);
        return NULL;
    }
    *size = (size_t)header.size;
    memmove(data, data + sizeof header, *size);
    return data;
}

/* ---- Store --------------------------------------------------------------------------------------------------------
 */

struct entry {
    char *path;
    uint64_t bytes;
    double used;
};

/* The entries of the folder; only some of them if memory runs out. */
struct survey {
    const char *folder;
    struct entry *entries;
    size_t count, room;
    uint64_t bytes; /* of all entries together */
    double now;
};

static int has_suffix(const char *name, const char *suffix)
{
    size_t length = strlen(name), end = strlen(suffix);

    return length > end && strcmp(name + length - end, suffix) == 0;
}

/* Whether it is a file that file_put left behind because its process died. */
static int is_temporary(const char *name)
{
    return has_suffix(name, ".tmp") && strstr(name, CACHE_SUFFIX ".") != NULL;
}

/* Takes ownership of path. */
static void add_entry(struct survey *survey, char *path, uint64_t bytes, double used)
{
    if (survey->count == survey->room) {
        size_t room = survey->room != 0 ? 2 * survey->room : 64;
        struct entry *entries = realloc(survey->entries, room * sizeof *entries);
        if (entries == NULL) {
            free(path);
            return;
        }
        survey->entries = entries;
        survey->room = room;
    }
    survey->entries[survey->count++] = (struct entry){path, bytes, used};
    survey->bytes += bytes;
}

static void survey_file(void *user, const char *name)
{
    struct survey *survey = user;
    char *path = file_join(survey->folder, name);
    uint64_t bytes;
    double used;

    if (path == NULL || file_kind(path, &bytes) != FILE_REGULAR) {
        free(path);
        return;
    }
    used = file_time(path);
    if (has_suffix(name, CACHE_SUFFIX)) {
        add_entry(survey, path, bytes, used);
        return;
    }
    if (is_temporary(name) && survey->now - used > stale)
        file_remove(path);
    free(path);
}

static int compare_use(const void *left, const void *right)
{
    double a = ((const struct entry *)left)->used, b = ((const struct entry *)right)->used;

    return (a > b) - (a < b);
}

/* Removes the least recently used entries until the rest is within the limit. Each removal is tried once. A file that
 * cannot be removed (it belongs to another user, or is in use on Windows) is not counted: otherwise it would push out
 * entries that could stay. */
static void evict(const struct cache *cache)
{
    struct survey survey = {.folder = cache->folder, .now = (double)time(NULL)};

    folder_list(cache->folder, survey_file, &survey);
    if (survey.count > 1)
        qsort(survey.entries, survey.count, sizeof *survey.entries, compare_use);
    for (size_t i = 0; i < survey.count && survey.bytes > cache->limit; i++) {
        cache->remove(survey.entries[i].path);
        survey.bytes -= survey.entries[i].bytes;
    }
    for (size_t i = 0; i < survey.count; i++)
        free(survey.entries[i].path);
    free(survey.entries);
}

static void store_file(const struct cache *cache, const struct header *header, const void *bytes)
{
    char *path = entry_path(cache, header->key);

    if (path != NULL && file_make_folders(path) == 0 &&
        file_put(path, header, sizeof *header, bytes, (size_t)header->size) == 0)
        evict(cache);
    free(path);
}

static void store_blob(const struct cache *cache, const struct header *header, const void *bytes)
{
    char name[HASH_DIGITS], *whole = malloc(sizeof *header + (size_t)header->size);

    if (whole == NULL)
        return;
    memcpy(whole, header, sizeof *header);
    memcpy(whole + sizeof *header, bytes, (size_t)header->size);
    cache->store(cache->user, hash_name(header->key, name), whole, sizeof *header + (size_t)header->size);
    free(whole);
}

void cache_store(const struct cache *cache, struct hash key, const char *label, const void *bytes, size_t size)
{
    struct header header = {.key = key, .size = size};

    if (size > most_bytes - sizeof header)
        return;
    memcpy(header.magic, magic, sizeof magic);
    snprintf(header.label, sizeof header.label, "%s", label);
    header.checksum = checksum(&header, bytes);
    if (cache->folder != NULL)
        store_file(cache, &header, bytes);
    else if (cache->store != NULL)
        store_blob(cache, &header, bytes);
}

void cache_remove(const struct cache *cache, struct hash key)
{
    char *path = cache->folder != NULL ? entry_path(cache, key) : NULL;

    if (path != NULL)
        cache->remove(path);
    free(path);
}

/* ---- List and clear -----------------------------------------------------------------------------------------------
 */

struct listing {
    const char *folder;
    void (*each)(void *user, const struct cache_entry *entry);
    void *user;
    int removed;
};

static void list_entry(void *user, const char *name)
{
    struct listing *listing = user;
    struct cache_entry entry = {.label = ""};
    char *path = file_join(listing->folder, name), *data = NULL;
    struct header header = {.size = 0};
    size_t size = 0;

    if (path != NULL && has_suffix(name, CACHE_SUFFIX))
        data = file_read(path, most_bytes, &size);
    if (data != NULL) {
        entry.intact = is_intact(data, size, &header);
        entry.bytes = size;
        entry.used = (double)time(NULL) - file_time(path);
        snprintf(entry.key, sizeof entry.key, "%.32s", name);
        if (entry.intact)
            snprintf(entry.label, sizeof entry.label, "%.*s", CACHE_LABEL - 1, header.label);
        listing->each(listing->user, &entry);
    }
    free(data);
    free(path);
}

int cache_list(const char *folder, void (*each)(void *user, const struct cache_entry *entry), void *user)
{
    struct listing listing = {.folder = folder, .each = each, .user = user};

    return folder_list(folder, list_entry, &listing);
}

static void clear_entry(void *user, const char *name)
{
    struct listing *listing = user;
    char *path;

    if (!has_suffix(name, CACHE_SUFFIX) && !is_temporary(name))
        return;
    path = file_join(listing->folder, name);
    if (path != NULL)
        file_remove(path);
    free(path);
    listing->removed += has_suffix(name, CACHE_SUFFIX);
}

struct unfinished {
    char *folder, mark[32];
};

static void drop_entry(void *user, const char *name)
{
    const struct unfinished *unfinished = user;
    char *path = file_join(unfinished->folder, name);

    if (path != NULL && is_temporary(name) && strstr(name, unfinished->mark) != NULL)
        file_remove(path);
    free(path);
}

void cache_drop_unfinished(unsigned long process)
{
    struct unfinished unfinished = {.folder = cache_folder()};

    snprintf(unfinished.mark, sizeof unfinished.mark, CACHE_SUFFIX ".%lu.", process);
    if (unfinished.folder != NULL)
        folder_list(unfinished.folder, drop_entry, &unfinished);
    free(unfinished.folder);
}

int cache_clear(const char *folder)
{
    struct listing listing = {.folder = folder};

    return folder_list(folder, clear_entry, &listing) == 0 ? listing.removed : -1;
}
