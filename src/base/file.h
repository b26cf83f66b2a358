/* Whole files, written at once or not at all, and where a user's own lie. */
#ifndef CLATTN_SRC_FILE_H
#define CLATTN_SRC_FILE_H

#include <stddef.h>
#include <stdio.h>

/* The bytes of a regular file and a NUL, to be freed; NULL when it cannot be read or has more than limit bytes. */
char *file_read(const char *path, size_t limit, size_t *size);

/* A file on its way. It is written without a name, or under a temporary one where the file system has no files
 * without, and then takes the place of what lies at the end of path's links, with its mode. A process that is killed
 * leaves no file without a name. What is there and no regular file (a device, a pipe, the descriptor of /dev/stdout)
 * is never replaced: it is written into. What fails sets errno. */
struct file_output {
    char *path;      /* at the end of the links */
    char *temporary; /* NULL: straight into path */
    FILE *file;
    int unnamed; /* the temporary name is still to be given */
};

/* What will be written where; nothing is created yet. 0, or -1 where path is a folder or may not be written. */
int file_output_plan(struct file_output *output, const char *path);
/* Opens output->file; 0 or -1. */
int file_output_open(struct file_output *output);
/* In all cases. error: errno of what failed before, or 0. 0 when everything has arrived, else -1 with errno, and
 * path's file is as it was. */
int file_output_close(struct file_output *output, int error);

/* All of the above: two pieces, the second may be empty. 0, or -1 with errno. */
int file_write(const char *path, const void *first, size_t first_size, const void *second, size_t second_size);
/* The same at the very name: whatever has it, a link too, is replaced. */
int file_put(const char *path, const void *first, size_t first_size, const void *second, size_t second_size);

/* The folders above path's last name, as far as they are missing. */
int file_make_folders(const char *path);

/* "folder/name", to be freed; NULL without memory or folder. */
char *file_join(const char *folder, const char *name);

/* clattn's folder in the user's cache or configuration ($XDG_CACHE_HOME, $XDG_CONFIG_HOME or the platform's
 * equivalent), to be freed; NULL when the user has none. Nothing is created. */
enum user_folder { USER_CACHE, USER_CONFIG };
char *file_user_folder(enum user_folder kind);

#endif
