"""fla's side: its functions from a checkout, their kernels compiled beforehand, their runs timed by CUDA events.

fla.ops is imported without fla's own __init__ files, so that neither its models nor their dependencies are needed.
"""
import importlib
import json
import os
import queue
import re
import subprocess
import sys
import threading
import types
from pathlib import Path

import rules


def use_checkout(path):
    """Makes `import fla.ops.…` find the checkout; returns fla's version."""
    root = Path(path).resolve() / 'fla'
    if not (root / 'ops').is_dir():
        raise SystemExit(f'--fla {path}: there is no {root / "ops"}')
    version = re.search(r"__version__ = ['\"](.+)['\"]", (root / '__init__.py').read_text())
    for name in ('fla', 'fla.ops', 'fla.modules', 'fla.layers'):
        package = types.ModuleType(name)
        package.__path__ = [str(root.joinpath(*name.split('.')[1:]))]
        package.__version__ = version.group(1) if version else '0'
        sys.modules[name] = package
    return sys.modules['fla'].__version__


MODULES = {'ttt_linear': 'ttt'}  # of fla.ops, where a function is named otherwise


def call(torch, rule, arguments, step, graph=False):
    """fla's public function over the arguments, ready to be called: () -> (o, state). With graph, without its copies
    from the host, which cannot be captured."""
    if rule.fla in LISTS:
        return lambda: (LISTS[rule.fla](torch, arguments),)
    prefix = 'fused_recurrent' if step else 'chunk'
    keep = {'output_final_state': True} if step else {}
    name, arguments = rule.fla, {**arguments, **keep}
    if graph and name in ('retention', 'lightning_attn'):
        arguments['g_gamma'] = head_decays(torch, rule, arguments)
        arguments.pop('layer_idx', None), arguments.pop('num_layers', None)
        name = 'simple_gla'
    function = getattr(importlib.import_module(f'fla.ops.{MODULES.get(name, name)}'), f'{prefix}_{name}')
    return lambda: function(**arguments)


# ---- Rules of a list: each a function of (torch, arguments) that returns o, [B, T, H, V]


def sdpa(torch, arguments):
    """PyTorch's own, by its kernel FlashAttention-2."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    q, k, v = (arguments[name].transpose(1, 2) for name in 'qkv')
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)


def parallel_alibi(torch, arguments):
    """fla's softmax attention with log-decays, which are the published slopes of a power of two of heads."""
    batch, tokens, heads = arguments['q'].shape[:3]
    if heads & (heads - 1):
        raise ValueError(f'{heads} heads: no power of two')
    slopes = torch.exp2(-8 / heads * torch.arange(1, heads + 1, device='cuda', dtype=torch.float32))
    function = importlib.import_module('fla.ops.attn.parallel').parallel_attn
    return function(**arguments, g=-slopes.expand(batch, tokens, heads).contiguous())


def parallel_forgetting(torch, arguments):
    return importlib.import_module('fla.ops.forgetting_attn.parallel').parallel_forgetting_attn(**arguments)


def parallel_path(torch, arguments):
    return importlib.import_module('fla.ops.path_attn.parallel').parallel_path_attn(**arguments)[0]


def deltaformer(torch, arguments):
    """fla's, whose rows p are q; PyTorch's kernel FlashAttention-2 where the package of that name is not there."""
    module = importlib.import_module('fla.ops.deltaformer.parallel')
    if module.flash_attn_func is None:
        module.flash_attn_func = lambda q, k, v, **_: sdpa(torch, {'q': q, 'k': k, 'v': v})
    return module.deltaformer_attn(**{name: x for name, x in arguments.items() if name != 'p'})


LISTS = {function.__name__: function for function in (sdpa, parallel_alibi, parallel_forgetting, parallel_path, deltaformer)}


def head_decays(torch, rule, arguments):
    heads = torch.arange(arguments['q'].shape[2], device=arguments['q'].device, dtype=torch.float32)
    if rule.fla == 'retention':
        return torch.log1p(-torch.exp2(-5 - heads))
    return -8 / len(heads) * heads


