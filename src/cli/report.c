/* clattn report: what an issue about a device needs, in one file. Each section is this command with other words, in a
 * process of its own, so that a driver's crash is a line of the report. */
#include "base/json.h"
#include "base/system.h"
#include "base/text.h"
#include "base/thread.h"
#include "cli/cli.h"
#include "cli/process/interrupt.h"
#include "cli/out/origin.h"
#include "cli/process/workers.h"
#include "cli/out/progress.h"
#include "cli/out/table.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WORDS = 20 };

static const struct section {
    const char *name;
    int of_device; /* takes --device */
    const char *words[MAX_WORDS + 1], *quick[MAX_WORDS + 1];
} sections[] = {
    {"devices", 0, {"devices", "--json"}, {"devices", "--json"}},
    {"engines", 0, {"devices", "--probe", "--json"}, {"devices", "--probe", "--json"}},
    {"tuning", 1, {"tune", "--show", "--json"}, {"tune", "--show", "--json"}},
    {"verify",
     1,
     {"verify", "--json", "--quick"},
     {"verify", "--json", "--quick", "--dtype", "f32", "linear_attn", "gated_delta_rule", "kda", "mlstm",
      "softmax_attn"}},
    {"verify_half",
     1,
     {"verify", "--json", "--quick", "--dtype", "f16,bf16", "gla", "gated_delta_rule", "kda", "dplr"},
     {"verify", "--json", "--quick", "--dtype", "bf16", "--mode", "auto", "gla", "gated_delta_rule"}},
    {"bench",
     1,
     {"bench", "--json", "--dtype", "f32,bf16", "-s", "B=1,T=1024,H=8,K=64,V=64", "-s", "B=1,T=4096,H=16,K=128,V=128",
      "-s", "B=8,T=64,H=8,K=64,V=64", "-s", "B=4,T=2048,H=16,K=128,V=128", "-s", "B=64,T=1,H=16,K=128,V=128", "-s",
      "B=1,T=777,H=6,K=96,V=48", "gated_delta_rule"},
     {"bench", "--json", "--repeat", "3", "--dtype", "f32", "-s", "B=1,T=256,H=4,K=64,V=64", "gated_delta_rule"}},
};

enum { COUNT = sizeof sections / sizeof *sections };

static const struct column columns[] = {
    {"section", "section", COLUMN_WORD, 0, 0},
    {"seconds", "seconds", COLUMN_FIXED, 1, 0},
    {"failure", "failure", COLUMN_WORD, 0, 0},
    {"ok", "result", COLUMN_WORD, 0, 0},
};

/* ---- A report leaves out the names of folders, and so of users and hosts ----------------------------------------- */

static int begins_path(const char *text, const char *at)
{
    char before = at > text ? at[-1] : ' ';

    if (isalnum((unsigned char)before) || before == '/' || before == '.' || before == '_')
        return 0;
    if (isalpha((unsigned char)at[0]) && at[1] == ':' && (at[2] == '\\' || at[2] == '/'))
        return 1;
    return at[0] == '~' || (at[0] == '/' && (isalnum((unsigned char)at[1]) || at[1] == '_' || at[1] == '.'));
}

/* The text with "<path>" for each path, to be freed. */
static char *without_paths(const char *text)
{
    struct text out = {0};

    for (const char *at = text; *at != '\0';) {
        size_t length = begins_path(text, at) ? strcspn(at, " \t\n,;:'\")") : 0;
        if (length > 0 && isalpha((unsigned char)at[0])) /* a drive */
            length = 2 + strcspn(at + 2, " \t\n,;:'\")");
        if (length == 0) {
            text_add(&out, at++, 1);
            continue;
        }
        at += length;
        text_format(&out, "<path>");
    }
    return text_take(&out);
}

static void remove_paths(cJSON *item)
{
    char *text = cJSON_IsString(item) ? without_paths(item->valuestring) : NULL;
    cJSON *child;

    if (text != NULL)
        cJSON_SetValuestring(item, text);
    free(text);
    cJSON_ArrayForEach(child, item) remove_paths(child);
}

/* ---- Sections ---------------------------------------------------------------------------------------------------- */

static struct workers workers;
static mutex printing; /* an interrupt never gives it back: nothing is printed or written after it */

/* Called at SIGINT, SIGTERM and SIGHUP, on a thread of its own. */
static void on_interrupt(void *user, int signal)
{
    (void)user;
    lock_take(&printing);
    workers_stop(&workers);
    failed("interrupted, no report is written");
    interrupt_exit(signal);
}

static const char *const *section_words(const struct settings *settings, const struct section *section)
{
    return settings->quick ? section->quick : section->words;
}

/* What a section's process prints: messages, and JSON from the first line that begins with { or [. */
struct printed {
    struct text messages, json;
};

static void on_line(void *user, char *line)
{
    struct printed *printed = user;
    struct text *to = printed->json.size > 0 || *line == '{' || *line == '[' ? &printed->json : &printed->messages;

    text_format(to, "%s\n", line);
}

/* Runs the section's words, with this program in front and the device at the end. */
static void run_words(const struct settings *settings, const struct section *section, struct printed *printed,
                      char *how, size_t size)
{
    const char *words[MAX_WORDS + 4] = {settings->program};
    size_t count = 1;

    for (const char *const *word = section_words(settings, section); *word != NULL; word++)
        words[count++] = *word;
    if (section->of_device && settings->device != NULL) {
        words[count++] = "--device";
        words[count] = settings->device;
    }
    workers_run(&workers, words, on_line, printed, how, size);
}

