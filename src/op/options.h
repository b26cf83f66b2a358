/* The options of a desc: the rows of options.def, and queries about them. */
#ifndef CLATTN_SRC_OP_OPTIONS_H
#define CLATTN_SRC_OP_OPTIONS_H

#include "base/log.h"

#include <stddef.h>

struct rule;

/* OPTION_scale … for options, and SIZE_batch … for the fields that are not options */
enum option_id {
#define FLAG(name, ID, ...) OPTION_##name,
#define FIELD(name, TYPE, ...) OPTION_##name,
#define SIZE(name, TYPE, ...) SIZE_##name,
#include "op/options.def"
    OPTION_COUNT
};

enum option_type {
    OPTION_FLAG,
    OPTION_FLAGS, /* all flags of the desc */
    OPTION_INT32,
    OPTION_INT64,
    OPTION_DOUBLE,
    OPTION_ENUM,
    OPTION_TYPES /* the list of operand types */
};

/* Kinds of rules, which follow from a rule's row. A rule may be of several kinds. */
enum {
    OF_STATE = 1,        /* mixers whose state is a matrix */
    OF_LIST = 2,         /* mixers whose state is a list of keys and values */
    OF_PIECE = 4,        /* a computation around a recurrence */
    OF_LEARNER = 8,      /* the state is the weights of a network */
    OF_KEYS = 16,        /* it has q and k */
    OF_SCORES = 32,      /* a mixer that multiplies them */
    OF_GATE = 64,        /* each token has a log-decay for each head or key channel */
    OF_STATE_GATE = 128, /* that log-decay applies to a state, and no stabilizer needs it unchanged */
    OF_STRENGTH = 256,   /* beta is the strength of a write */
    OF_CHUNKS = 512,     /* q and k themselves multiply one state, which chunks of tokens can do at once */
    OF_SNAPSHOTS = 1024, /* a call can return states between its tokens */
    OF_AFFINE = 2048,    /* tokens change a state to M S + N, whatever comes before and after them */
    OF_ALL = OF_STATE | OF_LIST | OF_PIECE | OF_LEARNER
};

/* How a file shows the option: only in its metadata, in the layout of tensors, or in the presence of tensors. */
enum option_seen { SEEN_METADATA, SEEN_LAYOUT, SEEN_SHOWN };

struct option_value {
    const char *word; /* NULL closes a list */
    const char *id;   /* its name in clattn.h */
    int value;
    clattn_rule only; /* the only rule that has this value; NONE: all rules with the option */
};

/* A row of options.def, where the columns are explained. */
struct desc_option {
    const char *name, *id; /* id: the field, or the flag's name in clattn.h */
    enum option_type type;
    size_t offset; /* of the field */
    uint64_t flag; /* of the flag; else 0 */
    unsigned kinds;
    clattn_rule rules[8];
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

/* The kinds of a rule, as OF_… bits. */
unsigned rule_kinds(const struct rule *rule);
/* Whether the rule takes the option, unless another option must permit it. */
int rule_takes(const struct rule *rule, enum option_id option);
/* Whether the rule has a state that one call can pass to the next. A list has none: its state is its keys and
 * values. */
int rule_has_state(const struct rule *rule);
/* The flags that the rule takes, including those that another flag must permit. */
uint64_t rule_flags(const struct rule *rule);
/* Whether a desc's rule takes the option, given the rest of the desc. */
int option_taken(enum option_id option, const clattn_plan_desc *desc, const struct rule *rule);

/* The value of an option that is an integer, an enum or a flag (0 or 1); 0 for other options. */
int64_t option_whole(enum option_id option, const clattn_plan_desc *desc);
/* The same, including floating-point values. option_put accepts what option_get returns, up to 2^53. */
double option_get(enum option_id option, const clattn_plan_desc *desc);
void option_put(enum option_id option, double value, clattn_plan_desc *desc);
/* The word for a value of an enum, a switch or a flag, or NULL. */
const char *option_word(enum option_id option, int value);
const struct option_value *option_values(enum option_id option);

/* Replaces zeros in a desc by the defaults that do not depend on other fields. */
void options_complete(clattn_plan_desc *desc, const struct rule *rule);

/* INVALID_DESC, with a line in the log: a completed desc has a number out of range, an option that its rule does not
 * take, or an unknown flag. */
clattn_status options_check(const clattn_plan_desc *desc, const struct rule *rule, const struct log *log);

#endif
