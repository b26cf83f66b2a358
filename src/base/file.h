/* Reading and writing whole files, and the folders for a user's own files. Writes are atomic: all or nothing. */
#ifndef CLATTN_SRC_FILE_H
#define CLATTN_SRC_FILE_H

#include <stddef.h>
#include <stdio.h>

/* The contents of a regular file and a NUL, to be freed. NULL: it cannot be read or is larger than limit. */
char *file_read(const char *path, size_t limit, size_t *size);

/* An output file in progress. It is written without a name, or under a temporary name if the file system has no unnamed
 * files. Then it replaces the file at the end of path's links and takes over its mode. A process that is killed leaves
 * no unnamed file behind. If path is something other than a regular file (a device, a pipe, the descriptor of
 * /dev/stdout), it is written to, never replaced. Failures set errno. */
struct file_output {
    char *path;      /* at the end of the links */
    char *temporary; /* NULL: the output goes directly to path */
    FILE *file;
    int unnamed; /* it has no temporary name yet */
};

/* Determines where the output goes, without creating a file. 0, or -1 if path is a folder or may not be written. */
int file_output_plan(struct file_output *output, const char *path);
/* Opens output->file. Returns 0 or -1. */
int file_output_open(struct file_output *output);
/* Must be called in all cases. error: errno of an earlier failure, or 0. Returns 0 if the output is complete; else -1
 * with errno, and the file at path is unchanged. */
int file_output_close(struct file_output *output, int error);

/* Writes a file of two parts, the second of which may be empty, with the functions above. Returns 0, or -1 with
 * errno. */
int file_write(const char *path, const void *first, size_t first_size, const void *second, size_t second_size);
/* The same, but replaces whatever has exactly this name, even a link. */
int file_put(const char *path, const void *first, size_t first_size, const void *second, size_t second_size);

/* Creates those folders above path's last name that do not exist. */
int file_make_folders(const char *path);

/* "folder/name", to be freed. NULL: folder is NULL, or memory ran out. */
char *file_join(const char *folder, const char *name);

/* clattn's folder in the user's cache or configuration ($XDG_CACHE_HOME, $XDG_CONFIG_HOME or the platform's
 * equivalent), to be freed. NULL: the user has none. It does not create the folder. */
enum user_folder { USER_CACHE, USER_CONFIG };
char *file_user_folder(enum user_folder kind);

#endif
