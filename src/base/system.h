/* The few things that C11 does not say: terminals, kinds of files, folders, locks, clocks. Paths are the platform's. */
#ifndef CLATTN_SRC_SYSTEM_H
#define CLATTN_SRC_SYSTEM_H

#include <stdint.h>
#include <stdio.h>

enum file_kind { FILE_MISSING, FILE_REGULAR, FILE_OTHER };

/* What path is; *bytes is its size when it is regular. */
enum file_kind file_kind(const char *path, uint64_t *bytes);
/* When a regular file was last written or touched, in seconds since some fixed time; 0 when it is missing. */
double file_time(const char *path);
/* Writes that time anew. */
void file_touch(const char *path);
/* Puts from in the place of to, at once; 0 on success. */
int file_replace(const char *from, const char *to);
/* Nothing written so far is lost when the machine stops. */
void file_sync(FILE *file);
/* Callable from a signal handler. */
void file_remove(const char *path);

/* Takes the lock of that name, a file, which stays; with wait, as soon as no other process has it. -1 when it cannot be had. */
int file_lock(const char *path, int wait);
void file_unlock(int lock);

/* One folder, for its owner alone; 0 also when it is there already. */
int folder_make(const char *path);
/* Calls each(user, name) for every entry but . and ..; 0, or -1 when the folder cannot be read. */
int folder_list(const char *path, void (*each)(void *user, const char *name), void *user);

int stderr_is_terminal(void);
unsigned long process_id(void);
double now_seconds(void);

#endif
