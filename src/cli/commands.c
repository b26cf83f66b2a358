/* The table of subcommands. */
#include "cli/cli.h"

const struct command command_table[] = {
    {"devices", COMMAND_DEVICES, 0, 0, devices_main, "[--json]", "the OpenCL devices of this machine, best first"},
    {"rules", COMMAND_RULES, 0, MAX_RULES, rules_main, "[RULE...] [--json]",
     "the rules, or a rule's options, tensors and paper"},
    {"make-input", COMMAND_MAKE_INPUT, 1, 1, make_input_main, "RULE --shape B=2,T=1000,H=4,K=64,V=64 -o FILE",
     "write random operands of a rule to a safetensors file"},
    {"run", COMMAND_RUN, 1, 1, run_main, "RULE -i IN.safetensors -o OUT.safetensors",
     "compute a rule over the tensors of a file"},
    {"plot", COMMAND_PLOT, 1, 1, plot_main, "FILE [-o OUT.svg]",
     "the attention matrix of a file that run --attn wrote, as CSV or as a picture"},
    {"diff", COMMAND_DIFF, 2, 2, diff_main, "FILE EXPECTED",
     "compare the tensors of a safetensors file with those of another"},
    {"verify", COMMAND_VERIFY, 0, MAX_RULES, verify_main, "[RULE...]",
     "compare a device's results with the double-precision reference"},
    {"bench", COMMAND_BENCH, 0, MAX_RULES, bench_main, "[RULE...]", "time rules on a device"},
    {"tune", COMMAND_TUNE, 0, MAX_RULES, tune_main, "[RULE...] [--budget 60s]",
     "find the fastest tile sizes for a device; every later plan uses them"},
    {"report", COMMAND_REPORT, 0, 0, report_main, "[--quick] -o FILE.json",
     "what an issue about a device needs: its facts, verified rules, times, and a command for each failure"},
    {"gemm", COMMAND_GEMM, 0, MAX_RULES, gemm_main, "[M=4096,N=4096,K=4096[,B=1]...]",
     "time matrix products by each provider on a device"},
    {"layer", COMMAND_LAYER, 0, 1, layer_main, "[LAYER [-i CHECKPOINT.safetensors -o OUT.safetensors]]",
     "compute a whole layer with the weights of a checkpoint; without one, list its tensors"},
    {"cache", COMMAND_CACHE, 0, 0, cache_main, "[--list | --clear]", "the compiled programs kept on disk"},
};

const size_t command_count = sizeof command_table / sizeof *command_table;
