/* PoCL 3.1 as a driver whose search for values that are the same in all work-items takes linear time. For each local variable
 * PoCL assumes that it is such a value, looks at what is stored to it, and takes the assumption back where that differs: by a
 * copy of all that it knows of the function, made before. Large kernels have hundreds of variables and thousands of values:
 * their copies take a third to a half of the time in which they compile. Here what is learnt under an assumption is listed,
 * and the list is taken back. What is found is the same.
 *
 * This library stands in front of libpocl, on which it depends. Nothing of libpocl is changed but the table of virtual
 * functions of one pass, which LLVM's registry leads to; tree.sh takes this only for the libpocl whose layout it has. */
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

/* ---- LLVM 15's interfaces for C and C++, as far as they are called -------------------------------------------------- */

extern "C" {
typedef void *value; /* llvm::Value */
typedef void *use;
value LLVMIsAAllocaInst(value);
value LLVMIsAStoreInst(value);
value LLVMIsALoadInst(value);
value LLVMIsABitCastInst(value);
value LLVMIsACallInst(value);
value LLVMIsAFunction(value);
value LLVMGetCalledValue(value);
value LLVMGetOperand(value, unsigned);
value LLVMBasicBlockAsValue(void *);
void *LLVMGetInstructionParent(value);
const char *LLVMGetValueName2(value, size_t *length);
use LLVMGetFirstUse(value);
use LLVMGetNextUse(use);
value LLVMGetUser(use);
}

namespace llvm
{
struct StringRef {
    const char *text;
    size_t length;
};
struct PassInfo {
    StringRef name, argument;
    const void *id;
    bool cfg_only, analysis, group;
    std::vector<const PassInfo *> interfaces;
    void *(*create)();
};
struct PassRegistry {
    static PassRegistry *getPassRegistry();
    const PassInfo *getPassInfo(StringRef argument) const;
};
} // namespace llvm

/* ---- The pass ------------------------------------------------------------------------------------------------------- */

namespace
{

/* pocl::VariableUniformityAnalysis of PoCL 3.1: what LLVM's passes begin with, and what is known of each function's values */
struct analysis {
    void **functions;
    void *of_llvm[3];
    std::map<void *, std::map<value, bool>> known;
};
enum { IS_UNIFORM = 18, SET_UNIFORM = 19 };
typedef bool is_uniform_function(analysis *, void *function, value);
typedef void set_uniform_function(analysis *, void *function, value, bool);

is_uniform_function *pocl_is_uniform;
set_uniform_function *pocl_set_uniform;

/* What was learnt since the first assumption that still stands */
struct change {
    value what;
    bool was_known, before;
};
thread_local std::vector<change> changes;
thread_local unsigned assumptions;

void set_uniform(analysis *pass, void *function, value what, bool uniform)
{
    if (assumptions > 0) {
        const auto &known = pass->known[function];
        const auto entry = known.find(what);
        changes.push_back({what, entry != known.end(), entry != known.end() && entry->second});
    }
    pocl_set_uniform(pass, function, what, uniform);
}

void take_back(analysis *pass, void *function, size_t first)
{
    auto &known = pass->known[function];

    for (; changes.size() > first; changes.pop_back()) {
        const change &last = changes.back();
        if (last.was_known)
            known[last.what] = last.before;
        else
            known.erase(last.what);
    }
}

bool is_lifetime(value call)
{
    const value called = LLVMIsAFunction(LLVMGetCalledValue(call));
    size_t length = 0;
    const char *name = called ? LLVMGetValueName2(called, &length) : "";

    return (length >= 17 && std::memcmp(name, "llvm.lifetime.end", 17) == 0) ||
           (length >= 19 && std::memcmp(name, "llvm.lifetime.start", 19) == 0);
}

bool is_uniform(analysis *pass, void *function, value what);

/* Whether a user of a variable leaves it the same in all work-items, if it was */
bool keeps_uniform(analysis *pass, void *function, value user)
{
    if (LLVMIsAStoreInst(user))
        return is_uniform(pass, function, LLVMGetOperand(user, 0)) &&
               is_uniform(pass, function, LLVMBasicBlockAsValue(LLVMGetInstructionParent(user)));
    return LLVMIsALoadInst(user) || LLVMIsABitCastInst(user) || (LLVMIsACallInst(user) && is_lifetime(user));
}

bool is_uniform_variable(analysis *pass, void *function, value variable)
{
    const size_t first = changes.size();
    bool uniform = true;

    assumptions++;
    set_uniform(pass, function, variable, true);
    for (use each = LLVMGetFirstUse(variable); each && uniform; each = LLVMGetNextUse(each))
        uniform = keeps_uniform(pass, function, LLVMGetUser(each));
    if (!uniform)
        take_back(pass, function, first);
    assumptions--;
    set_uniform(pass, function, variable, uniform);
    if (assumptions == 0)
        changes.clear();
    return uniform;
}

bool is_uniform(analysis *pass, void *function, value what)
{
    if (LLVMIsAAllocaInst(what) && pass->known[function].count(what) == 0)
        return is_uniform_variable(pass, function, what);
    return pocl_is_uniform(pass, function, what);
}

__attribute__((constructor)) void take_functions()
{
    const llvm::PassInfo *info = llvm::PassRegistry::getPassRegistry()->getPassInfo({"uniformity", 10});
    void **functions = info && info->create ? static_cast<analysis *>(info->create())->functions : nullptr;
    const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));

    if (!functions)
        return;
    auto start = reinterpret_cast<uintptr_t>(functions + IS_UNIFORM) & ~(page - 1);
    const auto end = reinterpret_cast<uintptr_t>(functions + SET_UNIFORM + 1);
    if (mprotect(reinterpret_cast<void *>(start), end - start, PROT_READ | PROT_WRITE) != 0)
        return;
    pocl_is_uniform = reinterpret_cast<is_uniform_function *>(functions[IS_UNIFORM]);
    pocl_set_uniform = reinterpret_cast<set_uniform_function *>(functions[SET_UNIFORM]);
    functions[IS_UNIFORM] = reinterpret_cast<void *>(is_uniform);
    functions[SET_UNIFORM] = reinterpret_cast<void *>(set_uniform);
}
} // namespace
