#ifdef _WIN32 /* for all other systems there is process.c */
#include "cli/process/process.h"

#include "base/text.h"

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <shellapi.h>
#include <stdlib.h>
#include <string.h>

/* Adds a word in the form that the C run-time library parses: in quotes, with each backslash before a quote doubled. */
static void add_word(struct text *line, const char *word)
{
    size_t slashes = 0;

    text_format(line, "%s\"", line->size > 0 ? " " : "");
    for (; *word != '\0'; word++) {
        for (size_t i = 0; *word == '"' && i <= slashes; i++)
            text_add(line, "\\", 1);
        text_add(line, word, 1);
        slashes = *word == '\\' ? slashes + 1 : 0;
    }
    for (size_t i = 0; i < slashes; i++)
        text_add(line, "\\", 1);
    text_add(line, "\"", 1);
}

static wchar_t *command_line(const char *const *words)
{
    struct text line = {0};
    wchar_t *wide = NULL;
    char *narrow;
    int count = 0;

    for (; *words != NULL; words++)
        add_word(&line, *words);
    narrow = text_take(&line);
    if (narrow != NULL)
        count = MultiByteToWideChar(CP_UTF8, 0, narrow, -1, NULL, 0);
    if (count > 0)
        wide = malloc((size_t)count * sizeof *wide);
    if (wide != NULL)
        MultiByteToWideChar(CP_UTF8, 0, narrow, -1, wide, count);
    free(narrow);
    return wide;
}

/* In a process group of its own, so that Ctrl-C does not reach it. */
static int create(struct process *process, wchar_t *line, HANDLE input, HANDLE output)
{
    STARTUPINFOW start = {.cb = sizeof start,
                          .dwFlags = STARTF_USESTDHANDLES,
                          .hStdInput = input,
                          .hStdOutput = output,
                          .hStdError = output};
    PROCESS_INFORMATION created;
    wchar_t path[32768];

    if (GetModuleFileNameW(NULL, path, sizeof path / sizeof *path) == 0 ||
        !CreateProcessW(path, line, NULL, NULL, TRUE, CREATE_NEW_PROCESS_GROUP, NULL, NULL, &start, &created))
        return -1;
    CloseHandle(created.hThread);
    process->id = (intptr_t)created.hProcess;
    return 0;
}

int process_start(struct process *process, const char *const *words)
{
    SECURITY_ATTRIBUTES inherited = {.nLength = sizeof inherited, .bInheritHandle = TRUE};
    wchar_t *line = command_line(words);
    HANDLE ends[2], input;
    int file = -1, status = -1;

    *process = (struct process){.id = 0};
    errno = line != NULL ? EAGAIN : ENOMEM;
    if (line == NULL || !CreatePipe(&ends[0], &ends[1], &inherited, 0)) {
        free(line);
        return -1;
    }
    SetHandleInformation(ends[0], HANDLE_FLAG_INHERIT, 0);
    input = CreateFileW(L"NUL", GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE, &inherited, OPEN_EXISTING, 0, NULL);
    file = _open_osfhandle((intptr_t)ends[0], _O_RDONLY | _O_TEXT);
    process->output = file >= 0 ? _fdopen(file, "r") : NULL;
    if (process->output != NULL)
        status = create(process, line, input, ends[1]);
    CloseHandle(input);
    CloseHandle(ends[1]);
    if (status != 0 && process->output != NULL)
        fclose(process->output);
    free(line);
    return status;
}

void process_wait(const struct process *process)
{
    WaitForSingleObject((HANDLE)process->id, INFINITE);
}

int process_ended(const struct process *process)
{
    HANDLE output = (HANDLE)_get_osfhandle(_fileno(process->output));
    char discarded[512];
    DWORD count = 0;

    if (PeekNamedPipe(output, NULL, 0, NULL, &count, NULL) && count > 0)
        ReadFile(output, discarded, count < sizeof discarded ? count : sizeof discarded, &count, NULL);
    return WaitForSingleObject((HANDLE)process->id, 5) != WAIT_TIMEOUT;
}

int process_end(struct process *process, char *how, size_t size)
{
    DWORD status = 0;

    process_wait(process);
    GetExitCodeProcess((HANDLE)process->id, &status);
    CloseHandle((HANDLE)process->id);
    if (process->output != NULL)
        fclose(process->output);
    *process = (struct process){.id = 0};
    snprintf(how, size, status >= 0x80000000U ? "exception 0x%08lx" : "exit status %lu", status);
    return status >= 0x80000000U ? -1 : (int)status;
}

void process_kill(const struct process *process)
{
    TerminateProcess((HANDLE)process->id, 1);
    WaitForSingleObject((HANDLE)process->id, 1000);
}

/* ---- What this process was called with --------------------------------------------------------------------------- */

static char *narrow_word(const wchar_t *word)
{
    int count = WideCharToMultiByte(CP_UTF8, 0, word, -1, NULL, 0, NULL, NULL);
    char *to = count > 0 ? malloc((size_t)count) : NULL;

    if (to != NULL)
        WideCharToMultiByte(CP_UTF8, 0, word, -1, to, count, NULL, NULL);
    return to;
}

/* There is no MPI among our builds for Windows. */
void process_replace(const char *name, char **words)
{
    (void)name, (void)words;
}

/* They live until the process ends. */
char **process_words(int *count, char **words)
{
    int found = 0;
    wchar_t **wide = CommandLineToArgvW(GetCommandLineW(), &found);
    char **narrow = wide != NULL ? calloc((size_t)found + 1, sizeof *narrow) : NULL;
    int done = 0;

    while (narrow != NULL && done < found && (narrow[done] = narrow_word(wide[done])) != NULL)
        done++;
    LocalFree(wide);
    if (narrow == NULL || done < found)
        return words;
    SetConsoleOutputCP(CP_UTF8); /* all messages are UTF-8 */
    *count = found;
    return narrow;
}

#else
typedef int clattn_not_on_this_system; /* C does not allow an empty file */
#endif
