"""A tiny random policy in Hugging Face format, for machines without a GPU, demos and tests.

The directory is complete: configuration, generation configuration, ``model.safetensors``, a byte-level tokenizer with
a ChatML template. It loads offline with ``AutoModelForCausalLM`` and ``AutoTokenizer``, and renders with the
``default`` and ``qwen3`` renderers of ``renderers``.

Left out: merges. Every byte is a token, so no text is ever unknown and a word's letters are visible to the model.
"""

from pathlib import Path
from typing import Any, Literal

Family = Literal["llama", "qwen2", "qwen3"]

SPECIAL_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
)
"""After the 256 bytes, in this order. The last six are there because the ``qwen3`` renderer looks them up."""

PAD, START, END = SPECIAL_TOKENS[:3]

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{- '<|im_start|>' + message.role + '\\n' + (message.content or '') + '<|im_end|>\\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
)

NUM_HEADS = 4
NUM_KV_HEADS = 2


def make_tiny_model(
    directory: Path,
    *,
    hidden_size: int = 128,
    num_layers: int = 2,
    family: Family = "qwen3",
    tie_word_embeddings: bool = False,
    max_position_embeddings: int = 512,
    seed: int = 0,
) -> Path:
    """Write a randomly initialised model of ``family`` to ``directory`` (made when missing) and return it.

    Four heads over two key-value heads, an MLP of three times ``hidden_size`` (which must be a multiple of 8), float32.
    With the defaults it has 0.46 M parameters. The same ``seed`` gives the same weights.
    Raises ValueError for another family or size.
    """
    import torch
    from transformers import AutoModelForCausalLM

    from prl.trainer.weights import make_readable

    if family not in ("llama", "qwen2", "qwen3"):
        raise ValueError(f"family = {family!r}: one of 'llama', 'qwen2', 'qwen3'")
    if hidden_size < 8 or hidden_size % 8:
        raise ValueError(f"hidden_size = {hidden_size}: must be a multiple of 8 (four heads of even size)")
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer = byte_tokenizer(max_position_embeddings)
    sizes: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "hidden_size": hidden_size,
        "intermediate_size": 3 * hidden_size,
        "num_hidden_layers": num_layers,
        "num_attention_heads": NUM_HEADS,
        "num_key_value_heads": NUM_KV_HEADS,
        "head_dim": hidden_size // NUM_HEADS,
        "max_position_embeddings": max_position_embeddings,
        "tie_word_embeddings": tie_word_embeddings,
        "bos_token_id": None,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    if family == "qwen2":
        del sizes["head_dim"]  # always hidden_size / heads there
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(_config(family, sizes), dtype=torch.float32)
    model.generation_config.eos_token_id = [tokenizer.eos_token_id, tokenizer.pad_token_id]
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    for path in directory.glob("*.safetensors"):
        make_readable(path)
    return directory


def byte_tokenizer(model_max_length: int) -> Any:
    """The tokenizer of tiny models: id b < 256 is byte b, then :data:`SPECIAL_TOKENS`; ``<|im_end|>`` ends a turn."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    # The byte-level alphabet writes printable bytes as themselves and the rest, in order, as characters from 256 on.
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    stand_ins = iter([symbol for symbol in alphabet if ord(symbol) >= 256])
    vocab = {chr(byte) if chr(byte) in alphabet else next(stand_ins): byte for byte in range(256)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS])
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PAD,
        model_max_length=model_max_length,
        clean_up_tokenization_spaces=False,
    )
    wrapped.chat_template = CHAT_TEMPLATE
    return wrapped


def _config(family: Family, sizes: dict[str, Any]) -> Any:
    import transformers

    cls = {"llama": "LlamaConfig", "qwen2": "Qwen2Config", "qwen3": "Qwen3Config"}[family]
    return getattr(transformers, cls)(**sizes)
