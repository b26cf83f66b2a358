# About how many seconds of a core tests of the preset release take where no kernel was compiled before, of those that take twelve or more
# (Debian 12, PoCL 3.1; `sort -k3 -rn Testing/Temporary/CTestCostData.txt` has them after a run of `ctest -j1`). CTest starts those
# first that cost most: without this the first run in a build folder ends with one long test alone.
set(test_costs
    sanitizers=130 matrix.nvidia=110 tune=60 offline_compilers=60 offline_intel=60 list=60 states=60 cli.examples=59
    threads.rows=59 causality=58 cli.bench=58 cli.verify=55 threads.mistakes=55 backward=52 rope=50 forgets=50
    states.padding=43 rules.mlstm=42 guards=40 gemm.intel_16=36 views=50 platform.linux-aarch64=35 local.shared=34
    cli.report=32 gemm.plain=32 backward.shared=30 mixed=28 rules.gated_delta_rule=28 gemm.nvidia=27
    names_subdirectory=25 rules.gated_delta_product=25 rules.gla=25 rules.linear_attn=25 rules.path_attn=25 mpi.2=25
    tuner=24 matrix.amd_cdna=24 local=23 rules.lact=23 matrix.intel_8=22 contributing=22 oclgrind.blocks.mlstm=22
    offline_amd_cdna=20 offline_intel_16=20 offline_nvidia=20 dims=20 matrix.amd_rdna3=20 matrix.intel_16=20
    blocks.amd_cdna.gated_delta_rule=20 blocks.mlstm=20 identities=20 failures=19 default.rules.gated_delta_rule=18
    layer.lact=18 intel.gated_delta_rule=18 blocks.amd_cdna.rwkv7=17 oclgrind.blocks.gated_delta_rule=17
    rules.forgetting_attn=17 rusticl.span=17 attn=16 oclgrind.gemm.lanes=16 rules.deltaformer=16
    rules.log_linear_gated_delta_rule=15 cli.formats=15 gemm.rusticl.plain=15 programs=15 views.shared.f16=15
    blocks.gated_delta_rule=14 cli.lact=14 facts=14 matrix.amd_rdna4=14 oclgrind.gated_delta_rule=13 summary=13
    tuning=13 cli.mlstm=13 invariance.gla=13 invariance.mlstm=13 shared.mlstm=13 words=13 python=12 rules.kda=12
    blocks.gla=12 invariance.shared.gla=12 rules.mamba=12 shared.gla=12 levels_pieces=12 offline_amd_rdna3=11
    offline_amd_rdna4=11 offline_intel_8=11 rules.rwkv7=10)

function(clattn_test_cost name)
    set(known ${test_costs})
    string(REPLACE "." "\\." pattern ${name})
    list(FILTER known INCLUDE REGEX "^${pattern}=")
    if(known)
        string(REGEX REPLACE ".*=" "" cost ${known})
        set_tests_properties(${name} PROPERTIES COST ${cost})
    endif()
endfunction()
