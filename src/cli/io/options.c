/* THE table of options, and the functions that store their values. */
#include "cli/io/option_table.h"

#include "base/decimal.h"
#include "base/text.h"
#include "cli/io/desc_options.h"
#include "cli/io/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Subcommands that take several types and modes, and those that time. */
enum { MANY = COMMAND_VERIFY | COMMAND_BENCH, TIMES = COMMAND_BENCH | COMMAND_TUNE | COMMAND_GEMM };
enum {
    TABLES = MANY | COMMAND_DIFF | COMMAND_GEMM,
    LISTS = COMMAND_DEVICES | COMMAND_RULES | COMMAND_CACHE | COMMAND_TUNE | COMMAND_LAYER
};
enum { PROBLEM = COMMAND_MAKE_INPUT | COMMAND_RUN | COMMAND_VERIFY | COMMAND_BENCH };
#define JOBS_HELP "worker processes; verify: all cores; tune builds ahead with them [1; on a GPU the cores, up to 16]"
enum { MAX_JOBS = 64 };

int set_desc_option(struct settings *settings, enum option_id option, const char *what, const char *text)
{
    settings->given.has[option] = 1;
    return desc_option_read(option, what, text, &settings->desc);
}

static int no_desc_option(const char *name)
{
    const char *nearest = desc_option_nearest(name);

    if (nearest != NULL)
        return bad("--option has no '%s', did you mean %s?", name, nearest);
    return bad("--option has no '%s', see `clattn rules RULE`", name);
}

static int set_option(struct settings *settings, const char *text)
{
    const char *equals = strchr(text, '=');
    enum option_id option;
    char name[32];

    if (equals == NULL || (size_t)(equals - text) >= sizeof name)
        return bad("--option is '%s', expected name=value", text);
    memcpy(name, text, (size_t)(equals - text));
    name[equals - text] = '\0';
    option = desc_option_find(name);
    return option == OPTION_COUNT ? no_desc_option(name) : set_desc_option(settings, option, name, equals + 1);
}

/* In a desc 0 means the rule's own scale, which a user who types 0 does not mean. */
static int set_scale(struct settings *settings, const char *text)
{
    if (set_desc_option(settings, OPTION_scale, "--scale", text) != EXIT_OK)
        return EXIT_BAD;
    if (settings->desc.scale == 0)
        return bad("--scale is '%s', expected another number; without --scale it is the rule's own", text);
    return EXIT_OK;
}

static int set_shape(struct settings *settings, const char *text)
{
    if (settings->shape_count == MAX_SHAPES)
        return bad("--shape is given more than %d times", MAX_SHAPES);
    if (settings->shape_count == 1 && !(settings->command->bit & (MANY | TIMES)))
        return bad("--shape is given twice");
    return shape_read(text, &settings->shapes[settings->shape_count++]);
}

/* Reads one word, or a list if the subcommand takes several. */
static int set_list(struct settings *settings, const char *what, const struct word *words, const char *text,
                    int values[3], size_t *count)
{
    if (*count > 0)
        return bad("%s is given twice", what);
    if (word_list_read(what, words, text, values, 3, count) != EXIT_OK)
        return EXIT_BAD;
    if (*count > 1 && !(settings->command->bit & (MANY | TIMES)))
        return bad("%s is '%s', expected one for %s", what, text, settings->command->name);
    return EXIT_OK;
}

static int set_dtype(struct settings *settings, const char *text)
{
    int values[DTYPE_COUNT];

    if (set_list(settings, "--dtype", dtype_words, text, values, &settings->dtype_count) != EXIT_OK)
        return EXIT_BAD;
    for (size_t i = 0; i < settings->dtype_count; i++)
        settings->dtypes[i] = (clattn_dtype)values[i];
    return EXIT_OK;
}

static int set_mode(struct settings *settings, const char *text)
{
    int values[MODE_COUNT];

    if (set_list(settings, "--mode", mode_words, text, values, &settings->mode_count) != EXIT_OK)
        return EXIT_BAD;
    for (size_t i = 0; i < settings->mode_count; i++)
        settings->modes[i] = (clattn_mode)values[i];
    return EXIT_OK;
}

static int set_split(struct settings *settings, const char *text)
{
    return word_read("--split", split_words, text, &settings->split);
}

