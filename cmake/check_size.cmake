# cmake -DSTRIP=strip -DLIBRARY=libclattn.so -DMOST=bytes -P check_size.cmake: a stripped copy of the library is no larger.
set(copy ${LIBRARY}.stripped)
execute_process(COMMAND ${STRIP} -o ${copy} ${LIBRARY} COMMAND_ERROR_IS_FATAL ANY)
file(SIZE ${copy} size)
file(REMOVE ${copy})
message("${size} bytes")
if(size EQUAL 0 OR size GREATER MOST)
    message(SEND_ERROR "${LIBRARY} has ${size} bytes when stripped; ${MOST} at most")
endif()
