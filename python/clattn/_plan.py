"""Contexts and plans: what is made once, and called often."""

import collections
import ctypes
import threading
import warnings
import weakref

from . import _interface as c

_MOST_PLANS = 128  # of a context, the most recently used


def devices():
    """The OpenCL devices of this machine, best first: dicts of name, platform, driver, version, gpu, compute_units,
    global_memory, local_memory, max_allocation (bytes) and unusable (None, or why the device cannot be used)."""
    infos, count = (c.DeviceInfo * 64)(), ctypes.c_size_t()
    status = c.library.clattn_devices_sized(infos, c.size_of(c.DeviceInfo), ctypes.c_size_t(64), ctypes.byref(count))
    if status == c.enums["clattn_status"]["NO_OPENCL"]:
        return []
    c.Log().check(status)
    names = [field for field, _ in c.DeviceInfo._fields_ if field != "device"]

    def value(info, name):
        x = getattr(info, name)
        return x.decode("utf-8", "replace") if isinstance(x, bytes) else x

    return [{name: value(info, name) for name in names} | {"device": info.device} for info in infos[:min(count.value, 64)]]


class Handle:
    """What the library made. It is destroyed when it was given up, and so were those that were made of it: when Python
    ends it gives up objects in any order."""

    def __init__(self, destroy, parent=None, keep=None):
        self.pointer, self.users, self._destroy, self._parent, self._keep = ctypes.c_void_p(), 1, destroy, parent, keep
        if parent is not None:
            parent.users += 1

    def release(self):
        self.users -= 1
        if self.users == 0:
            if self.pointer:
                self._destroy(self.pointer)
            if self._parent is not None:
                self._parent.release()

    def __del__(self):
        self.release()


class Context:
    """A device with its compiled kernels and plans. Context() is the best device of the machine; `device` is an index
    into devices(), or a part of a name. `engine` names a matrix engine, or "none"; see clattn_context_desc of
    clattn.h. cl_context and cl_device are pyopencl's objects, or the numbers of OpenCL handles; the context then works on
    these. A context may be used from several threads."""

    def __init__(self, device=None, engine=None, cache_dir=None, tuning=None, cl_context=None, cl_device=None):
        self._log, self._lock, self._plans = c.Log(), threading.RLock(), collections.OrderedDict()
        self.handle = Handle(c.library.clattn_context_destroy, keep=self._log)
        device = cl_device if cl_device is not None else None if cl_context is not None and device is None else _find(device)
        desc = c.ContextDesc(cl=_handle_of(cl_context), device=_handle_of(device),
                             log=ctypes.cast(self._log.callback, ctypes.c_void_p), engine=_text(engine),
                             cache_dir=_text(cache_dir), tuning=_text(tuning))
        self._log.check(c.library.clattn_context_create_sized(ctypes.byref(self.handle.pointer), ctypes.byref(desc),
                                                              c.size_of(c.ContextDesc)))
        self.number = id(self)
        _numbered[self.number] = self

    def plan(self, desc, key=None):
        """The plan of a completed desc, from those of this context or made now. key: bytes(desc), if it is known."""
        key = key or bytes(desc)
        with self._lock:
            plan = self._plans.get(key)
            if plan is None:
                plan = self._plans[key] = Plan(self, desc)
                if len(self._plans) > _MOST_PLANS:
                    self._plans.popitem(last=False)
            else:
                self._plans.move_to_end(key)
            return plan

    def cl(self):
        """The OpenCL handles of the context and of its device, as numbers, which stay this object's."""
        context, device = ctypes.c_void_p(), ctypes.c_void_p()
        self._log.check(c.library.clattn_context_get(self.handle.pointer, ctypes.byref(context), ctypes.byref(device)))
        return context.value, device.value


def _text(x):
    return None if x is None else str(x).encode()


def _handle_of(x):
    return getattr(x, "int_ptr", x)


