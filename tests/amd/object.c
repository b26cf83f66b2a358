#define _GNU_SOURCE
#include "object.h"

#include "note.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { AMDGPU = 224, METADATA = 32 /* NT_AMDGPU_METADATA */, PAGE = 4096, DESCRIPTOR = 64, MOST_KERNELS = 64 };
enum { MOST_IMAGE = 1 << 28 };

struct file {
    const unsigned char *at;
    size_t bytes;
};

/* A part of the file. NULL: it does not lie within. */
static const void *part(struct file file, uint64_t offset, uint64_t bytes)
{
    return offset <= file.bytes && bytes <= file.bytes - offset ? file.at + offset : NULL;
}

/* Copies a part, for headers may stand anywhere. 0: it does not lie within. */
static int copy(struct file file, uint64_t offset, void *to, size_t bytes)
{
    const void *from = part(file, offset, bytes);

    if (from != NULL)
        memcpy(to, from, bytes);
    return from != NULL;
}

static int read_header(struct file file, Elf64_Ehdr *header)
{
    return copy(file, 0, header, sizeof *header) && memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
           header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_machine == AMDGPU &&
           header->e_phentsize == sizeof(Elf64_Phdr) && header->e_shentsize == sizeof(Elf64_Shdr);
}

/* ---- Segments ---------------------------------------------------------------------------------------------------- */

static size_t end_of_segments(struct file file, const Elf64_Ehdr *header)
{
    Elf64_Phdr segment;
    uint64_t end = 0;

    for (int i = 0; i < header->e_phnum; i++)
        if (copy(file, header->e_phoff + (uint64_t)i * sizeof segment, &segment, sizeof segment) &&
            segment.p_type == PT_LOAD && segment.p_vaddr < MOST_IMAGE && segment.p_memsz < MOST_IMAGE &&
            segment.p_vaddr + segment.p_memsz > end)
            end = segment.p_vaddr + segment.p_memsz;
    return (size_t)((end + PAGE - 1) / PAGE * PAGE);
}

