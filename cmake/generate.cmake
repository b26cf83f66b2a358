# cmake -DPROGRAM=clattn -DKIND=man|bash|zsh|fish -DOUTPUT=file -P generate.cmake
execute_process(COMMAND ${PROGRAM} --generate ${KIND} OUTPUT_FILE ${OUTPUT} RESULT_VARIABLE status)
if(status)
    file(REMOVE ${OUTPUT})
    message(FATAL_ERROR "${PROGRAM} --generate ${KIND}: ${status}")
endif()
