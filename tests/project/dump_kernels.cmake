# cmake -DPROGRAM=clattn_dump_kernels -DDIRECTORY=kernels [-DSUB_GROUP=8 [-DENGINE=nvidia [-DRULES="kda …"]]] -P dump_kernels.cmake: into an empty directory.
file(REMOVE_RECURSE ${DIRECTORY})
file(MAKE_DIRECTORY ${DIRECTORY})
separate_arguments(RULES)
execute_process(COMMAND ${PROGRAM} ${DIRECTORY} ${SUB_GROUP} ${ENGINE} ${RULES} COMMAND_ERROR_IS_FATAL ANY)
