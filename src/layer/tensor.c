/* A caller's list of tensors. */
#include "layer/layer.h"

#include "base/sized.h"

#include <string.h>

int tensor_read(const clattn_layer_tensor *tensors, size_t tensor_size, size_t count, const char *name,
                clattn_layer_tensor *tensor)
{
    for (size_t i = 0; i < count; i++) {
        const char *at = (const char *)tensors + i * tensor_size;
        if (sized_read(tensor, sizeof *tensor, at, tensor_size) && tensor->name != NULL &&
            strcmp(tensor->name, name) == 0)
            return 1;
    }
    return 0;
}
