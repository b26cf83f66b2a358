# cmake -DPROGRAM=clattn_dump_kernels -DDIRECTORY=kernels [-DSUB_GROUP=8] -P dump_kernels.cmake: into an empty directory.
file(REMOVE_RECURSE ${DIRECTORY})
file(MAKE_DIRECTORY ${DIRECTORY})
execute_process(COMMAND ${PROGRAM} ${DIRECTORY} ${SUB_GROUP} COMMAND_ERROR_IS_FATAL ANY)