static cJSON *run_section(const struct settings *settings, const struct section *section)
{
    struct printed printed = {{0}, {0}};
    cJSON *object = cJSON_CreateObject(), *result;
    char how[128], *messages, *json;
    double begin = now_seconds();

    cJSON_AddStringToObject(object, "section", section->name);
    run_words(settings, section, &printed, how, sizeof how);
    messages = text_take(&printed.messages);
    json = text_take(&printed.json);
    result = json_parse(json);
    cJSON_AddNumberToObject(object, "seconds", now_seconds() - begin);
    cJSON_AddBoolToObject(object, "ok", strcmp(how, "exit status 0") == 0 && result != NULL);
    cJSON_AddStringToObject(object, "ended", how);
    if (messages != NULL)
        cJSON_AddStringToObject(object, "messages", messages);
    if (result != NULL)
        cJSON_AddItemToObject(object, "result", result);
    free(messages);
    free(json);
    return object;
}

/* ---- Failures, each with the command that repeats it ------------------------------------------------------------- */

static void add_failure(const struct settings *settings, cJSON *failures, struct text *line)
{
    char *text;

    if (settings->device != NULL)
        text_format(line, " --device '%s'", settings->device);
    text = text_take(line);
    if (text != NULL)
        cJSON_AddItemToArray(failures, cJSON_CreateString(text));
    free(text);
}

static void add_row_failures(const struct settings *settings, cJSON *failures, const cJSON *row)
{
    const cJSON *outcome;

    cJSON_ArrayForEach(outcome, cJSON_GetObjectItemCaseSensitive(row, "outcomes"))
    {
        struct text line = {0};
        if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(outcome, "ok")))
            continue;
        text_format(&line, "clattn verify %s --dtype %s --mode %s --quick -v --jobs 1", row_string(row, "rule"),
                    row_string(row, "dtype"), row_string(outcome, "mode"));
        add_failure(settings, failures, &line);
    }
}

static void add_failures(const struct settings *settings, const struct section *section, cJSON *object, cJSON *failures)
{
    const cJSON *rows = cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(object, "result"), "results"),
                *row;
    int before = cJSON_GetArraySize(failures);
    struct text line = {0};

    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, "ok")))
        return;
    cJSON_ArrayForEach(row, rows) add_row_failures(settings, failures, row);
    if (cJSON_GetArraySize(failures) > before)
        return;
    text_format(&line, "clattn");
    for (const char *const *word = section_words(settings, section); *word != NULL; word++)
        text_format(&line, " %s", *word);
    add_failure(settings, failures, &line);
}

static void print_row(const struct table *table, const cJSON *section)
{
    cJSON *row = cJSON_CreateObject();
    int ok = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(section, "ok"));

    cJSON_AddStringToObject(row, "section", row_string(section, "section"));
    cJSON_AddNumberToObject(row, "seconds", json_number(section, "seconds"));
    cJSON_AddStringToObject(row, "failure", ok ? "" : row_string(section, "ended"));
    cJSON_AddBoolToObject(row, "ok", ok);
    table_row(table, row);
    fflush(stdout);
    cJSON_Delete(row);
}

/* ---- The command ------------------------------------------------------------------------------------------------- */

static cJSON *make_report(const struct settings *settings, const struct table *table, cJSON **failures)
{
    cJSON *report = cJSON_CreateObject(), *list;

    origin_add(report, NULL);
    cJSON_AddStringToObject(report, "system", origin_system());
    cJSON_AddNumberToObject(report, "pointer_bits", (double)(8 * sizeof(void *)));
    cJSON_AddStringToObject(report, "compiler", origin_compiler());
    cJSON_AddBoolToObject(report, "quick", settings->quick);
    list = cJSON_AddArrayToObject(report, "sections");
    *failures = cJSON_AddArrayToObject(report, "failures");
    for (size_t i = 0; i < COUNT; i++) {
        cJSON *section = run_section(settings, &sections[i]);
        lock_take(&printing);
        add_failures(settings, &sections[i], section, *failures);
        remove_paths(section);
        cJSON_AddItemToArray(list, section);
        if (table != NULL)
            print_row(table, section);
        lock_give(&printing);
    }
    return report;
}

int report_main(struct settings *settings)
{
    struct table table;
    int to_stdout = settings->output == NULL || strcmp(settings->output, "-") == 0, status;
    cJSON *report, *failures, *line;

    workers_init(&workers);
    lock_init(&printing);
    interrupt_watch(on_interrupt, NULL);
    if (!to_stdout) {
        table_begin(&table, columns, sizeof columns / sizeof *columns, FORMAT_TEXT);
        table.widths[0] = 11;
        table.widths[2] = 32;
        table_head(&table);
    }
    report = make_report(settings, to_stdout ? NULL : &table, &failures);
    lock_take(&printing);
    status = json_write(settings->output, report);
    cJSON_ArrayForEach(line, failures) status =
        failed("failed: %s", line->valuestring) == EXIT_FAILED ? EXIT_FAILED : status;
    cJSON_Delete(report);
    return status;
}