static int set_gate_dtype(struct settings *settings, const char *text)
{
    int value;

    if (word_read("--gate-dtype", dtype_words, text, &value) != EXIT_OK)
        return EXIT_BAD;
    settings->desc.gate_dtype = (clattn_dtype)value;
    return EXIT_OK;
}

static int set_chunk(struct settings *settings, const char *text)
{
    int64_t chunk;

    if (number_read("--chunk", text, 0, INT32_MAX, &chunk) != EXIT_OK)
        return EXIT_BAD;
    settings->desc.chunk = (int32_t)chunk;
    return EXIT_OK;
}

static int set_varlen(struct settings *settings, const char *text)
{
    size_t count;

    if (number_list_read("--varlen", text, &settings->cu_seqlens, &count) != EXIT_OK)
        return EXIT_BAD;
    settings->sequences = (int64_t)count - 1;
    return cu_seqlens_check("--varlen", "cu_seqlens", settings->cu_seqlens, count, settings->cu_seqlens[count - 1]);
}

static int set_bound(struct settings *settings, const char *text)
{
    if (real_read("--bound", text, &settings->bound) != EXIT_OK)
        return EXIT_BAD;
    return settings->bound >= 0 ? EXIT_OK : bad("--bound is '%s', expected 0 or more", text);
}

static int set_seed(struct settings *settings, const char *text)
{
    int64_t seed;

    if (number_read("--seed", text, 0, INT64_MAX, &seed) != EXIT_OK)
        return EXIT_BAD;
    settings->seed = (uint64_t)seed;
    return EXIT_OK;
}

static int set_repeat(struct settings *settings, const char *text)
{
    return number_read("--repeat", text, 1, 1000000, &settings->repeat);
}

static int set_jobs(struct settings *settings, const char *text)
{
    return number_read("--jobs", text, 1, MAX_JOBS, &settings->jobs);
}

/* "60", "60s", "2m", "1h" */
static int set_budget(struct settings *settings, const char *text)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}};
    double number = 0;
    const char *unit = decimal_read(text, &number);

    for (size_t i = 0; i < sizeof units / sizeof *units && unit != NULL; i++)
        if (strcmp(units[i].name, unit) == 0)
            settings->budget = number * units[i].seconds;
    if (!(settings->budget >= 1 && settings->budget <= 86400))
        return bad("--budget is '%s', expected 1s to 24h", text);
    return EXIT_OK;
}

static int set_pass(struct settings *settings, const char *text)
{
    return set_list(settings, "--pass", pass_words, text, settings->passes, &settings->pass_count);
}

static int set_format(struct settings *settings, enum format format)
{
    if (settings->format != FORMAT_TEXT && settings->format != format)
        return bad("expected one of --json, --jsonl, --csv and --markdown");
    settings->format = format;
    return EXIT_OK;
}

static int set_json(struct settings *settings, const char *text)
{
    (void)text;
    return set_format(settings, FORMAT_JSON);
}

static int set_jsonl(struct settings *settings, const char *text)
{
    (void)text;
    return set_format(settings, FORMAT_JSONL);
}

static int set_csv(struct settings *settings, const char *text)
{
    (void)text;
    return set_format(settings, FORMAT_CSV);
}

static int set_markdown(struct settings *settings, const char *text)
{
    (void)text;
    return set_format(settings, FORMAT_MARKDOWN);
}

