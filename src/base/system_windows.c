#ifdef _WIN32 /* elsewhere: system.c */
#include "base/system.h"

#include "base/text.h"

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <direct.h>
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <share.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utime.h>

/* ---- Conversion between UTF-8 and UTF-16. Results are to be freed; NULL with errno: the text is invalid ---- */

static wchar_t *wide(const char *text)
{
    int count = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, NULL, 0);
    wchar_t *to = count > 0 ? malloc((size_t)count * sizeof *to) : NULL;

    errno = count > 0 ? ENOMEM : EILSEQ;
    if (to != NULL)
        MultiByteToWideChar(CP_UTF8, 0, text, -1, to, count);
    return to;
}

static char *narrow(const wchar_t *text)
{
    int count = WideCharToMultiByte(CP_UTF8, 0, text, -1, NULL, 0, NULL, NULL);
    char *to = count > 0 ? malloc((size_t)count) : NULL;

    if (to != NULL)
        WideCharToMultiByte(CP_UTF8, 0, text, -1, to, count, NULL, NULL);
    return to;
}

/* ---- Files ---- */

static int file_info(const char *path, struct _stat64 *info)
{
    wchar_t *name = wide(path);
    int status = name != NULL ? _wstat64(name, info) : -1;

    free(name);
    return status;
}

/* NUL, CON, pipes: stat fails for these */
static int is_device(const char *path)
{
    wchar_t *name = wide(path);
    HANDLE file = name != NULL ? CreateFileW(name, 0, FILE_SHARE_READ | FILE_SHARE_WRITE, NULL, OPEN_EXISTING, 0, NULL)
                               : INVALID_HANDLE_VALUE;
    DWORD type = file != INVALID_HANDLE_VALUE ? GetFileType(file) : FILE_TYPE_UNKNOWN;

    if (file != INVALID_HANDLE_VALUE)
        CloseHandle(file);
    free(name);
    return type == FILE_TYPE_CHAR || type == FILE_TYPE_PIPE;
}

enum file_kind file_kind(const char *path, uint64_t *bytes)
{
    struct _stat64 info;

    *bytes = 0;
    if (is_device(path))
        return FILE_OTHER;
    if (file_info(path, &info) != 0)
        return FILE_MISSING;
    *bytes = (uint64_t)info.st_size;
    if ((info.st_mode & _S_IFMT) == _S_IFDIR)
        return FILE_FOLDER;
    return (info.st_mode & _S_IFMT) == _S_IFREG ? FILE_REGULAR : FILE_OTHER;
}

/* Links are rare on Windows: path itself is replaced. */
char *file_resolve(const char *path)
{
    return text_copy(path);
}

/* Devices (NUL, CON) do not say in advance whether they can be written. */
int file_writable(const char *path)
{
    uint64_t bytes;
    enum file_kind kind = file_kind(path, &bytes);
    wchar_t *name = wide(path);
    int status = name != NULL ? _waccess(name, 2) : -1;

    free(name);
    return status == 0 || kind == FILE_OTHER;
}

FILE *file_open(const char *path, const char *mode)
{
    wchar_t *name = wide(path), *how = wide(mode);
    FILE *file = name != NULL && how != NULL ? _wfopen(name, how) : NULL;

    free(name);
    free(how);
    return file;
}

FILE *file_create(const char *path, const char *like)
{
    (void)like;
    return file_open(path, "wbx");
}

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

int file_descriptor(const char *path)
{
    (void)path;
    return -1;
}

FILE *file_open_stream(const char *path)
{
    return file_open(path, "r+b"); /* NUL, CON */
}

double file_time(const char *path)
{
    struct _stat64 info;

    return file_info(path, &info) == 0 ? (double)info.st_mtime : 0;
}

void file_touch(const char *path)
{
    wchar_t *name = wide(path);

    if (name != NULL)
        _wutime64(name, NULL);
    free(name);
}

int file_replace(const char *from, const char *to)
{
    wchar_t *old = wide(from), *name = wide(to);
    int done = old != NULL && name != NULL && MoveFileExW(old, name, MOVEFILE_REPLACE_EXISTING);

    if (old != NULL && name != NULL && !done)
        errno = GetLastError() == ERROR_DISK_FULL ? ENOSPC : EACCES;
    free(old);
    free(name);
    return done ? 0 : -1;
}

