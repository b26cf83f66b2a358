#include "base/file.h"

#include "base/system.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *file_read(const char *path, size_t limit, size_t *size)
{
    uint64_t bytes;
    FILE *file;
    char *data;

    if (file_kind(path, &bytes) != FILE_REGULAR || bytes > limit)
        return NULL;
    file = fopen(path, "rb");
    if (file == NULL)
        return NULL;
    data = malloc((size_t)bytes + 1);
    if (data != NULL) {
        *size = fread(data, 1, (size_t)bytes, file);
        data[*size] = '\0';
    }
    fclose(file);
    return data;
}

static int write_pieces(const char *path, const void *first, size_t first_size, const void *second, size_t second_size)
{
    FILE *file = fopen(path, "wbx");
    int broken;

    if (file == NULL)
        return -1;
    broken = fwrite(first, 1, first_size, file) != first_size;
    broken |= second_size > 0 && fwrite(second, 1, second_size, file) != second_size;
    broken |= fclose(file) != 0;
    return broken ? -1 : 0;
}

int file_write(const char *path, const void *first, size_t first_size, const void *second, size_t second_size)
{
    static atomic_uint count; /* threads of a process write under different names */
    size_t size = strlen(path) + 48;
    char *temporary = malloc(size);
    int status = -1;

    if (temporary == NULL)
        return -1;
    snprintf(temporary, size, "%s.%lu.%u.tmp", path, process_id(), atomic_fetch_add(&count, 1));
    if (write_pieces(temporary, first, first_size, second, second_size) == 0)
        status = file_replace(temporary, path);
    if (status != 0)
        file_remove(temporary);
    free(temporary);
    return status;
}

int file_make_folders(const char *path)
{
    char *part = file_join(path, "");
    int status = 0;

    if (part == NULL)
        return -1;
    for (size_t i = 1; path[i] != '\0' && status == 0; i++) {
        if (path[i] != '/' && path[i] != '\\')
            continue;
        part[i] = '\0';
        if (part[i - 1] != ':')
            status = folder_make(part);
        part[i] = path[i];
    }
    free(part);
    return status;
}

char *file_join(const char *folder, const char *name)
{
    char *path;

    if (folder == NULL)
        return NULL;
    path = malloc(strlen(folder) + strlen(name) + 2);
    if (path != NULL)
        sprintf(path, "%s/%s", folder, name);
    return path;
}

/* Variables that name a folder, in order, and what is added to it. */
static const struct {
    enum user_folder kind;
    const char *variable, *below;
} user_folders[] = {
#if defined(_WIN32)
    {USER_CACHE, "LOCALAPPDATA", "clattn/cache"},
    {USER_CONFIG, "APPDATA", "clattn"},
#else
    {USER_CACHE, "XDG_CACHE_HOME", "clattn"},
    {USER_CONFIG, "XDG_CONFIG_HOME", "clattn"},
#if defined(__APPLE__)
    {USER_CACHE, "HOME", "Library/Caches/clattn"},
    {USER_CONFIG, "HOME", "Library/Application Support/clattn"},
#else
    {USER_CACHE, "HOME", ".cache/clattn"},
    {USER_CONFIG, "HOME", ".config/clattn"},
#endif
#endif
};

/* A relative path would mean another folder in every working directory. */
static int is_absolute(const char *path)
{
    return path[0] == '/' || path[0] == '\\' || (path[0] != '\0' && path[1] == ':');
}

char *file_user_folder(enum user_folder kind)
{
    for (size_t i = 0; i < sizeof user_folders / sizeof *user_folders; i++) {
        const char *base = getenv(user_folders[i].variable);
        if (user_folders[i].kind == kind && base != NULL && is_absolute(base))
            return file_join(base, user_folders[i].below);
    }
    return NULL;
}
