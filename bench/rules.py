"""The rows of the comparison: what clattn and fla are given for each rule. Operands have clattn's names."""
from dataclasses import dataclass, field

from side import DTYPES, FINAL_STATE, INITIAL_STATE, NORMALIZE, QK_L2NORM, UNGATED, WITH_BETA, WITH_P


@dataclass(frozen=True)
class Rule:
    name: str                 # of the row
    clattn: str               # clattn's name of the rule
    fla: str                  # fla.ops.MODULE, of chunk_MODULE and fused_recurrent_MODULE; or one of peer_fla.LISTS
    work: tuple               # products a token: with the state (2KV), of scores (2CK), of scores with values (2CV);
                              # PAIRS: of every pair of tokens (K + V)
    draw: dict = field(default_factory=dict)   # operand: how it is drawn (DRAWS), beside q, k, v
    data_gates: bool = False  # fla takes gates in the type of q, k, v; else log-decays in f32
    flags: int = 0
    layers: int = 0
    rename: dict = field(default_factory=dict)  # clattn's operand: fla's argument
    step_rename: dict = field(default_factory=dict)
    chunk_args: dict = field(default_factory=dict)
    step_args: dict = field(default_factory=dict)
    passes: tuple = ('forward', 'step')
    exact: tuple = ()         # operands that fla takes in f32, beside log-decays
    readout: int = 0          # clattn_readout


ADD, ERASE, LOW_RANK, PAIRS = (2, 1, 1), (3, 2, 2), (4, 4, 4), ()
LEARN = (3, 1, 1)
READOUT_Z = 2  # o is z + LN(z), as fla's
UNIT = {'k': 'unit'}  # keys of norm 1, without which an erasing state grows without bound
NORM = {'use_qk_l2norm_in_kernel': True}
PLAIN = {'normalize': False}

# precond_gated_delta_rule has none: fla's op of that name (0.6) also makes the preconditioned key, which clattn is given.
RULES = [
    Rule('gated_delta_rule', 'gated_delta_rule', 'gated_delta_rule', ERASE, {'g': 'decay', 'beta': 'strength'},
         flags=QK_L2NORM, chunk_args=NORM, step_args=NORM),
    Rule('delta_rule', 'delta_rule', 'delta_rule', ERASE, {'beta': 'strength', **UNIT}),
    Rule('simple_gla', 'simple_gla', 'simple_gla', ADD, {'g': 'decay'}),
    Rule('retention', 'retention', 'retention', ADD),
    Rule('linear_attn', 'linear_attn', 'linear_attn', ADD, {'q': 'positive', 'k': 'positive'}, flags=NORMALIZE,
         chunk_args={'normalize': True}, passes=('forward',)),
    Rule('linear_attn_plain', 'linear_attn', 'linear_attn', ADD, chunk_args=PLAIN, step_args=PLAIN),
    Rule('lightning_attn', 'lightning_attn', 'lightning_attn', ADD, layers=12,
         chunk_args={'layer_idx': 0, 'num_layers': 12}, step_args={'layer_idx': 0, 'num_layers': 12}),
    Rule('gla', 'gla', 'gla', ADD, {'g': 'decays'}, data_gates=True, step_rename={'g': 'gk'}),
    Rule('kda', 'kda', 'kda', ERASE, {'g': 'decays', 'beta': 'strength'}, data_gates=True, flags=QK_L2NORM,
         chunk_args={**NORM, 'safe_gate': True}, step_args=NORM),
    Rule('comba', 'comba', 'comba', ERASE, {'g': 'decay', 'p': 'along', 'beta': 'strength'}, flags=QK_L2NORM,
         chunk_args=NORM, step_args=NORM),
    Rule('rwkv6', 'rwkv6', 'rwkv6', ADD, {'w': 'decays', 'u': 'bonus'}, data_gates=True, rename={'q': 'r'}),
    Rule('rwkv7', 'rwkv7', 'rwkv7', LOW_RANK, {'w': 'decays', 'a': 'erase', 'b': 'replace'}, data_gates=True,
         rename={'q': 'r'}, chunk_args={'scale': 1.0, 'safe_gate': True, 'chunk_size': 64}, step_args={'scale': 1.0}),
    Rule('mesa_net', 'mesa_net', 'mesa_net', ADD, {'g': 'decay', 'beta': 'strength', 'ridge': 'ridge'}, flags=QK_L2NORM,
         rename={'ridge': 'lamb'}, chunk_args=NORM, passes=('forward',), exact=('ridge',)),
    Rule('log_linear_attn', 'log_linear_attn', 'log_linear_attn', ADD, {'g': 'decay', 'levels': 'levels'},
         rename={'levels': 'level_scales'}, passes=('forward',), exact=('levels',)),
    Rule('ttt_linear', 'ttt_linear', 'ttt_linear', LEARN, {'eta': 'rate', 'initial_state': 'weights', 'initial_bias': 'bias',
         'ln_weight': 'norm', 'ln_bias': 'bias'}, rename={'ln_weight': 'w', 'ln_bias': 'b', 'initial_bias': 'initial_state_bias'},
         chunk_args={'scale': 1.0}, passes=('forward',), exact=('initial_bias', 'ln_weight', 'ln_bias'), readout=READOUT_Z),
    Rule('softmax_attn', 'softmax_attn', 'sdpa', PAIRS, passes=('forward',)),
    Rule('alibi_attn', 'alibi_attn', 'parallel_alibi', PAIRS, passes=('forward',)),
    Rule('forgetting_attn', 'forgetting_attn', 'parallel_forgetting', PAIRS, {'g': 'decay'}, passes=('forward',)),
    Rule('path_attn', 'path_attn', 'parallel_path', PAIRS, {'w': 'unit', 'beta': 'strength'}, flags=UNGATED,
         passes=('forward',), exact=('w', 'beta')),
    Rule('path_fox', 'path_attn', 'parallel_path', PAIRS, {'w': 'unit', 'beta': 'strength', 'g': 'decay'},
         passes=('forward',), exact=('w', 'beta')),
    Rule('deltaformer', 'deltaformer', 'deltaformer', PAIRS, {'p': 'queries', 'beta': 'strength'},
         flags=WITH_P | WITH_BETA, passes=('forward',)),
]

