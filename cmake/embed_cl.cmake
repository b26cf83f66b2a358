# cmake -DROOT=folder -DFILES=a.cl;b.clh -DOUTPUT=embedded.c -DHEADER=embedded_files.h -P embed_cl.cmake
# Writes the files, OpenCL C and JSON, as embedded_files (src/base/embedded.h): bytes, so that no compiler's limit on the length of a string
# applies; and an enumerator FILE_name for each, so that code which names a file that is not there does not compile. Comments
# are left out, and every line keeps its number.

# Each comment becomes a space and the line ends that it has; string literals stay as they are.
function(strip_comments text_name)
    set(rest "${${text_name}}")
    set(done "")
    string(REGEX MATCH "\"([^\"\\\n]|\\\\[^\n])*\"|//[^\n]*|/\\*" token "${rest}")
    while(NOT token STREQUAL "")
        string(FIND "${rest}" "${token}" at)
        string(SUBSTRING "${rest}" 0 ${at} before)
        string(LENGTH "${token}" length)
        if(token STREQUAL "/*")
            string(SUBSTRING "${rest}" ${at} -1 rest)
            string(FIND "${rest}" "*/" at)
            if(at EQUAL -1)
                message(FATAL_ERROR "${file}: a comment has no end")
            endif()
            string(SUBSTRING "${rest}" 0 ${at} comment)
            string(REGEX REPLACE "[^\\\n]|\\\\[^\n]" "" comment "${comment}") # in a macro its lines are continued
            string(APPEND done "${before} ${comment}")
            set(length 2)
        elseif(token MATCHES "^/")
            string(APPEND done "${before} ")
        else()
            string(APPEND done "${before}${token}")
        endif()
        math(EXPR at "${at} + ${length}")
        string(SUBSTRING "${rest}" ${at} -1 rest)
        string(REGEX MATCH "\"([^\"\\\n]|\\\\[^\n])*\"|//[^\n]*|/\\*" token "${rest}")
    endwhile()
    set(${text_name} "${done}${rest}" PARENT_SCOPE)
endfunction()

set(enumerators "")
set(texts "")
set(rows "")
foreach(file IN LISTS FILES)
    cmake_path(GET file FILENAME name)
    cmake_path(GET file STEM stem)
    cmake_path(RELATIVE_PATH file BASE_DIRECTORY ${ROOT} OUTPUT_VARIABLE path)
    file(READ ${file} text)
    if(NOT file MATCHES "\\.json$")
        strip_comments(text)
    endif()
    string(REGEX REPLACE "[ \t]+\n" "\n" text "${text}")
    string(HEX "${text}" bytes)
    if(bytes MATCHES "^(..)*[89a-f]")
        message(FATAL_ERROR "${file}: letters outside ASCII that are not in a comment")
    endif()
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
    string(APPEND enumerators "    FILE_${stem},\n")
    string(APPEND texts "static const char text_${stem}[] = {${bytes}0};\n")
    string(APPEND rows "    [FILE_${stem}] = {\"${name}\", \"${path}\", text_${stem}, sizeof text_${stem} - 1},\n")
endforeach()
file(WRITE ${HEADER} "/* The files of cl/, by name: made by the build. */\nenum embedded_file {\n${enumerators}    FILE_COUNT\n};\n")
file(WRITE ${OUTPUT} "#include \"base/embedded.h\"

${texts}
const struct embedded embedded_files[FILE_COUNT] = {
${rows}};
")
