# cmake -DFILE=shipped.json -DOUTPUT=shipped_table.c -P shipped_table.cmake: the entries as C (src/tune/shipped.h), so that the
# library parses nothing for them.
file(READ ${FILE} json)
string(JSON count LENGTH "${json}" entries)
set(devices "")
set(kernels "")
set(texts "0")
set(parameters "")
set(values 0)
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

# The index of an entry's list in shipped_parameters; its values are added to those of all
macro(parameters_of entry index_name)
    string(JSON list GET "${entry}" parameters)
    string(JSON length LENGTH "${list}")
    set(names "")
    set(i 0)
    while(i LESS length)
        string(JSON name MEMBER "${list}" ${i})
        string(JSON value GET "${list}" ${name})
        text_of("${name}" index)
        string(APPEND names "${index}, ")
        list(APPEND values ${value})
        math(EXPR i "${i} + 1")
    endwhile()
    index_of(parameters "{${names}0}" ${index_name})
endmacro()

set(at 0)
while(at LESS count)
    string(JSON entry GET "${json}" entries ${at})
    foreach(field device vendor driver group dtype solver kernel tuner date key_dim value_dim heads from_rows seq_len time_ms
                  default_ms error)
        string(JSON ${field} GET "${entry}" ${field})
    endforeach()
    list(LENGTH values first)
    parameters_of("${entry}" list)
    index_of(devices "{\"${device}\", \"${vendor}\", \"${driver}\"}" device)
    set(words "")
    foreach(field group dtype solver tuner date)
        text_of("${${field}}" word)
        string(APPEND words "${word}, ")
    endforeach()
    string(REGEX REPLACE "(................)" "0x\\1, " kernel "${kernel}")
    index_of(kernels "{${kernel}}" kernel)
    string(APPEND rows "    {${kernel}, ${first}, ${device}, ${list}, ${words}${key_dim}, ${value_dim}, ${heads}, ${from_rows}, "
           "${seq_len}, (float)${time_ms}, (float)${default_ms}, (float)${error}},\n")
    math(EXPR at "${at} + 1")
endwhile()
list(LENGTH texts length)
if(length GREATER 256)
    message(FATAL_ERROR "${length} texts: more than a byte counts")
endif()
list(JOIN devices ",\n    " devices)
list(JOIN kernels ",\n    " kernels)
list(JOIN texts ", " texts)
list(JOIN parameters ",\n    " parameters)
list(JOIN values ", " values)
file(WRITE ${OUTPUT} "#include \"tune/shipped.h\"

const struct shipped_device shipped_devices[] = {
    ${devices},
};
const char *const shipped_texts[] = {${texts}};
const struct hash shipped_kernels[] = {
    ${kernels},
};
const uint8_t shipped_parameters[][12] = {
    ${parameters},
};
const int16_t shipped_values[] = {${values}};
const struct shipped_entry shipped_entries[] = {
${rows}};
const size_t shipped_entry_count = ${count};
")