GATES = ('g', 'beta', 'w', 'u', 'eta')  # operands of clattn's gate_dtype
WHOLE = ('decay', 'ridge', 'levels', 'weights', 'bias', 'norm')  # kinds that are f32 in clattn


def rule_named(name):
    return next(rule for rule in RULES if rule.name == name)


def shapes_of(rule, shape):
    """Shapes of the inputs by operand."""
    B, T, H, K, V = (shape[name] for name in ('batch', 'seq_len', 'heads', 'key_dim', 'value_dim'))
    rows, heads = (B, T, H, K), (B, T, H)
    shapes = {'q': rows, 'k': rows, 'v': (B, T, H, V)}
    sizes = {'decay': heads, 'strength': heads, 'rate': heads, 'bonus': (H, K), 'ridge': (H, K), 'norm': (H, V),
             'levels': (*heads, (T - 1).bit_length() + 1), 'weights': (B, H, K, V)}
    for name, kind in rule.draw.items():
        shapes[name] = sizes.get(kind, rows)
        if kind == 'bias':
            shapes[name] = (B, H, V) if name == 'initial_bias' else (H, V)
    return shapes


def draw_all(torch, rule, shape, dtype, device, seed):
    """Inputs by operand, as clattn stores them; f32 gates hold what fla's types can hold too."""
    random = torch.Generator(device=device).manual_seed(seed)
    functional = torch.nn.functional
    tensors = {}

    def unit(x):
        return functional.normalize(x, dim=-1)

    def draw(kind, x):
        match kind:
            case 'normal': return x
            case 'unit': return unit(x)
            case 'positive': return x.abs()
            case 'decay' | 'decays': return functional.logsigmoid(x + 2).clamp(min=-5)
            case 'strength': return x.sigmoid()
            case 'along': return unit(unit(tensors['k'].float()) + 0.5 * unit(x))
            case 'bonus': return 0.5 * x
            case 'queries': return tensors['q'].float()
            case 'erase': return -unit(x)
            case 'replace': return -tensors['a'].float() * x.sigmoid()
            case 'ridge': return functional.softplus(x) + 0.25
            case 'levels': return functional.softplus(x)
            case 'rate': return 0.01 * x.sigmoid()
            case 'weights' | 'bias': return 0.02 * x
            case 'norm': return 1 + 0.1 * x
        raise ValueError(kind)

    for name, size in shapes_of(rule, shape).items():
        kind = rule.draw.get(name, 'normal')
        x = draw(kind, torch.randn(size, generator=random, device=device, dtype=torch.float32))
        exact = kind in WHOLE
        x = x if exact else x.to(dtype)
        tensors[name] = x.float() if name in GATES and not rule.data_gates else x
    return tensors


def fla_arguments(rule, tensors, dtype, step):
    """The same inputs as fla's functions name and store them."""
    rename = {**rule.rename, **(rule.step_rename if step else {})}
    arguments = dict(rule.step_args if step else rule.chunk_args)
    for name, x in tensors.items():
        exact = name == 'initial_state' or name in rule.exact or rule.draw.get(name) == 'decay'
        arguments[rename.get(name, name)] = x if exact else x.to(dtype)
    if rule.clattn == 'ttt_linear':  # a trailing dim, or one in the middle
        arguments['eta'] = arguments['eta'].unsqueeze(-1)
        arguments['initial_state_bias'] = arguments['initial_state_bias'].unsqueeze(2)
    return arguments


def clattn_shape(rule, shape, dtype, step):
    """side.SHAPE_FIELDS but sets."""
    return {**shape, 'dtype': DTYPES[dtype], 'gate_dtype': DTYPES[dtype if rule.data_gates else 'f32'],
            'flags': rule.flags | (INITIAL_STATE | FINAL_STATE if step else 0), 'layers': rule.layers,
            'in_place': int(step), 'readout': rule.readout}


def count_bytes(rule, shape, dtype, step):
    """Bytes that must move: every input in and o out once; in a step the states in and out."""
    size = {'f32': 4, 'f16': 2, 'bf16': 2}
    gate = size[dtype] if rule.data_gates else 4
    total = shape['batch'] * shape['seq_len'] * shape['heads'] * shape['value_dim'] * size[dtype]
    for name, dims in shapes_of(rule, shape).items():
        count = 1
        for dim in dims:
            count *= dim
        whole = rule.draw.get(name) in WHOLE
        total += count * (gate if name in GATES else 4 if whole else size[dtype])
    return total + step * 8 * shape['batch'] * shape['heads'] * shape['key_dim'] * shape['value_dim']


def count_flops(rule, shape, step, chunk=32):
    """Arithmetic of the chunk form (kernels by tensor products), or of the recurrence in a step."""
    K, V = shape['key_dim'], shape['value_dim']
    if rule.work == PAIRS:
        return shape['batch'] * shape['heads'] * shape['seq_len'] * (shape['seq_len'] + 1) * (K + V)
    state, scores, values = rule.work
    a_token = 2 * K * V * state + (0 if step else 2 * chunk * (K * scores + V * values))
    return a_token * shape['batch'] * shape['seq_len'] * shape['heads']
