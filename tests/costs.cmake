# About how many seconds of a core tests of the preset release take where no kernel was compiled before, of those that take twelve or more
# (Debian 12, PoCL 3.1; `sort -k3 -rn Testing/Temporary/CTestCostData.txt` has them after a run of `ctest -j1`). CTest starts those
# first that cost most: without this the first run in a build folder ends with one long test alone.
set(test_costs
    offline_amd_cdna=20 offline_amd_rdna3=20 offline_amd_rdna4=20 offline_compilers=60 offline_intel=60
    offline_intel_16=20 offline_intel_8=20 offline_nvidia=20 matrix.nvidia=110 sanitizers=160 windows=110
    guards=50 list=60 tune=80 rope=50 cli.verify=60 states=60 cli.examples=59 threads.rows=59 tuner=24 causality=58
    cli.bench=58 threads.mistakes=55 oclgrind.gated_delta_rule=54 forgets=50 backward=52 mixed=28 dims=20 autograd.device=20
    backward.shared=30 rules.log_linear_gated_delta_rule=15 summary=13 python=12 platform.macos-arm64=50 views=50
    states.padding=43 rules.mlstm=42 default.rules.gated_delta_rule=18 gemm.intel_16=36 platform.linux-aarch64=35
    local.shared=34 cli.report=32 gemm.plain=32 matrix.amd_cdna=24 matrix.intel_8=22 rules.gated_delta_rule=28
    gemm.nvidia=27 names_subdirectory=25 rules.gated_delta_product=25 rules.gla=25 rules.linear_attn=25
    rules.path_attn=25 tuning=13 local=23 matrix.amd_rdna3=20 matrix.intel_16=20 rules.lact=23 contributing=22
    oclgrind.blocks.mlstm=22 rules.kda=22 rules.rwkv7=21 blocks.amd_cdna.gated_delta_rule=20 blocks.mlstm=20
    identities=20 failures=19 layer.lact=18 blocks.amd_cdna.rwkv7=17 oclgrind.blocks.gated_delta_rule=17
    rules.forgetting_attn=17 rusticl.span=17 attn=16 intel.gated_delta_rule=18 oclgrind.gemm.lanes=16 rules.deltaformer=16 cli.formats=15
    gemm.rusticl.plain=15 programs=15 dims=16 views.shared.f16=15 blocks.gated_delta_rule=14 cli.lact=14 facts=14
    matrix.amd_rdna4=14 cli.mlstm=13 invariance.gla=13 invariance.mlstm=13 shared.mlstm=13 words=13 blocks.gla=12 mpi.2=25
    invariance.shared.gla=12 rules.mamba=12 shared.gla=12 levels_pieces=12)

function(clattn_test_cost name)
    set(known ${test_costs})
    string(REPLACE "." "\\." pattern ${name})
    list(FILTER known INCLUDE REGEX "^${pattern}=")
    if(known)
        string(REGEX REPLACE ".*=" "" cost ${known})
        set_tests_properties(${name} PROPERTIES COST ${cost})
    endif()
endfunction()
