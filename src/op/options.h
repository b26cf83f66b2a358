/* The options of a desc: the rows of options.def, and what is asked of them. */
#ifndef CLATTN_SRC_OP_OPTIONS_H
#define CLATTN_SRC_OP_OPTIONS_H

#include "base/log.h"

#include <stddef.h>

struct rule;

/* OPTION_scale …, and SIZE_batch … of the fields that are no options */
enum option_id {
#define FLAG(name, ID, ...) OPTION_##name,
#define FIELD(name, TYPE, ...) OPTION_##name,
#define SIZE(name, TYPE, ...) SIZE_##name,
#include "op/options.def"
    OPTION_COUNT
};

enum option_type {
    OPTION_FLAG,
    OPTION_FLAGS, /* all of the desc's bits */
    OPTION_INT32,
    OPTION_INT64,
    OPTION_DOUBLE,
    OPTION_ENUM,
    OPTION_TYPES /* the list of operand types */
};

/* Kinds of rules, of which a rule is several: what follows from its row. */
enum {
    OF_STATE = 1,        /* mixers whose state is a matrix */
    OF_LIST = 2,         /* mixers whose state is a list of keys and values */
    OF_PIECE = 4,        /* no recurrence, but a computation around one */
    OF_LEARNER = 8,      /* the state is a network's weights */
    OF_KEYS = 16,        /* there are q and k */
    OF_SCORES = 32,      /* and a mixer makes products of them */
    OF_GATE = 64,        /* a token has a log-decay for each head or key channel */
    OF_STATE_GATE = 128, /* it decays a state, and no stabilizer needs it as it is */
    OF_STRENGTH = 256,   /* beta is the strength of a write */
    OF_CHUNKS = 512,     /* queries and keys multiply a state, which chunks of tokens can do at once */
    OF_ALL = OF_STATE | OF_LIST | OF_PIECE | OF_LEARNER
};

/* How a file shows the option: by its metadata alone; it says how tensors lie; the tensors themselves show it. */
enum option_seen { SEEN_METADATA, SEEN_LAYOUT, SEEN_SHOWN };

struct option_value {
    const char *word; /* of a list's last: NULL */
    const char *id;   /* its name in clattn.h */
    int value;
    clattn_rule only; /* the one rule that takes it; NONE: all that take the option */
};

/* A row of options.def, which says what the columns are. */
struct desc_option {
    const char *name, *id; /* id: the field, or the flag's name in clattn.h */
    enum option_type type;
    size_t offset; /* of a field */
    uint64_t flag; /* of a flag, else 0 */
    unsigned kinds;
    clattn_rule rules[4];
    uint64_t with;
    double low, high, usual, idle;
    const char *depends;
    const char *type_name;
    const struct option_value *values;
    const char *said_by;
    enum option_seen seen;
    clattn_operand_id shown_by;
    const char *help, *refused;
};

extern const struct desc_option desc_options[OPTION_COUNT];

/* A set of options. */
struct option_set {
    unsigned char has[OPTION_COUNT];
};
int option_set_any(const struct option_set *set);

/* The kinds of a rule, OF_… bits. */
unsigned rule_kinds(const struct rule *rule);
/* Whether the rule takes the option, where no other option lets it. */
int rule_takes(const struct rule *rule, enum option_id option);
/* Whether it has a state that a call may leave for the next: no list has one, whose state is its keys and values. */
int rule_has_state(const struct rule *rule);
/* The flags that it takes, those included that another of them lets it take. */
uint64_t rule_flags(const struct rule *rule);
/* Whether the rule of a desc takes the option as the desc is. */
int option_taken(enum option_id option, const clattn_plan_desc *desc, const struct rule *rule);

/* A whole number, an enum's value, a flag as 0 or 1; of an option that is none of these 0 */
int64_t option_whole(enum option_id option, const clattn_plan_desc *desc);
/* The same, and numbers that are not whole. option_put takes what option_get gives, up to 2^53. */
double option_get(enum option_id option, const clattn_plan_desc *desc);
void option_put(enum option_id option, double value, clattn_plan_desc *desc);
/* The word of a value of an enum, a switch or a flag; NULL where there is none. */
const char *option_word(enum option_id option, int value);
const struct option_value *option_values(enum option_id option);

/* Gives a desc's zeros the usual numbers that do not follow from other fields. */
void options_complete(clattn_plan_desc *desc, const struct rule *rule);

/* INVALID_DESC and a line where a completed desc has a number out of its range, an option that the rule does not take,
 * or a flag that there is not. */
clattn_status options_check(const clattn_plan_desc *desc, const struct rule *rule, const struct log *log);

#endif
