#ifndef _WIN32
#define _POSIX_C_SOURCE 200809L
#define _FILE_OFFSET_BITS 64
#endif
#include "base/system.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static int is_entry(const char *name)
{
    return strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <direct.h>
#include <fcntl.h>
#include <io.h>
#include <share.h>
#include <sys/utime.h>

enum file_kind file_kind(const char *path, uint64_t *bytes)
{
    struct _stat64 info;

    if (_stat64(path, &info) != 0)
        return FILE_MISSING;
    *bytes = (uint64_t)info.st_size;
    return (info.st_mode & _S_IFMT) == _S_IFREG ? FILE_REGULAR : FILE_OTHER;
}

double file_time(const char *path)
{
    struct _stat64 info;

    return _stat64(path, &info) == 0 ? (double)info.st_mtime : 0;
}

void file_touch(const char *path)
{
    _utime64(path, NULL);
}

int file_replace(const char *from, const char *to)
{
    return MoveFileExA(from, to, MOVEFILE_REPLACE_EXISTING) ? 0 : -1;
}

void file_remove(const char *path)
{
    DeleteFileA(path);
}

void file_sync(FILE *file)
{
    if (fflush(file) == 0)
        _commit(_fileno(file));
}

int file_lock(const char *path, int wait)
{
    OVERLAPPED whole = {0};
    int lock = -1;

    if (_sopen_s(&lock, path, _O_RDWR | _O_CREAT, _SH_DENYNO, _S_IREAD | _S_IWRITE) != 0)
        return -1;
    if (!LockFileEx((HANDLE)_get_osfhandle(lock), LOCKFILE_EXCLUSIVE_LOCK | (wait ? 0 : LOCKFILE_FAIL_IMMEDIATELY), 0,
                    1, 0, &whole)) {
        _close(lock);
        return -1;
    }
    return lock;
}

void file_unlock(int lock)
{
    if (lock >= 0)
        _close(lock);
}

int folder_make(const char *path)
{
    return _mkdir(path) == 0 || errno == EEXIST ? 0 : -1;
}

int folder_list(const char *path, void (*each)(void *user, const char *name), void *user)
{
    char pattern[MAX_PATH];
    WIN32_FIND_DATAA entry;
    HANDLE search;

    snprintf(pattern, sizeof pattern, "%s\\*", path);
    search = FindFirstFileA(pattern, &entry);
    if (search == INVALID_HANDLE_VALUE)
        return -1;
    do {
        if (is_entry(entry.cFileName))
            each(user, entry.cFileName);
    } while (FindNextFileA(search, &entry));
    FindClose(search);
    return 0;
}

int stderr_is_terminal(void)
{
    return _isatty(_fileno(stderr));
}

unsigned long process_id(void)
{
    return GetCurrentProcessId();
}

double now_seconds(void)
{
    LARGE_INTEGER count, frequency;

    QueryPerformanceCounter(&count);
    QueryPerformanceFrequency(&frequency);
    return (double)count.QuadPart / (double)frequency.QuadPart;
}

#else
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum file_kind file_kind(const char *path, uint64_t *bytes)
{
    struct stat info;

    if (stat(path, &info) != 0)
        return FILE_MISSING;
    *bytes = (uint64_t)info.st_size;
    return S_ISREG(info.st_mode) ? FILE_REGULAR : FILE_OTHER;
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

int stderr_is_terminal(void)
{
    return isatty(STDERR_FILENO);
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
#endif
