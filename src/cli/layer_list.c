/* clattn layer without a checkpoint: lists the layers, or the tensors of one. */
#include "cli/layer.h"

#include "cli/out/origin.h"
#include "cli/out/table.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

int layer_list(enum format format)
{
    static const struct column columns[] = {{"name", "layer", COLUMN_WORD, 0, 0},
                                            {"module", "module", COLUMN_WORD, 0, 0},
                                            {"formula", "formula", COLUMN_WORD, 0, 1},
                                            {"paper", "source", COLUMN_WORD, 0, 2},
                                            BUILD_COLUMNS};
    cJSON *rows = cJSON_CreateArray(), *row;
    clattn_layer_info info;

    for (int i = 1; clattn_layer_describe((clattn_layer)i, &info) == CLATTN_SUCCESS; i++) {
        const char *const cells[] = {info.name, info.module, info.formula, info.paper};
        row = cJSON_CreateObject();
        for (size_t c = 0; c < sizeof cells / sizeof *cells; c++)
            cJSON_AddStringToObject(row, columns[c].key, cells[c]);
        cJSON_AddItemToArray(rows, row);
    }
    origin_add_all(rows, NULL);
    return table_print(rows, columns, sizeof columns / sizeof *columns, format);
}

/* "[QK+QK+HV,1,W]" */
static void part_shape(const clattn_layer_part *part, char *text, size_t size)
{
    size_t used = 0;

    for (int d = 0; d < part->rank && used < size; d++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", d > 0 ? "," : "[", part->letters[d]);
    if (used < size)
        snprintf(text + used, size - used, "]");
}

int layer_list_parts(clattn_layer layer, enum format format)
{
    static const char *const roles[] = {"weight", "input", "output"};
    static const struct column columns[] = {{"role", "role", COLUMN_WORD, 0, 0},
                                            {"name", "name", COLUMN_WORD, 0, 0},
                                            {"shape", "shape", COLUMN_WORD, 0, 0},
                                            {"may_lack", "optional", COLUMN_WORD, 0, 0},
                                            BUILD_COLUMNS};
    const clattn_layer_desc desc = {.layer = layer, .flags = CLATTN_LAYER_INITIAL_STATE | CLATTN_LAYER_FINAL_STATE};
    cJSON *rows = cJSON_CreateArray(), *row;
    clattn_layer_part part;
    char shape[128];

    for (size_t i = 0; clattn_layer_part_describe(&desc, i, &part) == CLATTN_SUCCESS; i++) {
        part_shape(&part, shape, sizeof shape);
        row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "role", roles[part.role]);
        cJSON_AddStringToObject(row, "name", part.name);
        cJSON_AddStringToObject(row, "shape", shape);
        cJSON_AddStringToObject(row, "may_lack", part.optional ? "may lack" : "");
        cJSON_AddItemToArray(rows, row);
    }
    origin_add_all(rows, NULL);
    return table_print(rows, columns, sizeof columns / sizeof *columns, format);
}

int layer_find(const char *name, clattn_layer *layer)
{
    clattn_layer_info info;
    char names[256] = "";

    *layer = clattn_layer_find(name);
    if (*layer != CLATTN_LAYER_NONE)
        return EXIT_OK;
    for (int i = 1; clattn_layer_describe((clattn_layer)i, &info) == CLATTN_SUCCESS; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i > 1 ? ", " : "", info.name);
    return bad("no layer is named '%s', expected one of %s", name, names);
}
