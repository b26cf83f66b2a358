# cmake -DSCRIPT=embed_cl.cmake -DFOLDER=folder -P embed_test.cmake: what embedding leaves of a source, to the byte: every line in its place.
file(MAKE_DIRECTORY ${FOLDER})
file(WRITE ${FOLDER}/odd.cl [==[
/* a comment; of [two]
 * lines */

int a = 1; // to the end; "no string
    ASM("bar /* no comment */  // nor this \" /*" : : "x"); /* "neither */ int b;
#define two(x) \
    /* alone */        \
    first(x);                       \
                                    \
    second(x)\
    third(x)   /* last */
#define one(x) x \
    /* the end of it */
int c/**/d; int e = 4 / 2;
]==])
file(WRITE ${FOLDER}/expected.cl [==[



int a = 1;
    ASM("bar /* no comment */  // nor this \" /*" : : "x");   int b;
#define two(x) \
             \
    first(x);                       \
                                    \
    second(x)\
    third(x)
#define one(x) x \

int c d; int e = 4 / 2;
]==])
execute_process(COMMAND ${CMAKE_COMMAND} -DROOT=${FOLDER} -DFILES=${FOLDER}/odd.cl -DOUTPUT=${FOLDER}/embedded.c
                        -DHEADER=${FOLDER}/embedded_files.h -P ${SCRIPT}
                COMMAND_ERROR_IS_FATAL ANY)
file(READ ${FOLDER}/expected.cl expected HEX)
file(READ ${FOLDER}/embedded.c text)
string(REGEX MATCH "text_odd\\[\\] = {([^}]*),0}" text "${text}")
string(REGEX REPLACE "0x|[, \n]" "" bytes "${CMAKE_MATCH_1}")
if(NOT bytes STREQUAL expected)
    message(FATAL_ERROR "expected ${expected}\nis       ${bytes}")
endif()
