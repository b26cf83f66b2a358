/* Reads what people type: names from a list, numbers, lists, shapes. Each function returns EXIT_OK, or prints one line
 * and returns EXIT_BAD. `what` names the option in that line. */
#ifndef CLATTN_SRC_CLI_IO_WORDS_H
#define CLATTN_SRC_CLI_IO_WORDS_H

#include "cli/cli.h"

#include <stddef.h>

struct word {
    const char *name;
    int value;
};

/* Lists that end with a NULL name. */
extern const struct word dtype_words[], file_dtype_words[], mode_words[], pass_words[], split_words[];

/* Whether two names are equal, where - equals _. */
int word_equal(const char *a, const char *b);
int word_read(const char *what, const struct word *words, const char *text, int *value);
const char *word_name(const struct word *words, int value);
/* Reads a comma-separated list of different words. */
int word_list_read(const char *what, const struct word *words, const char *text, int *values, size_t capacity,
                   size_t *count);

int number_read(const char *what, const char *text, int64_t low, int64_t high, int64_t *value);
int real_read(const char *what, const char *text, double *value);
/* Reads "0,1,100" into a new array of *count numbers. */
int number_list_read(const char *what, const char *text, int64_t **values, size_t *count);

/* Reads the sizes of a matrix product, "M=4096,N=4096,K=4096,B=2", into the shape's seq_len, value_dim, key_dim and
 * batch. */
int product_read(const char *text, struct shape *shape);
/* Reads "B=2,T=1000,H=4,K=64,V=64,HQ=2". */
int shape_read(const char *text, struct shape *shape);
/* Checks that the shape has all sizes without a default: H, V, T unless packed, and K if the rule needs it
 * (rule_asks_key_dim). */
int shape_check(const struct shape *shape, int packed, int asks_key_dim);
/* Sets desc's sizes from shape, and those that it lacks from defaults (may be NULL). */
void shape_apply(clattn_plan_desc *desc, const struct shape *shape, const struct shape *defaults);
/* A desc's sizes as "B=2,T=1000,…". */
const char *shape_name(const clattn_plan_desc *desc, char *text, size_t size);
/* "[2,10,4,64]" */
const char *dims_name(int rank, const int64_t *dims, char *text, size_t size);

int rule_read(const char *text, clattn_rule *rule);

/* The number of edits between two words, for "did you mean". */
size_t edit_distance(const char *a, const char *b);
/* Whether so few edits are probably a typing mistake. */
int edit_close(const char *typed, size_t distance);

/* Checks that cu_seqlens[count] begins with 0, never decreases, and ends with the number of tokens. */
int cu_seqlens_check(const char *where, const char *name, const int64_t *cu_seqlens, size_t count, int64_t tokens);

#endif
