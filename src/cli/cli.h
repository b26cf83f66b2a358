/* What the subcommands share: exit codes, messages, and the settings that the options make. */
#ifndef CLATTN_SRC_CLI_CLI_H
#define CLATTN_SRC_CLI_CLI_H

#include "clattn.h"
#include "base/log.h"
#include "op/options.h"

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_BAD = 2 };

/* ---- Messages: one line each, on stderr, control characters replaced --------------------------------------------- */

/* Prints "clattn: LINE" and returns EXIT_BAD, as in: return bad("%s: …", path). */
int bad(const char *format, ...) PRINTF_LIKE(1, 2);
/* The same for failures that are not the user's mistake. Returns EXIT_FAILED. */
int failed(const char *format, ...) PRINTF_LIKE(1, 2);
void warn(const char *format, ...) PRINTF_LIKE(1, 2);
/* Neither an error nor a warning. */
void note(const char *format, ...) PRINTF_LIKE(1, 2);

/* Turns warnings, notes and progress off. */
void messages_quiet(void);
/* Prints what the library says for information. */
void messages_verbose(void);

/* Of a process that does not print: keeps the first error in line, which is empty, and drops everything else. */
void messages_keep(char *line, size_t size);

/* Keeps the first error and the first warning that the library logs, and prints warnings. Pass sink_log with a struct
 * sink. */
struct sink {
    char error[1024], warning[1024];
};
void sink_log(void *user, clattn_log_level level, const char *message);
/* Prints "WHERE: ERROR" with the kept error and forgets it. Returns the exit code for the status. */
int library_error(struct sink *sink, const char *where, clattn_status status);

/* ---- Settings ---------------------------------------------------------------------------------------------------- */

enum format { FORMAT_TEXT, FORMAT_JSON, FORMAT_CSV, FORMAT_MARKDOWN, FORMAT_JSONL };

struct shape {
    int64_t batch, seq_len, heads, qk_heads, key_dim, value_dim, kv_heads, kv_len; /* 0: not given */
};

enum { MAX_SHAPES = 64, MAX_RULES = 64, DTYPE_COUNT = 3, MODE_COUNT = 3 };

/* What several processes divide; the numbers are those of clattn_mpi_split. */
enum split { SPLIT_NONE, SPLIT_TOKENS, SPLIT_HEADS, SPLIT_BATCH };
struct ranks;

/* What bench times: the outputs of whole sequences, the gradients of their inputs, or one token with its state. */
enum bench_pass { BENCH_FORWARD, BENCH_BACKWARD, BENCH_STEP, BENCH_PASSES };

struct settings {
    const struct command *command;
    const char *program;     /* the name that the command was called by */
    clattn_plan_desc desc;   /* from --scale, --option and others; shapes, types and modes are in the lists below */
    struct option_set given; /* options that were given */
    const char *input, *output, *device;
    const char *files[2];   /* of diff and plot; for layer the layer's name */
    const char *x, *prefix; /* of layer */
    size_t file_count;
    int common;   /* of diff */
    double bound; /* of diff; negative: the bound of each type */
    clattn_rule rules[MAX_RULES];
    struct shape shapes[MAX_SHAPES];
    clattn_dtype dtypes[DTYPE_COUNT];
    clattn_mode modes[MODE_COUNT];
    size_t rule_count, shape_count, dtype_count, mode_count, pass_count;
    int64_t *cu_seqlens; /* of --varlen: sequences + 1 entries, owned; or NULL */
    int64_t sequences;
    uint64_t seed;
    int64_t repeat;            /* 0: the default */
    int64_t jobs;              /* 0: the default */
    int passes[BENCH_PASSES];  /* --pass of bench: enum bench_pass */
    int split;                 /* --split: enum split */
    const struct ranks *ranks; /* the processes that divide the problem; NULL: there is only this one */
    int initial_state, verbose, quiet, help;
    int backward;                      /* of layer */
    int no_clobber, clobber;           /* --no-clobber, --clobber */
    int quick;                         /* of verify and report */
    int probe;                         /* of devices */
    int list, clear;                   /* of cache */
    int show, reset, compare, dry_run; /* of tune */
    const char *export_to, *import_from, *submit_to, *report;
    const char *point;                /* of a worker process of tune */
    const char *provider, *transpose; /* of gemm, and of tune --gemm */
    int gemm;
    double budget; /* seconds for each group of rules; 0: the default */
    enum format format;
    const char **passed_on; /* arguments that verify also gives to its worker processes; owned */
    size_t passed_on_count;
};

/* ---- Subcommands ------------------------------------------------------------------------------------------------- */

enum {
    COMMAND_DEVICES = 1,
    COMMAND_RULES = 2,
    COMMAND_MAKE_INPUT = 4,
    COMMAND_RUN = 8,
    COMMAND_VERIFY = 16,
    COMMAND_BENCH = 32,
    COMMAND_CACHE = 64,
    COMMAND_TUNE = 128,
    COMMAND_DIFF = 256,
    COMMAND_REPORT = 512,
    COMMAND_GEMM = 1024,
    COMMAND_LAYER = 2048,
    COMMAND_PLOT = 4096
};

struct command {
    const char *name;
    unsigned bit;
    size_t words_min, words_max; /* how many arguments: rules, or what add_word in io/options_read.c makes of them */
    int (*main)(struct settings *settings);
    const char *usage, *summary;
};

extern const struct command command_table[];
extern const size_t command_count;

int devices_main(struct settings *settings);
int rules_main(struct settings *settings);
int make_input_main(struct settings *settings);
int run_main(struct settings *settings);
int verify_main(struct settings *settings);
int bench_main(struct settings *settings);
int diff_main(struct settings *settings);
int cache_main(struct settings *settings);
int tune_main(struct settings *settings);
int report_main(struct settings *settings);
int gemm_main(struct settings *settings);
int layer_main(struct settings *settings);
int plot_main(struct settings *settings);

#endif
