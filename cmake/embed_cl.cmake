# cmake -DFILES=a.cl;b.clh -DOUTPUT=embedded.c -DHEADER=embedded_files.h -P embed_cl.cmake
# Writes each file as one entry of embedded_files (src/base/embedded.h): bytes, so that no compiler's limit on the length of
# a string applies; and an enumerator FILE_name for each, so that code which names a file that is not there does not compile.
set(arrays "")
set(entries "")
set(names "")
foreach(file IN LISTS FILES)
    cmake_path(GET file FILENAME name)
    cmake_path(GET file STEM stem)
    file(READ ${file} hex HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
    string(APPEND arrays "static const unsigned char text_${stem}[] = {${bytes}0x00};\n")
    string(APPEND entries "    [FILE_${stem}] = {\"${name}\", text_${stem}, sizeof text_${stem} - 1},\n")
    string(APPEND names "    FILE_${stem},\n")
endforeach()
file(WRITE ${HEADER} "/* The files of cl/, by name: made by the build. */\nenum embedded_file {\n${names}    FILE_COUNT\n};\n")
file(WRITE ${OUTPUT} "#include \"base/embedded.h\"\n\n${arrays}
const struct embedded embedded_files[FILE_COUNT] = {
${entries}};
")
