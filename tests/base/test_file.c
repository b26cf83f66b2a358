/* What writing to a path does to what is there: links, modes, folders, pipes, devices. Devices are reached through
 * links and descriptors of the test's own folder alone. */
#ifndef _WIN32
#define _POSIX_C_SOURCE 200809L
#endif
#include "harness.h"

#include "base/file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#ifdef _WIN32
int main(void)
{
    return 0;
}
#else
#include "base/system.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/clattn-file-XXXXXX";

/* Group setup: relative paths are in a folder of this process. */
static int enter_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) != NULL ? chdir(folder) : -1;
}

static int leave_folder(void **state)
{
    static const char *const names[] = {"a", "b", "far", "link", "link2", "link3", "loop", "loop2", "pipe", "sub/t"};

    (void)state;
    for (size_t i = 0; i < COUNT(names); i++)
        unlink(names[i]);
    rmdir("sub");
    return chdir("/") == 0 ? rmdir(folder) : -1; /* fails where anything else was left, a temporary file */
}

static int write_text(const char *path, const char *text)
{
    return file_write(path, text, 1, text + 1, strlen(text) - 1);
}

static void check_text(const char *path, const char *text)
{
    size_t size = 0;
    char *found = file_read(path, 1000, &size);

    assert_non_null(found);
    assert_string_equal(found, text);
    free(found);
}

static mode_t mode_of(const char *path)
{
    struct stat info;

    assert_int_equal(lstat(path, &info), 0);
    return info.st_mode;
}

static void check_refused(const char *path, int reason)
{
    errno = 0;
    assert_int_equal(write_text(path, "no"), -1);
    assert_int_equal(errno, reason);
}

static void test_links(void **state)
{
    (void)state;
    assert_int_equal(mkdir("sub", 0700), 0);
    assert_int_equal(write_text("sub/t", "before"), 0);
    assert_int_equal(symlink("sub/t", "link"), 0);
    assert_int_equal(symlink("link", "link2"), 0);
    assert_int_equal(symlink("../a", "sub/far"), 0);
    assert_int_equal(symlink("sub/far", "link3"), 0);
    assert_int_equal(write_text("link", "by a link"), 0);
    check_text("sub/t", "by a link");
    assert_int_equal(write_text("link2", "by two"), 0);
    check_text("sub/t", "by two");
    assert_int_equal(write_text("link3", "made"), 0); /* leads to nothing, relative to another folder */
    check_text("a", "made");
    assert_true(S_ISLNK(mode_of("link")) && S_ISLNK(mode_of("link2")) && S_ISLNK(mode_of("link3")));
    assert_true(S_ISLNK(mode_of("sub/far")) && S_ISREG(mode_of("a")));
    assert_int_equal(file_put("link", "own", 3, NULL, 0), 0);
    assert_true(S_ISREG(mode_of("link")));
    check_text("sub/t", "by two");
    unlink("sub/far");
}

static void test_loop(void **state)
{
    (void)state;
    assert_int_equal(symlink("loop", "loop2"), 0);
    assert_int_equal(symlink("loop2", "loop"), 0);
    check_refused("loop", ELOOP);
    assert_true(S_ISLNK(mode_of("loop")) && S_ISLNK(mode_of("loop2")));
}

static void test_modes(void **state)
{
    const mode_t modes[] = {0600, 0640, 0666, 0755}, mask = umask(027);

    (void)state;
    unlink("b");
    assert_int_equal(write_text("b", "new"), 0);
    assert_int_equal(mode_of("b") & 0777, 0640);
    for (size_t i = 0; i < COUNT(modes); i++) {
        assert_int_equal(chmod("b", modes[i]), 0);
        assert_int_equal(write_text("b", "again"), 0);
        assert_int_equal(mode_of("b") & 0777, modes[i]);
    }
    umask(mask);
}

/* In a process that is not root's, as nothing is refused to root. */
static void test_read_only(void **state)
{
    int status = 0;
    pid_t child;

    (void)state;
    assert_int_equal(write_text("b", "kept"), 0);
    assert_int_equal(chmod("b", 0444), 0);
    assert_int_equal(chmod(".", 0777), 0);
    child = fork();
    if (child == 0) {
        if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
            _exit(2);
        _exit(file_write("b", "x", 1, NULL, 0) == -1 && errno == EACCES ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    check_text("b", "kept");
    assert_int_equal(mode_of("b") & 0777, 0444);
    assert_int_equal(chmod("b", 0644), 0);
}

static void test_folders(void **state)
{
    (void)state;
    check_refused("sub", EISDIR);
    check_refused("nowhere/a", ENOENT);
    check_refused("a/b", ENOTDIR);
    check_refused("", ENOENT);
}

static void test_pipe(void **state)
{
    char text[16] = "";
    int reader;

    (void)state;
    assert_int_equal(mkfifo("pipe", 0600), 0);
    reader = open("pipe", O_RDONLY | O_NONBLOCK);
    assert_int_equal(write_text("pipe", "through it"), 0);
    assert_int_equal(read(reader, text, sizeof text - 1), 10);
    assert_string_equal(text, "through it");
    close(reader);
    assert_true(S_ISFIFO(mode_of("pipe")));
}

/* A descriptor by its name: a pipe, and a file at the place where it stands. */
static void test_descriptors(void **state)
{
    char name[64], text[16] = "";
    int ends[2], file = open("a", O_RDWR | O_CREAT | O_TRUNC, 0600);

    (void)state;
    assert_int_equal(pipe(ends), 0);
    snprintf(name, sizeof name, "/dev/fd/%d", ends[1]);
    unlink("link");
    assert_int_equal(symlink(name, "link"), 0);
    assert_int_equal(write_text("link", "piped"), 0);
    assert_int_equal(read(ends[0], text, sizeof text - 1), 5);
    assert_string_equal(text, "piped");
    snprintf(name, sizeof name, "/dev/fd/%d", file);
    assert_int_equal(write(file, "head ", 5), 5);
    assert_int_equal(write_text(name, "body"), 0);
    assert_int_equal(write(file, " tail", 5), 5);
    check_text("a", "head body tail");
    close(file);
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(file_descriptor("/dev/fd/12"), 12);
    assert_int_equal(file_descriptor("/dev/fd/1x"), -1);
    assert_int_equal(file_descriptor("/dev/fd/"), -1);
}

static void test_full(void **state)
{
    struct rlimit limit, real;
    char *text = calloc(1, 100000);

    (void)state;
    unlink("link");
    if (access("/dev/full", W_OK) == 0 && symlink("/dev/full", "link") == 0) {
        check_refused("link", ENOSPC);
        assert_true(S_ISLNK(mode_of("link")));
    }
    assert_int_equal(write_text("b", "whole"), 0);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &real), 0);
    limit = (struct rlimit){4096, real.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(file_write("b", text, 100000, NULL, 0), -1);
    assert_int_equal(errno, EFBIG);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &real), 0);
    check_text("b", "whole");
    free(text);
}

