#ifndef _WIN32 /* elsewhere: system_windows.c */
#define _POSIX_C_SOURCE 200809L
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* O_TMPFILE */
#endif
#define _FILE_OFFSET_BITS 64
#define _DARWIN_C_SOURCE /* flock, st_mtimespec */
#include "base/system.h"

#include "base/text.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int is_entry(const char *name)
{
    return strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

enum file_kind file_kind(const char *path, uint64_t *bytes)
{
    struct stat info;

    if (stat(path, &info) != 0)
        return FILE_MISSING;
    *bytes = (uint64_t)info.st_size;
    if (S_ISDIR(info.st_mode))
        return FILE_FOLDER;
    return S_ISREG(info.st_mode) ? FILE_REGULAR : FILE_OTHER;
}

/* The target of the link, one step. A relative target is relative to the link's folder. */
static char *follow(const char *link)
{
    const char *slash = strrchr(link, '/');
    struct text text = {0};
    char target[4096];
    ssize_t size = readlink(link, target, sizeof target);

    if (size < 0)
        return NULL;
    if (slash != NULL && (size == 0 || target[0] != '/'))
        text_add(&text, link, (size_t)(slash - link) + 1);
    text_add(&text, target, (size_t)size);
    return text_take(&text);
}

/* realpath() is not enough, because the file may not exist yet. Links that the system refuses to follow (a loop,
 * another user's link in a shared folder) are not followed here either. */
char *file_resolve(const char *path)
{
    enum { MOST_LINKS = 64 };
    char *at = text_copy(path), *next;
    struct stat info;

    for (int links = 0; at != NULL && file_descriptor(at) < 0 && lstat(at, &info) == 0; links++) {
        if (!S_ISLNK(info.st_mode))
            break;
        next = links < MOST_LINKS && (stat(at, &info) == 0 || errno == ENOENT) ? follow(at) : NULL;
        free(at);
        at = next;
    }
    return at;
}

/* As in `cp`: root may write every file, others only what the mode permits. */
int file_writable(const char *path)
{
    return access(path, W_OK) == 0;
}

FILE *file_open(const char *path, const char *mode)
{
    return fopen(path, mode);
}

static FILE *create(const char *path, int flags, const char *like)
{
    struct stat info;
    int kept = like != NULL && stat(like, &info) == 0, file;
    mode_t mode = kept ? info.st_mode & 0777 : 0666;

    file = open(path, O_RDWR | O_CLOEXEC | flags, mode);
    if (file < 0)
        return NULL;
    if (kept)
        fchmod(file, mode); /* without the effect of the umask */
    return fdopen(file, "w+b");
}

FILE *file_create(const char *path, const char *like)
{
    return create(path, O_CREAT | O_EXCL, like);
}

#ifdef O_TMPFILE
/* The folder above path's last name, to be freed. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    struct text text = {0};

    if (slash == NULL)
        return text_copy(".");
    text_add(&text, path, (size_t)(slash - path) + 1);
    return text_take(&text);
}

/* The name of its descriptor in /proc, by which it can be linked: only privileged processes may give linkat() the
 * descriptor itself. */
static int place_of(FILE *file, char place[32])
{
    snprintf(place, 32, "/proc/self/fd/%d", fileno(file));
    return access(place, F_OK);
}

FILE *file_create_unnamed(const char *path, const char *like)
{
    struct stat info;
    char place[32], *folder = lstat(path, &info) != 0 && errno == ENOENT ? folder_of(path) : NULL;
    FILE *file = folder != NULL ? create(folder, O_TMPFILE, like) : NULL;

    free(folder);
    if (file == NULL || place_of(file, place) == 0)
        return file;
    fclose(file);
    return NULL;
}

int file_give_name(FILE *file, const char *path)
{
    char place[32];

    return place_of(file, place) == 0 ? linkat(AT_FDCWD, place, AT_FDCWD, path, AT_SYMLINK_FOLLOW) : -1;
}
#else
FILE *file_create_unnamed(const char *path, const char *like)
{
    (void)path;
    (void)like;
    return NULL;
}

int file_give_name(FILE *file, const char *path)
{
    (void)file;
    (void)path;
    errno = ENOSYS;
    return -1;
}
#endif

int file_descriptor(const char *path)
{
    static const char *const folders[] = {"/proc/self/fd/", "/dev/fd/"};

    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        size_t length = strlen(folders[i]);
        const char *number = path + length;
        if (strncmp(path, folders[i], length) == 0 && *number != '\0' && number[strspn(number, "0123456789")] == '\0')
            return atoi(number);
    }
    return -1;
}

