/* Whole files, written at once or not at all, and where a user's own lie. */
#ifndef CLATTN_SRC_FILE_H
#define CLATTN_SRC_FILE_H

#include <stddef.h>

/* The bytes of a regular file and a NUL, to be freed; NULL when it cannot be read or has more than limit bytes. */
char *file_read(const char *path, size_t limit, size_t *size);

/* Two pieces, the second may be empty, under a temporary name that then takes path's place; 0 on success. */
int file_write(const char *path, const void *first, size_t first_size, const void *second, size_t second_size);

/* The folders above path's last name, as far as they are missing. */
int file_make_folders(const char *path);

/* "folder/name", to be freed; NULL without memory or folder. */
char *file_join(const char *folder, const char *name);

/* clattn's folder in the user's cache or configuration ($XDG_CACHE_HOME, $XDG_CONFIG_HOME or the platform's equivalent), to
 * be freed; NULL when the user has none. Nothing is created. */
enum user_folder { USER_CACHE, USER_CONFIG };
char *file_user_folder(enum user_folder kind);

#endif
