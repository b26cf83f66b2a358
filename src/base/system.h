/* System functions that C11 does not have: terminals, kinds of files, folders, locks, clocks. Paths and environment
 * variables are UTF-8 on Windows, and bytes as the system has them elsewhere. */
#ifndef CLATTN_SRC_SYSTEM_H
#define CLATTN_SRC_SYSTEM_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum file_kind { FILE_MISSING, FILE_REGULAR, FILE_FOLDER, FILE_OTHER };

/* The kind of file at path, after following links. *bytes is the size of a regular file. */
enum file_kind file_kind(const char *path, uint64_t *bytes);
/* The path at the end of path's links, to be freed. The file need not exist. NULL with errno: the links lead
 * nowhere. */
char *file_resolve(const char *path);
/* Whether this process may write the file. If not, errno says why. */
int file_writable(const char *path);
/* fopen. */
FILE *file_open(const char *path, const char *mode);
/* Creates a file, with the mode of the file `like` if that is not NULL and exists. NULL with errno; EEXIST if the file
 * exists. */
FILE *file_create(const char *path, const char *like);
/* The same without a name: the system removes the file if the process ends before file_give_name, in whatever way. NULL
 * if the system or the file system has no unnamed files, and where file_create fails. */
FILE *file_create_unnamed(const char *path, const char *like);
/* Gives a flushed unnamed file a name that no other file has. Returns 0, or -1 with errno. */
int file_give_name(FILE *file, const char *path);
/* The descriptor that a path such as /dev/stdout refers to, or -1. */
int file_descriptor(const char *path);
/* Opens an existing file for writing, without creating or truncating it. If path refers to a descriptor, duplicates
 * that. */
FILE *file_open_stream(const char *path);
/* The time at which a regular file was last written or touched, in seconds since a fixed time. 0: it does not exist. */
double file_time(const char *path);
/* Sets that time to now. */
void file_touch(const char *path);
/* Renames `from` to `to` atomically, replacing it. Returns 0, or -1 with errno. */
int file_replace(const char *from, const char *to);
/* Makes what was written so far survive a crash of the machine. */
void file_sync(FILE *file);
/* Callable from a signal handler. */
void file_remove(const char *path);

/* Locks the file `path`, which is created and stays. With wait, waits until no other process has the lock. -1 with
 * errno: it cannot be locked; EWOULDBLOCK if another process has the lock. */
int file_lock(const char *path, int wait);
void file_unlock(int lock);

/* Creates one folder for its owner only. Returns 0 also if it exists. */
int folder_make(const char *path);
/* Calls each(user, name) for every entry except . and ..; returns 0, or -1 if the folder cannot be read. */
int folder_list(const char *path, void (*each)(void *user, const char *name), void *user);

/* An environment variable, to be freed. NULL: it is not set, or memory ran out. */
char *environment_copy(const char *name);

int stdin_is_terminal(void);
int stderr_is_terminal(void);
int stdout_is_terminal(void);
/* Whether nobody will read from the pipe that stdout is; always 0 on Windows. */
int stdout_is_closed_pipe(void);
/* The width of the stream's terminal. 0: it is not a terminal, or has no width. */
int stream_columns(FILE *stream);
/* A whole file of that many bytes as memory to read, of which the system loads what is looked at. NULL: it cannot. */
void *file_map(FILE *file, size_t bytes);
void file_unmap(void *memory, size_t bytes);
/* Turns off the conversion of line ends. */
void stream_make_binary(FILE *file);
/* Opens a library by its soname; it is never closed. Finds one of its symbols. NULL on failure. */
void *library_open(const char *name);
void *library_symbol(void *library, const char *name);
unsigned long process_id(void);
double now_seconds(void);
void sleep_seconds(double seconds);

#endif