def time_calls(torch, calls, count):
    """Seconds of count calls, going round the given ones, each from the end of the one before; one more goes first."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    for i, event in enumerate(events):
        calls[i % len(calls)]()
        event.record()
    torch.cuda.synchronize()
    return [1e-3 * a.elapsed_time(b) for a, b in zip(events, events[1:])]


def capture(torch, calls):
    """A CUDA graph of at least four calls, as (replay, calls); None when they cannot be captured."""
    count = max(4, len(calls))
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            for i in range(count):
                calls[i % len(calls)]()
    except Exception as error:  # whatever fla or PyTorch refuses to capture
        torch.cuda.synchronize()
        print(f'  no CUDA graph: {str(error).splitlines()[0]}', file=sys.stderr)
        return None
    return graph.replay, count


# ---- Tuning: Triton times every configuration of a kernel; a short time each, and from a file where it was done before


def short_tuning(warmup_ms, timed_ms):
    import triton.testing
    whole = triton.testing.do_bench

    def short(call, quantiles=None, **_):
        return whole(call, warmup=warmup_ms, rep=timed_ms, quantiles=quantiles)

    triton.testing.do_bench = short


def use_configs(path):
    """fla reads the configurations kept there; call before fla is imported."""
    if path:
        os.environ.setdefault('FLA_CONFIG_DIR', str(Path(path).resolve()))
        os.environ.setdefault('FLA_CACHE_MODE', 'strict')


KEPT = ('kwargs', 'num_warps', 'num_stages', 'num_ctas', 'maxnreg')


def keep_configs(path):
    """Writes the configurations in use, as use_configs reads them."""
    import gc

    cache = importlib.import_module('fla.ops.utils.cache')
    Path(path).mkdir(parents=True, exist_ok=True)
    for tuner in gc.get_objects():
        if not isinstance(tuner, cache.CachedAutotuner) or not tuner.cache:
            continue
        file = Path(path) / f'{tuner.kernel_name}.json'
        entries = json.loads(file.read_text())['autotune_entries'] if file.exists() else {}
        for key, config in tuner.cache.items():
            kept = {name: getattr(config, name) for name in KEPT}
            entries[cache.AutotuneKey.key_hash(key)] = {'autotune_key': list(key), 'config': kept}
        file.write_text(json.dumps({'kernel_name': tuner.kernel_name, 'autotune_entries': entries}, indent=1))


# ---- Warming: every kernel in every configuration, compiled into Triton's cache by one process a core


def warm(script, options, tasks, processes):
    """tasks: (rule, shape). Configurations are divided into parts; a process compiles one part for all of its tasks."""
    parts = min(4, processes)
    waiting = [queue.Queue() for _ in range(parts)]
    for task in tasks:
        for of_part in waiting:
            of_part.put(task)

    def work(part):
        command = [sys.executable, script, *options, '--warm-worker', f'{part},{parts}']
        pipes = {'stdin': subprocess.PIPE, 'stdout': subprocess.PIPE, 'text': True}
        with subprocess.Popen(command, **pipes, env={**os.environ, 'FLA_CACHE_RESULTS': '0'}) as worker:
            try:
                while True:
                    worker.stdin.write(json.dumps(waiting[part].get_nowait()) + '\n')
                    worker.stdin.flush()
                    if not worker.stdout.readline():
                        break
            except (queue.Empty, BrokenPipeError):
                pass

    threads = [threading.Thread(target=work, args=(i % parts,)) for i in range(min(processes, parts * len(tasks)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def compile_only(share):
    """Triton compiles the configurations of its share, (part, parts), and times none."""
    from triton.runtime.autotuner import Autotuner
    import triton.testing
    whole = Autotuner._bench

    def bench(self, *args, config, **meta):
        if self.configs.index(config) % share[1] != share[0]:
            return [float('inf')] * 3
        return whole(self, *args, config=config, **meta)

    def once(call, **_):
        call()
        return [1.0] * 3

    Autotuner._bench = bench
    triton.testing.do_bench = once


def warm_worker(torch, dtype, share):
    """Reads tasks from stdin, a line each, and answers each with a line."""
    compile_only(share)
    for line in sys.stdin:
        name, shape = json.loads(line)
        answer = 'done'
        try:
            warm_task(torch, rules.rule_named(name), shape, dtype)
        except Exception as error:  # the table will say it
            answer = repr(error)
            print(f'{name}: {answer}', file=sys.stderr)
        print(answer, flush=True)


def warm_task(torch, rule, shape, dtype):
    step = shape['seq_len'] == 1
    shape['batch'] = min(shape['batch'], 64)  # of no account to kernels, but many processes share the memory
    arguments = rules.fla_arguments(rule, draw_all(torch, rule, shape, dtype, 0), dtype, step)
    call(torch, rule, arguments, step)()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()


def draw_all(torch, rule, shape, dtype, seed):
    """Inputs on the GPU; of a step with its state."""
    tensors = rules.draw_all(torch, rule, shape, dtype, 'cuda', seed)
    if shape['seq_len'] == 1:
        size = [shape[name] for name in ('batch', 'heads', 'key_dim', 'value_dim')]
        tensors['initial_state'] = torch.randn(size, device='cuda').mul_(0.5)
    return tensors
