/* clattn_amalgamate OUTPUT "FOLDER|…" FILE.c…: the files one after the other as one, with the headers that they include
 * from the folders. What is local to two of them (a static name, a constant, a struct) has its number there. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NAMES = 4096, MOST_HEADERS = 256, NAME = 96, PATH = 4096 };

struct name {
    char at[NAME];
    int file;
};

static struct {
    FILE *to;
    const char *folders;
    struct name names[MOST_NAMES];
    size_t name_count;
    char headers[MOST_HEADERS][PATH];
    size_t header_count;
} all;

static void die(const char *what, const char *which)
{
    fprintf(stderr, "clattn_amalgamate: %s: %s\n", which, what);
    exit(1);
}

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    size_t size = 0;
    char *data = NULL;

    if (file == NULL)
        return NULL;
    for (size_t room = 1 << 16, got = 1; got > 0; room *= 2) {
        data = realloc(data, room + 1);
        if (data == NULL)
            die("no memory", path);
        got = fread(data + size, 1, room - size, file);
        size += got;
    }
    fclose(file);
    data[size] = '\0';
    return data;
}

/* ---- Tokens: a name, a number, a string, a comment, a line of the preprocessor, or one character ---- */

static int in_name(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static size_t quoted(const char *at)
{
    size_t length = 1;

    while (at[length] != '\0' && at[length] != at[0])
        length += at[length] == '\\' && at[length + 1] != '\0' ? 2 : 1;
    return length + 1;
}

static size_t token(const char *at)
{
    const char *end;
    size_t length = 0;

    if (at[0] == '"' || at[0] == '\'')
        return quoted(at);
    if (at[0] == '/' && at[1] == '*') {
        end = strstr(at, "*/");
        return end != NULL ? (size_t)(end - at) + 2 : strlen(at);
    }
    if (at[0] == '/' && at[1] == '/')
        return strcspn(at, "\n");
    while (in_name(at[length]))
        length++;
    return length > 0 ? length : 1;
}

static int is_word(const char *at, size_t length, const char *word)
{
    return strlen(word) == length && strncmp(at, word, length) == 0;
}

/* The end of a preprocessor's line, with those that it goes on with. */
static size_t directive(const char *at)
{
    size_t length = 0;

    for (; at[length] != '\0' && at[length] != '\n'; length++)
        if (at[length] == '\\' && at[length + 1] == '\n')
            length++;
    return length;
}

/* ---- What is local to a file ---- */

static void add_name(const char *at, size_t length, int file)
{
    struct name *name = &all.names[all.name_count];

    if (all.name_count == MOST_NAMES || length >= NAME)
        die("too many names", "MOST_NAMES");
    for (size_t i = 0; i < all.name_count; i++)
        if (all.names[i].file == file && is_word(at, length, all.names[i].at))
            return;
    memcpy(name->at, at, length);
    name->at[length] = '\0';
    name->file = file;
    all.name_count++;
}

/* Of one declaration at the level of the file: what it begins with, and where in it. */
struct declaration {
    int is_static, is_enum, is_struct, is_function, has_value, named, tokens;
    const char *last; /* the name before what comes now */
    size_t length;
};

static void see_word(struct declaration *seen, const char *at, size_t length)
{
    seen->is_static |= is_word(at, length, "static") && seen->tokens == 0;
    seen->is_enum |= is_word(at, length, "enum");
    seen->is_struct |= is_word(at, length, "struct") || is_word(at, length, "union");
    seen->last = at;
    seen->length = length;
    seen->tokens++;
}

/* Where a static's name ends: its parameters, its dims, its value; and a struct's or an enum's. */
static void see_mark(struct declaration *seen, char mark, int file)
{
    int names_static = seen->is_static && strchr("([=;", mark) != NULL;
    int names_tag = mark == '{' && !seen->is_function && !seen->has_value && (seen->is_struct || seen->is_enum) &&
                    !is_word(seen->last, seen->length, "enum") && !is_word(seen->last, seen->length, "struct");

    seen->is_function |= mark == '(' && !seen->has_value;
    seen->has_value |= mark == '=';
    if (seen->last == NULL || seen->named || !(names_static || names_tag))
        return;
    add_name(seen->last, seen->length, file);
    seen->named = names_static;
}

/* The constants of an enum whose braces are open. */
static void find_constants(const char *text, int file)
{
    int expected = 1;

    for (size_t length; *text != '\0' && *text != '}'; text += length) {
        length = token(text);
        if (expected && in_name(*text))
            add_name(text, length, file);
        if (in_name(*text) || *text == ',')
            expected = *text == ',';
    }
}

static void find_names(const char *text, int file)
{
    struct declaration seen = {0};
    int depth = 0;

    for (size_t length; *text != '\0'; text += length) {
        length = *text == '#' ? directive(text) : token(text);
        if (depth == 0 && in_name(*text))
            see_word(&seen, text, length);
        else if (depth == 0 && strchr("([=;{", *text) != NULL)
            see_mark(&seen, *text, file);
        if (depth == 0 && *text == '{' && seen.is_enum && !seen.is_function && !seen.has_value)
            find_constants(text + 1, file);
        depth += *text == '{' || *text == '(';
        depth -= *text == '}' || *text == ')';
        if (depth == 0 && (*text == ';' || (*text == '}' && seen.is_function)))
            seen = (struct declaration){0};
    }
}

static int is_renamed(const char *at, size_t length, int file)
{
    int own = 0, others = 0;

    for (size_t i = 0; i < all.name_count; i++)
        if (is_word(at, length, all.names[i].at)) {
            own |= all.names[i].file == file;
            others |= all.names[i].file != file;
        }
    return own && others;
}

/* ---- Writing ---- */

static void write_text(const char *text, int file);

static char *find_header(const char *name, size_t length, char path[PATH])
{
    for (const char *folder = all.folders; *folder != '\0'; folder += strspn(folder, "|")) {
        size_t size = strcspn(folder, "|");
        char *text;
        snprintf(path, PATH, "%.*s/%.*s", (int)size, folder, (int)length, name);
        text = read_file(path);
        if (text != NULL)
            return text;
        folder += size;
    }
    return NULL;
}

/* Once, but for lists (.def), which are read with another macro each time. */
static int is_new(const char *path)
{
    for (size_t i = 0; i < all.header_count; i++)
        if (strcmp(all.headers[i], path) == 0)
            return strstr(path, ".def") != NULL;
    if (all.header_count == MOST_HEADERS)
        die("too many headers", path);
    snprintf(all.headers[all.header_count++], PATH, "%s", path);
    return 1;
}

static void write_include(const char *line, size_t length)
{
    const char *name = strchr(line, '"') + 1;
    char path[PATH], *text = find_header(name, strcspn(name, "\""), path);

    if (text == NULL)
        die("not found", name);
    if (is_new(path))
        write_text(text, -1);
    else
        fputc('\n', all.to);
    free(text);
    (void)length;
}

static void write_directive(const char *line, size_t length, int file)
{
    size_t word = 1 + strspn(line + 1, " ");

    if (strncmp(line + word, "include \"", 9) == 0) {
        write_include(line, length);
        return;
    }
    for (size_t size, at = 0; at < length; at += size) {
        size = token(line + at);
        fprintf(all.to, "%.*s", (int)size, line + at);
        if (in_name(line[at]) && is_renamed(line + at, size, file))
            fprintf(all.to, "_%d", file);
    }
}

/* Members keep their names: they come after a point or an arrow. */
static void write_text(const char *text, int file)
{
    char before = ' ', before_that = ' ';

    for (size_t length; *text != '\0'; text += length) {
        int member;
        length = *text == '#' ? directive(text) : token(text);
        member = before == '.' || (before == '>' && before_that == '-');
        if (*text == '#')
            write_directive(text, length, file);
        else
            fprintf(all.to, "%.*s", (int)length, text);
        if (in_name(*text) && !member && is_renamed(text, length, file))
            fprintf(all.to, "_%d", file);
        before_that = before;
        before = text[length - 1];
    }
}

/* Macros end with their file. */
static void write_undefs(const char *text)
{
    for (const char *at = text; (at = strstr(at, "\n#define ")) != NULL;) {
        at += strlen("\n#define ");
        if (*at != '_')
            fprintf(all.to, "#undef %.*s\n", (int)token(at), at);
    }
}

int main(int count, char **words)
{
    char **texts = calloc((size_t)count, sizeof *texts);

    if (count < 4 || texts == NULL)
        die("expected OUTPUT FOLDERS FILE…", "arguments");
    all.folders = words[2];
    all.to = fopen(words[1], "wb");
    if (all.to == NULL)
        die("cannot write", words[1]);
    for (int i = 3; i < count; i++) {
        texts[i] = read_file(words[i]);
        if (texts[i] == NULL)
            die("cannot read", words[i]);
        find_names(texts[i], i);
    }
    fputs("/* clattn in one file, made from its sources: `cc -c clattn.c`, with the headers of OpenCL, cJSON and "
          "xxHash;\n"
          " * link with -lcjson -lm -ldl -pthread. */\n"
          "#ifndef CLATTN_STATIC\n#define CLATTN_STATIC\n#endif\n"
          "#ifndef _WIN32\n#define _POSIX_C_SOURCE 200809L\n#endif\n"
          "#ifndef _GNU_SOURCE\n#define _GNU_SOURCE\n#endif\n"
          "#ifndef _DEFAULT_SOURCE\n#define _DEFAULT_SOURCE\n#endif\n#define _FILE_OFFSET_BITS 64\n#define "
          "_DARWIN_C_SOURCE\n",
          all.to);
    for (int i = 3; i < count; i++) {
        const char *slash = strrchr(words[i], '/');
        fprintf(all.to, "\n/* ---- %s ---- */\n\n", slash != NULL ? slash + 1 : words[i]);
        write_text(texts[i], i);
        write_undefs(texts[i]);
        free(texts[i]);
    }
    free(texts);
    if (fclose(all.to) != 0)
        die("cannot write", words[1]);
    return 0;
}
