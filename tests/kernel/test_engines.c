/* Rows of the engines' table against each other and against the headers that they name: what a real engine's
 * instructions supply to the kernels, its emulations supply too. Without any device or compiler. */
#include "harness.h"

#include "base/embedded.h"
#include "device/engine.h"
#include "solve/kernel_step.h"
#include "device/engine.h"
#include "solve/kernel_step.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const struct pair {
    const char *real, *twin;
} pairs[] = {
    {"nvidia", "nvidia_emulated"},       {"nvidia", "nvidia_threads"},      {"nvidia_sm80", "nvidia_emulated"},
    {"nvidia_sm80", "nvidia_threads"},   {"amd_cdna", "amd_cdna_emulated"}, {"amd_rdna3", "amd_rdna3_emulated"},
    {"amd_rdna4", "amd_rdna4_emulated"}, {"intel_8", "intel_8_emulated"},   {"intel_16", "intel_16_emulated"},
    {"intel_8", "intel_8_shuffles"},     {"intel_16", "intel_16_shuffles"},
};

/* Words of readers' signals: an emulation without readers has none. */
static const char *const signals[] = {"engine_signal", "engine_signal_all", "engine_wait"};

/* The header with those that it includes */
static char *header_text(const char *name)
{
    char include[128];
    char *text;

    snprintf(include, sizeof include, "#include \"%s\"\n", name);
    text = kernel_flatten(include);
    assert_non_null(text);
    if (strstr(text, include) != NULL)
        fail_msg("there is no %s", name);
    return text;
}

static int is_letter(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Whether the text has the name as a word of its own */
static int has_word(const char *text, const char *name)
{
    size_t length = strlen(name);

    for (const char *at = strstr(text, name); at != NULL; at = strstr(at + 1, name))
        if ((at == text || !is_letter(at[-1])) && !is_letter(at[length]))
            return 1;
    return 0;
}

/* A name that is defined on this line: of a macro, or a function at its begin; "" for none */
static void defined_on(const char *line, char name[64])
{
    size_t length = strcspn(line, "\n"), bracket = strcspn(line, "(");

    name[0] = '\0';
    if (sscanf(line, "#define %63[A-Za-z0-9_]", name) == 1 || bracket >= length || !isalpha((unsigned char)*line))
        return;
    if (strstr(line, "__attribute__") != NULL && strstr(line, "__attribute__") < line + length)
        return; /* a built-in function is declared */
    for (length = bracket; length > 0 && is_letter(line[length - 1]); length--)
        ;
    if (bracket - length < 64)
        snprintf(name, 64, "%.*s", (int)(bracket - length), line + length);
}

/* NULL after the last. The body of a function, whose brace begins a line, is passed over. */
static const char *next_line(const char *line)
{
    const char *end = strchr(line, '\n');
    int depth = 0;

    if (end == NULL || end[1] != '{')
        return end != NULL ? end + 1 : NULL;
    do {
        end++;
        depth += (*end == '{') - (*end == '}');
    } while (depth > 0 && *end != '\0');
    return next_line(end);
}

static int defines(const char *text, const char *name)
{
    char found[64];

    for (const char *line = text; line != NULL; line = next_line(line)) {
        defined_on(line, found);
        if (strcmp(found, name) == 0)
            return 1;
    }
    return 0;
}

/* Whether a kernel, or an engine's words, have the name */
static int is_used(const char *name)
{
    static const char *const users[] = {"engine_", "matrix",  "scan_",  "gather_", "prepare_", "probe_",
                                        "scores_", "values_", "source", "stage",   "kept_",    "flash_"};
    int used = 0;

    for (enum embedded_file i = 0; i < FILE_COUNT; i++)
        for (size_t j = 0; j < COUNT(users) && !used; j++)
            used = strncmp(embedded_files[i].name, users[j], strlen(users[j])) == 0 &&
                   has_word(embedded_files[i].text, name);
    return used;
}

static int is_signal(const char *name)
{
    for (size_t i = 0; i < COUNT(signals); i++)
        if (strcmp(signals[i], name) == 0)
            return 1;
    return 0;
}

/* Every word of one engine's instructions that is used is one of the other's, too. */
static void check_supplied(const struct engine *one, const struct engine *other)
{
    char *has = header_text(embedded_files[one->instructions].name),
         *needs = header_text(embedded_files[other->instructions].name), name[64];

    for (const char *line = has; line != NULL; line = next_line(line)) {
        defined_on(line, name);
        if (name[0] == '\0' || defines(needs, name) || (is_signal(name) && !other->readers))
            continue;
        if (is_used(name))
            fail_msg("%s has %s for %s, but not for %s", embedded_files[one->instructions].name, name, one->name,
                     other->name);
    }
    free(has);
    free(needs);
}

/* A number that the engine's headers define is that of its row. */
static void check_number(const struct engine *engine, const char *name, int value)
{
    char *instructions = header_text(embedded_files[engine->instructions].name),
         *words = header_text(embedded_files[engine->words].name), define[64];
    const char *at;
    int number = -1;

    snprintf(define, sizeof define, "#define %s ", name);
    at = strstr(instructions, define);
    at = at != NULL ? at : strstr(words, define);
    if (at == NULL || sscanf(at + strlen(define), "%d", &number) != 1 || number != value)
        fail_msg("%s: %s is %d in its headers, %d in its row", engine->name, name, number, value);
    free(instructions);
    free(words);
}

static void test_twins(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(pairs); i++) {
        const struct engine *real = engine_get(pairs[i].real), *twin = engine_get(pairs[i].twin);
        assert_true(real != NULL && twin != NULL);
        if (real->words != twin->words || real->lanes != twin->lanes || real->rows != twin->rows ||
            real->key_split != twin->key_split || real->span != twin->span || real->chunk != twin->chunk)
            fail_msg("the rows of %s and %s differ", real->name, twin->name);
        assert_true(real->vendor != 0 && twin->vendor == 0);
        check_supplied(real, twin);
        check_supplied(twin, real);
    }
}

static void test_numbers(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(pairs); i++) {
        const struct engine *both[] = {engine_get(pairs[i].real), engine_get(pairs[i].twin)};
        for (size_t j = 0; j < 2; j++) {
            check_number(both[j], "ENGINE_LANES", both[j]->lanes);
            check_number(both[j], "ACC_ROWS", both[j]->rows);
        }
    }
}

/* Every engine is in a pair, and no generation of a vendor's has two. */
static void test_rows(void **state)
{
    char names[1024];

    (void)state;
    snprintf(names, sizeof names, "%s", engine_names());
    for (const char *name = strtok(names, ", "); name != NULL; name = strtok(NULL, ", ")) {
        int paired = strcmp(name, "none") == 0;
        for (size_t i = 0; i < COUNT(pairs); i++)
            paired |= strcmp(pairs[i].real, name) == 0 || strcmp(pairs[i].twin, name) == 0;
        if (!paired)
            fail_msg("%s has no twin in this test", name);
    }
    for (size_t i = 0; i < COUNT(pairs); i++)
        for (size_t j = 0; j < i; j++) {
            const struct engine *a = engine_get(pairs[i].real), *b = engine_get(pairs[j].real);
            if (a != b && a->vendor == b->vendor && a->first <= b->last && b->first <= a->last)
                fail_msg("%s and %s are both for one generation", a->name, b->name);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_twins), cmocka_unit_test(test_numbers),
                                       cmocka_unit_test(test_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
