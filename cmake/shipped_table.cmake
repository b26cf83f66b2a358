# cmake -DFILE=shipped.json -DOUTPUT=shipped_table.c -P shipped_table.cmake: the entries as C (src/tune/shipped.h), so that the
# library parses nothing for them.
file(READ ${FILE} json)
string(JSON count LENGTH "${json}" entries)
set(devices "")
set(names "")
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

function(parameters_of entry text_name)
    string(JSON parameters GET "${entry}" parameters)
    string(JSON length LENGTH "${parameters}")
    set(text "")
    set(i 0)
    while(i LESS length)
        string(JSON name MEMBER "${parameters}" ${i})
        string(JSON value GET "${parameters}" ${name})
        index_of(names "\"${name}\"" index)
        math(EXPR index "${index} + 1")
        string(APPEND text "{${index}, ${value}}, ")
        math(EXPR i "${i} + 1")
    endwhile()
    set(names "${names}" PARENT_SCOPE)
    set(${text_name} "${text}{0, 0}" PARENT_SCOPE)
endfunction()

set(at 0)
while(at LESS count)
    string(JSON entry GET "${json}" entries ${at})
    foreach(field device vendor driver group dtype solver kernel tuner date key_dim value_dim heads from_rows seq_len time_ms
                  default_ms error)
        string(JSON ${field} GET "${entry}" ${field})
    endforeach()
    index_of(devices "{\"${device}\", \"${vendor}\", \"${driver}\"}" index)
    parameters_of("${entry}" parameters)
    string(APPEND rows "    {${index}, \"${group}\", \"${dtype}\", \"${solver}\", \"${kernel}\", \"${tuner}\", \"${date}\", "
           "${key_dim}, ${value_dim}, ${heads}, ${from_rows}, ${seq_len}, (float)${time_ms}, (float)${default_ms}, "
           "(float)${error}, {${parameters}}},\n")
    math(EXPR at "${at} + 1")
endwhile()
list(JOIN devices ",\n    " devices)
list(JOIN names ", " names)
file(WRITE ${OUTPUT} "#include \"tune/shipped.h\"

const struct shipped_device shipped_devices[] = {
    ${devices},
};
const char *const shipped_names[] = {${names}};
const struct shipped_entry shipped_entries[] = {
${rows}};
const size_t shipped_entry_count = ${count};
")
