/* The few things that C11 does not say: terminals, kinds of files, folders, locks, clocks. Paths and the
 * environment are UTF-8 on Windows, the system's bytes elsewhere. */
#ifndef CLATTN_SRC_SYSTEM_H
#define CLATTN_SRC_SYSTEM_H

#include <stdint.h>
#include <stdio.h>

enum file_kind { FILE_MISSING, FILE_REGULAR, FILE_FOLDER, FILE_OTHER };

/* What path is, or what its links lead to; *bytes is its size when it is regular. */
enum file_kind file_kind(const char *path, uint64_t *bytes);
/* The path at the end of path's links, which need not exist, to be freed; NULL with errno where they lead nowhere. */
char *file_resolve(const char *path);
/* Whether this process may write what is there; else errno says why. */
int file_writable(const char *path);
/* fopen. */
FILE *file_open(const char *path, const char *mode);
/* A new file, with the mode of the file `like` where that is not NULL and exists; NULL with errno, EEXIST where one
 * is. */
FILE *file_create(const char *path, const char *like);
/* The same without its name as yet: the system takes it back from a process that ends, however it ends, before
 * file_give_name. NULL where the system or the folder's file system has no such files, and where file_create fails. */
FILE *file_create_unnamed(const char *path, const char *like);
/* Of what is written out (fflush), while no other file has the name: 0, or -1 with errno. */
int file_give_name(FILE *file, const char *path);
/* The number that a name of an open descriptor ends in (/dev/stdout leads to one), or -1. */
int file_descriptor(const char *path);
/* What is there, opened for writing and neither created nor cut: the descriptor itself where path names one. */
FILE *file_open_stream(const char *path);
/* When a regular file was last written or touched, in seconds since some fixed time; 0 when it is missing. */
double file_time(const char *path);
/* Writes that time anew. */
void file_touch(const char *path);
/* Puts from in the place of to, at once; 0, or -1 with errno. */
int file_replace(const char *from, const char *to);
/* Nothing written so far is lost when the machine stops. */
void file_sync(FILE *file);
/* Callable from a signal handler. */
void file_remove(const char *path);

/* Takes the lock of that name, a file, which stays; with wait, as soon as no other process has it. -1 with errno
 * when it cannot be had, EWOULDBLOCK where another process has it. */
int file_lock(const char *path, int wait);
void file_unlock(int lock);

/* One folder, for its owner alone; 0 also when it is there already. */
int folder_make(const char *path);
/* Calls each(user, name) for every entry but . and ..; 0, or -1 when the folder cannot be read. */
int folder_list(const char *path, void (*each)(void *user, const char *name), void *user);

/* A variable of the environment, to be freed; NULL where it is not set, or without memory. */
char *environment_copy(const char *name);

int stdin_is_terminal(void);
int stderr_is_terminal(void);
int stdout_is_terminal(void);
/* The width of the terminal that the stream goes to; 0: it goes to none, or has no width. */
int stream_columns(FILE *stream);
/* No line ends are changed. */
void stream_make_binary(FILE *file);
/* A library by its soname, never closed; NULL. A name of one of its functions; NULL. */
void *library_open(const char *name);
void *library_symbol(void *library, const char *name);
unsigned long process_id(void);
double now_seconds(void);

#endif
