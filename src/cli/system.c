#ifndef _WIN32
#define _POSIX_C_SOURCE 200809L
#define _FILE_OFFSET_BITS 64
#endif
#include "cli/system.h"

#include <stdio.h>
#include <sys/stat.h>

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <io.h>

enum file_kind file_kind(const char *path, uint64_t *bytes)
{
    struct _stat64 info;

    if (_stat64(path, &info) != 0)
        return FILE_MISSING;
    *bytes = (uint64_t)info.st_size;
    return (info.st_mode & _S_IFMT) == _S_IFREG ? FILE_REGULAR : FILE_OTHER;
}

int file_replace(const char *from, const char *to)
{
    return MoveFileExA(from, to, MOVEFILE_REPLACE_EXISTING) ? 0 : -1;
}

void file_remove(const char *path)
{
    DeleteFileA(path);
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

int file_replace(const char *from, const char *to)
{
    return rename(from, to);
}

void file_remove(const char *path)
{
    unlink(path);
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
