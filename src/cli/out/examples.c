#include "cli/out/examples.h"

/* tests/cli/examples_test.sh runs all lines in this order and in one folder, so that a later one may read what an
 * earlier one wrote. */
static const struct {
    unsigned command;
    const char *line;
} examples[] = {
    {COMMAND_DEVICES, "clattn devices"},
    {COMMAND_DEVICES, "clattn devices --json"},
    {COMMAND_RULES, "clattn rules"},
    {COMMAND_RULES, "clattn rules gated_delta_rule kda"},
    {COMMAND_MAKE_INPUT, "clattn make-input gated_delta_rule -s T=200,H=4,K=64,V=64 -o in.safetensors"},
    {COMMAND_MAKE_INPUT, "clattn make-input gla -s T=9,H=2,K=8,V=8 --varlen 0,4,9 -o packed.safetensors"},
    {COMMAND_RUN, "clattn run gated_delta_rule -i in.safetensors -o out.safetensors"},
    {COMMAND_RUN, "clattn run gated_delta_rule -i in.safetensors -o ref.safetensors -d reference"},
    {COMMAND_PLOT, "clattn run gated_delta_rule -i in.safetensors -o attn.safetensors --attn"},
    {COMMAND_PLOT, "clattn plot attn.safetensors -o attn.svg"},
    {COMMAND_PLOT, "clattn plot attn.safetensors -o attn.csv"},
    {COMMAND_DIFF, "clattn diff out.safetensors ref.safetensors"},
    {COMMAND_DIFF, "clattn diff out.safetensors ref.safetensors --bound 1e-4 --json"},
    {COMMAND_VERIFY, "clattn verify gla -s B=1,T=100,H=2,K=64,V=64 -t f32,bf16"},
    {COMMAND_VERIFY, "clattn verify --quick"},
    {COMMAND_BENCH, "clattn bench gla gated_delta_rule -s B=1,T=512,H=4,K=64,V=64 -n 5"},
    {COMMAND_BENCH, "clattn bench gla -s B=1,T=512,H=4,K=64,V=64 --pass step --csv"},
    {COMMAND_TUNE, "clattn tune linear_attn -s B=1,H=2,K=32,V=32 -t f32 -b 10s"},
    {COMMAND_TUNE, "clattn tune --show"},
    {COMMAND_REPORT, "clattn report --quick -o report.json"},
    {COMMAND_GEMM, "clattn gemm M=256,N=256,K=256"},
    {COMMAND_GEMM, "clattn gemm M=128,N=64,K=256 --transpose nt --provider plain"},
    {COMMAND_LAYER, "clattn layer mamba2"},
    {COMMAND_LAYER, "clattn layer mamba2 -i model.safetensors -x x.safetensors -o y.safetensors"},
    {COMMAND_CACHE, "clattn cache --list"},
    {COMMAND_CACHE, "clattn cache --clear"},
};

const char *example_get(const struct command *command, size_t index)
{
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
        if (examples[i].command == command->bit && index-- == 0)
            return examples[i].line;
    return NULL;
}
