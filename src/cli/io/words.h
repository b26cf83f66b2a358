/* Reading what people type: names from a list, numbers, lists, shapes. Each prints one clear line when it fails and is
 * an exit code: 0 or EXIT_BAD. `what` names the option in that line. */
#ifndef CLATTN_SRC_CLI_IO_WORDS_H
#define CLATTN_SRC_CLI_IO_WORDS_H

#include "cli/cli.h"

#include <stddef.h>

struct word {
    const char *name;
    int value;
};

/* Both end with a NULL name. dtype_words: f32 f16 bf16; mode_words: auto recurrent chunk; … */
extern const struct word dtype_words[], file_dtype_words[], mode_words[], pass_words[];

/* Whether two names are the same but for - and _. */
int word_equal(const char *a, const char *b);
int word_read(const char *what, const struct word *words, const char *text, int *value);
const char *word_name(const struct word *words, int value);
/* A comma-separated list of different words. */
int word_list_read(const char *what, const struct word *words, const char *text, int *values, size_t capacity,
                   size_t *count);

int number_read(const char *what, const char *text, int64_t low, int64_t high, int64_t *value);
int real_read(const char *what, const char *text, double *value);
/* "0,1,100" into a new array of *count numbers. */
int number_list_read(const char *what, const char *text, int64_t **values, size_t *count);

/* "M=4096,N=4096,K=4096,B=2" of a matrix product: m, n, k and batch are the shape's seq_len, value_dim, key_dim and
 * batch. EXIT_OK or EXIT_BAD. */
int product_read(const char *text, struct shape *shape);
/* "B=2,T=1000,H=4,K=64,V=64,HQ=2" */
int shape_read(const char *text, struct shape *shape);
/* Whether it has all that has no default: H, V, T unless packed, and K where a rule asks for it (rule_asks_key_dim). */
int shape_check(const struct shape *shape, int packed, int asks_key_dim);
/* desc's sizes from shape, and where it has none from defaults (may be NULL). */
void shape_apply(clattn_plan_desc *desc, const struct shape *shape, const struct shape *defaults);
/* "B=2,T=1000,…" of a desc. */
const char *shape_name(const clattn_plan_desc *desc, char *text, size_t size);
/* "[2,10,4,64]" */
const char *dims_name(int rank, const int64_t *dims, char *text, size_t size);

int rule_read(const char *text, clattn_rule *rule);

/* The number of edits between two words; for "did you mean". */
size_t edit_distance(const char *a, const char *b);
/* Whether that few edits are probably a slip of the finger. */
int edit_close(const char *typed, size_t distance);

/* cu_seqlens of count entries: 0 first, never falling, tokens last. */
int cu_seqlens_check(const char *where, const char *name, const int64_t *cu_seqlens, size_t count, int64_t tokens);

#endif