/* ---- Processes that are killed while they write ---- */

/* Without such files a temporary one stays. */
static void need_unnamed(void)
{
    FILE *file = file_create_unnamed("none", NULL);

    if (file == NULL) {
        print_message("the file system of %s has no O_TMPFILE: what a killed process leaves is not checked\n", folder);
        skip();
    }
    fclose(file);
}

static void count_entry(void *user, const char *name)
{
    (void)name;
    ++*(int *)user;
}

static int entries(void)
{
    int count = 0;

    assert_int_equal(folder_list(".", count_entry, &count), 0);
    return count;
}

/* Waits for the child, which that signal has to end. */
static void check_killed(pid_t child, int number)
{
    int status = 0;

    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), number);
}

static void write_half(void)
{
    static const char half[100000];
    struct file_output output;

    if (file_output_plan(&output, "b") != 0 || file_output_open(&output) != 0)
        _exit(1);
    if (fwrite(half, 1, sizeof half, output.file) != sizeof half || fflush(output.file) != 0)
        _exit(2);
    raise(SIGKILL);
}

static void test_killed(void **state)
{
    int before;
    pid_t child;

    (void)state;
    need_unnamed();
    assert_int_equal(write_text("b", "kept"), 0);
    before = entries();
    child = fork();
    if (child == 0)
        write_half();
    check_killed(child, SIGKILL);
    assert_int_equal(entries(), before);
    check_text("b", "kept");
}

/* The command, half way through its 25 MB: a file may have 12, and the signal of that is as deadly as SIGKILL. */
static void test_command_killed(void **state)
{
#ifdef CLATTN_COMMAND
    const struct rlimit most = {12000000, 12000000};
    int before;
    pid_t child;

    (void)state;
    need_unnamed();
    assert_int_equal(write_text("b", "kept"), 0);
    before = entries();
    child = fork();
    if (child == 0) {
        signal(SIGXFSZ, SIG_DFL);
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        setrlimit(RLIMIT_FSIZE, &most);
        execl(CLATTN_COMMAND, "clattn", "make-input", "linear_attn", "-s", "T=2000,H=16,K=64,V=64", "-o", "b", NULL);
        _exit(1);
    }
    check_killed(child, SIGXFSZ);
    assert_int_equal(entries(), before);
    check_text("b", "kept");
#else
    (void)state;
    print_message("without the command\n");
    skip();
#endif
}

static int write_without_proc(void)
{
    struct file_output output;

    if (file_output_plan(&output, "b") != 0 || file_output_open(&output) != 0 || !output.unnamed)
        return 1;
    if (fputs("copied", output.file) < 0 || chroot(".") != 0)
        return 2;
    return file_output_close(&output, 0) == 0 ? 0 : 3;
}

/* What cannot be given its name, as the folder has become the root and /proc is nowhere, is copied. */
static void test_unlinkable(void **state)
{
    int status = 0, before;
    pid_t child;

    (void)state;
    need_unnamed();
    if (geteuid() != 0) {
        print_message("not root's: chroot is not to be had\n");
        skip();
    }
    assert_int_equal(write_text("b", "before"), 0);
    assert_int_equal(chmod("b", 0751), 0);
    before = entries();
    child = fork();
    if (child == 0)
        _exit(write_without_proc());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(entries(), before);
    check_text("b", "copied");
    assert_int_equal(mode_of("b") & 0777, 0751);
}

/* The temporary name is another's: known before anything is written, and left alone. */
static void test_name_taken(void **state)
{
    struct file_output output;
    char *taken;

    (void)state;
    assert_int_equal(file_output_plan(&output, "b"), 0);
    assert_int_equal(write_text(output.temporary, "another's"), 0);
    assert_int_equal(file_output_open(&output), -1);
    assert_int_equal(errno, EEXIST);
    taken = output.temporary;
    output.temporary = NULL;
    assert_int_equal(file_output_close(&output, EEXIST), -1);
    check_text(taken, "another's");
    unlink(taken);
    free(taken);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_links),          cmocka_unit_test(test_loop),       cmocka_unit_test(test_modes),
        cmocka_unit_test(test_read_only),      cmocka_unit_test(test_folders),    cmocka_unit_test(test_pipe),
        cmocka_unit_test(test_descriptors),    cmocka_unit_test(test_full),       cmocka_unit_test(test_killed),
        cmocka_unit_test(test_command_killed), cmocka_unit_test(test_unlinkable), cmocka_unit_test(test_name_taken),
    };

    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
#endif