def _find(device):
    if device is None:
        return None
    known = devices()
    for i, info in enumerate(known):
        if isinstance(device, int) and not isinstance(device, bool) and device == i:
            return info["device"]
        if isinstance(device, str) and device and device.lower() in f"{info['name']} {info['platform']}".lower():
            return info["device"]
    there = ", ".join(f"{i}: {info['name']} ({info['platform']})" for i, info in enumerate(known)) or "none"
    raise c.Error("NO_DEVICE", [f"no device {device!r}; there are {there}; \"reference\" is the CPU in double precision"])


class Plan:
    """One problem on one device, compiled. It may outlive its Context."""

    def __init__(self, context, desc):
        self._lock, self._log = threading.Lock(), context._log
        self.handle = Handle(c.library.clattn_plan_destroy, context.handle)
        self._log.lines.clear()
        self._log.check(c.library.clattn_plan_create_sized(ctypes.byref(self.handle.pointer), context.handle.pointer,
                                                           ctypes.byref(desc), c.size_of(c.Desc)))
        size = ctypes.c_size_t()
        self._log.check(c.library.clattn_plan_workspace_size(self.handle.pointer, ctypes.byref(size)))
        self.workspace = size.value  # bytes

    def run(self, call):
        with self._lock:
            self._log.lines.clear()
            status = c.library.clattn_run_sized(self.handle.pointer, ctypes.byref(call), _CALL, _OPERAND)
            if status != 0:
                self._log.check(status)

    def enqueue(self, queue, call, waits):
        """The event of a call whose operands are buffers. queue, waits: OpenCL handles, as numbers."""
        event, list_of_waits = ctypes.c_void_p(), (ctypes.c_void_p * len(waits))(*waits)
        with self._lock:
            self._log.lines.clear()
            self._log.check(c.library.clattn_enqueue_sized(self.handle.pointer, ctypes.c_void_p(queue), ctypes.byref(call),
                                                           _CALL, _OPERAND, len(waits), list_of_waits if waits else None,
                                                           ctypes.byref(event)))
        return event.value

    def __str__(self):
        text = ctypes.create_string_buffer(8192)
        c.library.clattn_plan_describe(self.handle.pointer, text, ctypes.c_size_t(len(text)))
        return text.value.decode()


_CALL, _OPERAND = c.size_of(c.Call), c.size_of(c.Operand)
_default, _default_lock, _missing = None, threading.Lock(), False


def default_context():
    """The context of calls that name no device; None where the machine has no OpenCL device: then calls are computed by
    the reference, which is said once."""
    global _default, _missing
    if _default is not None:
        return _default
    with _default_lock:
        if _default is None and not _missing:
            try:
                _default = Context()
            except c.Error as error:
                if error.status not in ("NO_OPENCL", "NO_DEVICE"):
                    raise
                _missing = True
                warnings.warn(f"clattn: {error}; computing on the CPU by the slow reference", RuntimeWarning, stacklevel=7)
        return _default


def context_of(device):
    if isinstance(device, Context):
        return device
    if device is None:
        return default_context()
    if isinstance(device, dict):  # one of devices()
        device = next((i for i, info in enumerate(devices()) if info == device), -1)
    if not isinstance(device, (int, str)):
        raise TypeError(f"device is an index, a name, a Context or \"reference\", not {type(device).__name__}")
    with _default_lock:
        if device not in _named:
            _named[device] = Context(device)
        return _named[device]


_named = {}
_numbered = weakref.WeakValueDictionary()


def context_number(device):
    """The number of a Context, by which operators of torch name it; None for another device."""
    return device.number if isinstance(device, Context) else None


def context_with_number(number):
    return _numbered[number]


def run(desc, key, call, device):
    """Computes a call of a completed desc, of which key is bytes(desc): on a device, or by the reference."""
    context = None if isinstance(device, str) and device == "reference" else context_of(device)
    if context is not None:
        context.plan(desc, key).run(call)
        return
    log = c.Log()
    log.check(c.library.clattn_reference_sized(ctypes.byref(desc), c.size_of(c.Desc), ctypes.byref(call),
                                               c.size_of(c.Call), c.size_of(c.Operand), log.callback, None))
