#include "base/file.h"

#include "base/system.h"
#include "base/text.h"

#include <errno.h>
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
    file = file_open(path, "rb");
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

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

/* A temporary name in the folder of path. */
static char *name_temporary(const char *path)
{
    static atomic_uint count; /* gives the threads of a process different names */
    struct text text = {0};

    text_add(&text, path, strlen(path));
    text_format(&text, ".%lu.%u.tmp", process_id(), atomic_fetch_add(&count, 1));
    return text_take(&text);
}

static int refuse(int reason)
{
    errno = reason;
    return -1;
}

int file_output_plan(struct file_output *output, const char *path)
{
    uint64_t bytes;
    enum file_kind kind = file_kind(path, &bytes);

    *output = (struct file_output){.path = file_resolve(path)};
    if (output->path == NULL)
        return -1;
    if (file_descriptor(output->path) >= 0)
        return 0;
    if (kind == FILE_FOLDER)
        return refuse(EISDIR);
    if (kind != FILE_MISSING && !file_writable(path))
        return -1;
    if (kind == FILE_OTHER) {
        free(output->path); /* a link of /proc leads to an object that has no other name */
        output->path = text_copy(path);
        return output->path != NULL ? 0 : -1;
    }
    output->temporary = name_temporary(output->path);
    return output->temporary != NULL ? 0 : refuse(ENOMEM);
}

int file_output_open(struct file_output *output)
{
    if (output->temporary != NULL)
        output->file = file_create_unnamed(output->temporary, output->path);
    output->unnamed = output->file != NULL;
    if (!output->unnamed)
        output->file =
            output->temporary != NULL ? file_create(output->temporary, output->path) : file_open_stream(output->path);
    return output->file != NULL ? 0 : -1;
}

/* Returns errno, or 0. */
static int copy_to_end(FILE *from, FILE *to)
{
    char bytes[4096];
    size_t count;

    rewind(from);
    while ((count = fread(bytes, 1, sizeof bytes, from)) > 0)
        if (fwrite(bytes, 1, count, to) != count)
            return errno;
    return ferror(from) ? errno : 0;
}

/* Writes to a file with a temporary name, for a system that refuses to give a name to an unnamed file, as a sandbox
 * may. Returns errno, or 0. */
static int copy_named(struct file_output *output)
{
    FILE *unnamed = output->file, *named = file_create(output->temporary, output->path);
    int error;

    if (named == NULL)
        return errno;
    error = copy_to_end(unnamed, named);
    fclose(unnamed);
    output->file = named;
    output->unnamed = 0;
    return error;
}

/* Returns errno, or 0. */
static int give_name(struct file_output *output)
{
    if (fflush(output->file) != 0)
        return errno;
    if (file_give_name(output->file, output->temporary) != 0)
        return copy_named(output);
    output->unnamed = 0;
    return 0;
}

int file_output_close(struct file_output *output, int error)
{
    int has_temporary;

    if (output->unnamed && error == 0)
        error = give_name(output);
    has_temporary = output->file != NULL && output->temporary != NULL && !output->unnamed;
    if (output->file != NULL && fclose(output->file) != 0 && error == 0)
        error = errno;
    if (has_temporary && error == 0 && file_replace(output->temporary, output->path) != 0)
        error = errno;
    if (has_temporary && error != 0)
        file_remove(output->temporary);
    free(output->path);
    free(output->temporary);
    *output = (struct file_output){.path = NULL};
    return error != 0 ? refuse(error) : 0;
}

struct pieces {
    const void *at[2];
    size_t size[2];
};

static int write_pieces(struct file_output *output, const struct pieces *pieces)
{
    int error = file_output_open(output) != 0 ? errno : 0;

    for (int i = 0; i < 2 && error == 0; i++)
        if (pieces->size[i] > 0 && fwrite(pieces->at[i], 1, pieces->size[i], output->file) != pieces->size[i])
            error = errno;
    return file_output_close(output, error);
}

int file_write(const char *path, const void *first, size_t first_size, const void *second, size_t second_size)
{
    struct file_output output;

    if (file_output_plan(&output, path) != 0)
        return file_output_close(&output, errno);
    return write_pieces(&output, &(struct pieces){{first, second}, {first_size, second_size}});
}

int file_put(const char *path, const void *first, size_t first_size, const void *second, size_t second_size)
{
    struct file_output output = {.path = text_copy(path), .temporary = name_temporary(path)};

    if (output.path == NULL || output.temporary == NULL)
        return file_output_close(&output, ENOMEM);
    return write_pieces(&output, &(struct pieces){{first, second}, {first_size, second_size}});
}

/* ---- Paths ------------------------------------------------------------------------------------------------------- */

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

/* Environment variables that name a folder, in order, and the path to append. */
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

/* Relative paths are not used: they would depend on the working directory. */
static int is_absolute(const char *path)
{
    return path[0] == '/' || path[0] == '\\' || (path[0] != '\0' && path[1] == ':');
}

char *file_user_folder(enum user_folder kind)
{
    for (size_t i = 0; i < sizeof user_folders / sizeof *user_folders; i++) {
        char *base = user_folders[i].kind == kind ? environment_copy(user_folders[i].variable) : NULL;
        char *folder = base != NULL && is_absolute(base) ? file_join(base, user_folders[i].below) : NULL;
        free(base);
        if (folder != NULL)
            return folder;
    }
    return NULL;
}