/* Read-only, with all that no segment fills as zeros. */
static int map_segments(struct object *object, struct file file, const Elf64_Ehdr *header)
{
    Elf64_Phdr segment;

    object->image_bytes = end_of_segments(file, header);
    if (object->image_bytes == 0)
        return 0;
    object->image = mmap(NULL, object->image_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (object->image == MAP_FAILED)
        object->image = NULL;
    for (int i = 0; i < header->e_phnum && object->image != NULL; i++)
        if (copy(file, header->e_phoff + (uint64_t)i * sizeof segment, &segment, sizeof segment) &&
            segment.p_type == PT_LOAD && segment.p_filesz > 0 &&
            (segment.p_vaddr >= object->image_bytes || segment.p_filesz > object->image_bytes - segment.p_vaddr ||
             !copy(file, segment.p_offset, object->image + segment.p_vaddr, segment.p_filesz)))
            return 0;
    return object->image != NULL && mprotect(object->image, object->image_bytes, PROT_READ) == 0;
}

/* ---- Symbols ----------------------------------------------------------------------------------------------------- */

static int has_name(struct file file, uint64_t offset, const char *name)
{
    const char *at = part(file, offset, strlen(name) + 1);

    return at != NULL && memcmp(at, name, strlen(name) + 1) == 0;
}

/* The address of a symbol of .dynsym. 0: there is none. */
static uint64_t find_symbol(struct file file, const Elf64_Ehdr *header, const char *name)
{
    Elf64_Shdr table, names;
    Elf64_Sym symbol;

    for (uint64_t i = 0; i < header->e_shnum; i++) {
        if (!copy(file, header->e_shoff + i * sizeof table, &table, sizeof table) || table.sh_type != SHT_DYNSYM ||
            !copy(file, header->e_shoff + (uint64_t)table.sh_link * sizeof names, &names, sizeof names))
            continue;
        for (uint64_t at = 0; at < table.sh_size && copy(file, table.sh_offset + at, &symbol, sizeof symbol);
             at += sizeof symbol)
            if (has_name(file, names.sh_offset + symbol.st_name, name))
                return symbol.st_value;
    }
    return 0;
}

/* ---- Kernels ----------------------------------------------------------------------------------------------------- */

static int read_descriptor(struct kernel_code *kernel, const struct object *object, uint64_t address)
{
    const unsigned char *at = object->image + address;
    uint16_t properties;
    int64_t entry;

    if (address == 0 || address > object->image_bytes - DESCRIPTOR)
        return 0;
    memcpy(&kernel->group_bytes, at, 4);
    memcpy(&kernel->private_bytes, at + 4, 4);
    memcpy(&kernel->kernarg_bytes, at + 8, 4);
    memcpy(&entry, at + 16, 8);
    memcpy(&kernel->rsrc1, at + 48, 4);
    memcpy(&kernel->rsrc2, at + 52, 4);
    memcpy(&properties, at + 56, 2);
    kernel->properties = properties;
    kernel->entry = address + (uint64_t)entry;
    return kernel->entry < object->image_bytes;
}

static int read_argument(struct argument *argument, struct note note, uint32_t kernarg_bytes)
{
    note_text(note_get(note, ".value_kind"), argument->value_kind, sizeof argument->value_kind);
    argument->offset = note_number(note_get(note, ".offset"));
    argument->size = note_number(note_get(note, ".size"));
    argument->kind = ARGUMENT_VALUE;
    if (strcmp(argument->value_kind, "global_buffer") == 0)
        argument->kind = ARGUMENT_BUFFER;
    else if (strcmp(argument->value_kind, "dynamic_shared_pointer") == 0)
        argument->kind = ARGUMENT_LOCAL;
    else if (strncmp(argument->value_kind, "hidden_", strlen("hidden_")) == 0)
        argument->kind = ARGUMENT_HIDDEN;
    else if (strcmp(argument->value_kind, "by_value") != 0)
        return 0;
    return argument->offset <= kernarg_bytes && argument->size <= kernarg_bytes - argument->offset;
}

static int read_arguments(struct kernel_code *kernel, struct note list)
{
    const uint64_t count = note_count(list);

    for (uint64_t i = 0; i < count; i++)
        if (i == MOST_ARGUMENTS ||
            !read_argument(&kernel->arguments[kernel->argument_count++], note_element(list, i), kernel->kernarg_bytes))
            return 0;
    return 1;
}

static int read_kernel(struct kernel_code *kernel, const struct object *object, struct file file,
                       const Elf64_Ehdr *header, struct note note)
{
    char symbol[sizeof kernel->name + 3];

    note_text(note_get(note, ".name"), kernel->name, sizeof kernel->name);
    note_text(note_get(note, ".symbol"), symbol, sizeof symbol);
    kernel->wave = note_number(note_get(note, ".wavefront_size"));
    kernel->most_group = note_number(note_get(note, ".max_flat_workgroup_size"));
    for (uint64_t i = 0; i < 3; i++)
        kernel->required[i] = note_number(note_element(note_get(note, ".reqd_workgroup_size"), i));
    return read_descriptor(kernel, object, find_symbol(file, header, symbol)) &&
           read_arguments(kernel, note_get(note, ".args"));
}

/* The content of the note with the list of kernels. */
static struct note find_note(struct file file, const Elf64_Ehdr *header)
{
    static const char owner[] = "AMDGPU";
    Elf64_Phdr segment;
    Elf64_Nhdr note;

    for (int i = 0; i < header->e_phnum; i++) {
        if (!copy(file, header->e_phoff + (uint64_t)i * sizeof segment, &segment, sizeof segment) ||
            segment.p_type != PT_NOTE)
            continue;
        for (uint64_t at = 0; at < segment.p_filesz && copy(file, segment.p_offset + at, &note, sizeof note);) {
            const uint64_t name = segment.p_offset + at + sizeof note, data = name + (note.n_namesz + 3) / 4 * 4;
            const unsigned char *from = part(file, data, note.n_descsz);
            if (note.n_type == METADATA && has_name(file, name, owner) && from != NULL)
                return (struct note){from, from + note.n_descsz};
            at = data + (note.n_descsz + 3) / 4 * 4 - segment.p_offset;
        }
    }
    return (struct note){NULL, NULL};
}

static const char *load(struct object *object, struct file file)
{
    Elf64_Ehdr header;
    struct note list;

    if (!read_header(file, &header))
        return "this is no code object of AMD's";
    if (!map_segments(object, file, &header))
        return "a segment lies outside of the file";
    list = note_get(find_note(file, &header), "amdhsa.kernels");
    object->kernels = calloc(MOST_KERNELS, sizeof *object->kernels);
    if (object->kernels == NULL || note_count(list) == 0 || note_count(list) > MOST_KERNELS)
        return "the note has no kernels, or too many";
    for (uint64_t i = 0; i < note_count(list); i++)
        if (!read_kernel(&object->kernels[object->kernel_count++], object, file, &header, note_element(list, i)))
            return "a kernel's descriptor or arguments are not understood";
    return NULL;
}

struct object *object_load(const void *file, size_t bytes, char *error, size_t size)
{
    struct object *object = calloc(1, sizeof *object);
    const char *reason = object != NULL ? load(object, (struct file){file, bytes}) : "memory ran out";

    if (reason == NULL)
        return object;
    snprintf(error, size, "%s", reason);
    object_free(object);
    return NULL;
}

void object_free(struct object *object)
{
    if (object == NULL)
        return;
    if (object->image != NULL)
        munmap(object->image, object->image_bytes);
    free(object->kernels);
    free(object);
}