void file_remove(const char *path)
{
    wchar_t *name = wide(path);

    if (name != NULL)
        DeleteFileW(name);
    free(name);
}

void file_sync(FILE *file)
{
    if (fflush(file) == 0)
        _commit(_fileno(file));
}

int file_lock(const char *path, int wait)
{
    const DWORD how = LOCKFILE_EXCLUSIVE_LOCK | (wait ? 0 : LOCKFILE_FAIL_IMMEDIATELY);
    OVERLAPPED whole = {0};
    wchar_t *name = wide(path);
    int lock = -1;

    if (name != NULL)
        _wsopen_s(&lock, name, _O_RDWR | _O_CREAT, _SH_DENYNO, _S_IREAD | _S_IWRITE);
    free(name);
    if (lock >= 0 && !LockFileEx((HANDLE)_get_osfhandle(lock), how, 0, 1, 0, &whole)) {
        _close(lock);
        errno = EWOULDBLOCK;
        return -1;
    }
    return lock;
}

void file_unlock(int lock)
{
    if (lock >= 0)
        _close(lock);
}

/* ---- Folders ---- */

int folder_make(const char *path)
{
    wchar_t *name = wide(path);
    int status = name != NULL && (_wmkdir(name) == 0 || errno == EEXIST) ? 0 : -1;

    free(name);
    return status;
}

static void each_entry(const wchar_t *entry, void (*each)(void *user, const char *name), void *user)
{
    char *name = narrow(entry);

    if (name != NULL && strcmp(name, ".") != 0 && strcmp(name, "..") != 0)
        each(user, name);
    free(name);
}

static HANDLE search_begin(const char *path, WIN32_FIND_DATAW *entry)
{
    struct text text = {0};
    char *pattern;
    wchar_t *name;
    HANDLE search;

    text_format(&text, "%s\\*", path);
    pattern = text_take(&text);
    name = pattern != NULL ? wide(pattern) : NULL;
    search = name != NULL ? FindFirstFileW(name, entry) : INVALID_HANDLE_VALUE;
    free(pattern);
    free(name);
    return search;
}

int folder_list(const char *path, void (*each)(void *user, const char *name), void *user)
{
    WIN32_FIND_DATAW entry;
    HANDLE search = search_begin(path, &entry);

    if (search == INVALID_HANDLE_VALUE)
        return -1;
    do
        each_entry(entry.cFileName, each, user);
    while (FindNextFileW(search, &entry));
    FindClose(search);
    return 0;
}

/* ---- The process ---- */

char *environment_copy(const char *name)
{
    wchar_t *key = wide(name);
    const wchar_t *value = key != NULL ? _wgetenv(key) : NULL;

    free(key);
    return value != NULL ? narrow(value) : NULL;
}

int stdin_is_terminal(void)
{
    return _isatty(_fileno(stdin));
}

int stderr_is_terminal(void)
{
    return _isatty(_fileno(stderr));
}

int stdout_is_terminal(void)
{
    return _isatty(_fileno(stdout));
}

int stdout_is_closed_pipe(void)
{
    return 0;
}

int stream_columns(FILE *stream)
{
    HANDLE handle = (HANDLE)_get_osfhandle(_fileno(stream));
    CONSOLE_SCREEN_BUFFER_INFO info;

    return GetConsoleScreenBufferInfo(handle, &info) ? info.srWindow.Right - info.srWindow.Left + 1 : 0;
}

void *file_map(FILE *file, size_t bytes)
{
    (void)file, (void)bytes;
    return NULL;
}

void file_unmap(void *memory, size_t bytes)
{
    (void)memory, (void)bytes;
}

void stream_make_binary(FILE *file)
{
    _setmode(_fileno(file), _O_BINARY);
}

void *library_open(const char *name)
{
    return (void *)LoadLibraryA(name);
}

void *library_symbol(void *library, const char *name)
{
    FARPROC function = GetProcAddress((HMODULE)library, name);
    void *symbol;

    memcpy(&symbol, &function, sizeof symbol);
    return symbol;
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

void sleep_seconds(double seconds)
{
    Sleep((DWORD)(1e3 * seconds));
}

#else
typedef int clattn_not_on_this_system; /* C does not allow an empty file */
#endif
