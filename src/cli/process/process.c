#ifndef _WIN32 /* for Windows there is process_windows.c */
#define _POSIX_C_SOURCE 200809L
#include "cli/process/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { MAX_PATH_BYTES = 4096 };

/* The file of this process, even if it was replaced or moved in PATH since. Its own name is preferred, for lists of
 * processes. */
static const char *executable_path(const char *name, char path[MAX_PATH_BYTES])
{
    static const char self[] = "/proc/self/exe";
    struct stat this_file, path_file;
    ssize_t size = readlink(self, path, MAX_PATH_BYTES - 1);

    if (size < 0 || stat(self, &this_file) != 0)
        return name;
    path[size] = '\0';
    return stat(path, &path_file) == 0 && path_file.st_ino == this_file.st_ino && path_file.st_dev == this_file.st_dev
               ? path
               : self;
}

static const int blocked_signals[] = {SIGINT, SIGTERM, SIGHUP};

/* stdin is empty; stdout and stderr go to output. */
static int redirect(posix_spawn_file_actions_t *actions, int output)
{
    int error = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);

    if (error == 0)
        error = posix_spawn_file_actions_adddup2(actions, output, STDOUT_FILENO);
    return error != 0 ? error : posix_spawn_file_actions_adddup2(actions, output, STDERR_FILENO);
}

static int spawn(struct process *process, const char *const *words, int output)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t blocked;
    pid_t id;
    char **arguments = (char **)(size_t)words; /* exec does not change them */
    char path[MAX_PATH_BYTES];
    int error;

    sigemptyset(&blocked);
    for (size_t i = 0; i < sizeof blocked_signals / sizeof *blocked_signals; i++)
        sigaddset(&blocked, blocked_signals[i]);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&attributes, &blocked);
    error = redirect(&actions, output);
    if (error == 0)
        error = posix_spawnp(&id, executable_path(words[0], path), &actions, &attributes, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    process->id = error == 0 ? (intptr_t)id : 0;
    return error;
}

/* The pipe is closed in other workers: otherwise its reader would not see the end. */
int process_start(struct process *process, const char *const *words)
{
    int ends[2], error;

    *process = (struct process){.id = 0};
    signal(SIGCHLD, SIG_DFL); /* where who started this process ignored it, no status would be kept */
    if (pipe(ends) != 0)
        return -1;
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    error = spawn(process, words, ends[1]);
    close(ends[1]);
    process->output = error == 0 ? fdopen(ends[0], "r") : NULL;
    if (process->output == NULL)
        close(ends[0]);
    errno = error;
    return error == 0 ? 0 : -1;
}

void process_wait(const struct process *process)
{
    siginfo_t info;

    while (waitid(P_PID, (id_t)process->id, &info, WEXITED | WNOWAIT) != 0 && errno == EINTR)
        continue;
}

int process_ended(const struct process *process)
{
    const struct timespec tick = {.tv_nsec = 5000000};
    struct pollfd output = {.fd = process->output != NULL ? fileno(process->output) : -1, .events = POLLIN};
    siginfo_t info = {.si_pid = 0};
    char discarded[512];

    if (waitid(P_PID, (id_t)process->id, &info, WEXITED | WNOWAIT | WNOHANG) != 0 || info.si_pid != 0)
        return 1;
    if (poll(&output, 1, 5) <= 0 || read(output.fd, discarded, sizeof discarded) <= 0)
        nanosleep(&tick, NULL);
    return 0;
}

int process_end(struct process *process, char *how, size_t size)
{
    int status = 0, waited;

    while ((waited = waitpid((pid_t)process->id, &status, 0)) < 0 && errno == EINTR)
        continue;
    if (process->output != NULL)
        fclose(process->output);
    *process = (struct process){.id = 0};
    if (waited < 0) { /* process_kill has waited for it */
        snprintf(how, size, "an unknown status");
        return -1;
    }
    if (WIFSIGNALED(status))
        snprintf(how, size, "signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(how, size, "exit status %d", WEXITSTATUS(status));
    return WIFSIGNALED(status) ? -1 : WEXITSTATUS(status);
}

/* A process inside a driver may live on for a while. */
void process_kill(const struct process *process)
{
    const struct timespec tick = {.tv_nsec = 10000000};
    int status;

    kill((pid_t)process->id, SIGKILL);
    for (int i = 0; i < 100 && waitpid((pid_t)process->id, &status, WNOHANG) == 0; i++)
        nanosleep(&tick, NULL);
}

void process_replace(const char *name, char **words)
{
    char own[MAX_PATH_BYTES], path[MAX_PATH_BYTES + 64];
    const char *const program = executable_path(words[0], own), *const slash = strrchr(program, '/');

    if (slash != NULL && (size_t)(slash - program) + strlen(name) + 2 <= sizeof path) {
        snprintf(path, sizeof path, "%.*s/%s", (int)(slash - program), program, name);
        execv(path, words);
    }
    execvp(name, words);
}

char **process_words(int *count, char **words)
{
    (void)count;
    return words;
}

#else
typedef int clattn_not_on_this_system; /* C does not allow an empty file */
#endif
