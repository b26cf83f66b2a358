# cmake -DFILES=a.cl;b.clh -DOUTPUT=embedded.c -DHEADER=embedded_files.h [-DFOLD=clattn_fold] -P embed_cl.cmake
# Writes the files as embedded_bytes (src/base/embedded.h): bytes, so that no compiler's limit on the length of a string
# applies, folded where there is the program that does so (src/tools/fold.c), as they are without it; and an enumerator
# FILE_name for each, so that code which names a file that is not there does not compile. OpenCL sources go without what
# no compiler sees: comments, indentation, blank lines.

# Each comment becomes a space; string literals stay as they are.
function(strip_comments text_name)
    set(rest "${${text_name}}")
    set(done "")
    string(REGEX MATCH "\"([^\"\\\n]|\\\\[^\n])*\"|//[^\n]*|/\\*" token "${rest}")
    while(NOT token STREQUAL "")
        string(FIND "${rest}" "${token}" at)
        string(SUBSTRING "${rest}" 0 ${at} before)
        string(APPEND done "${before}")
        string(LENGTH "${token}" length)
        if(token STREQUAL "/*")
            string(SUBSTRING "${rest}" ${at} -1 rest)
            string(FIND "${rest}" "*/" at)
            if(at EQUAL -1)
                message(FATAL_ERROR "${file}: a comment has no end")
            endif()
            set(length 2)
        endif()
        if(token MATCHES "^/")
            string(APPEND done " ")
        else()
            string(APPEND done "${token}")
        endif()
        math(EXPR at "${at} + ${length}")
        string(SUBSTRING "${rest}" ${at} -1 rest)
        string(REGEX MATCH "\"([^\"\\\n]|\\\\[^\n])*\"|//[^\n]*|/\\*" token "${rest}")
    endwhile()
    set(${text_name} "${done}${rest}" PARENT_SCOPE)
endfunction()

# A continued line keeps a space before its backslash, as the next one loses its own; an empty line ends what is continued.
function(strip_space text_name)
    string(REGEX REPLACE "[ \t]+\n" "\n" text "\n${${text_name}}")
    string(REGEX REPLACE "\n[ \t]+" "\n" text "${text}")
    string(REGEX REPLACE "[ \t]*\\\\\n" " \\\\\n" text "${text}")
    string(REGEX REPLACE "( \\\\\n)+" " \\\\\n" text "${text}")
    string(REGEX REPLACE " \\\\\n\n" "\n\n" text "${text}")
    string(REGEX REPLACE "\n\n+" "\n" text "${text}")
    string(REGEX REPLACE "^\n" "" text "${text}")
    set(${text_name} "${text}" PARENT_SCOPE)
endfunction()

set(folder ${OUTPUT}.texts)
file(REMOVE_RECURSE ${folder})
file(MAKE_DIRECTORY ${folder})
set(names "")
set(enumerators "")
foreach(file IN LISTS FILES)
    cmake_path(GET file FILENAME name)
    cmake_path(GET file STEM stem)
    file(READ ${file} text)
    strip_comments(text)
    strip_space(text)
    file(WRITE ${folder}/${name} "${text}")
    list(APPEND names ${name})
    string(APPEND enumerators "    FILE_${stem},\n")
endforeach()

# Of each file its name, a NUL, its text, a NUL
set(hex "")
foreach(name IN LISTS names)
    string(HEX "${name}" name_hex)
    file(READ ${folder}/${name} text_hex HEX)
    string(APPEND hex ${name_hex}00${text_hex}00)
endforeach()
string(LENGTH ${hex} digits)
math(EXPR size "${digits} / 2")
set(signs 0)
if(FOLD)
    execute_process(COMMAND ${FOLD} ${folder} ${names} OUTPUT_VARIABLE signs COMMAND_ERROR_IS_FATAL ANY)
    file(READ ${folder}/all.folded hex HEX)
endif()
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
file(WRITE ${HEADER} "/* The files of cl/, by name: made by the build. */\nenum embedded_file {\n${enumerators}    FILE_COUNT\n};\n")
file(WRITE ${OUTPUT} "#include \"base/embedded.h\"

const size_t embedded_size = ${size};
const size_t embedded_signs = ${signs};
const unsigned char embedded_bytes[] = {${bytes}};
")
