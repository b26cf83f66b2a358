# cmake -DFILE=shipped.json -DOUTPUT=shipped_table.c -P shipped_table.cmake: the entries as C (src/tune/shipped.h), so that the
# library parses nothing for them.
file(READ ${FILE} json)
string(JSON count LENGTH "${json}" entries)
set(devices "")
set(texts "0")
set(rows "")

# The index of an item in a list of texts, which it joins.
function(index_of list_name item index_name)
    list(FIND ${list_name} "${item}" index)
    if(index EQUAL -1)
        list(LENGTH ${list_name} index)
        list(APPEND ${list_name} "${item}")
        set(${list_name} "${${list_name}}" PARENT_SCOPE)
    endif()
    set(${index_name} ${index} PARENT_SCOPE)
endfunction()

# The index of a text in shipped_texts
macro(text_of item index_name)
    index_of(texts "\"${item}\"" ${index_name})
endmacro()

function(parameters_of entry names_name values_name)
    string(JSON parameters GET "${entry}" parameters)
    string(JSON length LENGTH "${parameters}")
    set(names "")
    set(values "")
    set(i 0)
    while(i LESS length)
        string(JSON name MEMBER "${parameters}" ${i})
        string(JSON value GET "${parameters}" ${name})
        text_of("${name}" index)
        string(APPEND names "${index}, ")
        string(APPEND values "${value}, ")
        math(EXPR i "${i} + 1")
    endwhile()
    set(texts "${texts}" PARENT_SCOPE)
    set(${names_name} "${names}0" PARENT_SCOPE)
    set(${values_name} "${values}0" PARENT_SCOPE)
endfunction()

set(at 0)
while(at LESS count)
    string(JSON entry GET "${json}" entries ${at})
    foreach(field device vendor driver group dtype solver kernel tuner date key_dim value_dim heads from_rows seq_len time_ms
                  default_ms error)
        string(JSON ${field} GET "${entry}" ${field})
    endforeach()
    index_of(devices "{\"${device}\", \"${vendor}\", \"${driver}\"}" index)
    parameters_of("${entry}" parameters values)
    set(words "")
    foreach(field group dtype solver tuner date)
        text_of("${${field}}" word)
        string(APPEND words "${word}, ")
    endforeach()
    string(REGEX REPLACE "(................)" "0x\\1, " kernel "${kernel}")
    string(APPEND rows "    {{${kernel}}, ${index}, ${words}${key_dim}, ${value_dim}, ${heads}, ${from_rows}, ${seq_len}, "
           "(float)${time_ms}, (float)${default_ms}, (float)${error}, {${parameters}}, {${values}}},\n")
    math(EXPR at "${at} + 1")
endwhile()
list(JOIN devices ",\n    " devices)
list(LENGTH texts length)
if(length GREATER 256)
    message(FATAL_ERROR "${length} texts: more than a byte counts")
endif()
list(JOIN texts ", " texts)
file(WRITE ${OUTPUT} "#include \"tune/shipped.h\"

const struct shipped_device shipped_devices[] = {
    ${devices},
};
const char *const shipped_texts[] = {${texts}};
const struct shipped_entry shipped_entries[] = {
${rows}};
const size_t shipped_entry_count = ${count};
")
