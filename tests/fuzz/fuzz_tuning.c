/* The reader of tuning files: any text gives entries that a plan can be made with, or one line of why; what was read is
 * written and read again as the same. */
#include "fuzz.h"

#include "plan/plan.h"
#include "tune/tuning_table.h"

#include <stdlib.h>
#include <string.h>

static void check_entry(const struct tuning_entry *entry)
{
    const struct tuned *tuned = &entry->tuned;

    if (tuned->space == NULL || strcmp(tuned->space->name, entry->solver) != 0)
        abort();
    for (int i = 0; tuned->space->parameters[i].name != NULL; i++)
        if (tuned->values[i] != BY_HEURISTIC && !parameter_has(&tuned->space->parameters[i], tuned->values[i]))
            abort();
}

static void check_again(const struct tuning_table *table)
{
    struct tuning_table again = {NULL, 0};
    char why[96], *json = tuning_table_print(table);

    if (json == NULL || tuning_table_parse(&again, json, NULL, why, sizeof why) != 0 || again.count != table->count)
        abort();
    free(json);
    tuning_table_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tuning_table table = {NULL, 0};
    char why[96] = "", *text = malloc(size + 1);

    if (text == NULL)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    if (tuning_table_parse(&table, text, NULL, why, sizeof why) < 0 && why[0] == '\0')
        abort();
    for (size_t i = 0; i < table.count; i++)
        check_entry(&table.entries[i]);
    check_again(&table);
    tuning_table_free(&table);
    free(text);
    return 0;
}
