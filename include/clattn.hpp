/* clattn.h for C++17, header only: the same functions with movable owners and spans. Each exists in two forms:
 *
 *     clattn::plan plan(context, desc);                       throws clattn::error with the library's own message
 *     clattn_status status = plan.try_create(context, desc);  returns the status and does not throw
 *
 * Without exceptions (-fno-exceptions) the first form does not exist. Calls do not allocate memory: an owner has the
 * size of one or two pointers, and a span refers to the caller's operands. Each function is described in clattn.h, at
 * the function of the same name. clattn::event needs OpenCL's header before this one, and a program that links
 * OpenCL. */
#ifndef CLATTN_HPP
#define CLATTN_HPP

#include "clattn.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace clattn
{

/* ---- Spans -------------------------------------------------------------------------------------------------- */

/* A sequence of the caller's elements: of an array, a std::array, a std::vector, a std::span. A temporary is not
 * accepted, because a call would refer to it after its end. */
template <class T> class span
{
  public:
    constexpr span() noexcept = default;
    constexpr span(T *data, std::size_t size) noexcept : data_(data), size_(size)
    {
    }
    template <std::size_t N> constexpr span(T (&array)[N]) noexcept : data_(array), size_(N)
    {
    }
    template <class Container,
              class = std::enable_if_t<std::is_convertible_v<decltype(std::declval<Container &>().data()), T *>>>
    constexpr span(Container &container) noexcept : data_(container.data()), size_(container.size())
    {
    }
    constexpr T *data() const noexcept
    {
        return data_;
    }
    constexpr std::size_t size() const noexcept
    {
        return size_;
    }

  private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

/* ---- Errors ------------------------------------------------------------------------------------------------- */

namespace detail
{

/* The first error line that the library has logged in this thread since this was cleared. */
inline thread_local char line[1024];

inline void keep_line(clattn_log_level level, const char *message) noexcept
{
    if (level == CLATTN_LOG_ERROR && line[0] == '\0')
        std::snprintf(line, sizeof line, "%s", message);
}

inline void keep(void *, clattn_log_level level, const char *message)
{
    keep_line(level, message);
}

/* The application's own log, which also gets the lines of a context. */
struct log_target {
    clattn_log_fn log;
    void *user;
};

inline void keep_and_log(void *user, clattn_log_level level, const char *message)
{
    const log_target *target = static_cast<const log_target *>(user);

    keep_line(level, message);
    if (target->log != nullptr)
        target->log(target->user, level, message);
}

} // namespace detail

#if defined(__cpp_exceptions) || defined(_CPPUNWIND)
#define CLATTN_EXCEPTIONS 1

/* what() is the line that the library logged ("seq_len is 0, expected …"), or the status's text. */
class error : public std::runtime_error
{
  public:
    error(clattn_status status, const char *text) : std::runtime_error(text), status_(status)
    {
    }
    clattn_status status() const noexcept
    {
        return status_;
    }

  private:
    clattn_status status_;
};

namespace detail
{

inline void check(clattn_status status)
{
    if (status != CLATTN_SUCCESS)
        throw error(status, line[0] != '\0' ? line : clattn_status_text(status));
}

} // namespace detail
#endif

/* ---- Calls -------------------------------------------------------------------------------------------------- */

/* An operand on a device. */
inline clattn_operand on_device(clattn_operand_id id, cl_mem buffer, std::size_t offset = 0,
                                std::size_t size = 0) noexcept
{
    clattn_operand operand{};

    operand.id = id;
    operand.buffer = buffer;
    operand.offset = offset;
    operand.size = size;
    return operand;
}

/* An operand on the host: all bytes of a span. A const span can only be an input, because inputs are never written. */
template <class T> clattn_operand on_host(clattn_operand_id id, span<T> elements) noexcept
{
    clattn_operand operand{};

    static_assert(sizeof(T) == 2 || sizeof(T) == 4 || std::is_integral<T>::value,
                  "elements are f32, f16, bf16 or indices: no operand has elements of this type");
    operand.id = id;
    operand.host = const_cast<std::remove_const_t<T> *>(elements.data());
    operand.size = elements.size() * sizeof(T);
    return operand;
}

template <class Container> clattn_operand on_host(clattn_operand_id id, Container &elements) noexcept
{
    return on_host(id, span<std::remove_pointer_t<decltype(std::data(elements))>>(elements));
}

/* The same operand with strides, in elements. */
inline clattn_operand strided(clattn_operand operand, std::int64_t batch, std::int64_t token,
                              std::int64_t head) noexcept
{
    operand.batch_stride = batch;
    operand.token_stride = token;
    operand.head_stride = head;
    return operand;
}

/* A call with these operands, which the caller keeps. The other fields are those of clattn_call. */
inline clattn_call make_call(span<const clattn_operand> operands, std::int64_t seq_len = CLATTN_WHOLE,
                             cl_mem workspace = nullptr) noexcept
{
    clattn_call call{};

    call.operands = operands.data();
    call.operand_count = operands.size();
    call.seq_len = seq_len;
    call.workspace = workspace;
    return call;
}

/* ---- Events ------------------------------------------------------------------------------------------------- */

#ifdef CL_VERSION_1_0
/* Owns a cl_event. */
class event
{
  public:
    event() noexcept = default;
    explicit event(cl_event handle) noexcept : handle_(handle)
    {
    }
    event(event &&other) noexcept : handle_(other.release())
    {
    }
    event &operator=(event &&other) noexcept
    {
        reset(other.release());
        return *this;
    }
    ~event()
    {
        reset();
    }
    cl_event get() const noexcept
    {
        return handle_;
    }
    explicit operator bool() const noexcept
    {
        return handle_ != nullptr;
    }
    cl_event release() noexcept
    {
        return std::exchange(handle_, nullptr);
    }
    void reset(cl_event handle = nullptr) noexcept
    {
        cl_event old = std::exchange(handle_, handle);
        if (old != nullptr)
            clReleaseEvent(old);
    }
    /* Returns when the work is done. The result is OpenCL's own error code. */
    cl_int wait() const noexcept
    {
        return clWaitForEvents(1, &handle_);
    }

  private:
    cl_event handle_ = nullptr;
};
#endif

/* ---- Contexts ----------------------------------------------------------------------------------------------- */

/* Owns a clattn_context; destroyed after its plans. */
class context
{
  public:
    context() noexcept = default;
    context(context &&other) noexcept
        : handle_(std::exchange(other.handle_, nullptr)), target_(std::exchange(other.target_, nullptr))
    {
    }
    context &operator=(context &&other) noexcept
    {
        std::swap(handle_, other.handle_);
        std::swap(target_, other.target_);
        return *this;
    }
    ~context()
    {
        reset();
    }

    [[nodiscard]] clattn_status try_create(const clattn_context_desc &desc) noexcept
    {
        clattn_context_desc own = desc;
        auto *target = new (std::nothrow) detail::log_target{desc.log, desc.log_user};
        clattn_context *handle = nullptr;

        detail::line[0] = '\0';
        if (target == nullptr)
            return CLATTN_OUT_OF_MEMORY;
        own.log = detail::keep_and_log;
        own.log_user = target;
        clattn_status status = clattn_context_create(&handle, &own);
        reset(); /* releases the previous context */
        handle_ = handle;
        target_ = target;
        if (handle == nullptr)
            reset();
        return status;
    }
    [[nodiscard]] clattn_status try_set_tuning(const char *json) noexcept
    {
        detail::line[0] = '\0';
        return clattn_context_set_tuning(handle_, json);
    }
    /* Whether a plan can be created for desc, judging by sizes alone. */
    [[nodiscard]] clattn_status supports(const clattn_plan_desc &desc) const noexcept
    {
        detail::line[0] = '\0';
        return clattn_supports(handle_, &desc);
    }
#ifdef CLATTN_EXCEPTIONS
    explicit context(const clattn_context_desc &desc)
    {
        detail::check(try_create(desc));
    }
    void set_tuning(const char *json)
    {
        detail::check(try_set_tuning(json));
    }
#endif
    cl_context cl() const noexcept
    {
        cl_context cl = nullptr;
        return clattn_context_get(handle_, &cl, nullptr) == CLATTN_SUCCESS ? cl : nullptr;
    }
    cl_device_id device() const noexcept
    {
        cl_device_id device = nullptr;
        return clattn_context_get(handle_, nullptr, &device) == CLATTN_SUCCESS ? device : nullptr;
    }
    clattn_context *get() const noexcept
    {
        return handle_;
    }
    explicit operator bool() const noexcept
    {
        return handle_ != nullptr;
    }
    void reset() noexcept
    {
        clattn_context_destroy(std::exchange(handle_, nullptr));
        delete std::exchange(target_, nullptr);
    }

  private:
    clattn_context *handle_ = nullptr;
    detail::log_target *target_ = nullptr;
};

/* ---- Plans -------------------------------------------------------------------------------------------------- */

/* Owns a clattn_plan. */
class plan
{
  public:
    plan() noexcept = default;
    plan(plan &&other) noexcept : handle_(std::exchange(other.handle_, nullptr))
    {
    }
    plan &operator=(plan &&other) noexcept
    {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~plan()
    {
        reset();
    }

    [[nodiscard]] clattn_status try_create(const context &where, const clattn_plan_desc &desc) noexcept
    {
        clattn_plan *handle = nullptr;

        detail::line[0] = '\0';
        if (!where)
            detail::keep_line(CLATTN_LOG_ERROR,
                              "the context is empty, as `context c;` is: `context c(desc);` opens one");
        clattn_status status = clattn_plan_create(&handle, where.get(), &desc);
        reset();
        handle_ = handle;
        return status;
    }
    [[nodiscard]] clattn_status try_enqueue(cl_command_queue queue, const clattn_call &call,
                                            span<const cl_event> wait = {}, cl_event *done = nullptr) noexcept
    {
        detail::line[0] = '\0';
        return clattn_enqueue(handle_, queue, &call, static_cast<std::uint32_t>(wait.size()),
                              wait.size() > 0 ? wait.data() : nullptr, done);
    }
    [[nodiscard]] clattn_status try_run(const clattn_call &call) noexcept
    {
        detail::line[0] = '\0';
        return clattn_run(handle_, &call);
    }
    [[nodiscard]] clattn_status try_info(clattn_plan_info &info) const noexcept
    {
        detail::line[0] = '\0';
        return clattn_plan_get(handle_, &info);
    }
#ifdef CL_VERSION_1_0
    [[nodiscard]] clattn_status try_enqueue(cl_command_queue queue, const clattn_call &call, span<const cl_event> wait,
                                            event &done) noexcept
    {
        cl_event handle = nullptr;
        clattn_status status = try_enqueue(queue, call, wait, &handle);
        done.reset(handle);
        return status;
    }
#endif
#ifdef CLATTN_EXCEPTIONS
    plan(const context &where, const clattn_plan_desc &desc)
    {
        detail::check(try_create(where, desc));
    }
    void enqueue(cl_command_queue queue, const clattn_call &call, span<const cl_event> wait = {},
                 cl_event *done = nullptr)
    {
        detail::check(try_enqueue(queue, call, wait, done));
    }
#ifdef CL_VERSION_1_0
    void enqueue(cl_command_queue queue, const clattn_call &call, span<const cl_event> wait, event &done)
    {
        detail::check(try_enqueue(queue, call, wait, done));
    }
#endif
    void run(const clattn_call &call)
    {
        detail::check(try_run(call));
    }
    clattn_plan_info info() const
    {
        clattn_plan_info info{};
        detail::check(try_info(info));
        return info;
    }
    std::string describe() const
    {
        char text[4096] = "";
        detail::check(clattn_plan_describe(handle_, text, sizeof text));
        return text;
    }
#endif
    /* Bytes of workspace that a call needs at the plan's maxima; 0 without a plan. */
    std::size_t workspace_size() const noexcept
    {
        std::size_t bytes = 0;
        return clattn_plan_workspace_size(handle_, &bytes) == CLATTN_SUCCESS ? bytes : 0;
    }
    clattn_plan *get() const noexcept
    {
        return handle_;
    }
    explicit operator bool() const noexcept
    {
        return handle_ != nullptr;
    }
    void reset() noexcept
    {
        clattn_plan_destroy(std::exchange(handle_, nullptr));
    }

  private:
    clattn_plan *handle_ = nullptr;
};

/* ---- Without a context -------------------------------------------------------------------------------------- */

[[nodiscard]] inline clattn_status try_reference(const clattn_plan_desc &desc, const clattn_call &call) noexcept
{
    detail::line[0] = '\0';
    return clattn_reference(&desc, &call, detail::keep, nullptr);
}

/* The desc with every default filled in. */
[[nodiscard]] inline clattn_status try_complete(clattn_plan_desc &full, const clattn_plan_desc &desc) noexcept
{
    detail::line[0] = '\0';
    return clattn_plan_desc_complete(&full, &desc, detail::keep, nullptr);
}

/* The message of the last function of this header that failed in this thread, or "". */
inline const char *last_error() noexcept
{
    return detail::line;
}

#ifdef CLATTN_EXCEPTIONS
inline void reference(const clattn_plan_desc &desc, const clattn_call &call)
{
    detail::check(try_reference(desc, call));
}

inline clattn_plan_desc complete(const clattn_plan_desc &desc)
{
    clattn_plan_desc full{};
    detail::check(try_complete(full, desc));
    return full;
}

inline clattn_operand_info describe(const clattn_plan_desc &desc, clattn_operand_id id)
{
    clattn_operand_info info{};
    detail::line[0] = '\0';
    detail::check(clattn_operand_describe(&desc, id, &info));
    return info;
}

/* The devices of this machine, best first. */
inline std::vector<clattn_device_info> devices()
{
    std::vector<clattn_device_info> infos;
    std::size_t count = 0;

    detail::line[0] = '\0';
    detail::check(clattn_devices(nullptr, 0, &count));
    infos.resize(count);
    detail::check(clattn_devices(infos.data(), infos.size(), &count));
    infos.resize(count < infos.size() ? count : infos.size());
    return infos;
}
#endif

} // namespace clattn

#endif
