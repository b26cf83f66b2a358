#define _GNU_SOURCE
#include "compile.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/system.h"
#include "base/text.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH = 1024 };
static const size_t most_bytes = (size_t)1 << 30;

static const char common_options[] =
    "-x cl -cl-std=CL1.2 -target amdgcn-amd-amdhsa -mcode-object-version=5 -O3 -nogpulib "
    "-Wno-linker-warnings -Xclang -finclude-default-header -Xclang -mlink-builtin-bitcode -Xclang '" CLATTN_AMD_LIBCLC
    "'";

/* ---- The folder -------------------------------------------------------------------------------------------------- */

/* Where what has a hash is kept, without an ending. */
static void place_of(struct hash hash, char path[PATH])
{
    const char *folder = getenv("CLATTN_AMD_CACHE"), *temporary = getenv("TMPDIR");
    char name[HASH_DIGITS];

    hash_name(hash, name);
    if (folder != NULL && folder[0] != '\0')
        text_fit(path, PATH, "%s/%s", folder, name);
    else
        text_fit(path, PATH, "%s/clattn-amd-%ld/%s", temporary != NULL ? temporary : "/tmp", (long)getuid(), name);
}

static char *read_ending(const char *path, const char *ending, size_t *bytes)
{
    char whole[PATH + 8];

    text_fit(whole, sizeof whole, "%s%s", path, ending);
    return file_read(whole, most_bytes, bytes);
}

/* The instructions as a script of sed makes them, which tests change to see that a mistake is found. NULL: memory ran
 * out, or there is no sed. */
static char *edit(const char *path, char *instructions)
{
    struct text text = {0};
    char command[PATH + 64], piece[4096];
    size_t bytes;
    FILE *from;

    text_fit(command, sizeof command, "sed -E -e \"$CLATTN_AMD_EDIT\" '%s.s'", path);
    from = popen(command, "r");
    while (from != NULL && (bytes = fread(piece, 1, sizeof piece, from)) > 0)
        text_add(&text, piece, bytes);
    if (from == NULL || pclose(from) != 0)
        text.failed = 1;
    if (!text.failed && text.at != NULL && strcmp(text.at, instructions) != 0)
        fprintf(stderr, "amd: instructions were edited\n");
    free(instructions);
    return text_take(&text);
}

/* A code object and its instructions. The second is written last: where it is, there is the first. */
static int read_kept(const char *path, struct compiled *compiled)
{
    size_t length;

    compiled->disassembly = read_ending(path, ".s", &length);
    if (compiled->disassembly != NULL)
        compiled->object = read_ending(path, ".co", &compiled->bytes);
    if (compiled->object != NULL && getenv("CLATTN_AMD_EDIT") != NULL)
        compiled->disassembly = edit(path, compiled->disassembly);
    return compiled->object != NULL && compiled->disassembly != NULL;
}

/* ---- The tools --------------------------------------------------------------------------------------------------- */

/* Runs a shell's command, whose output is the log where it fails. */
static int run(const char *command, const char *path, struct compiled *compiled)
{
    struct text whole = {0};
    char log[PATH + 8], *line;
    int status = -1;
    size_t length;

    text_fit(log, sizeof log, "%s.log", path);
    text_format(&whole, "{ %s; } >'%s' 2>&1", command, log);
    line = text_take(&whole);
    if (line != NULL)
        status = system(line);
    free(line);
    if (status != 0) {
        free(compiled->log);
        compiled->log = file_read(log, most_bytes, &length);
    }
    file_remove(log);
    return status == 0;
}

/* Options as words of a shell. 0: one has a quote, which no option of OpenCL needs. */
static int add_options(struct text *command, const char *options)
{
    if (strchr(options, '\'') != NULL)
        return 0;
    for (options += strspn(options, " "); *options != '\0'; options += strspn(options, " ")) {
        const size_t length = strcspn(options, " ");
        text_format(command, " '%.*s'", (int)length, options);
        options += length;
    }
    return 1;
}

/* PATH.cl to PATH.co */
static int compile(const char *path, const char *options, const char *target, struct compiled *compiled)
{
    struct text command = {0};
    char *line;
    int made;

    text_format(&command, "'" CLATTN_AMD_CLANG "' %s -mcpu=%s", common_options, target);
    made = add_options(&command, options);
    text_format(&command, " -c '%s.cl' -o '%s.o' && '" CLATTN_AMD_LLD "' -shared '%s.o' -o '%s.co'", path, path, path,
                path);
    line = text_take(&command);
    if (!made)
        compiled->log = text_copy("a build option has a quote");
    made = made && line != NULL && run(line, path, compiled);
    free(line);
    return made;
}

/* PATH.co to PATH.s */
static int disassemble(const char *path, struct compiled *compiled)
{
    char command[4 * PATH];

    text_fit(command, sizeof command, "'" CLATTN_AMD_OBJDUMP "' -d '%s.co' >'%s.s'", path, path);
    return run(command, path, compiled);
}

/* Renames what was made under a name of this process. */
static int keep(const char *made, const char *path)
{
    static const char *const endings[] = {".co", ".s"};
    char from[PATH + 8], to[PATH + 8];

    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        text_fit(from, sizeof from, "%s%s", made, endings[i]);
        text_fit(to, sizeof to, "%s%s", path, endings[i]);
        if (file_replace(from, to) != 0)
            return 0;
    }
    return 1;
}

/* A name for what is being made, which no other process or thread has, and a file with this ending. */
static int begin(const char *path, const char *ending, const void *data, size_t bytes, char made[PATH])
{
    static atomic_int count;
    char whole[PATH + 8];

    text_fit(made, PATH, "%s.%ld-%d", path, (long)getpid(), atomic_fetch_add(&count, 1));
    text_fit(whole, sizeof whole, "%s%s", made, ending);
    return file_make_folders(whole) == 0 && file_put(whole, data, bytes, NULL, 0) == 0;
}

static void remove_all(const char *made)
{
    static const char *const endings[] = {".cl", ".o", ".co", ".s"};
    char path[PATH + 8];

    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        text_fit(path, sizeof path, "%s%s", made, endings[i]);
        file_remove(path);
    }
}

int compile_source(const char *source, const char *options, const char *target, struct compiled *compiled)
{
    const char *const parts[] = {common_options, target, options, source};
    char path[PATH], made[PATH];
    struct hash hash = {0, 0};
    int right;

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        hash = hash_text(hash, parts[i]);
    place_of(hash, path);
    *compiled = (struct compiled){0};
    if (read_kept(path, compiled))
        return 1;
    right = begin(path, ".cl", source, strlen(source), made) && compile(made, options, target, compiled) &&
            disassemble(made, compiled) && keep(made, path);
    remove_all(made);
    return right && read_kept(path, compiled);
}

int compile_binary(const void *object, size_t bytes, struct compiled *compiled)
{
    char path[PATH], made[PATH];
    int right;

    place_of(hash_add((struct hash){0, 0}, object, bytes), path);
    *compiled = (struct compiled){0};
    if (read_kept(path, compiled))
        return 1;
    right = begin(path, ".co", object, bytes, made) && disassemble(made, compiled) && keep(made, path);
    remove_all(made);
    return right && read_kept(path, compiled);
}

void compiled_free(struct compiled *compiled)
{
    free(compiled->object);
    free(compiled->disassembly);
    free(compiled->log);
    *compiled = (struct compiled){0};
}