/* Duplicates a descriptor instead of opening its name. This keeps its file position, and sockets cannot be opened by
 * name. */
FILE *file_open_stream(const char *path)
{
    int from = file_descriptor(path), file = from >= 0 ? dup(from) : open(path, O_WRONLY | O_CLOEXEC);

    return file >= 0 ? fdopen(file, "wb") : NULL;
}

double file_time(const char *path)
{
    struct stat info;

#ifdef __APPLE__
    return stat(path, &info) == 0 ? (double)info.st_mtimespec.tv_sec + 1e-9 * (double)info.st_mtimespec.tv_nsec : 0;
#else
    return stat(path, &info) == 0 ? (double)info.st_mtim.tv_sec + 1e-9 * (double)info.st_mtim.tv_nsec : 0;
#endif
}

void file_touch(const char *path)
{
    utimensat(AT_FDCWD, path, NULL, 0);
}

int file_replace(const char *from, const char *to)
{
    return rename(from, to);
}

void file_remove(const char *path)
{
    unlink(path);
}

void file_sync(FILE *file)
{
    if (fflush(file) == 0)
        fsync(fileno(file));
}

int file_lock(const char *path, int wait)
{
    int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    if (lock < 0)
        return -1;
    while (flock(lock, LOCK_EX | (wait ? 0 : LOCK_NB)) != 0) {
        if (errno == EINTR)
            continue;
        close(lock);
        return -1;
    }
    return lock;
}

void file_unlock(int lock)
{
    if (lock >= 0)
        close(lock);
}

int folder_make(const char *path)
{
    return mkdir(path, 0700) == 0 || errno == EEXIST ? 0 : -1;
}

int folder_list(const char *path, void (*each)(void *user, const char *name), void *user)
{
    DIR *folder = opendir(path);

    if (folder == NULL)
        return -1;
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder))
        if (is_entry(entry->d_name))
            each(user, entry->d_name);
    closedir(folder);
    return 0;
}

char *environment_copy(const char *name)
{
    const char *value = getenv(name);

    return value != NULL ? text_copy(value) : NULL;
}

int stdin_is_terminal(void)
{
    return isatty(STDIN_FILENO);
}

int stderr_is_terminal(void)
{
    return isatty(STDERR_FILENO);
}

int stdout_is_terminal(void)
{
    return isatty(STDOUT_FILENO);
}

int stdout_is_closed_pipe(void)
{
    struct pollfd output = {.fd = STDOUT_FILENO, .events = POLLOUT};

    return poll(&output, 1, 0) > 0 && (output.revents & POLLERR);
}

int stream_columns(FILE *stream)
{
#ifdef TIOCGWINSZ
    struct winsize size;

    return ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
#else
    (void)stream;
    return 0;
#endif
}

void *file_map(FILE *file, size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fileno(file), 0);

    return memory != MAP_FAILED ? memory : NULL;
}

void file_unmap(void *memory, size_t bytes)
{
    munmap(memory, bytes);
}

void stream_make_binary(FILE *file)
{
    (void)file;
}

void *library_open(const char *name)
{
    return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

void *library_symbol(void *library, const char *name)
{
    return dlsym(library, name);
}

unsigned long process_id(void)
{
    return (unsigned long)getpid();
}

double now_seconds(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

void sleep_seconds(double seconds)
{
    const struct timespec time = {.tv_sec = (time_t)seconds,
                                  .tv_nsec = (long)(1e9 * (seconds - (double)(time_t)seconds))};

    nanosleep(&time, NULL);
}
#else
typedef int clattn_not_on_this_system; /* C does not allow an empty file */
#endif
