# cmake -DFILES=a.cl;b.clh -DOUTPUT=embedded.c -P embed_cl.cmake
# Writes each file as one entry of embedded_files (src/base/embedded.h): bytes, so that no compiler's limit on the length of
# a string applies.
set(arrays "")
set(entries "")
set(index 0)
foreach(file IN LISTS FILES)
    cmake_path(GET file FILENAME name)
    file(READ ${file} hex HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
    string(APPEND arrays "static const unsigned char file_${index}[] = {${bytes}0x00};\n")
    string(APPEND entries "    {\"${name}\", file_${index}, sizeof file_${index} - 1},\n")
    math(EXPR index "${index} + 1")
endforeach()
file(WRITE ${OUTPUT} "#include \"base/embedded.h\"\n\n${arrays}
const struct embedded embedded_files[] = {
${entries}    {0, 0, 0},
};
const size_t embedded_count = ${index};
")
