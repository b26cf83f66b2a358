# cmake -DSOURCE=… -DOUTPUT=… -P commit.cmake: OUTPUT defines CLATTN_COMMIT, the commit of SOURCE; left as it is where it says so. Of an
# archive that git made, the commit is in commit.txt.
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --exclude=* --abbrev=12 OUTPUT_VARIABLE commit
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed OR NOT EXISTS ${SOURCE}/.git)
    file(STRINGS ${SOURCE}/cmake/commit.txt commit LIMIT_COUNT 1)
    string(REGEX MATCH "^[0-9a-f]+$" commit "${commit}")
endif()
set(text "#define CLATTN_COMMIT \"${commit}\"\n")
set(before "")
if(EXISTS ${OUTPUT})
    file(READ ${OUTPUT} before)
endif()
if(NOT before STREQUAL text)
    file(WRITE ${OUTPUT} "${text}")
endif()