const struct option options[] = {
    {"input", 'i', "FILE", COMMAND_RUN | COMMAND_LAYER, offsetof(struct settings, input), NULL,
     "safetensors file to read; - for standard input"},
    {"output", 'o', "FILE", COMMAND_RUN | COMMAND_MAKE_INPUT | COMMAND_REPORT | COMMAND_LAYER | COMMAND_PLOT,
     offsetof(struct settings, output), NULL,
     "file to write: safetensors; report: JSON; plot: a picture (FILE.svg) or CSV; - for standard output"},
    {"x", 'x', "FILE", COMMAND_LAYER, offsetof(struct settings, x), NULL,
     "safetensors file with x, [B,T,hidden], and with conv_state and state to continue a sequence [the checkpoint]"},
    {"prefix", 0, "TEXT", COMMAND_LAYER, offsetof(struct settings, prefix), NULL,
     "prefix of the layer's tensor names, such as model.layers.0.linear_attn. [none]"},
    {"backward", 0, NULL, COMMAND_LAYER, offsetof(struct settings, backward), NULL,
     "write gradients, from d_y beside x, and from d_final_conv_state and d_final_state if they are there"},
    {"no-clobber", 0, NULL, COMMAND_RUN | COMMAND_MAKE_INPUT | COMMAND_LAYER | COMMAND_PLOT,
     offsetof(struct settings, no_clobber), NULL, "do not replace an existing file"},
    {"clobber", 0, NULL, COMMAND_RUN | COMMAND_MAKE_INPUT | COMMAND_LAYER | COMMAND_PLOT,
     offsetof(struct settings, clobber), NULL, "replace an existing file without asking"},
    {"device", 'd', "SPEC", COMMAND_RUN | COMMAND_TUNE | COMMAND_REPORT | COMMAND_GEMM | COMMAND_LAYER | MANY,
     offsetof(struct settings, device), NULL,
     "index from `clattn devices`, part of a name, or reference (the CPU in double precision)"},
    {"shape", 's', "B=,T=,H=,K=,V=[,HQ=,HK=,TK=]", COMMAND_MAKE_INPUT | COMMAND_TUNE | COMMAND_LAYER | MANY, 0,
     set_shape, "sizes; `clattn rules` says what the letters are; verify, bench, tune: several"},
    {"dtype", 't', "f32|f16|bf16", COMMAND_MAKE_INPUT | COMMAND_TUNE | COMMAND_GEMM | MANY | PER_WORKER, 0, set_dtype,
     "storage of q, k, v, o; a list for verify, bench, tune"},
    {"gate-dtype", 0, "f32|f16|bf16", COMMAND_MAKE_INPUT | MANY, 0, set_gate_dtype, "storage of the gates [f32]"},
    {"mode", 'm', "auto|recurrent|chunk", COMMAND_RUN | MANY | PER_WORKER, 0, set_mode,
     "which solver; a list for verify, bench"},
    {"chunk", 0, "N", COMMAND_RUN | MANY, 0, set_chunk,
     "tokens per chunk, the nearest of 8, 16, 32 and 64 that fits; 0: the device's best"},
    {"split", 0, "tokens|heads|batch", COMMAND_RUN | MANY, 0, set_split,
     "between the processes of mpirun -n N, one a device; the program clattn_mpi, where there is an MPI"},
    {"scale", 0, "X", PROBLEM, 0, set_scale, "multiplies q [1/sqrt(K); rwkv7, hgrn, lru, mamba, ssd, mesa_net: 1]"},
    {"qk-l2norm", 0, NULL, PROBLEM, DESC_OPTION, NULL, "--option qk_l2norm=on"},
    {"normalize", 0, NULL, PROBLEM, DESC_OPTION, NULL, "--option normalize=on"},
    {"feature-map", 0, "identity|elu1|relu", PROBLEM, DESC_OPTION, NULL, "--option feature_map"},
    {"attn", 0, NULL, COMMAND_RUN, DESC_OPTION, NULL, "--option attn=on"},
    {"option", 0, "NAME=VALUE", PROBLEM | COMMAND_LAYER, 0, set_option,
     "an option of the rule: see `clattn rules RULE`; of a layer: listed below"},
    {"seed", 0, "N", COMMAND_MAKE_INPUT | COMMAND_TUNE | MANY, 0, set_seed, "seed of the random numbers [0]"},
    {"varlen", 0, "0,1,100", COMMAND_MAKE_INPUT, 0, set_varlen,
     "pack sequences with these boundaries; keys of TK are divided in proportion"},
    {"common", 0, NULL, COMMAND_DIFF, offsetof(struct settings, common), NULL,
     "compare only the tensors that both files have"},
    {"bound", 0, "X", COMMAND_DIFF, 0, set_bound, "largest error [as verify's: 1e-5; 5e-3 of files with f16 or bf16]"},
    {"initial-state", 0, NULL, COMMAND_MAKE_INPUT, offsetof(struct settings, initial_state), NULL,
     "add an initial state"},
    {"gemm", 0, NULL, COMMAND_TUNE, offsetof(struct settings, gemm), NULL,
     "tune matrix products: M=..,N=..,K=..[,B=..] in place of rules"},
    {"provider", 0, "NAME", COMMAND_GEMM, offsetof(struct settings, provider), NULL,
     "only plain, engine, team, gemv or clblast [all, and the one that a plan chooses]"},
    {"transpose", 0, "nn|nt|tn|tt", COMMAND_GEMM | COMMAND_TUNE, offsetof(struct settings, transpose), NULL,
     "layout of a and b: n normal, t transposed [nn]"},
    {"repeat", 'n', "N", COMMAND_BENCH | COMMAND_GEMM, 0, set_repeat, "timed runs [20]; fewer when they are slow"},
    {"pass", 'p', "forward|backward|step", COMMAND_BENCH, 0, set_pass,
     "outputs, gradients, or one token with its state; a list [forward]"},
    {"pass", 'p', "forward|backward", (PROBLEM & ~COMMAND_BENCH) | COMMAND_TUNE, DESC_OPTION, NULL, "--option pass"},
    {"budget", 'b', "60s", COMMAND_TUNE, 0, set_budget, "time for a group of rules, type and shape [60s]"},
    {"show", 0, NULL, COMMAND_TUNE, offsetof(struct settings, show), NULL,
     "print the known parameters of the device, and stop"},
    {"export", 0, "FILE", COMMAND_TUNE, offsetof(struct settings, export_to), NULL,
     "copy the user's parameters to a file, and stop"},
    {"import", 0, "FILE", COMMAND_TUNE, offsetof(struct settings, import_from), NULL,
     "merge a file into the user's parameters, and stop"},
    {"submit", 0, "FILE", COMMAND_TUNE, offsetof(struct settings, submit_to), NULL,
     "write the device's facts and parameters for devices/ of the sources, and stop"},
    {"reset", 0, NULL, COMMAND_TUNE, offsetof(struct settings, reset), NULL,
     "forget the device's parameters, and stop"},
    {"compare", 0, NULL, COMMAND_TUNE, offsetof(struct settings, compare), NULL,
     "time the known parameters against the default, and stop"},
    {"dry-run", 0, NULL, COMMAND_TUNE, offsetof(struct settings, dry_run), NULL, "search without keeping anything"},
    {"point", 0, "BYTES", COMMAND_TUNE | PER_WORKER, offsetof(struct settings, point), NULL, NULL},
    {"report", 0, "FILE", COMMAND_TUNE, offsetof(struct settings, report), NULL,
     "write all that was tried to a JSON file [tuning-report.json beside the user's parameters]"},
    {"list", 0, NULL, COMMAND_CACHE, offsetof(struct settings, list), NULL, "print every entry (the default)"},
    {"clear", 0, NULL, COMMAND_CACHE, offsetof(struct settings, clear), NULL, "remove every entry"},
    {"quick", 0, NULL, COMMAND_VERIFY | COMMAND_REPORT, offsetof(struct settings, quick), NULL,
     "verify: one case a type (odd sizes in f32, grouped heads in f16, packed sequences in bf16); report: a rule of "
     "each kind"},
    {"probe", 0, NULL, COMMAND_DEVICES, offsetof(struct settings, probe), NULL,
     "multiply two matrices on each device's matrix engine, as the first plan does"},
    {"jobs", 'j', "N", COMMAND_VERIFY | COMMAND_TUNE | PER_WORKER, 0, set_jobs, JOBS_HELP},
    {"json", 0, NULL, LISTS | TABLES | PER_WORKER, 0, set_json, "print JSON"},
    {"jsonl", 0, NULL, COMMAND_VERIFY | PER_WORKER, 0, set_jsonl,
     "print one line of JSON for each case as soon as it is done"},
    {"csv", 0, NULL, LISTS | TABLES | PER_WORKER, 0, set_csv, "print comma-separated values"},
    {"markdown", 0, NULL, LISTS | TABLES | PER_WORKER, 0, set_markdown, "print a Markdown table"},
    {"verbose", 'v', NULL, COMMAND_RUN | COMMAND_LAYER | COMMAND_MAKE_INPUT | COMMAND_GEMM | MANY | PER_WORKER,
     offsetof(struct settings, verbose), NULL, "say more: all cases, plans, times"},
    {"quiet", 'q', NULL, COMMAND_RUN | COMMAND_LAYER | COMMAND_MAKE_INPUT | COMMAND_TUNE | TABLES,
     offsetof(struct settings, quiet), NULL, "no warnings, no progress; run: no last line; diff: only the exit status"},
    {"help", 'h', NULL, ~0U, offsetof(struct settings, help), NULL, "this text"},
};

const size_t option_count = sizeof options / sizeof *options;
